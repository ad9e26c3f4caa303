"""Series of recompiles, and the advice against each: it names the user's own variable."""

from __future__ import annotations

import ast
import itertools
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.report import Advice, Cause, FailedGuard, Finding, ForcedSize, Location, Recompile, Report
from dynalyze.report.graphs import Graph, GraphInput
from dynalyze.rules.recompile_advice import advise
from dynalyze.rules.recompile_advice.source import as_written, handed_over
from dynalyze.rules.recompile_series import Series, gather
from dynalyze.rules.rule import judge
from sample_reports import MODEL, clean_report, compilation, empty_report, found_by, graph_break, recompile

CAUSES = [cause for cause in get_args(Cause) if cause not in ("limit", "other")]


def at(line: int, function: str, code: str | None = None) -> Location:
    return Location(MODEL, line, None, function, code)


def series_of(*recompiles: Recompile) -> Series:
    report = empty_report()
    report.recompiles = list(recompiles)
    (one,), _ = gather(report)
    return one


def advice(
    cause: str, source: str | None, expected: str | None = None, actual: str | None = None, **more: Any
) -> Advice:
    fields: dict[str, Any] = {
        "cause": cause,
        "source": source,
        "expected": expected,
        "actual": actual,
        "guard": f"{source} guard",
    }
    fields["location"] = at(10, "step")
    return advise(series_of(recompile("r1", "0/1", **{**fields, **more})))


def findings(*recompiles: Recompile, report: Report | None = None) -> list[Finding]:
    report = report or empty_report()
    report.recompiles = list(recompiles)
    found = [each for each in judge(report) if each.rule.startswith("recompile")]
    assert report.capture.notes == []
    return found


def counted(cause: str, source: str, values: list[str], **more: Any) -> list[Recompile]:
    """One function that recompiled for each next value."""
    fields = {"cause": cause, "source": source, "location": at(10, "step"), **more}
    return [
        recompile(f"r{n}", f"0/{n}", expected=before, actual=after, change=f"c{n}", **fields)
        for n, (before, after) in enumerate(itertools.pairwise(values), 1)
    ]


# Findings.


def test_a_value_that_goes_on_changing_is_one_finding() -> None:
    (found,) = findings(*counted("value", "n", [str(n) for n in range(1, 9)]))
    assert found.title.startswith("`n` changed 7 times (1, 2, 3, ...): step was compiled again 7 times")
    assert found.evidence == [f"r{n}" for n in range(1, 8)]
    assert found.impact is not None
    assert found.impact.compile_seconds == pytest.approx(7 * 0.81)


# Advice.


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_advice_of_its_own(cause: Cause) -> None:
    given = advice(cause, "frames.size()[1]" if cause in ("shape", "symbolic", "stride") else "frames", "1", "2")
    assert given.action != advice("other", "frames").action
    assert given.why and given.link.startswith("https://")


def test_integers_of_a_module_have_their_setting_and_others_do_not() -> None:
    integer = advice("module_attribute", "self.power", "2", "3")
    assert integer.config == "torch._dynamo.config.allow_unspec_int_on_nn_module = True"
    assert integer.example is not None
    assert integer.example.after == 'self.register_buffer("power", torch.tensor(2))'
    assert advice("module_attribute", "self.mode", "'a'", "'b'").config == ""


@given(st.sampled_from(CAUSES), st.none() | st.text(max_size=30), st.none() | st.text(max_size=8), st.text(max_size=8))
def test_any_source_and_value_gets_advice_whose_example_is_code(
    cause: str, source: str | None, expected: str | None, actual: str
) -> None:
    given = advice(cause, source, expected, actual)
    assert given.action
    if given.example is not None:
        ast.parse(given.example.before)
        ast.parse(given.example.after)
    ast.parse(given.config)


def failed_too(source: str, cause: Cause = "shape", expected: str = "4", actual: str = "5") -> FailedGuard:
    return FailedGuard("0/0", cause, f"{source} guard", source, expected, actual)


def test_sizes_that_cannot_be_written_are_not_marked() -> None:
    told = advice("shape", "x.size()[1]", "4", "5", also=[failed_too("encode(y).size()[1]")])
    assert "mark_dynamic" not in told.action and "dynamic=True" in told.action


@pytest.mark.parametrize("size", ["0", "1"])
def test_sizes_zero_and_one_are_told_apart_from_conditions(size: str) -> None:
    (one,) = findings(recompile("r1", "0/1", cause="symbolic", source="rows.size()[0]", expected="2 <= x", actual=size))
    assert f"size {size}" in one.advice
    assert "mark_" not in one.advice
    for source, actual in (("rows.size()[0]", "20"), ("rows.size()[0] % 2", size)):
        text = advice("symbolic", source, "0", actual).action
        assert f"size {size} away" not in text
        assert source.replace("size()[0]", "size(0)") in text


@pytest.mark.parametrize(("expected", "actual"), [("0.1", "0.2"), ("3", "4")])
def test_a_number_that_a_line_needs_is_not_to_be_a_tensor(expected: str, actual: str) -> None:
    told = advice("value", "p", expected, actual, forced_by=at(12, "step", "return dropout(x, p)"))
    assert "model.py:12" in told.action and "torch.tensor" not in told.action
    assert (told.example, told.config) == (None, "")


@pytest.mark.parametrize("source", ["self.encode(x).size()[1]", "___stack0.size()[0]", "(a + b).size()[0]"])
def test_what_is_computed_inside_cannot_be_marked(source: str) -> None:
    given = advice("shape", source, "4", "5")
    assert "mark_dynamic" not in given.action
    assert "dynamic=True" in given.action
    assert given.config == ""


@pytest.mark.parametrize(
    ("source", "code", "expected", "actual", "told"),
    [
        ("len(args)", "def wrapper(self, *args, **kwargs):", "1", "0", "Pass the same arguments in every call"),
        ("len(args)", "y = net(x)", "0", "2", "Pass the same arguments in"),  # torch's wrapper: it has no def
        ("len(parts)", "def step(x, *parts):", "1", "2", "Pass the same arguments in every"),
        ("kwargs", "def f(*args, **kwargs):", "'m' not in kwargs", "'m' in kwargs", "`m` in all of them or in none"),
        ("list(dict.keys(kwargs))[0]", "def f(*args, **kwargs):", "'a'", None, "Pass the same keywords in every call"),
        ("len(args)", "def step(args):", "1", "2", "Give `args` the same entries"),
        ("len(parts)", "def step(parts):", "1", "2", "Give `parts` the same entries"),
        ("options", "def step(options):", "'a' in options", "'a' not in options", "Give `options` the same entries"),
    ],
)
def test_how_arguments_are_handed_over_is_told_apart_from_what_is_in_a_list(
    source: str, code: str, expected: str, actual: str | None, told: str
) -> None:
    place = at(10, "Ranker.wrapper", code)
    assert told in advice("container", source, expected, actual, location=place).action


@pytest.mark.parametrize(
    "source",
    [
        "kwargs['past_key_values'].layers[0].keys.size()[2]",
        "past_key_values.layers[3].values.size()[2]",
        "past_key_values.key_cache[0].size()[2]",
    ],
)
def test_a_growing_cache_of_a_transformer_wants_a_static_one(source: str) -> None:
    for cause in ("shape", "stride"):
        given = advice(cause, source, "16", "17")
        assert 'cache_implementation="static"' in given.action
        assert "memory" in given.why


def test_a_parameter_is_not_marked() -> None:
    source = "fn._parameters['bias'].size()[0]"
    once, often = (advise(series_of(*counted("shape", source, values))) for values in (["4", "3"], ["4", "3", "2"]))
    assert not any("mark_dynamic" in each.action for each in (once, often))
    # The setting makes vary what has changed before: of two sizes none is spared.
    assert (once.config, "force_parameter_static_shapes" in often.config) == ("", True)


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("noise = unet(inp, t, encoder=txt).sample", ("inp", "")),
        ("noise = unet(torch.cat([lat] * 2), t)", ("passed", "torch.cat([lat] * 2)")),
        ("noise = unet(encoder=txt)", ("", "")),
    ],
)
def test_what_a_wrapper_takes_by_position_has_the_name_that_its_caller_has(call: str, given: tuple[str, str]) -> None:
    assert handed_over("args[0]", at(301, "wrapper", "def wrapper(self, *args, **kwargs):"), call) == given


def test_a_buffer_of_an_argument_that_is_made_anew_is_made_once() -> None:
    source = "model._modules['0']._buffers['cache'].size()[2]"
    line = at(211, "forward", "y = attention(q, k, v, mask)")
    told = advise(
        series_of(recompile("r1", "0/1", cause="shape", source=source, expected="32", actual="40", forced_by=line))
    )
    assert "`model[0].cache` once, in the constructor" in told.action and "any size" not in told.action


def test_a_size_that_the_caller_hands_over_may_be_marked_behind_a_break_too() -> None:
    report = empty_report()
    whole, rest = compilation("0/0"), compilation("1/0", resumes=True)
    whole.location, whole.function = at(3, "forward", "def forward(self, ids):"), "Net.forward"
    whole.caller = at(30, "main", "net(ids)")
    rest.location, rest.function = at(5, "forward", "n = len(ids)"), "forward"
    report.compilations = [whole, rest]
    changed = recompile("r1", "1/0", cause="shape", source="ids.size()[1]", expected="8", actual="9")
    changed.location = rest.location
    for each in report.compilations:
        each.process, each.epoch = changed.process, changed.epoch
    (given,) = findings(changed, report=report)
    assert "maybe_mark_dynamic(ids, 1)" in given.advice and "model.py:30" in given.advice
    changed.result_of = at(5, "forward")  # The code before the break computed it.
    (left,) = findings(changed, report=report)
    assert "mark_dynamic" not in left.advice and "dynamic=True" in left.advice


@pytest.mark.parametrize(("expected", "actual", "ended"), [("3", "4", True), ("None", "Tensor object", False)])
def test_what_a_first_call_makes_does_not_end_with_a_break(expected: str, actual: str, ended: bool) -> None:
    series = series_of(
        recompile("r1", "0/1", cause="module_attribute", source="self.table", expected=expected, actual=actual)
    )
    series.apart = [graph_break("b1", "partly_eager", at(20, "outer"))]
    assert ("(b1) first" in advise(series).action) == ended


def test_every_break_that_has_a_function_compiled_by_itself_has_to_end() -> None:
    report, limit = empty_report(), recompile("r9", "1/8", cause="limit", location=at(10, "Tower.forward"))
    whole, tower, nested = compilation("0/0"), compilation("1/0"), compilation("2/0")
    whole.location, tower.location = at(30, "Model.forward"), at(10, "Tower.forward")
    nested.location = at(12, "<listcomp>")  # Begins between the function and its breaks.
    tower.caller, report.compilations = at(32, "forward"), [whole, tower, nested]
    stack = [at(40, "main"), at(32, "forward")]
    report.graph_breaks = [
        graph_break("b1", "split", at(14, "forward"), stack=[*stack, at(14, "forward")], compile_ids=["0/0"]),
        graph_break("b2", "split", at(16, "forward"), stack=[*stack, at(16, "forward")], compile_ids=["0/0"]),
        graph_break("b3", "split", at(33, "forward"), stack=[at(40, "main"), at(33, "forward")], compile_ids=["0/0"]),
    ]
    (found,) = findings(*counted("module_attribute", "self.calls", [str(n) for n in range(1, 9)]), limit, report=report)
    assert "(b1)" in found.advice and "(b2)" in found.advice and "(b3)" not in found.advice


@pytest.mark.parametrize(("texts", "data"), [("abcde", True), ("ababa", False)])
def test_texts_that_never_come_again_are_data(texts: str, data: bool) -> None:
    (found,) = findings(*counted("value", "titles[0]", [repr(each) for each in texts]))
    assert ("as a tensor" in found.advice) == data
    (_, length) = findings(
        *counted("value", "titles[0]", [repr(each) for each in texts]),
        recompile("r9", "0/9", cause="container", source="len(titles)", expected="6", actual="5", change="c9"),
    )
    assert "`titles` into numbers" in length.advice


def test_a_choice_of_torchs_own_is_no_line_to_change() -> None:
    """Of a convolution on a CPU: `numel(input) <= 20480` chooses between its implementations."""
    conv = Location("/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", 560, None, "_conv_forward")
    asked = {
        "cause": "symbolic",
        "source": "3 * x.size()[2]",
        "expected": "3 * x.size()[2] <= 20480",
        "actual": "27648",
    }
    for line, where in ((conv, "conv.py:560"), (None, "may choose")):
        told = advise(series_of(recompile("r1", "0/1", forced_by=line, **asked))).action
        assert "`3 * x.size(2) <= 20480`" in told and where in told and "pad" not in told.lower()


def test_the_call_of_what_is_compiled_fixes_no_size() -> None:
    """Behind `@torch.no_grad()` torch names that line alone, and arguments by their numbers."""
    call = at(23, "forward", "out = net(image)")
    report, again = empty_report(), recompile("r1", "0/1", source="args[0].size()[1]", expected="128", actual="96")
    whole = compilation("0/0")
    again.location = whole.location = again.forced_by = call
    whole.caller, report.compilations = at(23, "<module>", "out = net(image)"), [whole]
    (found,) = findings(again, report=report)
    assert "fixes" not in found.advice and "dynamic=True" in found.advice


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("out = net([{'image': load()}], 2)", "maybe_mark_dynamic(passed[0]['image'], 0)"),
        ("out = net(*batch)", "give what is passed there a name"),
    ],
)
def test_what_a_decorated_function_gets_is_named_by_the_caller_though_nothing_breaks(call: str, told: str) -> None:
    report, size = empty_report(), "args[0][0]['image'].size()[0]"
    whole = compilation("0/0")
    whole.location, whole.caller, report.compilations = at(23, "forward", call), at(23, "<module>", call), [whole]
    changed = recompile("r1", "0/1", cause="shape", source=size, expected="4", actual="6", location=whole.location)
    (found,) = findings(changed, report=report)
    assert told in found.advice and "graph break" not in found.advice


def test_a_second_function_in_torchs_wrapper_is_left_as_it_is() -> None:
    known = {"cause": "value", "source": "fn", "expected": "__main__.Net", "actual": "run"}
    (found,) = findings(recompile("r1", "0/1", location=at(19, "inner", "run(x, k=3)"), **known))
    assert found.advice.startswith("Leave it") and "warm-up" in found.advice
    (own,) = findings(recompile("r1", "0/1", location=at(19, "apply", "def apply(fn, x):"), **known))
    assert not own.advice.startswith("Leave it")


def test_the_definition_of_a_function_fixes_no_size() -> None:
    place = at(25, "Block.forward", "def forward(self, x):")
    (found,) = findings(recompile("r1", "0/1", source="x.size()[2]", location=place, forced_by=place))
    assert "fixes" not in found.advice and "mark_dynamic(x, 2)" in found.advice


def test_a_file_keeps_its_name_behind_another_sentence() -> None:
    line = Location("/work/Blocks.py", 25, None, "forward", "n = int(x.shape[2])")
    series = series_of(recompile("r1", "0/1", source="x.size()[2]", expected="4", actual="5", forced_by=line))
    series.apart = [graph_break("b1", "partly_eager", at(20, "outer"))]
    assert "Where it stays, Blocks.py:25 fixes" in advise(series).action


def test_a_gradient_that_comes_and_goes_is_told_as_one() -> None:
    told = advice("value", "model.weight.grad", "None", "Tensor object", library="torch", owner="Parameter")
    assert "set_to_none=False" in told.action and "setter" not in told.action


def test_a_count_of_an_object_that_is_no_module_has_no_setting_of_modules() -> None:
    given = advice("value", "self.metrics['requests']", "0", "1")
    assert "self.metrics['requests']" in given.action and given.config == "" and given.example is None


@pytest.mark.parametrize(
    ("cause", "source", "values", "told"),
    [
        ("module_attribute", "self.calls", [str(n) for n in range(1, 9)], False),
        ("container", "len(self.history)", [str(n) for n in range(1, 9)], False),
        ("value", "t", [f"{n}.5" for n in (3, 1, 4, 2, 6, 5, 9, 8)], False),
        ("value", "width", ["8", "16", "32", "64", "48", "24", "12", "80"], True),
    ],
)
def test_a_higher_limit_is_no_way_for_what_is_new_in_each_call(
    cause: str, source: str, values: list[str], told: bool
) -> None:
    limit = recompile("r9", "0/8", cause="limit", location=at(10, "step"))
    (found,) = findings(*counted(cause, source, values), limit)
    assert found.rule == "recompile-limit" and found.detail is not None
    assert ("recompile_limit" in found.detail.config) == told


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        ("3", "4", "torch.tensor(n)"),
        ("0.5", "0.7", "torch.tensor(n)"),
        ("'up'", "'down'", "one function for each"),
        ("True", "False", "one function for each"),
        ("None", "Tensor object", "Always pass `n`"),
        ("torch.float16", "torch.float32", "Keep `n` the same"),
    ],
)
def test_advice_on_a_value_depends_on_its_kind(expected: str, actual: str, told: str) -> None:
    assert told in advice("value", "n", expected, actual).action


def modules_compiled(*instances: int | None, names: str = "abcdefghijkl") -> Report:
    """One code compiled again and again, each time for the module of that number."""
    report = empty_report()
    report.compilations = [compilation(f"0/{n}") for n in range(len(instances))]
    for each, number in zip(report.compilations, instances, strict=True):
        each.module, each.instance = f"self.{names[number or 0]}", number
    return report


def made_otherwise(n: int) -> Recompile:
    """Version `n`, of a module whose weight has another size."""
    return recompile(f"r{n}", f"0/{n}", source="self._parameters['weight'].size()[0]", change=f"c{n}")


def test_the_first_compile_of_another_module_is_no_change_between_calls() -> None:
    sizes = [made_otherwise(1), made_otherwise(2), recompile("r3", "0/3", source="x.size()[0]", change="c3")]
    again, apart = sorted(findings(*sizes, report=modules_compiled(1, 2, 3, 2)), key=lambda each: len(each.evidence))
    assert (apart.severity, apart.evidence) == ("info", ["r1", "r2"])
    assert apart.title.startswith("`self.b`, `self.c` and `self.d` are different modules that run one code: ")
    assert "mark_dynamic" not in apart.advice
    assert (again.severity, again.evidence) == ("warning", ["r3"])  # the second one compiled once more
    assert "mark_dynamic(x, 0)" in again.advice


@pytest.mark.parametrize(
    ("states", "before", "after", "title"),
    [
        ("grad_mode", "True", "False", "The gradient mode changed from True to False"),
        ("grad_mode", None, None, "The gradient mode changed"),
        (
            "grad_mode, autocast(cpu)_enabled", "True, True", "False, False",
            'The gradient mode changed from True to False, and autocast for "cpu" from True to False',
        ),
        (
            "grad_mode, autocast(cuda)_dtype, weather", "True, ?, ?", "False, torch.float16, ?",
            'The gradient mode changed from True to False, the dtype of autocast for "cuda" to torch.float16, '
            "and `weather`",
        ),
    ],
)  # fmt: skip
def test_gradients_and_none_are_two_programs_and_every_state_is_named(
    states: str, before: str | None, after: str | None, title: str
) -> None:
    (found,) = findings(recompile("r1", "0/1", cause="global_state", source=states, expected=before, actual=after))
    assert found.severity == "info"
    assert found.title.startswith(f"{title}: ")
    assert "torch.no_grad" not in found.advice
    assert found.detail is not None and found.detail.example is None
    assert ("torch.autocast" in found.advice) == ("autocast" in states)


@pytest.mark.parametrize("state", ["autocast(cpu)_enabled", "inference_mode", "num_threads", "default_dtype"])
def test_a_mode_that_training_does_not_need_to_change_is_to_stay(state: str) -> None:
    (found,) = findings(recompile("r1", "0/1", cause="global_state", source=state, expected="True", actual="False"))
    assert found.severity == "warning"
    assert found.advice.startswith("Keep ")
    assert f"`{state}` was True while compiling and False" in found.advice


@pytest.mark.parametrize("cause", ["value", "module_attribute"])
def test_train_and_eval_are_told_as_modes(cause: str) -> None:
    given = advice(cause, "self._modules['drop'].training", "True", "False")
    assert "`self.drop`" in given.action
    assert "eval()" in given.action


# Dimensions that were marked dynamic, and forced to a constant.


def test_a_dimension_that_the_code_made_constant_is_named() -> None:
    report = clean_report()
    report.compilations[0].status = "failed"
    report.compilations[
        0
    ].reason = (
        "Constraints violated (L['rows'].size()[0], L['batch']['ids'].size()[1])! For more information, run with ..."
    )
    (found,) = found_by(report, "compile-failed")
    assert found.title == (
        "Ranker.forward makes a constant of a dimension that is marked dynamic: `rows.size(0)`, `batch['ids'].size(1)`"
    )
    assert "maybe_mark_dynamic(rows, 0)" in found.advice
    assert "maybe_mark_dynamic(batch['ids'], 1)" in found.advice


@pytest.mark.parametrize(
    ("expected", "actual", "told"),
    [
        ("0.12461540102958679", "0.1307343989610672", "changed from 0.1246 to 0.1307"),
        ("0.12461540102958679", "0.12461940102958679", "changed from 0.124615 to 0.124619"),
        ("0.12461540102958679", "0.12461540102958680", "changed from 0.12461540102958679 to 0.12461540102958680"),
        ("0.5", "0.25", "changed from 0.5 to 0.25"),
        ("1e-05", "3", "changed from 1e-05 to 3"),
    ],
)
def test_a_title_has_only_the_digits_that_tell_values_apart(expected: str, actual: str, told: str) -> None:
    (finding,) = findings(
        recompile("r1", "0/1", cause="value", source="scale", expected=expected, actual=actual, location=at(10, "step"))
    )
    assert told in finding.title


@pytest.mark.parametrize(
    ("cause", "source", "expected", "actual"),
    [
        ("value", "___stack0", "1", "2"),
        ("stride", "___stack2.stride()[0]", "8", "9"),
        ("symbolic", "___stack2", "1", "2"),
    ],
)
def test_what_has_no_name_but_on_the_stack_ends_with_its_break(
    cause: str, source: str, expected: str, actual: str
) -> None:
    (found,) = findings(recompile("r1", "0/1", cause=cause, source=source, expected=expected, actual=actual))
    assert "End the graph break before" in found.advice
    assert "___" not in found.title + found.advice


@pytest.mark.parametrize("cause", ["value", "module_attribute", "global_variable"])
def test_nobody_is_told_to_change_the_class_of_a_library(cause: str) -> None:
    owner = {"owner": "peft.tuners.lora.layer.Linear", "library": "peft"}
    given = advice(cause, "self.layers[0].q.scaling['default']", "1.0", "2.0", **owner)
    assert "register" not in given.action and "peft" in given.action and given.example is None


def test_all_that_the_first_call_makes_belongs_in_the_constructor() -> None:
    entry = failed_too("self.kept", "container", "'cos' not in self.kept", "'cos' in self.kept")
    also = [entry, failed_too("self.scale", "value", "1", "2")]
    told = advice("module_attribute", "self.table", "None", "Tensor object", also=also).action
    assert "`self.table` and `self.kept['cos']` in the constructor" in told


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("print('loss', step(x).sum().item())", "x"),
        ("y = self.net(batch['x'])", "batch['x']"),
        ("return net(x) + net(y)", "args[0]"),  # which of the two is not known
        ("def forward(self, *args, **kwargs):", "args[0]"),
        ("net(*parts)", "args[0]"),
        ("net(torch.cat(parts))", "torch.cat(parts)"),
        ("loss(net(x), y)", "args[0]"),
        ("print(float(net(x)))", "x"),
        (None, "args[0]"),
    ],
)
def test_an_argument_of_a_module_of_torch_is_named_as_its_caller_does(code: str | None, name: str) -> None:
    place = Location(MODEL, 10, None, "Sequential.forward", code)
    told = recompile("r1", "0/1", cause="shape", source="args[0].size()[0]", expected="2", actual="3", location=place)
    (finding,) = findings(told)
    assert finding.title.startswith(f"`{name}.size(0)` changed from 2 to 3")
    is_written = "(" not in name and (name != "args[0]" or "*args" in (code or ""))
    assert (f"`torch._dynamo.maybe_mark_dynamic({name}, 0)`" in finding.advice) == is_written
    assert "dynamic=True" in finding.advice


@pytest.mark.parametrize(
    ("guard", "says"), [("x.size()[1] / 16 == 3.75", "fixes"), ("x.size()[1] % 16 == 0", "Move the decision")]
)
def test_what_is_computed_of_a_size_holds_for_one_size_or_is_a_decision(guard: str, says: str) -> None:
    """Marking the size is no advice: the line that asks about it compiles each value again."""
    place = Location("/project/pad.py", 4, code="if m.is_integer():")
    changed = recompile("r1", "0/1", cause="shape", source="x.size()[1]", expected="40", actual="50")
    asked = recompile("r2", "0/2", cause="symbolic", source=guard.partition(" ==")[0], guard=guard, forced_by=place)
    for each in findings(changed, asked):
        assert "pad.py:4" in each.advice and says in each.advice and "mark_dynamic" not in each.advice


def test_a_state_that_begins_as_a_number_is_told_as_that() -> None:
    state = recompile("r1", "0/1", cause="value", source="fn.memory['v']", expected="0.0", actual="Tensor object")
    (one,) = findings(state)
    assert "before the first call" in one.advice and "0.0" in one.advice


@pytest.mark.parametrize(
    ("code", "earlier", "marked"),
    [
        ("y = y * mask.unsqueeze(-1)", [], True),
        ("y = y * mask.unsqueeze(-1)", [GraphInput("mask", shape=[2, 5], source="mask")], False),
        ("if x.shape[1] == 7:", [], False),
    ],
)
def test_a_size_that_meets_a_new_input_is_marked_with_it(code: str, earlier: list[GraphInput], marked: bool) -> None:
    """As torch does: a size that is seen for the first time is fixed, and fixes the dynamic size that meets it."""
    report, line = empty_report(), at(12, "step", code)
    own = [GraphInput("x", shape=[2, 7], source="x")]
    report.graphs = [
        Graph("g1", "0/0", inputs=[*own, *earlier]),
        Graph("g2", "0/1", inputs=[*own, GraphInput("mask", shape=[2, 7], source="mask")]),
    ]
    report.forced_sizes = [
        ForcedSize("d1", line, "x.size()[1]", 1, values=["7"], compile_ids=["0/1"], recompiles=["r1"], process=0)
    ]
    report.graphs.append(Graph("g3", "odd", inputs=own))  # A log may hold any id.
    report.forced_sizes[0].compile_ids.append("odd")
    changed = recompile("r1", "0/2", cause="shape", source="x.size()[1]", expected="7", actual="12", forced_by=line)
    for each in report.graphs:
        each.process = report.forced_sizes[0].process = changed.process
    (found,) = findings(changed, report=report)
    assert ("mark_dynamic(x, 1)" in found.advice and "mark_dynamic(mask, 1)" in found.advice) is marked
    assert ("model.py:12 fixes" in found.advice) is not marked


@pytest.mark.parametrize(("in_graph", "marks"), [("batch_mask", True), ("self_mask", False)])
def test_a_new_entry_of_a_dictionary_is_named_as_the_program_does(in_graph: str, marks: bool) -> None:
    report, line = empty_report(), at(12, "step", "y = y * batch['mask']")
    own, new = (GraphInput(name, shape=[2, 7], source=name) for name in ("batch_x", in_graph))
    report.graphs = [Graph("g1", "0/0", inputs=[own]), Graph("g2", "0/1", inputs=[own, new])]
    source = "batch['x'].size()[1]"
    report.forced_sizes = [ForcedSize("d1", line, source, 1, values=["7"], compile_ids=["0/1"], recompiles=["r1"])]
    changed = recompile("r1", "0/2", source=source, expected="7", actual="12", forced_by=line)
    for each in report.graphs:
        each.process = report.forced_sizes[0].process = changed.process
    (found,) = findings(changed, report=report)
    assert ("mark_dynamic(batch['mask'], 1)" in found.advice) is marks and in_graph not in found.advice
    changed.location = at(3, "forward", f"def forward(self, batch, {in_graph}):")
    (found,) = findings(changed, report=report)
    assert (f"mark_dynamic({in_graph}, 1)" in found.advice) is marks and "batch['mask']" not in found.advice


def test_a_size_that_another_one_brought_along_is_not_told_of_its_line() -> None:
    """Two sizes change in one call, and a line fixes the one that changed first: the other may be marked."""
    report, line = empty_report(), at(30, "resume", "for row in h:")
    boxes, image = "boxes.size()[0]", "x.size()[2]"
    common: dict[str, Any] = {"cause": "shape", "source": boxes, "expected": "2"}
    changes = [
        recompile("r1", "0/1", **common, actual="3", change="c1"),
        recompile("r2", "4/1", **common, actual="3", change="c1", forced_by=line),
        recompile("r3", "0/2", cause="shape", source=image, expected="64", actual="96", change="c2"),
        recompile("r4", "4/2", **common, actual="4", change="c2", forced_by=line),
    ]
    report.forced_sizes = [ForcedSize("d1", line, boxes, 0, values=["3", "4"], recompiles=["r2", "r4"])]
    of_boxes, of_image = findings(*changes, report=report)
    assert "model.py:30" in of_boxes.advice and of_boxes.location == line
    assert "model.py:30" not in of_image.advice and "mark_dynamic(x, 2)" in of_image.advice


@pytest.mark.parametrize("evaluates", [True, False])
def test_calls_on_other_lines_pass_tensors_of_their_own_to_mark(evaluates: bool) -> None:
    report = empty_report()
    report.compilations = [compilation("0/0"), compilation("0/1")]
    for each, line in zip(report.compilations, (18, 26 if evaluates else 18), strict=True):
        each.caller = Location("/home/ada/train.py", line, None, "<module>", "model(x)")
    (finding,) = findings(recompile("r1", "0/1"), report=report)
    assert "train.py:18" in finding.advice and ("train.py:26" in finding.advice) is evaluates


@pytest.mark.parametrize("fixed", [True, False])
def test_a_size_that_a_line_fixes_is_not_marked_with_another_one(fixed: bool) -> None:
    """torch raises for a mark of what a loop goes through: two sizes changed in one call, and only one can vary."""
    report, line = empty_report(), at(30, "step", "for t in range(n):")
    changes = [
        recompile("r1", "0/1", source="x.size()[1]", expected="6", actual="8", change="c1"),
        recompile("r2", "0/2", source="x.size()[0]", expected="4", actual="3", change="c2"),
    ]
    changes[1].also = [failed_too("x.size()[1]", expected="8", actual="5")]
    if fixed:
        for each in changes:
            each.forced_by = line
        report.forced_sizes = [ForcedSize("d1", line, "x.size()[1]", 1, values=["8", "5"], recompiles=["r1", "r2"])]
    (about,) = [each for each in findings(*changes, report=report) if "size(0)" in each.title]
    assert ("mark_dynamic(x, 0)" in about.advice, "mark_dynamic(x, (0, 1))" in about.advice) == (fixed, not fixed)
    assert ("`x.size(1)` changed too, which compiles anew by itself." in about.advice) is fixed


def test_modules_of_several_classes_that_run_one_code_change_nothing() -> None:
    """In what a graph break cut off, and in inherited methods; whatever else is different in the other class."""
    came: dict[str, Any] = {"expected": "flows.Affine", "actual": "Spline object"}
    guard = "___check_type_id({}, 7), type=<class 'flows.Affine'>"
    own, part, config = (
        recompile(f"r{n}", f"{n}/1", cause="value", source=name, guard=guard.format(name), change=f"c{n}", **came)
        for n, name in enumerate(("self", "self._modules['layer']", "config"), 1)
    )
    sized = recompile("r4", "4/1", source="h.size()[2]", change="c4")
    failed = FailedGuard("4/0", "value", guard.format("self"), "self", *came.values())
    sized.also = [msgspec.structs.replace(failed, source="___stack0.__self__"), failed]
    parts = recompile("r5", "5/1", cause="container", source="self._modules['glu']._modules", change="c5")
    for each in (own, sized, parts):
        (found,) = findings(each)
        assert "several kinds" in found.advice and "changed too" not in found.advice
    for each, name in ((part, "self.layer"), (config, "config")):
        (found,) = findings(each)
        assert f"with each class of `{name}`" in found.advice


def test_weights_quantised_in_another_way_are_another_module() -> None:
    guard: dict[str, Any] = {"cause": "other", "source": None, "guard": "___check_metadata_139686710990368_c0/0"}
    (modules,) = findings(recompile("r1", "0/1", **guard), report=modules_compiled(1, 2))
    assert modules.severity == "info" and "different modules" in modules.title
    (one,) = findings(recompile("r1", "0/1", **guard), report=modules_compiled(1, 1))
    assert "quantised" in one.advice and "139686710990368" not in one.advice


def test_a_counter_of_an_optimizer_has_the_setting_that_lets_it_vary() -> None:
    def given(key: str, before: str, after: str) -> Advice:
        source, owner = f"opt.param_groups[0]['{key}']", {"owner": "schedulefree.AdamW", "library": "optimizer"}
        guard = f"G['opt'].param_groups[0]['{key}'] == {before}"
        return advice("value", source, before, after, guard=guard, **owner)

    assert given("k", "1", "2").config == """torch.compiler.config.dynamic_sources = "G['opt'].param_groups[0]['k']\""""
    assert given("weight_decay", "0.1", "0.2").config == ""


@pytest.mark.parametrize(("actual", "shown"), [("1", True), ("0", False)])
def test_one_value_does_not_become_a_size_of_one(actual: str, shown: bool) -> None:
    assert (advice("rank", "t", str(int(actual) + 1), actual).example is not None) is shown


@pytest.mark.parametrize(
    ("code", "instead"),
    [
        ("n = torch.as_tensor([sum(len(t) for t in targets)])", "torch.tensor(...)"),
        ("n = torch.LongTensor([len(x)])", "torch.tensor(..., dtype=torch.long)"),
        ("n = torch.tensor([len(t) for t in targets])", "as many steps"),
        ("if (h, w) not in self.grids:", "up in a table"),
        ("grid = self.grids.get((h, w))", "up in a table"),
        ("for part in parts:", "as many steps"),
    ],
)
def test_a_line_that_makes_a_constant_of_a_size_is_told_what_to_write(code: str, instead: str) -> None:
    line = at(12, "step", code)
    changed = recompile("r1", "0/2", cause="shape", source="x.size()[1]", expected="7", actual="12", forced_by=line)
    (found,) = findings(changed)
    assert instead in found.advice and "model.py:12" in found.advice


@pytest.mark.parametrize(
    ("code", "grown"),
    [("self.log.append(loss)", True), ("for each in self.log:", False), ("self.other.append(self.log)", False)],
)
def test_a_list_that_each_call_adds_to_is_added_to_outside(code: str, grown: bool) -> None:
    common: dict[str, Any] = {"cause": "container", "read_at": at(40, "step", code)}
    first = recompile("r1", "0/1", **common, source="self.log", expected="empty", actual="not empty")
    later = recompile("r2", "0/2", **common, source="len(self.log)", expected="1", actual="2")
    for found in (findings(first), findings(later)):
        assert [("after the compiled call" in each.advice, "self.log" in each.advice) for each in found] == [
            (grown, True)
        ]


@pytest.mark.parametrize("taken", [False, True])
def test_a_table_that_the_next_size_makes_anew_is_made_once(taken: bool) -> None:
    """A grid that the first call found missing: the code for another size takes none from the module."""
    report, x = empty_report(), GraphInput("x", shape=[1, 16], source="x")
    grid = GraphInput("self_grid", shape=[4], source="self_grid")
    report.graphs = [
        Graph("g1", "0/0", inputs=[x]),
        Graph("g2", "0/1", inputs=[x, grid]),
        Graph("g3", "0/2", inputs=[x, grid] if taken else [x]),
    ]
    missing = recompile("r1", "0/1", cause="module_attribute", source="self.grid", expected="None", change="c1")
    other = recompile("r2", "0/2", cause="shape", source="x.size()[1]", expected="16", actual="24", change="c2")
    other.previous = "0/1"
    for graph in report.graphs:
        graph.process = other.process
    (about,) = [each for each in findings(missing, other, report=report) if "size" in each.title]
    assert ("self.grid" in about.advice) is not taken
    assert ("mark_dynamic" in about.advice) is taken


def test_ranks_that_recompile_alike_are_no_parts_of_a_broken_function() -> None:
    fields: dict[str, Any] = {"cause": "shape", "source": "x.size()[0]", "expected": "4", "actual": "7",
                              "location": at(10, "step"), "change": "c1"}  # fmt: skip
    (alone,) = findings(recompile("r1", "0/1", **fields))
    (ranks,) = findings(*(recompile(f"r{rank}", "0/1", process=rank, **fields) for rank in (0, 1)))
    (halves,) = findings(*(recompile(f"r{frame}", f"{frame}/1", **fields) for frame in (0, 1)))
    assert ranks.advice == alone.advice != halves.advice
    assert "2 processes" in ranks.title and "2 parts" in halves.title


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("a.lerp_(b, 1 - p)", True), ("y = torch.full((3,), p)", True), ("y = dropout(x, p)", False),
        ("y = torch.add(x, x, alpha=p)", False),
    ],
)  # fmt: skip
def test_a_float_is_a_tensor_for_operators_that_take_one(line: str, takes: bool) -> None:
    told = advice("value", "p", "0.1", "0.2", forced_by=at(12, "step", line))
    assert ("torch.tensor(p)" in told.action, "few values" in told.action) == (takes, not takes)


@pytest.mark.parametrize(("sizes", "told"), [(["5", "6"], False), (["5", "6", "7"], True)])
def test_a_size_that_changed_once_may_be_of_a_function_that_is_not_static(sizes: list[str], told: bool) -> None:
    report = empty_report()
    report.capture.static = [at(4, "main")]
    (found,) = findings(*counted("shape", "x.size()[0]", sizes), report=report)
    assert ("`dynamic=False` at model.py:4" in found.advice) == told


def test_what_each_call_adds_to_is_a_count_and_no_cache_that_grows() -> None:
    for line, word in (("self.n += x.shape[0]", "allow_unspec_int"), ("if n > self.n:", "largest input")):
        seen = counted("module_attribute", "self.n", ["0", "2", "4"], read_at=at(7, "observe", line))
        given = advise(series_of(*seen))
        assert word in f"{given.action} {given.config}"


def test_what_a_library_fills_further_is_not_set_by_hand() -> None:
    for values, word in ((["0", "8", "12"], "largest input"), (["0", "1", "2"], "dynamic=True")):
        lengths = counted("value", "self.rotary.seen", values, owner="rotary.Rotary", library="rotary")
        assert word in advise(series_of(*lengths)).action


@pytest.mark.parametrize(
    ("caller", "marks"),
    [("/work/train.py", True), ("/env/lib/python3.11/site-packages/diffusers/models/unet.py", False)],
)
def test_what_a_package_calls_is_no_input_that_the_program_can_mark(caller: str, marks: bool) -> None:
    report = empty_report()
    report.compilations = [compilation("0/0"), compilation("0/1")]
    report.compilations[0].caller = Location(caller, 427, function="forward")
    report.recompiles = [recompile("r1", "0/1")]
    (found,) = found_by(report, "recompile")
    assert ("before the first call, train.py:427: `torch._dynamo.maybe_mark_dynamic(x, 0)`" in found.advice) is marks
    assert ("mark_dynamic" in found.advice) is marks
    assert "dynamic=True" in found.advice


@pytest.mark.parametrize(
    ("file", "step"),
    [("/work/net.py", "rewrite it"), ("/env/lib/python3.11/site-packages/tagger/core.py", "around what tagger does")],
)
def test_a_line_that_fixes_a_size_is_rewritten_by_its_owner_alone(file: str, step: str) -> None:
    line = Location(file, 9, None, "Tagger.score", "x[: int(n)]")
    told = advise(series_of(recompile("r1", "0/1", forced_by=line)))
    assert step in told.action and "pad, so that the size stays" in told.action


@pytest.mark.parametrize(
    ("expected", "actual", "kind", "told"),
    [
        ("Mode.A", "Mode.B", "__main__.Mode", "one call with each `Mode`"),
        ("Net.step", "Net.other", "function", "Create `way` once"),
        ("sin", "cos", "builtin_function_or_method", "Create `way` once"),
    ],
)
def test_members_of_an_enumeration_are_made_once_in_any_case(expected: str, actual: str, kind: str, told: str) -> None:
    guard = f"___check_obj_id(way, 140364120891216), type=<class '{kind}'>"
    assert told in advice("identity", "way", expected, actual, guard=guard).action


def test_a_global_that_a_package_sets_when_it_first_needs_it_is_set_by_a_call_in_eager() -> None:
    there = Location("/opt/lib/python3.11/site-packages/einsum/backend.py", 26, None, "device")
    told = advice("global_variable", "einsum.backend._DEVICE", "None", "tuple object", location=there)
    mine = advice("global_variable", "_DEVICE", "None", "tuple object")
    assert ("in eager" in told.action, "in eager" in mine.action) == (True, False)


def test_a_function_of_a_package_may_be_called_with_two_numbers_of_dimensions() -> None:
    there = Location("/opt/lib/python3.11/site-packages/einops/einops.py", 561, None, "rearrange")
    module = Location("/opt/lib/python3.11/site-packages/nets/net.py", 5, None, "forward")
    told, of_module = (advice("rank", "tensor", "3", "2", location=each) for each in (there, module))
    mine = advice("rank", "tensor", "3", "2")
    assert ["reshape" in each.action for each in (told, of_module, mine)] == [False, True, True]
    series = series_of(recompile("r1", "0/1", cause="rank", source="tensor", expected="3", actual="2", location=module))
    for caller, own in ((there, False), (at(4, "train"), True)):
        series.first_call = caller
        assert ("reshape" in advise(series).action) is own


@pytest.mark.parametrize(
    ("defined", "source", "call", "marks"),
    [
        ("def forward(self, ids, mask=None):", "ids", "loss = net(tokens).sum()", "(tokens, 0)"),
        ("def forward(self, *args, **kwargs):", "kwargs['ids']", "loss = net(ids=x, labels=x).loss", "(x, 0)"),
        ("def forward(self, batch):", "batch['ids']", "with torch.autocast('cpu'): net(data)", "(data['ids'], 0)"),
        ("def forward(self, ids):", "ids", "loss = score(net(tokens), target)", "(ids, 0)"),
        ("def forward(self, ids):", "ids", "net(torch.ones(n, 4))", "(ids, 0)"),
        ("def forward(self, ids):", "ids", "loss = (net(a * x, t) - n).pow(2).mean()", "(ids, 0)"),
        ("def forward(self, ids):", "ids", "out.index_add_(0, rows, net(x[rows]))", "(ids, 0)"),
        ("def forward(self, ids):", "ids", "y = net(x.T)", "(ids, 0)"),
        ("def step(ids, n):", "ids", "step(ids.squeeze(1), 2)", "(ids_passed, 0)"),
        ("def step(ids, n):", "ids", "step(tokens, 2)", "(tokens, 0)"),
        ("def step(ids): return ids * 2", "ids", "step(tokens)", "(tokens, 0)"),
        ("def step(self, ids, n):", "ids", "agent.step(tokens, rows)", "(tokens, 0)"),
        ("def forward(", "ids", "loss = model(**batch).loss", "(batch['ids'], 0)"),
    ],
)
def test_what_is_marked_has_the_name_that_the_first_call_hands_over(
    defined: str, source: str, call: str, marks: str
) -> None:
    """The parameter's own where the line does not tell it."""
    name = "step" if "step" in defined else "forward"
    changed = recompile(
        "r1",
        "0/1",
        cause="shape",
        source=f"{source}.size()[0]",
        expected="4",
        actual="6",
        location=at(10, name, defined),
    )
    report = empty_report()
    report.recompiles = [changed]
    report.compilations = [compilation("0/0"), compilation("0/1")]
    for each in report.compilations:
        each.location, each.caller = changed.location, at(30, "<module>", call)
    (series,), _ = gather(report)
    told = advise(series)
    assert f"torch._dynamo.maybe_mark_dynamic{marks}" in told.action
    example = told.example
    assert example is not None and ("ids_passed = ids.squeeze(1)\n" in example.after) is ("_passed" in marks)
    for passed in ("a * x", "x[rows]", "x.T"):  # Marked where it stands, another tensor would be marked.
        assert (f"ids = {passed}\n" in example.after) is (f"net({passed}" in call)


def test_a_size_that_a_list_has_entries_for_cannot_be_marked() -> None:
    size = recompile("r1", "0/1", cause="shape", source="x.size()[0]", expected="8", actual="6", last_batch_of="Data")
    length = recompile("r2", "1/1", cause="container", source="len(targets)", expected="8", actual="6", guard="len")
    told = {one.evidence[0]: one.advice for one in findings(size, length)}
    assert "mark_dynamic" not in told["r1"] and "`targets`" in told["r1"] and "drop_last=True" in told["r1"]


@pytest.mark.parametrize(("frames", "way"), [((0,), "maybe_mark_dynamic(x, 0)"), ((0, 1), "dynamic=True")])
def test_a_smaller_last_batch_is_marked_only_where_no_part_is_behind_a_break(frames: tuple[int, ...], way: str) -> None:
    size = {
        "cause": "shape",
        "source": "x.size()[0]",
        "expected": "8",
        "actual": "6",
        "last_batch_of": "Data",
        "change": "c1",
    }
    told = findings(*(recompile(f"r{frame + 1}", f"{frame}/1", location=at(10, "step"), **size) for frame in frames))
    (advice,) = [each.advice for each in told if each.rule == "recompile"]
    assert "drop_last=True" in advice and way in advice
    assert ("mark_dynamic" in advice) == (len(frames) == 1)


@pytest.mark.parametrize("parts", [1, 2])
def test_an_input_that_came_later_is_marked_only_where_no_part_is_behind_a_break(parts: int) -> None:
    line = Location(MODEL, 12, None, "step", "return x + mask")
    size = {"cause": "shape", "source": "x.size()[0]", "expected": "8", "actual": "6", "change": "c1"}
    again = (recompile(f"r{n + 1}", f"{n}/1", location=at(10, "step"), forced_by=line, **size) for n in range(parts))
    series = series_of(*again)
    series.met = [("mask", 0)]
    told = advise(series).action
    assert "dynamic=True" in told and ("maybe_mark_dynamic(mask, 0)" in told) == (parts == 1)


@pytest.mark.parametrize(("compile_ids", "told"), [(["0/1", "2/0"], True), (["0/0", "0/1"], False), (["1/1"], False)])
def test_a_break_that_came_with_a_dynamic_size_is_ended_before_that_is_marked(
    compile_ids: list[str], told: bool
) -> None:
    changed = recompile(
        "r1", "0/1", cause="shape", source="ids.size()[0]", expected="4", actual="6", location=at(10, "step")
    )
    report = empty_report()
    report.recompiles = [changed]
    report.graph_breaks = [graph_break("b7", "eager", at(12, "step"), compile_ids=compile_ids)]
    (series,), _ = gather(report)
    assert ("b7" in advise(series).action) == told


def test_flags_of_the_entries_of_a_list_are_one_tensor() -> None:
    flags = [
        recompile(f"r{at}", f"0/{at}", cause="value", source=f"batch[{at}].done", expected="False", actual="True")
        for at in (1, 2)
    ]
    assert all("`batch[...].done`" in each.advice and "tensor" in each.advice for each in findings(*flags))
    for before, after in (("4", "5"), ("1.5", "2.5")):  # A number that changed may vary.
        numbers = [
            recompile(f"r{at}", f"0/{at}", cause="value", source=f"w[{at}]", expected=before, actual=after)
            for at in (1, 2)
        ]
        assert not any("`w[...]`" in each.advice for each in findings(*numbers))


def test_a_condition_that_held_no_more_is_told_as_that() -> None:
    condition, raw = "(step % 3) != 0", "___check_global_state() == 1"
    for guard in (condition, raw):
        (found,) = findings(recompile("r1", "0/1", cause="other", source=None, expected=None, actual=None, guard=guard))
        assert (f"`{guard}`" in found.title and f"`{guard}`" in found.advice) is (guard == condition)


def test_what_a_call_keeps_in_a_module_is_filled_in_eager_and_what_grows_is_added_to_outside() -> None:
    key = advice("container", "self.cache", "(2, 3) not in self.cache", "(2, 3) in self.cache")
    assert "call once in eager" in key.action and "`self.cache`" in key.action
    grown = findings(*counted("container", "len(self.history['loss'])", ["1", "2", "3"]))
    assert ["after the compiled call" in each.advice for each in grown] == [True]


def test_a_rate_of_dropout_has_no_setter() -> None:
    told = advice("module_attribute", "self.drop.p", "0.5", "0.4", owner="Dropout", library="torch")
    assert "setter" not in told.action and "torch.rand_like(x) >= p" in told.action
    of_channels = advice("module_attribute", "self.drop.p", "0.5", "0.4", owner="Dropout2d", library="torch")
    assert "rand_like" not in of_channels.action  # It drops whole channels.


@pytest.mark.parametrize("fills", [True, False])
def test_a_cache_that_calls_fill_is_not_there_to_be_marked(fills: bool) -> None:
    grown = recompile("r1", "0/2", source="cache.k[0].size()[2]", expected="5", actual="6")
    empty = recompile("r2", "0/1", cause="container", source="cache.k", expected="empty", actual="not empty")
    told = {one.evidence[0]: one.advice for one in findings(*([empty] if fills else []), grown)}["r1"]
    assert ("mark_dynamic" in told, "filled by the calls" in told) == (not fills, fills)


def test_a_module_of_torch_that_is_compiled_is_called_as_the_program_calls_it() -> None:
    place = Location(MODEL, 10, None, "Sequential.forward", "l = (run(x) ** 2).mean(); l.backward()")
    told = recompile("r1", "0/1", cause="value", source="fn._modules['0'].scale", expected="1.0", actual="2.0")
    (finding,) = findings(msgspec.structs.replace(told, location=place))
    assert finding.title.startswith("`run[0].scale`") and "`run[0].scale`" in finding.advice


def test_what_the_first_call_fills_beside_a_size_is_told() -> None:
    filled = FailedGuard(
        "0/0",
        "container",
        source="self.anchors",
        expected="(8, 8) not in self.anchors",
        actual="(8, 8) in self.anchors",
    )
    (finding,) = findings(recompile("r1", "0/1", also=[filled]))
    assert "`self.anchors` changed too" in finding.advice


@pytest.mark.parametrize(("dimension", "theirs"), [(1, True), (0, False)])
def test_modules_of_two_widths_that_run_one_code_are_no_change_between_calls(dimension: int, theirs: bool) -> None:
    report = empty_report()
    report.compilations = [compilation("0/0"), compilation("0/1")]
    for number, each in enumerate(report.compilations):
        each.instance, each.module = number, f"net[{number}]"
    (found,) = findings(recompile("r1", "0/1", source=f"x.size()[{dimension}]"), report=report)
    assert ("different modules" in found.title) is theirs


@pytest.mark.parametrize(
    ("source", "code", "kept"),
    [
        ("net.hidden", "def forward(net, x):", "model.hidden = model.hidden.detach()"),
        ("self._buffers['state']", None, "model.state = model.state.detach()"),
        ("x", "def forward(net, x):", "x.detach()"),
        ("batch.x", "def forward(net, batch):", "batch.x.detach()"),
    ],
)
def test_a_result_that_a_module_keeps_loses_its_gradient_between_calls(
    source: str, code: str | None, kept: str
) -> None:
    place = at(10, "Net.forward", code)
    said = advice("requires_grad", source, "0", "1", location=place)
    assert f"`{kept}`" in said.action and ("pass" in said.action) == ("model" not in kept)


def test_a_state_that_calls_leave_with_other_dimensions_is_put_back() -> None:
    source = "self._modules['cell']._buffers['mem']"
    also = [failed_too(source, "rank", "1", "4"), failed_too("self._buffers['other']", "rank", "1", "2")]
    said = advice("requires_grad", source, "0", "1", also=also).action
    assert "`model.cell.mem` and `model.other`" in said and "put them back" in said


@pytest.mark.parametrize(
    ("cause", "also", "expected", "then"),
    [
        ("tensor_type", "x.size()[0]", "64", "`x.size(0)` changed too, which compiles anew by itself: compile with"),
        ("shape", "self.config.kind", "None", "`self.config.kind` changed too, which compiles anew by itself: set it"),
        ("requires_grad", "self._parameters['w'].size()[0]", "64", ""),
    ],
)
def test_what_changed_beside_is_told_with_what_spares_it(cause: Any, also: str, expected: str, then: str) -> None:
    """Else who follows the advice finds as many recompiles as before."""
    beside = failed_too(
        also, *("module_attribute", expected, "'b'") if expected == "None" else ("shape", expected, "3")
    )
    (finding,) = findings(recompile("r1", "0/1", cause=cause, source="x", expected="a", actual="b", also=[beside]))
    assert then in finding.advice and (then != "") == ("changed too" in finding.advice)


def test_a_guard_that_raised_is_told_by_what_the_code_reads() -> None:
    said = advice("other", None, guard="'NoneType' object has no attribute 'size'").action
    assert "`.size`" in said and "`None`" in said


@pytest.mark.parametrize(
    ("first", "then", "casts"),
    [("Bool", "Float", False), ("Bool", "Long", False), ("Int", "Long", True), ("BFloat16", "Float", True)],
)
def test_a_mask_is_not_cast_to_the_dtype_of_values(first: str, then: str, casts: bool) -> None:
    assert ("`tensor.to(" in advice("dtype", "tensor", first, then).action) is casts


def test_what_an_input_is_a_view_of_is_not_named_beside_it() -> None:
    sizes = [
        recompile("r1", "0/1", cause="shape", source=source, expected="4", actual="6", change="c1", location=at(1, "f"))
        for source in ("x.size()[0]", "x._base.size()[1]")
    ]
    said = advise(series_of(*sizes)).action
    assert "(x, 0)" in said and "_base" not in said


def test_another_number_of_dimensions_that_comes_with_an_optional_argument_is_another_program() -> None:
    came = FailedGuard(
        "0/0", "value", source="cu_seqlens", guard="cu_seqlens is None", expected="None", actual="Tensor object"
    )
    told, plain = (advice("rank", "ids", "2", "1", also=also) for also in ([came], []))
    assert "`cu_seqlens`" in told.action and "unsqueeze" not in told.action and "unsqueeze" in plain.action


@pytest.mark.parametrize("held", ["._buffers['cos']", ".__dict__['_buffers']['cos']"])
def test_a_buffer_has_one_name_however_torch_reaches_it(held: str) -> None:
    assert as_written(f"self._modules['rope']{held}.size()[0]") == "self.rope.cos.size(0)"
    assert as_written("x['_buffers']['a']") == "x['_buffers']['a']"


def test_attributes_that_were_one_object_need_not_be_tensors() -> None:
    held, given = (advice("aliasing", source, "one tensor", "different") for source in ("self.a, self.b", "a, b"))
    assert "objects" in held.action and held.example is None and given.example is not None


@pytest.mark.parametrize(("first", "then", "begins"), [("0", "1", True), ("1", "0", False)])
def test_a_first_input_without_a_gradient_may_get_one(first: str, then: str, begins: bool) -> None:
    """As the first stage of a solver, whose later stages get what it computed."""
    assert ("`y.requires_grad_()`" in advice("requires_grad", "y", first, then).action) is begins
