"""Dynamic sizes that a line made constants: from torch's record to the page."""

from __future__ import annotations

from typing import Any

import pytest

from dynalyze.capture.events import Event, Frame, SpecializedSeen
from dynalyze.capture.trace_records import TraceRecords
from dynalyze.facts.compilations import compilations
from dynalyze.facts.recompiles import connect, forced_sizes, recompiles
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.privacy import without_source
from dynalyze.report import ForcedSize, Location, Recompile, Report
from dynalyze.rules.rule import judge
from records import MAIN, MODEL, TORCH, again, end, frame, run_of, start, torch_frame
from sample_reports import clean_report

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


def test_a_recompile_gets_the_line_of_the_version_whose_guard_failed_or_of_its_own() -> None:
    """torch takes a size for dynamic when it has changed: the first version was static by itself, and the second one is
    where the line forces it.
    """
    _, (first, second) = judged(
        start(), end(), start("0/1"), again(MISMATCH.format(before="0/0", old=3, new=4)), fixed("0/1", "4"), end("0/1"),
        start("0/2"), again(MISMATCH.format(before="0/1", old=4, new=5), "0/2"), fixed("0/2", "5"), end("0/2"),
    )  # fmt: skip
    assert first.forced_by is not None and second.forced_by is not None
    assert (first.forced_by.line, second.forced_by.line) == (12, 12)


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
    run, places = (
        run_of(start(), end(), start("0/1"), again(MISMATCH.format(before="0/0", old=7, new=5)), end("0/1")),
        Places(TORCH),
    )
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


def recompiled() -> Report:
    mismatch = MISMATCH.format(before="0/0", old=3, new=4)
    return report_of(start(), fixed(), end(), start("0/1"), again(mismatch), end("0/1"))


def test_without_source_the_line_stays_and_the_expression_goes() -> None:
    cleaned = without_source(recompiled())
    assert [(size.source, size.values) for size in cleaned.forced_sizes] == [(None, ["3"])]
    (finding,) = judge(cleaned)
    assert "model.py:12" in finding.advice
    assert "x.size" not in finding.advice


def test_a_value_that_is_no_number_may_quote_the_program() -> None:
    report = clean_report()
    report.forced_sizes = [ForcedSize("d1", Location(MODEL, 1), "x", None, ["3", "-1.5", "a secret of 5"])]
    assert without_source(report).forced_sizes[0].values == ["3", "-1.5"]
