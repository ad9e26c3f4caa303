"""Hooks that are registered on modules whose code is compiled already: which of them never run."""

from __future__ import annotations

from dynalyze.capture.events import HookSeen
from dynalyze.facts.compilations import compilations
from dynalyze.facts.late_hooks import late_hooks
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.rules.rule import judge
from records import MODEL, TORCH, Event, end, frame, run_of, start
from sample_reports import empty_report


def hook(
    line: int, number: int, compiles: tuple[str, ...] = ("0 0/0",), method: str = "register_forward_hook"
) -> HookSeen:
    return HookSeen(frame(line, "main"), method, "Linear", list(compiles), number)


def told(*events: Event) -> list[tuple[int, int]]:
    """Line and count of each."""
    run, sources = run_of(*events), Sources(readable=False)
    found = late_hooks(run, compilations(run, Places(TORCH), sources), sources)
    report = empty_report()
    report.late_hooks = found
    findings = [each for each in judge(report) if each.rule == "late-hook"]
    assert [each.location for each in findings] == [each.location for each in found]
    assert all(each.location.file == MODEL for each in found)
    return [(each.location.line, each.count) for each in found]


def test_what_is_compiled_afterwards_runs_it() -> None:
    whole = (start(), end(has_guarded_code=True))
    assert told(*whole, hook(5, 1), hook(9, 2), HookSeen(number=1, met=True)) == [(9, 1)]


def test_a_function_that_was_left_in_eager_runs_it() -> None:
    assert told(start(), end(has_guarded_code=False), hook(5, 1)) == []
    assert told(start(), end(has_guarded_code=True), hook(5, 1, ("0 7/0", "nonsense", "1 0/0"))) == []
