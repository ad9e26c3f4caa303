"""What becomes of advice once its settings were tried: records written by hand."""

from __future__ import annotations

import msgspec
import pytest

from dynalyze.bench.workers import Stopped, WorkerFailed
from dynalyze.facts.compiled_calls import CompiledCalls
from dynalyze.render.text.report import tried_words
from dynalyze.report import GraphBreak, Location, Recompile, Report
from dynalyze.rules.rule import judge
from dynalyze.rules.settings import ALL_SIZES, as_python
from dynalyze.trials.explain import Advised, candidates, tried, try_all
from dynalyze.trials.records import SettingTrial, SettingTrials
from dynalyze.trials.settings import trials_of
from sample_reports import graph_break, recompile, rich_report

SCALARS = "torch._dynamo.config.capture_scalar_outputs = True"
READS = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
HERE, NEXT = Location("/model.py", 9, 4, "forward"), Location("/model.py", 12, 4, "forward")


def reads(where: Location = HERE, name: str = "b1") -> GraphBreak:
    return graph_break(name, "split", where, gb_type=READS, expression="x.item()")


def sized(number: int, **changes: object) -> Recompile:
    known = {"cause": "shape", "source": "L['x'].size()[0]", "expected": "4", "actual": str(4 + number)}
    return recompile(f"r{number}", f"0/{number}", **{**known, **changes})


def program(*facts: GraphBreak | Recompile) -> Report:
    report = rich_report()
    report.graph_breaks = [each for each in facts if isinstance(each, GraphBreak)]
    report.recompiles = [each for each in facts if isinstance(each, Recompile)]
    return report


def compiled(*facts: GraphBreak | Recompile) -> CompiledCalls:
    report = program(*facts)
    return CompiledCalls(report.graph_breaks, report.recompiles)


def test_settings_are_taken_from_the_advice_and_dynamic_where_it_says_so() -> None:
    report = program(reads(), sized(1), sized(2))
    found = {tuple(each.settings): set(each.against) for each in candidates(report, judge(report))}
    assert found[("capture_scalar_outputs",)] == {"b1"}
    assert found[tuple(ALL_SIZES)] == {"r1", "r2"}


@pytest.mark.parametrize(
    ("after", "ended", "new"),
    [
        (compiled(), ["b1"], []),
        (compiled(reads()), [], []),
        (compiled(reads(NEXT)), ["b1"], [NEXT.line]),
    ],
)
def test_a_break_is_gone_where_its_line_breaks_no_more(after: CompiledCalls, ended: list[str], new: list[int]) -> None:
    trial = tried(program(reads()), {"capture_scalar_outputs": True}, ["b1"], compiled(reads()), after)
    assert (trial.ended, [each.line for each in trial.new]) == (ended, new)


def test_a_recompile_for_another_reason_in_the_place_of_one_ends_nothing() -> None:
    report, before = program(sized(1), sized(2)), compiled(sized(1), sized(2))
    other = compiled(sized(1, cause="symbolic"), sized(2, cause="symbolic"))
    assert tried(report, ALL_SIZES, ["r1", "r2"], before, other).ended == []
    assert (instead := tried(report, ALL_SIZES, ["r1", "r2"], before, other).instead) and instead.cause == "symbolic"
    assert tried(report, ALL_SIZES, ["r1", "r2"], before, before).instead is None
    of_cache = compiled(
        sized(1, cause="container", source="G['cache']"), sized(2, cause="container", source="G['cache']")
    )
    assert tried(report, ALL_SIZES, ["r1", "r2"], before, of_cache).instead is None
    fewer = compiled(sized(1, cause="symbolic"))
    assert len(tried(report, ALL_SIZES, ["r1", "r2"], before, fewer).ended) == 1


def test_what_a_setting_leaves_is_told_where_none_ends_all_and_dynamic_is_not_advised_in_vain() -> None:
    report, before = program(sized(1), sized(2)), compiled(sized(1), sized(2))
    offset = sized(1, cause="symbolic", source="L['x'].storage_offset()", guard="2 <= L['x'].storage_offset()")
    other = compiled(offset, sized(2, cause="symbolic"))
    in_vain = tried(report, ALL_SIZES, ["r1", "r2"], before, other)
    sources: dict[str, object] = {"torch.compiler.config.dynamic_sources": "L['x']"}
    for setting, told in ((tried(report, sources, ["r1", "r2"], before, compiled()), False), (None, True)):
        setattr(report, "trials", SettingTrials(tried=[in_vain, *([setting] if setting else [])]))  # noqa: B010
        finding = next(each for each in judge(report) if each.rule == "recompile")
        assert "dynamic=True" not in finding.advice
        assert ("clone()" in finding.advice) == told


def test_a_higher_limit_ends_the_limit_though_more_is_compiled() -> None:
    limit = sized(2, cause="limit")
    report, before, setting = program(sized(1), limit), compiled(sized(1), limit), {"recompile_limit": 16}
    assert tried(report, setting, ["r1", "r2"], before, compiled(sized(1), sized(2), sized(3))).ended == ["r2"]
    still = compiled(sized(1), sized(2), sized(3, cause="limit"))
    assert tried(report, setting, ["r1", "r2"], before, still).ended == []


def test_a_setting_in_torchs_own_words_is_tried_and_goes_where_it_fails() -> None:
    hint = f"Enable `{SCALARS}`."
    report = program(graph_break("b1", "split", HERE, gb_type="Never seen", hints=[hint, "Or move it out."]))
    (found,) = candidates(report, judge(report))
    assert (found.settings, found.against) == ({"capture_scalar_outputs": True}, ["b1"])
    raised = with_trials(report, SettingTrial(SCALARS, ["b1"], problem="TorchRuntimeError: no"))
    advice = next(each.advice for each in judge(raised) if "b1" in each.evidence)
    assert SCALARS not in advice and "Or move it out." in advice


def test_dynamic_true_is_not_advised_where_it_ends_nothing() -> None:
    def advice(report: Report) -> str:
        return next(each.advice for each in judge(report) if each.rule == "recompile")

    mark = sized(1, location=HERE, source="x.size()[0]")
    assert "dynamic=True" in advice(program(mark))
    failed = advice(with_trials(program(mark), SettingTrial(as_python(ALL_SIZES), ["r1"])))
    assert "dynamic=True" not in failed and "maybe_mark_dynamic(x, 0)" in failed


def test_a_higher_limit_is_tried_against_reaching_the_limit_alone() -> None:
    length = {"cause": "value", "source": "n", "change": "c1"}
    several = [sized(n, **length, expected=str(2**n), actual=str(2 ** (n + 1))) for n in range(1, 8)]
    report = program(*several, sized(8, **{**length, "cause": "limit"}))
    found = {next(iter(each.settings)): each.against for each in candidates(report, judge(report))}
    assert found["recompile_limit"] == ["r8"]


def test_what_raises_ends_nothing() -> None:
    assert tried(program(reads()), {}, ["b1"], compiled(reads()), compiled(), "ValueError: no").ended == []


def test_a_setting_that_torch_lacks_costs_no_other_its_trial() -> None:
    found, report = SettingTrials(), program(reads())

    def compiles(settings: dict[str, object], *, traced: bool = True) -> tuple[CompiledCalls, str]:
        if "unknown" in settings:
            raise WorkerFailed("internal", "torch has no such setting")
        return compiled(*([] if settings else [reads()])), ""

    try_all(
        report, [Advised({"unknown": 1}, ["b1"]), Advised({"capture_scalar_outputs": True}, ["b1"])], found, compiles
    )
    assert [each.ended for each in found.tried] == [["b1"]]


def test_calls_that_compile_again_less_often_meet_that_many() -> None:
    found, several = SettingTrials(), [sized(1), sized(2), sized(3)]
    advised = [Advised(ALL_SIZES, ["r1", "r2", "r3"])]
    try_all(
        program(*several), advised, found,
        lambda settings, *, traced=True: (compiled(*([] if settings else [sized(1)])), ""),
    )  # fmt: skip
    (trial,) = found.tried
    assert len(trial.against) == len(trial.ended) == 1


def test_nothing_is_told_of_settings_where_the_calls_raise_without_any() -> None:
    found = SettingTrials()
    why = try_all(
        program(reads()), [Advised({"a": 1}, ["b1"])], found, lambda *_: (compiled(reads()), "ValueError: no")
    )
    assert "ValueError: no" in why and found.tried == [] and found.together is None


@pytest.mark.parametrize(
    ("refused", "compiles"),
    [([], ["capture_scalar_outputs", "other"]), (["other"], ["capture_scalar_outputs"]), (["out of time"], [])],
)
def test_what_helps_is_compiled_and_only_what_the_backend_refuses_is_told_as_that(
    refused: list[str], compiles: list[str]
) -> None:
    found, report = SettingTrials(), program(reads(), reads(NEXT, "b2"))

    def backend(settings: dict[str, object], *, traced: bool = True) -> tuple[CompiledCalls, str]:
        left = [reads()] * ("capture_scalar_outputs" not in settings) + [reads(NEXT, "b2")] * ("other" not in settings)
        if not traced and "out of time" in refused:
            raise Stopped("out_of_time")
        return compiled(*left), "" if traced or set(refused).isdisjoint(settings) else "InductorError: no"

    advised = [Advised({name: True}, [key]) for name, key in (("capture_scalar_outputs", "b1"), ("other", "b2"))]
    assert try_all(report, advised, found, backend) == ""
    names = {each.setting.rpartition(".")[2].partition(" ")[0]: each for each in found.tried}
    assert [name for name, each in names.items() if each.compiled] == compiles
    assert [name for name, each in names.items() if each.problem and not each.ended] == (refused if compiles else [])
    assert (found.together is None) == (len(compiles) == 1)


def test_calls_that_the_backend_refuses_as_they_are_tell_nothing_of_a_setting() -> None:
    found = SettingTrials()

    def backend(settings: dict[str, object], *, traced: bool = True) -> tuple[CompiledCalls, str]:
        return compiled(*([] if settings else [reads()])), "" if traced else "InductorError: no"

    try_all(program(reads()), [Advised({"capture_scalar_outputs": True}, ["b1"])], found, backend)
    (trial,) = found.tried
    assert (trial.ended, trial.problem, trial.compiled) == (["b1"], "", False)


def with_trials(report: Report, *trials: SettingTrial) -> Report:
    setattr(report, "trials", SettingTrials(7, 1, 0, list(trials)))  # noqa: B010  a field of a feature
    return msgspec.json.decode(msgspec.json.encode(report), type=Report)


@pytest.mark.parametrize(
    ("trial", "stays"),
    [
        (SettingTrial(SCALARS, ["b1"], ["b1"]), True),
        (SettingTrial(SCALARS, ["b1"], []), False),
        (SettingTrial(SCALARS, ["b1"], problem="ValueError: no"), False),
        (SettingTrial(SCALARS, ["b7"], []), True),  # Of another finding.
    ],
)
def test_a_setting_that_was_tried_in_vain_is_not_advised(trial: SettingTrial, stays: bool) -> None:
    findings = [each for each in judge(with_trials(program(reads()), trial)) if "b1" in each.evidence]
    assert any(each.detail is not None and each.detail.config == SCALARS for each in findings) == stays


def test_of_several_settings_only_that_which_fails_goes() -> None:
    length = {"cause": "value", "source": "n", "change": "c1"}
    several = [sized(n, **length, expected=str(2**n), actual=str(2 ** (n + 1))) for n in range(1, 8)]
    report = program(*several, sized(8, **{**length, "cause": "limit"}))
    cause, limit = (
        'torch.compiler.config.dynamic_sources = "L[\'n\']"', "torch._dynamo.config.recompile_limit = 16",
    )  # fmt: skip
    (whole,) = [each.detail.config for each in judge(report) if each.rule == "recompile-limit" and each.detail]
    assert whole == f"{cause}\n{limit}"
    tried_both = with_trials(report, SettingTrial(cause, ["r1"], []), SettingTrial(limit, ["r8"], ["r8"]))
    (left,) = [each.detail.config for each in judge(tried_both) if each.rule == "recompile-limit" and each.detail]
    assert left == limit


def test_what_came_of_a_trial_stands_beside_the_finding_that_names_the_setting() -> None:
    report = with_trials(program(reads()), SettingTrial(SCALARS, ["b1"], ["b1"], new=[NEXT]))
    said = {each.rule: tried_words(report, each) for each in judge(report) if "b1" in each.evidence}
    assert "7 recorded calls" in said["graph-break"] and f":{NEXT.line}" in said["graph-break"]
    more = with_trials(program(reads()), SettingTrial(SCALARS, ["b1"], ["b1"], recompiles=9))
    (broken,) = [each for each in judge(more) if each.rule == "graph-break"]
    assert "9 recompiles" in tried_words(more, broken)
    assert tried_words(program(reads()), broken) == ""
    compiled_too = SettingTrial(SCALARS, ["b1"], ["b1"], compiled=True)
    assert "without the compiler" in tried_words(more, broken) and "fails" not in tried_words(more, broken)
    trials_of(more).together = SettingTrial(SCALARS, ["b1"], problem="InductorError: no")  # type: ignore[union-attr]
    assert "fails with all of the settings" in tried_words(more, broken)
    assert "without the compiler" not in tried_words(with_trials(program(reads()), compiled_too), broken)
