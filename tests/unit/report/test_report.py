"""The report JSON: the contract's names, and reading back what was written."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest

from dynalyze.report import (
    SCHEMA_VERSION,
    Cause,
    CompilationStatus,
    Effect,
    Report,
    Severity,
    Status,
    TargetKind,
    printable,
)
from dynalyze.report.document import from_json, to_json
from records import filled_report, texts_of
from sample_measurements import accuracies, measurements
from sample_reports import clean_report, empty_report, hostile_report, measured_report, rich_report

LOCATION = {"file", "line", "column", "function", "code"}
# Every key that the contract names, where it names it.
CONTRACT: dict[str, set[str]] = {
    "": {
        "schema_version", "dynalyze", "created", "command", "environment", "target", "outcome", "processes",
        "compilations", "graph_breaks", "recompiles", "graphs", "kernels", "traced_files", "traced_hash", "accuracy",
        "policy", "measurements", "findings",
    },
    "target": {"kind", "spec", "arguments"},
    "outcome": {"status", "message", "exit_status", "seconds"},
    "processes": {"process", "pid", "rank", "command"},
    "compilations": {"compile_id", "process", "epoch", "location", "status", "seconds", "cache"},
    "compilations.location": LOCATION,
    "graph_breaks": {
        "id", "gb_id", "gb_type", "effect", "location", "stack", "explanation", "hints", "url", "occurrences",
        "compile_ids", "process", "epoch",
    },
    "graph_breaks.location": LOCATION,
    "graph_breaks.stack": LOCATION,
    "recompiles": {
        "id", "compile_id", "previous", "location", "cause", "source", "expected", "actual", "guard", "change",
        "seconds", "process", "epoch",
    },
    "recompiles.location": LOCATION,
    "graphs": {"id", "compile_id", "ops", "process", "epoch"},
    "traced_files": {"path", "sha256", "functions"},
    "traced_files.functions": {"name", "line"},
    "findings": {"rule", "severity", "title", "location", "evidence", "advice", "impact"},
    "findings.location": LOCATION,
    "findings.impact": {"ms_per_call", "share", "compile_seconds"},
}  # fmt: skip
REPORTS = [empty_report(), clean_report(), rich_report(), hostile_report(), measured_report(), filled_report("text")]


def at(document: Any, path: str) -> list[dict[str, Any]]:
    """The objects at a dotted path; a list stands for each of its items."""
    found = [document]
    for name in filter(None, path.split(".")):
        found = [item for each in found for item in (each[name] if isinstance(each[name], list) else [each[name]])]
    return found


@pytest.mark.parametrize("path", CONTRACT)
def test_the_contracts_keys_at_every_level(path: str) -> None:
    objects = at(json.loads(to_json(filled_report("text"))), path)
    assert objects
    for each in objects:
        assert CONTRACT[path] <= set(each)


def test_the_contracts_keys_are_there_though_nothing_was_recorded() -> None:
    document = json.loads(to_json(empty_report()))
    assert CONTRACT[""] <= set(document)
    assert all(document[name] == [] for name in ("graph_breaks", "recompiles", "graphs", "kernels", "measurements"))
    assert (document["policy"], document["traced_hash"], document["accuracy"]) == (None, "", [])


def test_the_schema_version_comes_first() -> None:
    assert next(iter(json.loads(to_json(clean_report())))) == "schema_version"
    assert json.loads(to_json(clean_report()))["schema_version"] == 1


def test_the_contracts_words() -> None:
    assert set(get_args(TargetKind)) == {"script", "object", "transformers", "library", "trace"}
    assert set(get_args(Status)) == {"complete", "failed", "timed_out", "interrupted", "nothing_compiled", "incomplete"}
    assert set(get_args(CompilationStatus)) == {"compiled", "broken", "eager", "failed"}
    assert set(get_args(Effect)) == {"split", "partly_eager", "eager", "error"}
    assert set(get_args(Severity)) == {"error", "warning", "info"}
    causes = (
        "shape rank stride dtype device requires_grad tensor_type value module_attribute identity container "
        "global_variable global_state symbolic aliasing dynamic_marking backend limit other"
    )
    assert " ".join(get_args(Cause)) == causes


@pytest.mark.parametrize("report", REPORTS, ids=["empty", "clean", "rich", "hostile", "measured", "filled"])
def test_what_was_written_is_read_back(report: Report) -> None:
    assert from_json(to_json(report)) == report
    assert from_json(to_json(report).encode()) == report
    assert to_json(from_json(to_json(report))) == to_json(report)


def test_unknown_fields_of_a_newer_report_are_ignored_at_every_level() -> None:
    def grown(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{key: grown(each) for key, each in value.items()}, "of_the_future": {"a": [1]}}
        return [grown(each) for each in value] if isinstance(value, list) else value

    report = rich_report()
    report.measurements, report.accuracy = measurements(), accuracies()
    report.environment = {}
    document = json.loads(to_json(report))
    free = {"environment", "settings"}  # Open objects: what is there is a fact.
    document = {**{k: v if k in free else grown(v) for k, v in document.items()}, "of_the_future": 1}
    for compilation in document["compilations"]:
        del compilation["cache"]["of_the_future"]
        for timed in (compilation, *compilation["backward"]):
            del timed["seconds"]["of_the_future"], timed["exclusive"]["of_the_future"]
    for graph in document["graphs"]:
        del graph["histogram"]["of_the_future"]
    for measured in document["measurements"]:
        startup = measured["startup"] or {}
        counted = [startup[name] for name in ("phases", "cache", "warm_cache") if name in startup]
        for each in (measured["options"], measured["throughput"], measured["shape"], *counted):
            del each["of_the_future"]
    for compared in document["accuracy"]:
        del compared["shape"]["of_the_future"]
    assert from_json(json.dumps(document)) == report


@pytest.mark.parametrize("version", [0, 2, 99, -1])
def test_another_schema_version_is_refused_by_its_number(version: int) -> None:
    document = {**json.loads(to_json(rich_report())), "schema_version": version}
    with pytest.raises(ValueError, match=f"schema_version is {version}, this dynalyze reads {SCHEMA_VERSION}"):
        from_json(json.dumps(document))


def test_the_version_is_judged_before_the_rest() -> None:
    """A report of schema 2 may look like anything."""
    with pytest.raises(ValueError, match="schema_version is 2"):
        from_json('{"schema_version": 2, "graph_breaks": "elsewhere"}')


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"report"',
        "{}",
        '{"schema_version": "1"}',
        '{"schema_version": 1}',
        '{"schema_version": 1.5}',
    ],
)
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        from_json(text)


def test_a_wrong_field_is_named_by_its_place() -> None:
    document = json.loads(to_json(rich_report()))
    document["graph_breaks"][2]["effect"] = "shattered"
    with pytest.raises(msgspec.ValidationError, match=r"graph_breaks\[2\]\.effect"):
        from_json(json.dumps(document))


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    data = to_json(empty_report()).encode().replace(b"model.py", b"mod\xffl.py", 1)
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        from_json(data)


def test_texts_in_any_alphabet_stay_as_they_are() -> None:
    text = "Größe 变量 🔥 \u2028 \x00 \u202e </script>"
    report = empty_report(message=text)
    written = to_json(report)
    assert from_json(written).outcome.message == text
    assert "变量 🔥" in written
    assert written.endswith("\n")


def test_an_undecodable_name_becomes_printable() -> None:
    assert printable("caf\udce9.py") == "caf?.py"
    assert printable("café.py") == "café.py"


def test_the_builder_of_these_tests_fills_every_text() -> None:
    """The canary tests of --no-source and --redact rest on it."""
    texts = texts_of(filled_report("CANARY"))
    assert sum("CANARY" in text for _, text in texts) > 70
    empty = {path for path, text in texts if not text}
    assert empty == set()
