"""Recompilations as facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import Event, FailedCheck, FailedVersion, Frame, SpecializedSeen
from dynalyze.capture.trace_records import TraceRecords
from dynalyze.events.log import RunLog
from dynalyze.facts.breaks import graph_breaks
from dynalyze.facts.compilations import compilations
from dynalyze.facts.recompiles import connect, follow_locals, forced_sizes, recompiles
from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.privacy import without_source
from dynalyze.report import ForcedSize, Location, Recompile, Report
from dynalyze.rules.rule import judge
from recordings import as_run, line_with, recorded, without_live_fields
from records import MAIN, MODEL, TORCH, again, broke, end, frame, run_of, start, torch_frame, write_source
from sample_reports import clean_report

SIZE = "tensor 'x' size mismatch at index 0. expected 4, actual 5"


def recompiled(run: RunLog) -> list[Recompile]:
    places, sources = Places(TORCH), Sources()
    breaks = graph_breaks(run, places, sources, registry())
    return recompiles(run, compilations(run, places, sources), breaks)


def function_of(entry: Recompile) -> str:
    """The function's own name: a method's class is known from a live object only."""
    return entry.location.function.rpartition(".")[2]


def one(*events: Any) -> Recompile:
    (found,) = recompiled(run_of(*events))
    return found


# (function, cause, source, expected, actual) of the recorded program, in the order of its calls.

KINDS: list[tuple[str, str, str | None, str | None, str | None]] = [
    ("by_shape", "shape", "batch.size()[0]", "4", "5"),
    ("by_rank", "rank", "grid", "1", "2"),
    ("by_stride", "stride", "matrix.stride()[0]", "6", "1"),
    ("by_dtype", "dtype", "values", "Float", "Double"),
    ("by_requires_grad", "requires_grad", "weight", "0", "1"),
    ("by_value", "value", "count", "3", "4"),
    ("by_text", "value", "mode", "'up'", "'down'"),
    ("by_none", "value", "mask", "None", "Tensor object"),
    ("by_length", "container", "len(parts)", "1", "2"),
    ("by_keys", "container", "options", "'bias' in options", "'bias' not in options"),
    ("by_global", "global_variable", "GAIN", "1.5", "2.5"),
    ("by_grad_mode", "global_state", "grad_mode", "True", "False"),
    ("by_callable", "identity", "function", None, "cos"),
    ("by_aliasing", "aliasing", "one, other", "different tensors", "one tensor"),
    ("forward", "module_attribute", "self.power", "2", "3"),
]
SIZES: list[tuple[str, str, str | None, str | None, str | None]] = [
    ("grows", "shape", "batch.size()[0]", "4", "5"),
    ("grows", "symbolic", "batch.size()[0]", "2 <= batch.size()[0]", "1"),
    ("parity", "symbolic", "items.size()[0] % 2", "0", "1"),
]
RECORDED = {"recompile_kinds": KINDS, "dynamic_sizes": SIZES}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_recompiles_with_every_value(name: str, tmp_path: Path) -> None:
    found = recompiled(as_run(recorded(name), tmp_path))
    assert [(function_of(r), r.cause, r.source, r.expected, r.actual) for r in found] == RECORDED[name]


@pytest.mark.parametrize("how", ["stripped", "text"])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_recompiles_without_the_live_path(name: str, how: str, tmp_path: Path) -> None:
    """A guard's text tells its cause, its source and what it expected, except the value of a global state."""
    events = recorded(name, "text") if how == "text" else without_live_fields(recorded(name))
    found = recompiled(as_run(events, tmp_path))
    assert [(function_of(r), r.cause, r.source) for r in found] == [kind[:3] for kind in RECORDED[name]]
    assert [r.expected for r in found if r.cause != "global_state"] == [
        expected for _, cause, _, expected, _ in RECORDED[name] if cause != "global_state"
    ]


@pytest.mark.parametrize("how", ["live", "stripped", "text"])
def test_recorded_recompiles_are_at_their_functions_and_name_what_they_replace(how: str, tmp_path: Path) -> None:
    events = recorded("recompile_kinds", "text" if how == "text" else "live")
    found = recompiled(as_run(without_live_fields(events) if how == "stripped" else events, tmp_path))
    assert [(r.compile_id, r.previous) for r in found] == [(f"{n}/1", f"{n}/0") for n in range(15)]
    for entry, (function, *_) in zip(found[:-1], KINDS, strict=False):
        # A decorated function begins, for Python, at its decorator.
        definition = line_with("recompile_kinds", f"def {function}(")
        assert entry.location.line in (definition - 1, definition)


def test_the_halves_around_breaks_recompile_over_one_change(tmp_path: Path) -> None:
    found = recompiled(as_run(recorded("two_breaks_in_a_row"), tmp_path))
    assert [(r.compile_id, r.cause) for r in found] == [("0/1", "rank"), ("1/1", "rank"), ("2/1", "rank")]
    assert {r.change for r in found} == {"c1"}


@pytest.mark.parametrize("how", ["live", "stripped", "text"])
def test_the_recorded_limit_is_one_entry(how: str, tmp_path: Path) -> None:
    events = recorded("recompile_limit", "text" if how == "text" else "live")
    found = recompiled(as_run(without_live_fields(events) if how == "stripped" else events, tmp_path))
    assert [(r.compile_id, r.previous, r.epoch, r.cause) for r in found] == [
        ("0/1", "0/0", 0, "value"),
        ("0/2", "0/1", 0, "limit"),
    ]
    assert {r.location.function for r in found} == {"styled"}
    assert (found[1].source, found[1].expected) == ("style", "'bb'")


@pytest.mark.parametrize("words", ["Dynamo recompile limit exceeded", "Dynamo cache limit exceeded"])
def test_the_limit_without_a_guard(words: str) -> None:
    found = one(start("0/0"), end("0/0"), end("0/8", fail_reason=f"{words}\n  Explanation: x", has_guarded_code=False))
    assert (found.cause, found.compile_id, found.location.line) == ("limit", "0/8", 10)


def versions(**failed: list[str]) -> dict[str, Any]:
    """A recompile event's fields: `v1=[...]` are the guards of version 0/1 that failed, the newest version first."""
    held = [
        FailedVersion(f"0/{name[1:]}", [FailedCheck(text, actual=f"now of {name}") for text in texts])
        for name, texts in failed.items()
    ]
    return {"text": json.dumps([f"{each.id}: {each.failed[0].text}" for each in held]), "versions": held}


STRIDE = "tensor 'self.{}' stride mismatch at index 0. expected {}, actual 28"
GREW, FLAG, KIND = "tensor 'x' size mismatch at index 0. expected 3, actual 4", "flag == False", "kind == 'labels'"


@pytest.mark.parametrize(
    ("failed", "previous", "source"),
    [
        ({"v1": [GREW, KIND], "v0": [GREW]}, "0/0", "x.size()[0]"),
        # Two in turn: what parts it from the newest came back, what parts it from the oldest did not.
        ({"v2": [KIND], "v1": [GREW], "v0": [KIND, GREW]}, "0/1", "x.size()[0]"),
        ({"v1": [GREW], "v0": [FLAG]}, "0/0", "flag"),
        # One value in three versions: the newest of them.
        ({"v2": ["n == 3"], "v1": ["n == 2"], "v0": ["n == 1"]}, "0/2", "n"),
        # Several questions about one size are one change, and a version that asks them is newer than one of one size.
        ({"v1": ["(x.size()[0] // 2) == 1", "(x.size()[0] % 4) == 2"], "v0": [GREW]}, "0/1", "x.size()[0] // 2"),
        # One size of two tensors, and one attribute of two modules, is one change; two modes of torch are two.
        ({"v1": [GREW, GREW.replace("'x'", "'y'")], "v0": [GREW, FLAG]}, "0/1", "x.size()[0]"),
        ({"v1": ["self.a.training == True", "self.b.training == True"], "v0": [GREW, FLAG]}, "0/1", "self.a.training"),
        # The layout of three buffers is one change; what hangs below another object was not asked.
        (
            {"v1": [STRIDE.format("a", 8), STRIDE.format("b", 6), STRIDE.format("c", 4)], "v0": [GREW, FLAG]},
            "0/1",
            "self.a.stride()[0]",
        ),
        ({"v1": [FLAG, KIND, "n == 3"], "v0": ["___check_obj_id(o, 139862), type=<class 'Opt'>"]}, "0/1", "flag"),
        ({"v1": ["not o.state"], "v0": ["___check_obj_id(o, 139862), type=<class 'Opt'>"]}, "0/1", "o.state"),
        ({"v1": [GREW, FLAG], "v0": ["not cache.k"]}, "0/1", "x.size()[0]"),
        # Nothing below what was `None` was asked.
        ({"v1": ["len(r.out) == 1", GREW], "v0": ["r.cache is None"]}, "0/1", "len(r.out)"),
        (
            {"v1": ["GLOBAL_STATE changed: grad_mode num_threads"], "v0": ["GLOBAL_STATE changed: num_threads"]},
            "0/0",
            "num_threads",
        ),
    ],
)
def test_the_guard_is_one_of_the_version_with_the_fewest_changes(
    failed: dict[str, list[str]], previous: str, source: str
) -> None:
    event = again(id="0/9", **versions(**failed))
    found = one(start("0/0"), event, start("0/9"), end("0/9"))
    assert (found.previous, found.source) == (previous, source)
    assert [each.guard for each in found.also] == failed[f"v{previous[-1]}"][1:]


def test_which_values_are_told() -> None:
    """Those of the guard that counts; what the text says is what the compiled code compared, and wins over a look."""
    found = one(start("0/0"), again(id="0/2", actual="4", **versions(v1=[GREW], v0=[FLAG])), start("0/2"))
    assert (found.source, found.expected, found.actual) == ("flag", "False", "now of v0")
    fields = versions(v1=[GREW, KIND], v0=[GREW])
    found = one(start("0/0"), again(id="0/2", text=fields["text"], versions=fields["versions"][1:]), start("0/2"))
    assert (found.previous, found.source, found.also) == ("0/1", "x.size()[0]", [])
    found = one(start("0/0"), again(f"0/0: {SIZE}", expected="x", actual="y"), start("0/1"))
    assert (found.expected, found.actual) == ("4", "5")
    held = FailedCheck("self.p == 0.1", "0.1", "0.2", "torch.nn.modules.dropout.Dropout", "torch")
    event = again("0/0: self.p == 0.1", versions=[FailedVersion("0/0", [held])])
    found = one(start("0/0"), event, start("0/1"), end("0/1"))
    assert (found.owner, found.library) == ("torch.nn.modules.dropout.Dropout", "torch")


@pytest.mark.parametrize(("other", "source"), [("len(args) == 2", "fn"), ("x.size()[0] == 4", "len(args)")])
def test_another_function_in_one_wrapper_is_told_before_its_arguments(other: str, source: str) -> None:
    checks = [FailedCheck("len(args) == 2"), FailedCheck(other), FailedCheck("___check_type_id(fn, 94397098607552)")]
    event = again("0/0: len(args) == 2", versions=[FailedVersion("0/0", checks)])
    assert one(start("0/0"), event, start("0/1"), end("0/1")).source == source


@pytest.mark.parametrize("text", ["[]", "", "null", "3", '"0/0: n == 3"', "not json ["])
def test_reasons_in_another_form_are_kept_as_they_can_be(text: str) -> None:
    found = one(start("0/0"), again(text), start("0/1"))
    assert found.compile_id == "0/1"


def test_recompiles_of_which_less_is_known() -> None:
    """Compiled autograd puts its own number before the ids; some events name no version; a crash cuts one short."""
    found = one(start("0/0", frame(10)), end("0/0"), again(f"0/0: {SIZE}"))
    assert (found.location.line, found.seconds) == (10, None)
    found = one(start("!2/0/0"), again(f"!2/0/0: {SIZE}", "!2/0/1"), start("!2/0/1"))
    assert (found.previous, found.guard) == ("!2/0/0", SIZE)
    found = one(again(f"3/0: {SIZE}", "3/1"))
    assert (found.compile_id, found.cause, found.location.line) == ("3/1", "shape", 1)
    for told in ("FailOnRecompileLimitHit", "RecompileLimitExceeded"):
        reason = {"fail_type": told, "fail_reason": "Hard failure due to fullgraph=True"}
        assert one(start("0/0"), end("0/0"), again("0/0: n == 4"), end("0/1", **reason)).cause == "limit"


@pytest.mark.parametrize("live", [True, False])
def test_a_recompile_that_torch_refused(live: bool) -> None:
    """Under config.error_on_recompile the failed guards stand in the exception alone."""
    guard = "0/0: mode == 'up'    # if mode == 'up':  # net.py:7 in forward"
    told = f"Recompiling function forward in net.py:5\n    triggered by the following guard failure(s):\n    - {guard}"
    refused = end("0/1", has_guarded_code=False, fail_type="RecompileError", fail_reason=told)
    heard = [again(guard, expected="'up'", actual="'down'")] if live else []
    found = one(start("0/0"), end("0/0"), refused, *heard)
    assert (found.compile_id, found.previous, found.cause, found.source) == ("0/1", "0/0", "value", "mode")
    assert (found.expected, found.actual) == ("'up'", "'down'" if live else None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # another outermost call
        ({"text": f"0/0: {SIZE}", "id": "0/1", "call": 7}, {"text": f"1/0: {SIZE}", "id": "1/1", "call": 8}),
        # the same function again
        ({"text": f"0/0: {SIZE}", "id": "0/1", "call": 7}, {"text": f"0/1: {SIZE}", "id": "0/2", "call": 7}),
        # a change of another kind
        ({"text": f"0/0: {SIZE}", "id": "0/1", "call": 7}, {"text": "1/0: n == 3", "id": "1/1", "call": 7}),
        # two values
        ({"text": "0/0: n == 3", "id": "0/1", "call": 7}, {"text": "1/0: n == 4", "id": "1/1", "call": 7}),
    ],
)
def test_other_recompiles_are_other_changes(first: dict[str, Any], second: dict[str, Any]) -> None:
    found = recompiled(run_of(again(**first), again(**second)))
    assert [r.change for r in found] == ["c1", "c2"]


READS = "def forward(x):\n    n = x.max().item()\n    return x * n\n"
LISTS = "def forward(x, days):\n    hours = [d.hour() for d in days]\n    return x * hours[0]\n"
LOOPS = "def forward(x):\n    for part in split(x):\n        x = x + part\n\ndef split(x):\n    return x.tolist()\n"
DERIVED = "3*max(1, x.size()[1] // ___stack0) == 3*x.size()[1]"


@pytest.mark.parametrize(
    ("code", "inner", "guard", "named"),
    [
        (READS, (2, "forward", 8, 22), "___stack0 == 3", "x.max().item()"),
        # Up to Python 3.11 a comprehension is a function of its own, on the same line, and the break is in that one.
        (LISTS, (2, "<listcomp>", 13, 21), "___stack0[0] == 3", "hours[0]"),
        (LOOPS, (6, "split", 11, 21), "___stack0[1] == 3", "split(x)[1]"),
        # torch derives it from several sizes: nobody wrote it.
        (READS, (2, "forward", 8, 22), DERIVED, "x.max().item()"),
    ],
)
def test_the_result_of_a_break_is_named_as_the_program_has_it(
    code: str, inner: tuple[int, str, int, int], guard: str, named: str, tmp_path: Path
) -> None:
    """What follows the break gets it as `___stack0`, a name that is nowhere in the user's code."""
    file = write_source(tmp_path, code)
    forward, resumed = Frame(file, 2, "forward"), Frame(file, 2, "torch_dynamo_resume_in_forward_at_2")
    around = [] if inner[1] == "forward" else [forward]
    values = {} if guard == DERIVED else {"expected": "3", "actual": "4"}
    (found,) = recompiled(
        run_of(
            start("0/0", Frame(file, 1, "forward")), broke([*around, Frame(file, *inner)]), end("0/0"),
            start("1/0", resumed, [MAIN, forward]), end("1/0"),
            again(f"1/0: {guard}", "1/1", **values), start("1/1", resumed, [MAIN, forward]), end("1/1"),
        )
    )  # fmt: skip
    assert (found.source, found.expected, found.actual) == (named, values.get("expected"), values.get("actual"))


@pytest.mark.parametrize(
    ("guard", "left"),
    [
        ("started == 3.5", True),  # Computed before the break.
        ("scale == 3.5", False),  # The caller's.
        ("tensor 'x' size mismatch at index 0. expected 4, actual 5", False),
        ("tensor 'h' size mismatch at index 0. expected 4, actual 5", True),
        ("tensor 'self.table' size mismatch at index 0. expected 4, actual 5", False),
    ],
)
def test_what_code_before_a_break_computed_is_left_by_the_break(guard: str, left: bool, tmp_path: Path) -> None:
    code = "def forward(self, x, scale):\n    started = now()\n    h = x * 2\n    print(h)\n    return h * scale\n"
    file = write_source(tmp_path, code)
    resumed = Frame(file, 4, "torch_dynamo_resume_in_forward_at_4")
    run = run_of(
        start("0/0", Frame(file, 1, "forward")), broke([Frame(file, 4, "forward", 4, 12)]), end("0/0"),
        start("1/0", resumed, [MAIN, Frame(file, 4, "forward")]), end("1/0"),
        again(f"1/0: {guard}", "1/1", expected="3.5", actual="4.5"),
        start("1/1", resumed, [MAIN, Frame(file, 4, "forward")]), end("1/1"),
    )  # fmt: skip
    places, sources = Places(TORCH), Sources()
    compiled = compilations(run, places, sources)
    breaks = graph_breaks(run, places, sources, registry(), compiled)
    found = recompiles(run, compiled, breaks)
    follow_locals(found, breaks, compiled, sources)
    assert [each.result_of for each in found] == [breaks[0].location if left else None]


ROWS = "L['x'].size()[0]"
MISMATCH = "{before}: tensor 'x' size mismatch at index 0. expected {old}, actual {new}"
REFUSED = f"Constraints violated ({ROWS})! For more information, run with TORCH_LOGS"


def fixed(id: str = "0/0", value: str = "3", line: int = 12, **more: Any) -> Event:
    return SpecializedSeen(**{"id": id, "sources": [ROWS], "value": value, "stack": [MAIN, frame(line)], **more})


def judged(*events: Event) -> tuple[list[ForcedSize], list[Recompile]]:
    run, places, sources = run_of(*events), Places(TORCH), Sources(readable=False)
    compiled = compilations(run, places, sources)
    sizes, found = forced_sizes(run, compiled, places, sources), recompiles(run, compiled, [])
    connect(run, found, sizes, sources)
    return sizes.facts, found


# The record.


def record(**content: Any) -> dict[str, Any]:
    return {"symbolic_shape_specialization": content, "frame_id": 0, "frame_compile_id": 1}


def test_a_record_of_torch() -> None:
    records = TraceRecords({7: MODEL})
    frames = [{"line": 12, "name": "forward", "filename": 7, "loc": "if x.shape[0] == 3:"}]
    event = records.read(record(symbol="s27", sources=[ROWS], value="3", user_stack=frames, stack=[]), None)
    assert event == SpecializedSeen(id="0/1", sources=[ROWS], value="3", stack=[Frame(MODEL, 12, "forward")])


def test_a_record_of_any_length_fits_an_event() -> None:
    event = TraceRecords().read(record(sources=["s" * 10**6] * 1000, value="1" * 10**6), None)
    assert event is not None
    assert len(str(event)) < 10**6


# Facts.


def test_one_size_and_line_is_one_fact_with_all_its_values() -> None:
    (size,), _ = judged(start(), fixed(), end(), start("0/1"), fixed("0/1", "4"), fixed("0/1", "4"), end("0/1"))
    assert (size.source, size.dimension, size.values) == ("x.size()[0]", 0, ["3", "4"])
    assert (size.location.line, size.compile_ids, size.refused) == (12, ["0/0", "0/1"], False)


def test_lines_and_sizes_are_told_apart() -> None:
    sizes, _ = judged(start(), fixed(), fixed(line=13), fixed(sources=["L['x'].size()[1]", "L['n']"]), end())
    assert [(size.id, size.source, size.dimension, size.location.line) for size in sizes] == [
        ("d1", "x.size()[0]", 0, 12), ("d2", "x.size()[0]", 0, 13), ("d3", "x.size()[1]", 1, 12), ("d4", "n", None, 12),
    ]  # fmt: skip


@pytest.mark.parametrize("stack", [[], [torch_frame()], [Frame("<string>", 1, "f")]])
def test_without_such_a_line_the_compiled_function_is_named(stack: list[Frame]) -> None:
    sizes, _ = judged(start(), fixed(stack=stack), end())
    assert sizes[0].location.line == 10
    assert judged(fixed(stack=stack))[0] == []


def test_a_number_that_the_compiler_makes_constant_is_told_at_the_line_that_read_it() -> None:
    # GIVEN a function under a decorator: after tracing, torch names the call alone, once the line was known
    number = {"sources": ["args[0]"], "stack": [MAIN, frame(10)]}
    _, (first, second) = judged(
        start(), end(),
        start("0/1"), again(f"0/0: args[0] == 0.25  # a.lerp_(b, p)  # {MODEL}:14 in step", "0/1"), end("0/1"),
        fixed("0/1", "0.5", **number),
        start("0/2"), again("0/1: args[0] == 0.5  # (_dynamo/output_graph.py:3 in f)", "0/2"), end("0/2"),
    )  # fmt: skip
    assert [each.forced_by and each.forced_by.line for each in (first, second)] == [14, 14]


COMPARES = """def forward(x, y):
    n = y.shape[0] == 7
    if {}:
        return x * 2
    return x + n


def other(x):
    return x.shape[0] == 7
"""


@pytest.mark.parametrize(
    ("asks", "line"),
    [
        ("x.shape[0] == 7", 3), ("x.size(0) != 5", 3), ("x.shape[0] == 70", None), ("x.shape[1] == 7", None),
        ("ox.shape[0] == 7", None), ("x.shape[0] > 7", None),
    ],
)  # fmt: skip
def test_a_comparison_with_one_of_the_two_sizes_is_named(asks: str, line: int | None) -> None:
    run = run_of(start(), end(), start("0/1"), again(MISMATCH.format(before="0/0", old=7, new=5)), end("0/1"))
    places = Places(TORCH)
    sources = Sources(texts={MODEL: COMPARES.format(asks)})
    compiled = compilations(run, places, sources)
    found = recompiles(run, compiled, [])
    found[0].location = Location(MODEL, 1, function="forward")
    connect(run, found, forced_sizes(run, compiled, places, sources), sources)
    assert (found[0].forced_by and found[0].forced_by.line) == line


ASKED = (
    "0/0: 4 <= x.size()[0]  # if rows > 3:  # a comment  # {path}:14 in helper (_dynamo/variables/tensor.py:2606 in f)"
)


@pytest.mark.parametrize("function", ["helper", "torch_dynamo_resume_in_helper_at_12"])
def test_a_condition_names_its_line_and_the_users_own_function(function: str) -> None:
    told = ASKED.format(path=MODEL[3:]).replace("helper", function)
    (recompile,) = judged(start(), end(), start("0/1"), again(told), end("0/1"))[1]
    assert recompile.forced_by == Location(MODEL, 14, None, "helper")


def test_no_line_asks_for_what_torch_does_with_sizes_of_one() -> None:
    used = (
        "first use of this value--the guard itself is not due user code but due to 0/1 specialization in the framework"
    )
    told = f"0/0: 2 <= x.size()[0]  # return F.linear(x)  # {MODEL[3:]}:14 in helper (user code shown is {used})"
    (recompile,) = judged(start(), end(), start("0/1"), again(told), end("0/1"))[1]
    assert recompile.forced_by is None


def test_only_the_size_that_torch_refuses_is_refused() -> None:
    sizes, _ = judged(
        start(), fixed(), fixed(sources=["L['y'].size()[0]"]),
        end(has_guarded_code=False, fail_type="ConstraintViolationError", fail_reason=REFUSED),
    )  # fmt: skip
    assert [(size.source, size.refused) for size in sizes] == [("x.size()[0]", True), ("y.size()[0]", False)]


# Findings and the page.


def report_of(*events: Event) -> Report:
    report = clean_report()
    run, places, sources = run_of(*events), Places(TORCH), Sources(readable=False)
    report.compilations = compilations(run, places, sources)
    report.forced_sizes, report.recompiles = judged(*events)
    return report


def resized() -> Report:
    mismatch = MISMATCH.format(before="0/0", old=3, new=4)
    return report_of(start(), fixed(), end(), start("0/1"), again(mismatch), end("0/1"))


def test_without_source_the_line_stays_and_the_expression_goes() -> None:
    cleaned = without_source(resized())
    assert [(size.source, size.values) for size in cleaned.forced_sizes] == [(None, ["3"])]
    (finding,) = judge(cleaned)
    assert "model.py:12" in finding.advice
    assert "x.size" not in finding.advice


def test_a_value_that_is_no_number_may_quote_the_program() -> None:
    report = clean_report()
    report.forced_sizes = [ForcedSize("d1", Location(MODEL, 1), "x", None, ["3", "-1.5", "a secret of 5"])]
    assert without_source(report).forced_sizes[0].values == ["3", "-1.5"]
