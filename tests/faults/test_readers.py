"""Faults in what is read: logs of torch, saved reports, and the other files that a command takes.

One row a fault: what is planted in a good input, and what must come out. A log keeps its other facts and is written as
a report that reads the same again; what is no document of ours is one line and exit 2. Nothing ends in a traceback.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dynalyze.capture.events import Metrics, TracedSeen
from dynalyze.cli.group import run
from dynalyze.facts.source_files import traced_files
from dynalyze.facts.stacks import Places
from dynalyze.files import read_write
from dynalyze.report.document import from_json, to_json
from records import run_of
from sample_reports import measured_report, rich_report

ID = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
STACK = [{"line": 9, "name": "<module>", "filename": 0, "loc": "f(x)"}, {"line": 3, "name": "f", "filename": 0}]
METRICS = {"co_name": "f", "has_guarded_code": True, "duration_us": 2_000_000, "graph_op_count": 4}
OUTPUTS = ("html", "markdown", "sarif", "junit", "chrome-trace", "graphml", "bug-report")
HUGE = 10**400


def record(metadata: Any, text: str | None = None, prefix: str = "V1121 04:39:01.535000 4711") -> str:
    metadata = metadata if isinstance(metadata, str) else json.dumps(metadata)
    below = [] if text is None else text.split("\n")
    return f"{prefix} torch/_dynamo/utils.py:2350] {metadata}\n" + "".join(f"\t{line}\n" for line in below)


def artifact(name: str, text: str) -> str:
    return record({"artifact": {"name": name}, **ID}, text)


def log(
    start: dict[str, Any] | None = None, metrics: dict[str, Any] | None = None, more: str = "", file: str = "/job/m.py"
) -> str:
    """A log of one compile of `f`, two seconds long, with four operations."""
    return (
        record({"str": [file, 0]})
        + record({"dynamo_start": {"stack": STACK}, **ID, **(start or {})})
        + more
        + record({"compilation_metrics": {**METRICS, **(metrics or {})}, **ID})
    )


@dataclass(frozen=True)
class Log:
    """A damaged log. `kept`: the compile is told with its time; `unreadable`: how many lines are said to be."""

    id: str
    text: str
    unreadable: int
    seconds: float | None = 2.0
    compilations: int = 1


LOGS = [
    Log("whole", log(), 0),
    Log("cache count is text", log(metrics={"inductor_fx_remote_cache_hit_count": "x"}), 1),
    Log("cache count is a list", log(metrics={"aotautograd_local_cache_miss_count": [1]}), 1),
    Log("cache count below zero", log(metrics={"inductor_fx_local_cache_hit_count": -1}), 1),
    Log("count of four hundred digits", log(metrics={"guard_count": HUGE}), 1),
    Log("time is text", log(metrics={"duration_us": "soon"}), 1, None),
    Log("time is true", log(metrics={"duration_us": True}), 1, None),
    Log("time overflows", log(metrics={"duration_us": 1.7e308}), 1, None),
    Log("older time overflows", log(metrics={"duration_us": None, "entire_frame_compile_time_s": 1.7e308}), 1, None),
    Log("time below zero", log(metrics={"duration_us": -5}), 1, None),
    Log("start overflows", log(metrics={"start_time_us": 1e300}), 1),
    Log("failure is a dict", log(metrics={"fail_type": {"a": 1}}), 1),
    Log("metrics are a list", log().replace('{"compilation_metrics": {', '{"compilation_metrics": [], "x": {'), 1,
        None),
    Log("time is NaN", log(metrics={"duration_us": float("nan")}), 1, None),
    Log("time is Infinity", log(metrics={"duration_us": float("inf")}), 1, None),
    Log("rank is true", log(start={"rank": True}), 1),
    Log("rank is text", log(start={"rank": "0"}), 1),
    Log("rank below zero", log(start={"rank": -1}), 0),
    Log("rank of four hundred digits", log(start={"rank": HUGE}), 1),
    Log("attempt is a list", log(start={"attempt": [1]}), 1),
    Log("line is text", log(start={"dynamo_start": {"stack": [{"line": "x", "name": "f", "filename": 0}]}}), 1),
    Log("line of four hundred digits", log(start={"dynamo_start": {"stack": [{"line": HUGE, "filename": 0}]}}), 1),
    Log("stack is text", log(start={"dynamo_start": {"stack": "x"}}), 1, compilations=0),
    Log("name is a number", log(start={"dynamo_start": {"stack": [{"line": 1, "name": 5, "filename": 0}]}}), 1),
    Log("file is half a character", log(file="/job/\ud800.py"), 0),
    Log("file of ten megabytes", log(file="/job/" + "x" * (10 << 20)), 1),
    Log("record nested deep", log(more=record('{"dynamo_start": ' + "[" * 5000)), 1),
    Log("version is half a character", log(more=artifact("torch_version", '{"pytorch_version": "\\ud800"}')), 0),
    Log("version is a number", log(more=artifact("torch_version", '{"pytorch_version": 2.8}')), 0),
    Log("version is no JSON", log(more=artifact("torch_version", "{")), 1),
    Log("bypass is half a character", log(more=artifact("fx_graph_cache_bypass",
        '{"cache_bypass_reason": "\\udfff"}')), 0),
    Log("bypass is a list", log(more=artifact("fx_graph_cache_bypass", "[1]")), 0),
    Log("reasons nested deep", log(more=artifact("recompile_reasons", "[" * 9000)), 0),
    Log("reasons are numbers", log(more=artifact("recompile_reasons", "[1, null]")), 0),
    Log("a day that never was", log(more=record({**ID, "dynamo_guards": {}}, prefix="V9999 99:99:99.9 1")), 0),
    Log("a reason of a control sequence", log(more=artifact("recompile_reasons", "\x1b]0;x\x07")), 0),
]  # fmt: skip


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command in an empty folder; returns its exit status and the lines of standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, list[str]]:
        status = run(list(words))
        said = capsys.readouterr().err.splitlines()
        assert not any("fault of dynalyze" in line or "memory ran out" in line for line in said), said
        return status, said

    return call


def every_output(stem: str) -> list[str]:
    return ["--json", f"{stem}.json", *(word for name in OUTPUTS for word in (f"--{name}", f"{stem}.{name}"))]


@pytest.mark.parametrize("row", LOGS, ids=lambda row: row.id)
def test_a_damaged_log(command: Callable[..., Any], row: Log) -> None:
    Path("x.log").write_text(row.text)
    assert command("report", "x.log", "--json", "first.json") == (0, [])
    report = from_json(Path("first.json").read_bytes())
    assert report.capture.unreadable_lines == row.unreadable
    assert len(report.compilations) == row.compilations
    assert [each.seconds.get("total") for each in report.compilations] == [row.seconds] * row.compilations


def test_every_output_shows_damaged_logs(command: Callable[..., Any]) -> None:
    """Those of each damage, in one log: what each of them leaves in a report is in this one."""
    Path("x.log").write_text("".join(row.text for row in LOGS))
    assert command("report", "x.log", *every_output("first")) == (0, [])
    assert command("report", "first.json", "--json", "again.json") == (0, [])
    assert Path("first.json").read_bytes() == Path("again.json").read_bytes()
    assert command("diff", "first.json", "again.json", "--fail-on", "regression")[0] == 0
    report = from_json(Path("first.json").read_bytes())
    assert len(report.compilations) == sum(row.compilations for row in LOGS)
    assert report.capture.unreadable_lines == sum(row.unreadable for row in LOGS)


def test_every_measure_of_a_log_may_be_anything(command: Callable[..., Any]) -> None:
    values = ["x", True, [], {}, 1e308, -1, HUGE, "\ud800", 0.5]
    lines = [log(metrics={name: value}) for name in sorted(Metrics.__annotations__) for value in values]
    Path("x.log").write_text("".join(lines))
    assert command("report", "x.log", "--json", "x.json", "--html", "x.html")[0] == 0
    assert len(from_json(Path("x.json").read_bytes()).compilations) == len(lines)


def planted(change: Callable[[dict[str, Any]], Any], base: Callable[[], Any] = rich_report) -> bytes:
    document = json.loads(to_json(base()))
    change(document)
    return json.dumps(document).encode()


REPORTS: dict[str, tuple[bytes, str]] = {
    "seconds of 1e308": (planted(lambda d: d["compilations"][0]["seconds"].update(total=1e308)), "compilations"),
    "began of 1e308": (planted(lambda d: d["compilations"][0].update(began=1e308)), "began"),
    "a sample of 1e308": (planted(lambda d: d["measurements"][1]["samples"][0]["eager"].append(1e308),
        measured_report), "samples"),
    "an interval of 1e308": (planted(lambda d: d["measurements"][1]["speedup"]["ratio"].update(value=1e308),
        measured_report), "ratio"),
    "a share of -1e308": (planted(lambda d: d["candidates"][0].update(share=-1e308)), "share"),
    "a line of thirty digits": (planted(lambda d: d["graph_breaks"][0]["location"].update(line=10**30)), "line"),
    "a count of four hundred digits": (planted(lambda d: d["graph_breaks"][0].update(occurrences=HUGE)), "occurrences"),
    "a cache count of 1e308": (planted(lambda d: d["compilations"][0]["cache"].update(x=1e308)), "cache"),
    "rank is true": (planted(lambda d: d["processes"][0].update(rank=True)), "rank"),
    "seconds are text": (planted(lambda d: d["compilations"][0]["seconds"].update(total="1")), "seconds"),
    "seconds are NaN": (planted(lambda d: d["compilations"][0]["seconds"].update(total=float("nan"))), "malformed"),
    "breaks are a dict": (planted(lambda d: d.update(graph_breaks={})), "graph_breaks"),
    "a status of another word": (planted(lambda d: d["outcome"].update(status="exploded")), "status"),
    "settings nested deep": (planted(lambda d: d["settings"].update(x=json.loads("[" * 400 + "]" * 400))),
        "nested too deep"),
    "nested past any stack": (b'{"schema_version": 1, "settings": ' + b"[" * 200_000, "nested too deep"),
    "not UTF-8": (planted(lambda d: None).replace(b"forward", b"for\xffward", 1), "utf-8"),
    "more values than any report": (planted(lambda d: d.update(command=[""] * 2_100_000)), "values"),
    "another schema": (b'{"schema_version": 2}', "schema_version"),
    "schema is a text": (b'{"schema_version": "1"}', "schema_version"),
    "nothing": (b"", "truncated"),
    "a number": (b"1e308", "object"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_no_report_is_refused_with_its_place(command: Callable[..., Any], name: str) -> None:
    data, place = REPORTS[name]
    Path("r.json").write_bytes(data)
    Path("good.json").write_text(to_json(rich_report()))
    for words in (
        ["report", "r.json", "--html", "x.html"],
        ["diff", "r.json", "good.json"],
        ["diff", "good.json", "r.json"],
    ):
        status, said = command(*words)
        assert (status, len(said)) == (2, 1)
        assert "r.json" in said[0]
        assert place in said[0]
    assert not Path("x.html").exists()


def times(document: dict[str, Any]) -> None:
    for each in document["compilations"]:
        each["seconds"].update(total=1e99)


# What stands at different places of a report is planted together.
ODD: tuple[Callable[[dict[str, Any]], Any], ...] = (
    lambda d: d["settings"].update(x=1.7e308, y=HUGE),
    lambda d: d.update(created="0000-99-99T99:99:99Z", weather={"sunny": [1, 2]}),
    lambda d: d["graphs"][0]["inputs"][0].update(bytes=-5, shape=[-1, -2]),
    lambda d: d["graph_breaks"][0]["location"].update(line=-3, column=-7, end_column=-9),
    times,
    lambda d: [each.update(histogram={"a": 0}) for each in d["graphs"]],
    lambda d: d["graph_breaks"][0].update(explanation="\ud800, \udfff and a\x00b"),
)
SHOWN: dict[str, Callable[[dict[str, Any]], Any]] = {
    "odd at every place": lambda d: [change(d) for change in ODD],
    "a text of two megabytes": lambda d: d["graph_breaks"][0].update(explanation="x" * (2 << 20)),
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_odd_report_is_shown(command: Callable[..., Any], name: str) -> None:
    Path("r.json").write_bytes(planted(SHOWN[name]))
    assert command("report", "r.json", *every_output("first"), "--fail-on", "none") == (0, [])
    assert command("report", "first.json", *every_output("again"), "--fail-on", "none") == (0, [])
    assert Path("first.html").read_bytes() == Path("again.html").read_bytes()


def plant_pipe(path: Path) -> None:
    os.mkfifo(path)


def plant_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path.name)


KINDS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pipe": (plant_pipe, "a pipe"),
    "socket": (plant_socket, "a socket"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "nothing": (lambda path: path.symlink_to("/dev/null"), "a device"),
    "folder": (Path.mkdir, "a directory"),
}
COMMANDS = {
    "report": ("report", "x"),
    "diff": ("diff", "x", "good.json"),
    "diff after": ("diff", "good.json", "x"),
    "sweep diff": ("diff", "x.jsonl", "x.jsonl"),
    "baseline": ("audit", "m.py", "--baseline", "x"),
    "policy": ("audit", "m.py", "--policy", "x"),
    "sweep": ("sweep", "x.toml"),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_said_and_not_waited_for(command: Callable[..., Any], kind: str, name: str) -> None:
    if kind == "folder" and name in ("report", "sweep"):
        pytest.skip("a folder is what these read")
    plant, words = KINDS[kind]
    Path("m.py").write_text("")
    Path("good.json").write_text(to_json(rich_report()))
    file = next(word for word in COMMANDS[name] if word.startswith("x"))
    plant(Path(file))
    status, said = command(*COMMANDS[name])
    assert (status, len(said)) == (2, 1), said
    if not (kind == "folder" and name == "sweep diff"):
        assert words in said[0]


def test_a_log_that_is_a_pipe(command: Callable[..., Any]) -> None:
    os.mkfifo("dedicated_log_torch_trace_x.log")
    status, said = command("report", "dedicated_log_torch_trace_x.log")
    assert (status, len(said)) == (2, 1)


def through_a_pipe(data: bytes) -> str:
    """What a shell's `<(...)` is: a pipe that somebody writes to, under the name of its descriptor."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as end:
            end.write(data)

    threading.Thread(target=write, daemon=True).start()
    return f"/dev/fd/{reading}"


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="no /dev/fd")
def test_reports_come_through_the_shells_pipes(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_write, "_piped", {})
    good = to_json(rich_report()).encode()
    assert command("report", through_a_pipe(good), "--html", "x.html", "--fail-on", "none") == (0, [])
    assert command("diff", through_a_pipe(good), through_a_pipe(good)) == (0, [])
    status, said = command("report", through_a_pipe(log().encode()))
    assert (status, len(said)) == (2, 1)
    assert "write it to a file" in said[0]


def test_a_file_larger_than_any_of_ours(command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_write, "LARGEST", 1000)
    Path("r.json").write_text(to_json(rich_report()))
    status, said = command("report", "r.json")
    assert (status, len(said)) == (2, 1)
    assert "larger than" in said[0]


def test_a_traced_file_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A program may compile code under any name."""
    os.mkfifo(tmp_path / "pipe")
    run_log = run_of(TracedSeen(functions=[(str(tmp_path / "pipe"), "f", 1), ("/dev/zero", "g", 1)]))
    assert [each.sha256 for each in traced_files(run_log, Places())] == ["", ""]


BASELINES = {
    "findings are text": b'{"findings": ["x"]}',
    "no findings": b"{}",
    "nested": b'{"findings": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    "another version": b'{"findings": [], "baseline_version": 9}',
    "a version of thirty digits": b'{"findings": [], "baseline_version": 1' + b"0" * 30 + b"}",
    "half a document": b'{"findings": [{"fingerprint": "x',
}


@pytest.mark.parametrize("name", BASELINES)
def test_what_is_no_baseline(command: Callable[..., Any], name: str) -> None:
    Path("m.py").write_text("")
    Path("known.json").write_bytes(BASELINES[name])
    status, said = command("audit", "m.py", "--baseline", "known.json")
    assert (status, len(said)) == (2, 1)
    assert "known.json" in said[0]


POLICIES = {
    "a count is true": "max-graph-breaks = true",
    "a count below zero": "max-recompiles = -1",
    "a speed of four hundred digits": f"min-speedup = {HUGE}",
    "a speed is infinite": "min-speedup = inf",
    "a speed is no number": "min-speedup = nan",
    "verdicts are a table": "accuracy = {a = 1}",
    "a waiver is text": 'ignore = ["x"]',
    "a waiver without a day": '[[ignore]]\nrule = "recompile"\nreason = "x"',
    "a day that never was": '[[ignore]]\nrule = "recompile"\nreason = "x"\nexpires = "2027-02-31"',
    "nested": "fail-on = " + "[" * 3000,
    "half a table": "[[ignore",
    "a control character": 'accuracy = "\x1b"',
}


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_no_policy(command: Callable[..., Any], name: str) -> None:
    Path("m.py").write_text("")
    Path("policy.toml").write_text(POLICIES[name])
    status, said = command("audit", "m.py", "--policy", "policy.toml")
    assert (status, len(said)) == (2, 1)
    assert "policy.toml" in said[0]
    Path("pyproject.toml").write_text(
        f"[tool.dynalyze.audit]\n{POLICIES[name].replace('[[', '[[tool.dynalyze.audit.')}"
    )
    status, said = command("audit", "m.py")
    assert (status, len(said)) == (2, 1)


def test_an_error_of_a_document_names_what_it_wants() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"compilations\[...\]\.began"):
        from_json(REPORTS["began of 1e308"][0])


LARGE = {
    "a line of 500 MB": (record('{"dynamo_start": {"stack": [')[:-1], b'{"line": 1},', 500),
    "1,000 MB of one record's text": (record({"dynamo_output_graph": {}, **ID}), b"\tx = 1\n", 1000),
    "1,000 MB of records": ("", log().encode(), 1000),
    "1,000 MB without a line's end": ("", b"\x00" * 1024, 1000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_a_huge_log_takes_less_than_a_gigabyte(tmp_path: Path, name: str) -> None:
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    start, piece, megabytes = LARGE[name]
    with path.open("wb") as file:
        file.write(start.encode())
        while file.tell() < megabytes * 10**6:
            file.write(piece * (1 + (1 << 20) // len(piece)))

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    words = [sys.executable, "-m", "dynalyze", "report", str(path), "--html", str(tmp_path / "x.html")]
    done = subprocess.run(words, preexec_fn=limit, capture_output=True, text=True, check=False)
    path.unlink()
    assert (done.returncode, done.stderr) == (0, "")
