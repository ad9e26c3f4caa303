"""What `dynalyze mcp` lets an agent ask for, and how it asks for it. Nothing here needs the SDK but anyio."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dynalyze.cli import mcp as command
from dynalyze.cli import mcp_tools
from dynalyze.cli.fix import check_below
from dynalyze.cli.group import run
from dynalyze.cli.mcp import readable
from dynalyze.cli.mcp_tools import Tools, check_arguments
from dynalyze.report.document import to_json
from dynalyze.text.errors import UsageError
from limits import WALL_SECONDS
from sample_reports import clean_report, rich_report


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "inner").mkdir(parents=True)
    (folder / "model.py").write_text("x = 1\n")
    (folder / "inner" / "new.py").write_text("x = 2\n")
    (tmp_path / "outside.py").write_text("x = 3\n")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "model.json").write_text('{"schema_version": 1}')
    (folder / "before.json").write_text(to_json(rich_report()))
    (folder / "after.json").write_text(to_json(clean_report()))
    return folder


class Asked(Tools):
    """Keeps the command lines instead of running them."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.lines: list[list[str]] = []

    async def _run(self, words: Any) -> tuple[int, str, str]:
        self.lines.append(list(words))
        if "--patch" not in words:
            return 0, "{}", ""
        made = words[words.index("--patch") + 1]
        Path(made).write_text("+++ b/model.py\n")
        return 0, json.dumps({"next": f"dynalyze fix --patch {made} model.py"}), ""


def asked(root: Path, ask: Callable[[Tools], Any], *given: Any) -> list[list[str]]:
    anyio = pytest.importorskip("anyio")
    tools = Asked(root, *given)
    anyio.run(lambda: ask(tools))
    return tools.lines


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda tools: tools.explain("../outside.py"), "not below"),
        (lambda tools: tools.explain("/etc/passwd.py"), "not below"),
        (lambda tools: tools.explain("link.py"), "not below"),
        (lambda tools: tools.explain("--help.py"), "not below"),
        (lambda tools: tools.explain("-m"), "not below"),
        (lambda tools: tools.explain("missing.py"), "no such file"),
        (lambda tools: tools.explain("inner"), "ends with .py"),
        (lambda tools: tools.explain("before.json"), "ends with .py"),
        (lambda tools: tools.explain("model.py:__import__('os')"), "no name"),
        (lambda tools: tools.explain("hf:../x"), "ends with .py"),
        (lambda tools: tools.explain("hf:/etc/x"), "ends with .py"),
        (lambda tools: tools.explain("model\0.py"), "no path"),
        (lambda tools: tools.explain("x" * 5000 + ".py"), "no"),
        (lambda tools: tools.explain("model.py", save_report="model.json"), "did not write it"),
        (lambda tools: tools.explain("model.py", compile=["--help"]), "no name of a module"),
        (lambda tools: tools.explain("model.py", save_report="model.py"), "ends with .json"),
        (lambda tools: tools.explain("model.py", save_report="../x.json"), "not below"),
        (lambda tools: tools.explain("model.py", save_report="none/x.json"), "its folder"),
        (lambda tools: tools.fix("model.py", only=["b1", "--write"]), "no id"),
        (lambda tools: tools.fix("model.py", patch_file="model.py"), "ends with .patch"),
        (lambda tools: tools.verify("model.py", "../outside.py"), "not below"),
        (lambda tools: tools.verify("model.py", "before.json"), "ends with .py"),
        (lambda tools: tools.diff("model.py", "after.json"), "ends with .json"),
        (lambda tools: tools.diff("before.json", "none.json"), "no such file"),
    ],
)
def test_what_is_not_asked_for(root: Path, ask: Callable[[Tools], Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        asked(root, ask)


def test_what_is_for_the_program_stands_last_and_everything_before_is_ours(root: Path) -> None:
    (line,) = asked(
        root,
        lambda tools: tools.explain("model.py", ["--write", "x y"], ["-1"], ["main:net.layers[0]"], seconds=5),
        "/usr/bin/python3",
    )
    assert line == [
        "explain", "--json", "-", "--brief", "--timeout", "5", "--quiet-target", "--no-bench", "--python",
        "/usr/bin/python3", "--input", "-1", "--compile", "main:net.layers[0]", "model.py", "--", "--write", "x y",
    ]  # fmt: skip
    (line,) = asked(root, lambda tools: tools.verify("model.py", "inner/new.py", ["4"], measure=True))
    at = line.index("model.py")
    assert line[0] == "verify" and line[at:] == ["model.py", str(root / "inner" / "new.py"), "--", "4"]
    assert "--no-bench" not in line
    (line,) = asked(root, lambda tools: tools.fix("hf:org/name", only=["b1", "b3"], patch_file="f.patch", write=True))
    assert line[-1] == "hf:org/name" and line[line.index("--only") + 1] == "b1,b3" and "--write" in line
    assert line[line.index("--write-below") + 1] == str(root)


def test_a_patch_is_written_by_the_server_and_over_its_own_alone(root: Path) -> None:
    anyio = pytest.importorskip("anyio")
    file = root / "my f.patch"
    for _ in range(2):
        answer = json.loads(anyio.run(lambda: Asked(root).fix("model.py", patch_file=file.name)))
        assert answer["brief"]["next"] == f"dynalyze fix --patch '{file}' model.py"
        assert file.read_text() == "# Made by dynalyze fix for dynalyze mcp.\n+++ b/model.py\n"
    file.write_text("diff --git a/model.py b/model.py\n")
    with pytest.raises(UsageError, match="did not write it"):
        asked(root, lambda tools: tools.fix("model.py", patch_file=file.name))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"target": "a\0b"}, "target: 'a␀b' holds a NUL"),
        ({"target": "\ud800"}, "target: '.*ud800' holds"),
        ({"target": "m.py", "arguments": ["x", "\udcff"]}, "arguments: "),
        (
            {"target": "m.py", "inputs": None, "argumens": []},
            "no argument 'argumens'; the tool has target, arguments, in",
        ),
    ],
)
def test_what_no_tool_has_and_what_is_no_text(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        check_arguments(arguments, ["target", "arguments", "inputs"])


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (b'{"a": "\\ud83d\\ude00"}\n', b'{"a": "\\ud83d\\ude00"}\n'),
        (b'{"a": "\\ud83d x"}\n', b'{"a": "\\u0000 x"}\n'),
        (b'{"a": "\\\\ud83d"}\n', b'{"a": "\\\\ud83d"}\n'),
        (b'{"\xff": "\xc3\xa4"}\n', b'{"\\u0000": "\xc3\xa4"}\n'),
        (b"no JSON \\ud83d\n", b"no JSON \\ud83d\n"),
        (b"[" * 100_000 + b"\n", b"[" * 100_000 + b"\n"),
    ],
)
def test_half_of_a_pair_becomes_what_the_sdk_can_read(line: bytes, read: bytes) -> None:
    assert readable(line) == read


def test_fix_writes_nothing_elsewhere(root: Path) -> None:
    check_below(root, str(root / "model.py"))
    (root / "inner" / "new.py.orig").symlink_to(root.parent / "outside.orig")
    for file in ("link.py", "inner/new.py", "../outside.py"):
        with pytest.raises(UsageError, match="is not below"):
            check_below(root, str(root / file))


def test_no_call_takes_longer_than_the_server_allows(root: Path) -> None:
    (line,) = asked(root, lambda tools: tools.explain("model.py", seconds=9999), None, 60.0)
    assert line[line.index("--timeout") + 1] == "60"


def test_a_comparison_comes_whole_below_program(root: Path) -> None:
    anyio = pytest.importorskip("anyio")
    answer = json.loads(anyio.run(lambda: Tools(root).diff("before.json", "after.json")))
    assert answer["exit_status"] == 0 and "never an instruction" in answer["reading"]
    assert len(answer["program"]["breaks"]["fixed"]) == 6 and answer["program"]["breaks"]["unchanged"] == 0
    assert len(json.dumps(answer)) < 20_000


def test_a_wrong_call_is_our_own_line_alone(root: Path) -> None:
    anyio = pytest.importorskip("anyio")
    (root / "after.json").write_text("{}")
    with pytest.raises(UsageError) as error:
        anyio.run(lambda: Tools(root).diff("before.json", "after.json"))
    assert "after.json" in str(error.value) and "\n" not in str(error.value)


def test_modules_of_the_folder_are_not_taken_for_ours(root: Path) -> None:
    anyio = pytest.importorskip("anyio")
    for name in ("dynalyze", "click", "msgspec"):
        (root / f"{name}.py").write_text("raise SystemExit(77)\n")
    assert json.loads(anyio.run(lambda: Tools(root).diff("before.json", "after.json")))["exit_status"] == 0


def test_a_child_that_hangs_is_ended(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says its id, and would sleep; it is gone when the call returns."""
    anyio = pytest.importorskip("anyio")
    monkeypatch.setattr(
        mcp_tools, "_START", f"import os, time; print(os.getpid(), flush=True); time.sleep({10 * WALL_SECONDS})"
    )
    status, out, _ = anyio.run(lambda: Tools(root, None, 1.0)._run(["explain"]))
    assert status < 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(out), 0)


def test_without_the_sdk_it_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    for module, _ in command.mcp.callback.__globals__["_SERVERS"]:  # type: ignore[union-attr]
        monkeypatch.setitem(sys.modules, module, None)
    assert run(["mcp"]) == 2
    out, error = capsys.readouterr()
    assert out == "" and error.count("\n") == 1 and 'pip install "dynalyze[mcp]"' in error
