"""What a short benchmark adds to the notes of a report that has told of its model already."""

from __future__ import annotations

from dynalyze.bench.measure import _news
from dynalyze.report import TargetModel
from sample_reports import empty_report

NOTES = ["LlamaModel (llama) with 12 parameters; its inputs: none.", "A pass is forward and backward."]


def test_the_model_is_told_of_once() -> None:
    report = empty_report()
    assert _news(NOTES, report) == NOTES
    report.target.model = TargetModel("LlamaModel", "llama", 12)
    assert _news(NOTES, report) == NOTES[1:]
