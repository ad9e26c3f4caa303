"""What acts as soon as a module was imported, however the program came to import it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dynalyze.capture.hooks import after_import

NAME = "module_to_watch"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that notes, when it runs, whether a variable is there."""
    (tmp_path / f"{NAME}.py").write_text("import os\nseen = os.environ.get('HIDDEN')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("HIDDEN", "1")
    before = list(sys.meta_path)
    yield NAME
    sys.modules.pop(NAME, None)
    sys.meta_path[:] = before


def test_it_acts_once_the_module_has_run(module: str) -> None:
    seen: list[ModuleType] = []
    after_import(module, seen.append, without="HIDDEN")
    assert seen == []
    found = importlib.import_module(module)
    assert seen == [found]
    assert found.seen is None
    assert os.environ["HIDDEN"] == "1"
    assert type(found.__loader__).__name__ == "SourceFileLoader"


def test_a_program_that_only_asked_first_is_heard_all_the_same(module: str) -> None:
    """transformers asks whether there is a torch before it imports it."""
    seen: list[ModuleType] = []
    after_import(module, seen.append, without="HIDDEN")
    for _ in range(2):
        assert importlib.util.find_spec(module) is not None
    assert seen == []
    found = importlib.import_module(module)
    assert (seen, found.seen) == ([found], None)


def test_two_watches_act_both_and_none_stays(module: str) -> None:
    before = list(sys.meta_path)
    told: list[str] = []
    after_import(module, lambda _: told.append("one"))
    after_import(module, lambda _: told.append("two"), without="HIDDEN")
    found = importlib.import_module(module)
    assert sorted(told) == ["one", "two"]
    assert found.seen is None
    assert sys.meta_path == before
