"""The program's source as it was imported, against files that change under it."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import SourceSeen
from dynalyze.capture.source_texts import SourceTexts

TEXT = "def score(x):\n    return x.sum()\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module that can be imported as `edited_module`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_module.py"
    path.write_text(TEXT)
    yield path
    sys.modules.pop("edited_module", None)


def facts(held: SourceTexts, file: Path) -> tuple[SourceSeen, list[str]]:
    texts: list[str] = []
    return held.seen(str(file), lambda text: texts.append(text) or "texts/1-1.txt"), texts  # type: ignore[func-returns-value]


def test_what_is_imported_is_held_with_its_hash(module: Path) -> None:
    held = SourceTexts()
    end = held.watch()
    importlib.import_module("edited_module")
    end()
    module.write_text("launch(rockets)\n")
    told, texts = facts(held, module)
    assert texts == [TEXT]
    assert told.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()


def test_after_the_end_nothing_is_held(module: Path) -> None:
    held = SourceTexts()
    held.watch()()
    importlib.import_module("edited_module")
    told, texts = facts(held, module)
    assert texts == []
    assert told.stamp == (module.stat().st_mtime_ns, module.stat().st_size)


@pytest.mark.parametrize(
    ("now", "same"),
    [
        (TEXT, True),
        (TEXT + "\n\ndef more():\n    pass\n", True),  # What was imported stands where it stood.
        ("# a line\n" + TEXT, False),
        (TEXT.replace("sum", "mean"), False),
        (TEXT.replace("score", "other"), False),
        ("", False),
        ("def broken(:\n", True),  # Cannot be told.
    ],
)
def test_a_file_imported_before_is_held_against_its_functions(module: Path, now: str, same: bool) -> None:
    importlib.import_module("edited_module")
    module.write_text(now)
    told, texts = facts(SourceTexts(), module)
    assert texts == []
    assert (told.stamp == (module.stat().st_mtime_ns, module.stat().st_size)) is same


def test_a_large_file_is_not_held_but_its_time_is(module: Path) -> None:
    module.write_text("#" * (3 << 20))
    held = SourceTexts()
    end = held.watch()
    importlib.import_module("edited_module")
    end()
    was = (module.stat().st_mtime_ns, module.stat().st_size)
    module.write_text("")
    told, texts = facts(held, module)
    assert (texts, told.stamp) == ([], was)


def test_the_encoding_of_a_file_counts(tmp_path: Path) -> None:
    held = SourceTexts()
    file = tmp_path / "latin.py"
    held.hold(str(file), "# -*- coding: latin-1 -*-\nname = 'Zoë'\n".encode("latin-1"))
    assert facts(held, file)[1] == ["# -*- coding: latin-1 -*-\nname = 'Zoë'\n"]


@pytest.mark.parametrize("source", [b"\xff\xfe\x00", b"# coding: no-such\n"])
def test_a_text_that_cannot_be_read_is_not_told(tmp_path: Path, source: bytes) -> None:
    held = SourceTexts()
    held.hold(str(tmp_path / "x.py"), source)
    told, texts = facts(held, tmp_path / "x.py")
    assert texts == []
    assert told.text == ""


def test_modules_that_run_code_when_they_are_asked_are_not_asked(module: Path) -> None:
    class Trap:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    imported = importlib.import_module("edited_module")
    imported.trap = Trap()  # type: ignore[attr-defined]
    sys.modules["edited_trap"] = Trap()  # type: ignore[assignment]
    try:
        assert facts(SourceTexts(), module)[0].stamp == (module.stat().st_mtime_ns, module.stat().st_size)
    finally:
        del sys.modules["edited_trap"]
