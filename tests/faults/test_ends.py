"""How a command ends: command lines, the file system, the three streams, sources, and an interpreter without torch.

A row is one planted fault and what must come out. Where nothing runs, a row runs in this process.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from program import TRACEBACK, Outcome, dynalyze, in_process

from dynalyze.report.document import to_json
from limits import WALL_SECONDS
from sample_reports import clean_report

LONG = "a" * 300
DEEP = '{"schema_version":1,"settings":' + "[" * 2000 + "]" * 2000 + "}"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with what the command lines below name."""
    (tmp_path / "m.py").write_text("x = 1\n")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    (tmp_path / "deep.json").write_text(DEEP)
    (tmp_path / "deep.toml").write_text("x = " + "[" * 5000 + "]" * 5000)
    (tmp_path / "saved.json").write_text(to_json(clean_report()))
    return tmp_path


def also_slowly(row: str) -> Any:
    """A row that has a quicker sibling."""
    return pytest.param(row, marks=pytest.mark.slow)


def is_one_line(ended: Outcome) -> bool:
    lines = ended.stderr.splitlines()
    return ended.status == 2 and len(lines) == 1 and lines[0].startswith("dynalyze: ")


# ---- command lines --------------------------------------------------------------------------------------------

REFUSED = [
    pytest.param(("explain", LONG), "File name too long", id="explain a name over 255 bytes"),
    pytest.param(("explain", f"{LONG}.py:Net"), "File name too long", id="explain an object in such a file"),
    pytest.param(("explain", f"hf:{LONG}"), "File name too long", id="explain a model of such a name"),
    pytest.param(("bench", LONG), "File name too long", id="bench a name over 255 bytes"),
    pytest.param(("audit", LONG), "File name too long", id="audit a name over 255 bytes"),
    pytest.param(("sweep", LONG), "File name too long", id="sweep a name over 255 bytes"),
    pytest.param(("report", LONG), "File name too long", id="report of a name over 255 bytes"),
    pytest.param(("diff", "saved.json", LONG), "File name too long", id="diff with a name over 255 bytes"),
    pytest.param(("report", "saved.json", "--html", LONG), "File name too long", id="a page of such a name"),
    pytest.param(("explain", "m.py", "--artifacts", LONG), "File name too long", id="artifacts in such a folder"),
    pytest.param(("audit", "m.py", "--policy", LONG), "File name too long", id="a policy of such a name"),
    pytest.param(("doctor", "--json", LONG), "File name too long", id="a diagnosis of such a name"),
    pytest.param(("explain", "loop"), "loop", id="explain a loop of links"),
    pytest.param(("explain", "m.py", "--json", "loop"), "loop", id="a report to a loop of links"),
    pytest.param(("report", "loop"), "loop", id="report of a loop of links"),
    pytest.param(("sweep", "m.py", "--json", "loop"), "loop", id="rows to a loop of links"),
    pytest.param(("report", "saved.json", "--json", "folder"), "directory", id="a folder for a file"),
    pytest.param(("explain", "m.py", "--artifacts", "file"), "no directory", id="a file for a folder"),
    pytest.param(("sweep", "m.py", "--out", "file"), "file", id="a file for the folder of a sweep"),
    pytest.param(("report", "saved.json", "--json", "file/x"), "file", id="a file on the way to a file"),
    pytest.param(("report", "deep.json"), "nested too deep", id="a report nested deep"),
    pytest.param(("diff", "deep.json", "deep.json"), "nested too deep", id="two reports nested deep"),
    pytest.param(("audit", "m.py", "--baseline", "deep.json"), "nested too deep", id="a baseline nested deep"),
    pytest.param(("audit", "m.py", "--policy", "deep.toml"), "deep.toml", id="a policy nested deep"),
    pytest.param(("explain", "m.py:N", "--input", "-" * 3000 + "1"), "nested too deeply", id="inputs of many signs"),
    pytest.param(("explain", "m.py:N", "--input", "[" * 150 + "-" * 3000), "--input", id="inputs that do not end"),
    pytest.param(("explain", "m.py:N", "--input", "(" * 900 + "1" + ")" * 900), "--input", id="inputs in brackets"),
    pytest.param(("explain", "m.py", "--compile", "-" * 3000 + "a"), "--compile", id="a part nested deep"),
    pytest.param(("explain", "m.py", "--json", "\udcff/x"), "no such directory", id="a name that is no text"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED)
def test_a_command_line_that_cannot_be_is_one_line_and_status_2(
    here: Path, arguments: tuple[str, ...], said: str
) -> None:
    ended = in_process(*arguments, cwd=here)
    assert is_one_line(ended), ended
    assert said in ended.stderr


LOCKED = [
    ("explain", "locked/m.py"),
    ("explain", "locked/m.py:Net"),
    ("bench", "locked/m.py"),
    ("audit", "m.py", "--policy", "locked/p.toml"),
    ("explain", "m.py", "--json", "locked/x.json"),
    ("explain", "m.py", "--artifacts", "locked/a"),
    ("sweep", "locked/m.py"),
    ("sweep", "m.py", "--out", "locked/a/b"),
    ("report", "locked/x.json"),
    ("diff", "locked/a", "locked/b"),
]


def give_up_capabilities() -> None:
    """Leave this process, even one of root, only what a file's mode grants its owner (`capset(2)`, version 3)."""
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")


@pytest.mark.parametrize("arguments", LOCKED, ids=" ".join)
def test_a_folder_that_may_not_be_entered_is_one_line(here: Path, arguments: tuple[str, ...]) -> None:
    """In a process without capabilities, since nothing is forbidden to a root that has them."""
    (here / "locked").mkdir()
    (here / "locked").chmod(0)
    told, child = here / "told", os.fork()
    if child == 0:  # Never a second pytest, whatever is raised; its own exit status could be pytest's.
        try:
            give_up_capabilities()
            ended = in_process(*arguments, cwd=here)
            told.write_text(json.dumps([ended.status, ended.stdout, ended.stderr]))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    (here / "locked").chmod(0o700)
    ended = Outcome(*json.loads(told.read_text()))
    assert is_one_line(ended), ended
    assert "Permission denied" in ended.stderr or "not writable" in ended.stderr


def test_a_name_of_255_bytes_is_a_name(here: Path) -> None:
    name = "é" * 120 + "n.json"
    assert in_process("report", "saved.json", "--json", name, cwd=here).status == 0
    assert json.loads((here / name).read_text())["schema_version"] == 1


# ---- what nobody foresaw --------------------------------------------------------------------------------------

FAULTS = [
    pytest.param(ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero", True, id="an exception"),
    pytest.param(AssertionError(), "AssertionError", True, id="an assertion"),
    pytest.param(RecursionError("maximum recursion depth"), "nested too deeply", True, id="recursion"),
    pytest.param(MemoryError(), "memory ran out", False, id="memory"),
    pytest.param(OSError(5, "Input/output error", "/a/b"), "/a/b: Input/output error", False, id="a bad disk"),
    pytest.param(OSError(28, "No space left on device"), "No space left on device", False, id="a full disk"),
]


@pytest.mark.parametrize(("error", "said", "has_file"), FAULTS)
def test_what_nobody_foresaw_is_one_line_status_2_and_a_file_for_an_issue(
    here: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str, has_file: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    secret = "hunter2hunter2"
    monkeypatch.setattr("dynalyze.cli.files.read_report", fail)
    monkeypatch.setattr(sys, "argv", ["dynalyze", "report", "saved.json", "--api-key", secret])
    ended = in_process("report", "saved.json", cwd=here, env={"TMPDIR": str(here)})
    assert is_one_line(ended) and said in ended.stderr, ended
    files = list(here.glob("dynalyze-error-*.txt"))
    assert bool(files) is has_file
    for file in files:
        assert str(file) in ended.stderr
        text = file.read_text()
        assert TRACEBACK in text and type(error).__name__ in text and "Python 3" in text
        assert secret not in text


def test_a_file_for_an_issue_that_cannot_be_written_is_told_in_the_line(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("dynalyze.cli.files.read_report", fail)
    monkeypatch.setattr("dynalyze.cli.fault.tempfile.mkstemp", fail)
    ended = in_process("report", "saved.json", cwd=here)
    assert is_one_line(ended) and "could not be written" in ended.stderr


# ---- streams --------------------------------------------------------------------------------------------------

STREAMS = [
    pytest.param("rules >&-", 2, "standard output", id="a summary to a closed output"),
    pytest.param("rules >/dev/full", 2, "standard output", id="a summary to a full output"),
    pytest.param("--help >/dev/full", 2, "standard output", id="a help text to a full output"),
    pytest.param("report saved.json --json - >/dev/full", 2, "standard output", id="a document to a full output"),
    pytest.param("report saved.json --json - >&-", 2, "standard output", id="a document to a closed output"),
    pytest.param("diff saved.json saved.json >&-", 2, "standard output", id="a comparison to a closed output"),
    pytest.param("diff m.py m.py >&- 2>/dev/null", 2, "", id="a mistake, and a closed output"),
    pytest.param("report nothing 2>&-", 2, "", id="a mistake, and a closed error output"),
    pytest.param("report nothing 2>/dev/full", 2, "", id="a mistake, and a full error output"),
    pytest.param("report saved.json --html p.html 2>/dev/full", 0, "", id="a summary, and a full error output"),
    pytest.param("rules >&- 2>&-", 2, "", id="both closed"),
    pytest.param("rules <&- >/dev/null", 0, "", id="a closed input"),
    pytest.param("report saved.json | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}", 0, "", id="a reader that left"),
    pytest.param("report saved.json --json - | head -c 1 >/dev/null; exit ${PIPESTATUS[0]}", 0, "", id="of a document"),
    pytest.param("--help | true; exit ${PIPESTATUS[0]}", 0, "", id="a reader of help that left"),
    pytest.param("rules | true; exit ${PIPESTATUS[0]}", 0, "", id="a reader of rules that left"),
]


@pytest.mark.parametrize(("line", "status", "said"), STREAMS)
def test_streams_that_take_nothing(here: Path, line: str, status: int, said: str) -> None:
    if "/dev/full" in line and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    ended = shell(line, here)
    assert ended.status == status, ended
    assert said in ended.stderr
    assert TRACEBACK not in ended.stderr and "Exception ignored" not in ended.stderr
    assert len(ended.stderr.splitlines()) == bool(said)


def test_findings_are_told_to_a_reader_that_left_by_the_status(here: Path) -> None:
    report = clean_report()
    report.findings.clear()
    report.outcome.status = "nothing_compiled"
    (here / "none.json").write_text(to_json(report))
    assert shell("report none.json --fail-on error | true; exit ${PIPESTATUS[0]}", here).status == 1


def test_a_closed_output_is_not_the_next_file_that_is_opened(here: Path) -> None:
    shell("report saved.json --html p.html >&- 2>&-", here)
    assert (here / "p.html").read_text().startswith("<!DOCTYPE html>")
    assert json.loads((here / "saved.json").read_text())["schema_version"] == 1


def shell(line: str, cwd: Path) -> Outcome:
    command = f'"{sys.executable}" -m dynalyze {line}'
    ended = subprocess.run(["bash", "-c", command], cwd=cwd, capture_output=True, text=True, timeout=WALL_SECONDS)
    return Outcome(ended.returncode, ended.stdout, ended.stderr)


# ---- places ---------------------------------------------------------------------------------------------------


def test_without_a_place_for_temporary_files_it_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    ended = in_process("explain", "m.py", cwd=here)
    assert is_one_line(ended) and "TMPDIR" in ended.stderr


def test_a_temporary_folder_that_went_is_one_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(here / "gone"))
    ended = in_process("explain", "m.py", cwd=here)
    assert is_one_line(ended) and "TMPDIR" in ended.stderr


def test_a_current_folder_that_is_gone_is_one_line(here: Path) -> None:
    gone = here / "gone"
    gone.mkdir()
    program = f"cd gone && rmdir ../gone && exec '{sys.executable}' -m dynalyze explain ../m.py"
    ended = subprocess.run(["bash", "-c", program], cwd=here, capture_output=True, text=True, timeout=WALL_SECONDS)
    assert is_one_line(Outcome(ended.returncode, ended.stdout, ended.stderr)), ended


# ---- sources that Python refuses --------------------------------------------------------------------------------

SOURCES = [
    pytest.param(b"x = (\n", "never closed", id="a syntax error"),
    pytest.param(b"x = 1\nreturn\n", "bad.py:2", id="a return at the top"),
    pytest.param(b"import torch\n\0\n", "null bytes", id="null bytes"),
    pytest.param(b"# -*- coding: nonsense -*-\n", "encoding", id="an unknown encoding"),
    pytest.param(b's = "\xff\xfe"\n', "utf-8", id="bytes that are no text"),
    pytest.param(b"x = " + b"-" * 200_000 + b"1", "nested", id="many signs"),
    pytest.param(b"x = " + b"+".join([b"1"] * 100_000), "nested", id="a long sum"),
    pytest.param(b"x = " + b"(" * 500 + b"1" + b")" * 500, "nested", id="many brackets"),
]


@pytest.mark.parametrize("target", ["bad.py", also_slowly("bad.py:Net"), also_slowly("-m bad")])
@pytest.mark.parametrize(("source", "said"), SOURCES)
def test_a_source_that_python_refuses_is_one_line(here: Path, source: bytes, said: str, target: str) -> None:
    (here / "bad.py").write_bytes(source)
    ended = dynalyze("explain", *target.split(), cwd=here)
    assert is_one_line(ended), ended
    assert said in ended.stderr or sys.version_info < (3, 11)


# ---- an interpreter without a torch that will do ---------------------------------------------------------------

NO_SO = "libtorch_cpu.so: cannot open shared object file"
INTERPRETERS = [
    pytest.param(None, "torch is missing in", id="no torch"),
    pytest.param("__version__ = '2.7.1+cpu'", "has torch 2.7.1+cpu, and dynalyze needs 2.8", id="an old torch"),
    pytest.param(f"raise ImportError({NO_SO!r})", f"ImportError: {NO_SO}", id="a library that is missing"),
    pytest.param(f"raise OSError({NO_SO!r})", f"OSError: {NO_SO}", id="a library that does not load"),
    pytest.param("", "is not PyTorch", id="something else called torch"),
]
COMMANDS = [
    "explain model.py",
    also_slowly("bench model.py:Net --input torch.ones(2)"),
    also_slowly("explain model.py --backend eager"),
    also_slowly("explain model.py:Net --input torch.ones(2)"),
    also_slowly("explain -m model"),
    also_slowly("bench model.py"),
    also_slowly("audit model.py"),
    also_slowly("sweep model.py"),
]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter without any package."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=WALL_SECONDS)
    return folder / "bin" / "python"


@pytest.mark.parametrize(("source", "said"), INTERPRETERS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_torch_that_will_not_do_is_one_line(
    tmp_path: Path, bare_python: Path, command: str, source: str | None, said: str
) -> None:
    (tmp_path / "model.py").write_text("import torch\nclass Net(torch.nn.Module): pass\n")
    if source is not None:
        (tmp_path / "packages/torch").mkdir(parents=True)
        (tmp_path / "packages/torch/__init__.py").write_text(source)
    env = {"PYTHONPATH": f"{tmp_path / 'packages'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ended = dynalyze(*command.split(), "--python", bare_python, cwd=tmp_path, env=env)
    assert ended.status == 2, ended
    assert TRACEBACK not in ended.stderr
    ours = [line for line in ended.stderr.splitlines() if said in line]
    assert len(ours) == 1 and ours[0] == ended.stderr.splitlines()[-1]
    assert "--python .venv/bin/python" in ours[0] and str(bare_python) in ours[0]
