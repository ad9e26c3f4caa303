"""`dynalyze report` on logs of torch: the real program on logs that torch really wrote, whole, damaged and hostile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, dynalyze

LOGS = Path(__file__).resolve().parents[1] / "data" / "logs"
SERVE = LOGS / "serve" / "dedicated_log_torch_trace_recorded.log"
RANKS = LOGS / "ranks"
CANARY = "the canary sings"

Facts = dict[str, Any]


def report(source: Path, tmp_path: Path, *options: str) -> Facts:
    ended = dynalyze("report", source, "--json", tmp_path / "r.json", *options, cwd=tmp_path)
    assert ended.status == 0, ended.stderr
    assert ended.stderr == ""
    facts: Facts = json.loads((tmp_path / "r.json").read_text())
    return facts


def line_with(program: Path, code: str) -> int:
    return next(number for number, line in enumerate(program.read_text().splitlines(), 1) if code in line)


def places(facts: list[Facts]) -> list[tuple[str, int]]:
    return [(fact["location"]["file"], fact["location"]["line"]) for fact in facts]


def test_a_log_tells_what_the_program_did(tmp_path: Path) -> None:
    found = report(SERVE, tmp_path)
    program = LOGS / "serve" / "program.py"
    assert places(found["graph_breaks"]) == [
        ("/job/program.py", line_with(program, 'print("scored")')),
        ("/job/program.py", line_with(program, "print(name)")),
    ]
    assert [(each["gb_id"], each["effect"]) for each in found["graph_breaks"]] == [
        ("GB0059", "split"), ("GB0059", "eager"),
    ]  # fmt: skip
    assert [each["location"]["code"] for each in found["graph_breaks"]] == ['print("scored")', "print(name)"]
    assert {(each["source"], each["expected"], each["actual"]) for each in found["recompiles"]} >= {
        ("x.size()[0]", "2", "3")
    }
    assert found["target"] == {"kind": "trace", "spec": str(SERVE), "arguments": [], "model": None}
    assert (found["outcome"]["status"], found["outcome"]["exit_status"]) == ("complete", None)
    assert "TORCH_TRACE" in found["outcome"]["message"]
    assert found["environment"]["torch"].startswith("2.13")
    assert found["capture"]["unreadable_lines"] == 0
    assert {each["status"] for each in found["compilations"]} == {"broken", "compiled", "eager"}
    assert all(each["seconds"]["total"] > 0 for each in found["compilations"] if each["status"] == "compiled")


def test_graphs_and_kernels_are_read_from_a_log(tmp_path: Path) -> None:
    found = report(SERVE, tmp_path)
    first = found["graphs"][0]
    assert [stage["ops"] for stage in first["stages"] if stage["stage"] == "dynamo"] == [1]  # The linear layer.
    relu = [kernel for kernel in found["kernels"] if kernel["kind"] == "cpp" and "aten.relu" in kernel["ops"]]
    assert relu


def test_ranks_are_one_page_and_told_apart(tmp_path: Path) -> None:
    found = report(RANKS, tmp_path, "--html", str(tmp_path / "page.html"))
    assert [(each["process"], each["rank"]) for each in found["processes"]] == [(0, 0), (1, 1)]
    program = RANKS / "program.py"
    (difference,) = [each for each in found["findings"] if each["rule"] == "rank-divergence"]
    assert places([difference]) == [("/job/program.py", line_with(program, "@torch.compile"))]
    assert difference["title"] == "Ranks differ in step: compilations: 1 on rank 0; 2 on rank 1"
    assert "Graph breaks: 0 on rank 0; 1 on rank 1." in difference["advice"]
    assert [each["processes"] for each in found["graph_breaks"]] == [[1]]
    page = (tmp_path / "page.html").read_text()
    assert "Ranks differ in step" in page


def test_logs_one_folder_below_are_found_and_other_files_left_alone(tmp_path: Path) -> None:
    for number, log in enumerate(sorted(RANKS.glob("*.log"))):
        folder = tmp_path / "job" / f"host{number}"
        folder.mkdir(parents=True)
        (folder / log.name).write_bytes(log.read_bytes())
        (folder / "server.log").write_text("ready\n")
    found = report(tmp_path / "job", tmp_path)
    assert [each["rank"] for each in found["processes"]] == [0, 1]
    assert found["capture"]["unreadable_lines"] == 0


def without(data: bytes, kind: bytes) -> bytes:
    return re.sub(rb'(?m)^V[^\n]*\] \{"' + kind + rb'"[^\n]*\n(?:\t[^\n]*\n)*', b"", data)


@pytest.mark.parametrize("data", [b"", b"hello\n", b"\x89PNG\r\n\xff\xfe\0"])
def test_a_file_that_is_neither_log_nor_report_is_one_clear_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.log").write_bytes(data)
    ended = dynalyze("report", tmp_path / "x.log", cwd=tmp_path)
    assert ended.status == 2
    assert "nor a TORCH_TRACE log" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert TRACEBACK not in ended.stderr


def test_no_source_leaves_quoted_code_out(tmp_path: Path) -> None:
    found = json.dumps(report(SERVE, tmp_path, "--no-source"))
    assert "scored" not in found
    assert "print(name)" not in found


WATCHED = """
import sys
opened = []
def hook(event, arguments):
    if event in ("open", "os.listdir", "os.scandir"):
        opened.append(str(arguments[0]))
sys.addaudithook(hook)
from dynalyze.cli.group import run
status = run(sys.argv[1:])
with open("opened.txt", "w") as file:
    file.write("\\n".join(opened))
sys.exit(status)
"""


def hostile(canary: Path) -> bytes:
    """A log that names a file of this machine wherever a log can name one."""
    ids = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    graph_break = (
        f"Graph break in user code at {canary}:1\nGraph Break Reason: Failed to trace builtin operator\n\n"
        f'User code traceback:\n  File "{canary}", line 1, in f\n  File "/etc/passwd", line 1, in f\n'
    )
    records: list[tuple[Facts, str]] = [
        ({"str": [str(canary), 0]}, ""),
        ({"str": [f"{canary.parent}/torch/_dynamo/convert_frame.py", 1]}, ""),
        ({"str": ["/etc/passwd", 2]}, ""),
        ({"dynamo_start": {"stack": [{"line": 1, "name": "f", "filename": n} for n in (1, 2, 0)]}, **ids}, ""),
        (
            {"dynamo_output_graph": {}, **ids},
            f"# File: {canary}:1 in f, code: g(x)\n# File: /etc/passwd:1 in f, code: x",
        ),
        ({"artifact": {"name": "dynamo_graph_break_reason"}, **ids}, graph_break),
        ({"artifact": {"name": "recompile_reasons"}, **ids}, f"L['x'] == 1  # {canary}:1"),
        (
            {
                "compilation_metrics": {
                    "co_filename": str(canary),
                    "fail_user_frame_filename": str(canary),
                    "has_guarded_code": True,
                },
                **ids,
            },
            "",
        ),
    ]
    lines = []
    for metadata, text in records:
        lines.append(f"V1121 04:39:32.535000 1 a.py:1] {json.dumps(metadata)}")
        lines += [f"\t{line}" for line in text.splitlines()]
    return "\n".join(lines).encode() + b"\n"


@pytest.mark.parametrize("rooted", [False, True])
def test_no_file_that_a_log_names_is_opened(tmp_path: Path, rooted: bool) -> None:
    secret = tmp_path / "secret"
    (secret / "torch" / "_dynamo").mkdir(parents=True)
    canary = secret / "canary.py"
    canary.write_text(f"{CANARY}\n")
    (secret / "torch" / "_dynamo" / "graph_break_registry.json").write_text("{}")
    log = tmp_path / "dedicated_log_torch_trace_x.log"
    log.write_bytes(hostile(canary))
    outputs = ["--json", "r.json", "--html", "page.html"]
    options = ["--source-root", str(secret), "--source-root", "/etc"] if rooted else []
    command = [sys.executable, "-c", WATCHED, "report", str(log), *outputs, *options]
    ended = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    opened = (tmp_path / "opened.txt").read_text().splitlines()
    assert str(log) in opened  # The hook sees what is opened.
    assert not [path for path in opened if path.startswith((str(secret), "/etc/passwd"))]
    written = (tmp_path / "r.json").read_text() + (tmp_path / "page.html").read_text() + ended.stdout
    assert CANARY not in written
    assert "root:x:" not in written
    assert str(canary) in written  # It is named, as the log names it.
    if rooted:
        notes = json.loads((tmp_path / "r.json").read_text())["capture"]["notes"]
        assert any("no hashes" in note for note in notes)


def test_the_code_in_a_log_becomes_artifacts(tmp_path: Path) -> None:
    report(SERVE, tmp_path, "--artifacts", str(tmp_path / "made"))
    written = {path.name for path in (tmp_path / "made" / "0_0").iterdir()}
    assert {"computation_graph.py", "output_code.py", "aot_forward.py"} <= written
    assert "torch.relu" in (tmp_path / "made" / "1_0" / "computation_graph.py").read_text()
    refused = dynalyze("report", tmp_path / "r.json", "--artifacts", tmp_path / "made", cwd=tmp_path)
    assert (refused.status, "needs a log" in refused.stderr) == (2, True)
