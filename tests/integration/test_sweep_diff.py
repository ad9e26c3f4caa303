"""`dynalyze diff` on two sweeps, as files and as folders, by the real program."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from program import dynalyze

from dynalyze.sweep.records import Row, RowBreak, Sweep


def broken(line: int, code: str) -> RowBreak:
    return RowBreak(
        "Data-dependent branching", "why", "/x/lib/a.py", line, "lib/a.py", "forward", code, "GB0170", "split"
    )


def item(target: str, *breaks: RowBreak) -> Row:
    status = "graph_break" if breaks else "full_graph"
    return Row(target, status, len(breaks), 0, 1.0, None, None, key=target, breaks=list(breaks))


def document(torch: str, *items: Row) -> Sweep:
    return Sweep("0.1.0", "2026-11-21T09:00:00Z", ["sweep", "hf:all"], list(items), {"torch": torch}, 2.0, len(items))


BEFORE = document("2.13.0", item("hf:A", broken(3, "if a:")), item("hf:B", broken(3, "if a:")), item("hf:C"))
AFTER = document("2.14.0", item("hf:A"), item("hf:B", broken(9, "if a:")), item("hf:C", broken(40, "y.item()")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, sweep in (("before", BEFORE), ("after", AFTER)):
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(sweep))
    rows = tmp_path / "swept"
    rows.mkdir()
    (rows / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in AFTER.items))
    (tmp_path / "report.json").write_text(
        json.dumps(
            {
                "schema_version": 1,
                "dynalyze": "0.1.0",
                "created": "2026-11-21T09:00:00Z",
                "command": ["explain", "m.py"],
                "environment": {},
                "target": {"kind": "script", "spec": "m.py", "arguments": []},
                "outcome": {"status": "complete", "seconds": 1.0},
            }
        )
    )
    return tmp_path


def test_what_an_upgrade_fixed_and_broke(folder: Path) -> None:
    ended = dynalyze("diff", "before.json", "after.json", "--json", "d.json", "--html", "d.html", cwd=folder)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.startswith("1 item better, 1 worse, 1 as before; 1 breaking line fixed, 1 new;")
    assert "torch  2.13.0 -> 2.14.0" in ended.stdout
    found = json.loads((folder / "d.json").read_text())
    assert [(each["target"], each["direction"]) for each in found["changes"]] == [("hf:C", "worse"), ("hf:A", "better")]
    assert "hf:C" in (folder / "d.html").read_text()


@pytest.mark.parametrize("pair", [("before.json", "report.json"), ("report.json", "before.json")])
def test_a_report_against_a_sweep_is_one_line(folder: Path, pair: tuple[str, str]) -> None:
    ended = dynalyze("diff", *pair, "--json", "d.json", cwd=folder)
    assert (ended.status, ended.stdout) == (2, "")
    assert (
        ended.stderr == "dynalyze: before.json is a sweep and report.json is not: compare two reports, or two sweeps\n"
    )
    assert not (folder / "d.json").exists()
