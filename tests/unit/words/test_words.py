"""The sentences that all renderers share."""

from __future__ import annotations

from typing import get_args

import pytest

from dynalyze.report import Candidate, Capture, Cause, CompilationStatus, Effect, Severity, Status
from dynalyze.words.report import (
    CAUSE_WORDS,
    COMPILATION_WORDS,
    EFFECTS,
    SEVERITY_WORDS,
    STATUS_WORDS,
    compile_seconds,
    count_of,
    duration,
    short_path,
    totals,
    trust_notes,
    verdict,
)
from sample_reports import clean_report, compilation, empty_report, graph_break, line_of, recompile, rich_report


def test_the_worst_effect_is_told_first() -> None:
    assert verdict(rich_report()) == (
        "6 graph breaks and 2 recompiles. "
        "Of the graph breaks 1 stops compilation under fullgraph, 1 sends its whole function to eager, "
        "1 sends the rest of its function to eager, 3 split a graph. Compiling again took 1.6 s, "
        "26 % of all compile time. "
        "The recompile limit was reached: later calls run in eager."
    )


def test_one_break_is_told_in_the_singular() -> None:
    report = clean_report()
    report.graph_breaks = [graph_break("b1", "partly_eager", line_of(43, 20, 44))]
    assert verdict(report) == (
        "1 graph break and no recompiles. The graph break sends the rest of its function to eager."
    )


def test_a_clean_run() -> None:
    assert verdict(clean_report()) == ("No graph breaks and no recompiles. Every compiled function is one whole graph.")


def test_frames_in_eager_spoil_a_clean_run() -> None:
    report = clean_report()
    report.compilations.append(compilation("2/0"))
    report.compilations[-1].status = "eager"
    assert verdict(report).startswith("No graph breaks and no recompiles, but of 3 frames 1 left in eager.")


@pytest.mark.parametrize("status", [status for status in get_args(Status) if status != "complete"])
def test_a_run_that_did_not_complete_never_sounds_clean(status: Status) -> None:
    for report in (empty_report(status), clean_report()):
        report.outcome.status = status
        assert not verdict(report).startswith("No graph breaks")
    assert "Nothing recompiled" not in verdict(empty_report(status))


def test_a_recompile_time_is_told_only_where_all_are_known() -> None:
    report = clean_report()
    report.recompiles = [recompile("r1", "0/1"), recompile("r2", "0/2", seconds=None)]
    assert verdict(report).startswith("No graph breaks and 2 recompiles. ")
    assert "Compiling again took" not in verdict(report)


def test_totals_keep_unknown_apart_from_zero() -> None:
    report = empty_report()
    assert totals(report).seconds is None
    report.compilations = [compilation("0/0")]
    report.compilations[0].seconds = {}
    assert totals(report).seconds is None
    assert totals(rich_report()).compiled == 5
    assert totals(rich_report()).limits == 1


def test_inclusive_phases_are_not_added_up() -> None:
    assert compile_seconds({"dynamo": 19.2, "inductor": 17.5}) == 19.2
    assert compile_seconds({"dynamo": 3.0, "total": 2.0}) == 2.0
    assert compile_seconds({}) is None


def test_a_plain_recording_needs_no_note_and_a_lossy_one_has_them() -> None:
    report = clean_report()
    assert trust_notes(report) == []
    report.capture = Capture(unreadable_lines=1, listener_errors=["x"], mode="in_place", recorded_calls=1, notes=["N."])
    report.candidates = [Candidate("module", "net", "Net", compiled=True), Candidate("module", "loss", "L1Loss")]
    joined = " ".join(trust_notes(report))
    for part in ("its 1 call of net ran compiled", "1 line of the recording", "1 error", "N."):
        assert part in joined


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0004, "0.4 ms"),
        (0.035, "35 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (0.996, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_and_paths() -> None:
    assert [count_of(number, "break") for number in (0, 1, 1200)] == ["0 breaks", "1 break", "1,200 breaks"]
    assert count_of(2, "process", "processes") == "2 processes"
    assert short_path("/opt/lib/site-packages/transformers/cache.py") == "transformers/cache.py"
    assert short_path("/home/ada/work/ranker/model.py") == "…/work/ranker/model.py"
    assert short_path("model.py") == "model.py"


def test_every_word_of_the_report_has_words() -> None:
    for words, values in (
        (CAUSE_WORDS, Cause),
        (STATUS_WORDS, Status),
        (COMPILATION_WORDS, CompilationStatus),
        (SEVERITY_WORDS, Severity),
        (EFFECTS, Effect),
    ):
        texts = [words[value] for value in get_args(values)]  # type: ignore[index]
        assert all(texts)
        assert len(set(texts)) == len(texts)
