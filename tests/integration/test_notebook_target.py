"""A notebook as the target, and the magic of notebooks: places are the cells', and their lines."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from program import explain, in_process

import dynalyze
from dynalyze.capture.overlay import as_python

CELLS = (
    "%matplotlib inline\nimport torch\n",
    "",
    "%%time\ndef helper(x):\n    print('in helper')\n    return x * 2\n",
    "%%bash\necho no Python\n",
    "torch.compile(helper, backend='eager')(torch.ones(3))\n!ls\n",
)


def written(folder: Path, cells: tuple[str, ...] = CELLS) -> Path:
    """A notebook of these code cells, below a title."""
    code = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    found = [{"cell_type": "markdown", "metadata": {}, "source": ["# A title\n"]}]
    found += [{**code, "source": text.splitlines(keepends=True)} for text in cells]
    path = folder / "model.ipynb"
    path.write_text(json.dumps({"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 2}))
    return path


def test_a_break_is_at_the_line_of_its_cell(tmp_path: Path) -> None:
    pytest.importorskip("nbformat")
    path = written(tmp_path)
    ended, report = explain(path, cwd=tmp_path)

    assert (ended.status, report["outcome"]["status"]) == (0, "complete"), ended.stderr
    (found,) = report["graph_breaks"]
    assert (found["location"]["file"], found["location"]["line"]) == (f"{path}:In[2]", 3)
    assert found["location"]["code"] == "print('in helper')"
    assert "changed while" not in ended.stdout and report["fix_command"] == []


def test_without_nbformat_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "nbformat", None)
    ended = in_process("explain", written(tmp_path), cwd=tmp_path)
    assert (ended.status, ended.stderr.count("\n")) == (2, 1)
    assert "pip install 'dynalyze[notebook]'" in ended.stderr


@pytest.mark.skipif(importlib.util.find_spec("nbformat") is None, reason="needs nbformat")
@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"cells": [], "metadata": {}, "nbformat": 3, "nbformat_minor": 0}'])
def test_what_is_no_notebook_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "model.ipynb"
    path.write_text(text)
    ended = in_process("explain", path, cwd=tmp_path)
    assert (ended.status, ended.stderr.count("\n")) == (2, 1)
    assert "is no notebook of format 4" in ended.stderr


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("x = 1", "x = 1"),
        ("%time f()\nx = 1", "pass  # %time f()\nx = 1"),
        ("if y:\n    !ls\n", "if y:\n    pass  # !ls\n"),
        ("%%capture out\nx = 1", "\nx = 1"),
        ("%%html\n<b>", ""),
        ("f?\nx = 5 % 3", "pass  # f?\nx = 5 % 3"),
    ],
)
def test_a_cell_as_python(cell: str, python: str) -> None:
    assert as_python(cell) == python


def test_the_magic_records_a_cell() -> None:
    torch = pytest.importorskip("torch")
    magics: dict[str, Any] = {}
    space: dict[str, Any] = {"torch": torch}
    shell = SimpleNamespace(
        user_ns=space,
        run_cell=lambda text: exec(text, space),
        register_magic_function=lambda function, kind: magics.update({kind: function}),
    )
    dynalyze.load_ipython_extension(shell)  # type: ignore[attr-defined]
    cell = "torch._dynamo.reset()\ntorch.compile(lambda x: x * x.sum().item(), backend='eager')(torch.ones(3))"

    seen = magics["cell"]("seen", cell)

    assert space["seen"] is seen
    assert [found.gb_id for found in seen.graph_breaks] == ["GB0124"]
