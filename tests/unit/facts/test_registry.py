"""PyTorch's registry of graph breaks, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynalyze.facts import registry as module
from dynalyze.facts.registry import Registry, registry


@pytest.fixture
def fresh() -> Any:
    """The cache of `registry` emptied, before and after."""
    registry.cache_clear()
    yield
    registry.cache_clear()


def write_registry(torch_folder: Path, text: str) -> None:
    (torch_folder / "_dynamo").mkdir(parents=True)
    (torch_folder / "_dynamo" / "graph_break_registry.json").write_text(text)


def entries(text: str, tmp_path: Path) -> Registry:
    write_registry(tmp_path / "torch", text)
    return registry(str(tmp_path / "torch"))


def one(**version: Any) -> str:
    return json.dumps({"GB0001": [{"Gb_type": "T", "Context": "", "Explanation": "", "Hints": [], **version}]})


def test_the_copy_for_where_there_is_no_torch_is_whole() -> None:
    known = Registry(module._read(module._COPY))
    assert len(known.entries) == 592 + 1  # GB0060 is in 2.13's alone
    entry = known.entry("GB0059")
    assert entry is not None and entry.gb_type == "Failed to trace builtin operator"
    assert known.entry("gb0059") is entry and known.entry("GB9999999") is None
    assert [known.id_of(each) for each in ("Data-dependent branching", "no such type", "")] == ["GB0170", None, None]


def test_a_present_type_beats_a_former_one_of_another_id(tmp_path: Path, fresh: None) -> None:
    def version(kind: str) -> dict[str, Any]:
        return {"Gb_type": kind, "Context": "", "Explanation": "", "Hints": []}

    for order in (("GB0001", "GB0002"), ("GB0002", "GB0001")):
        registry.cache_clear()
        both = {"GB0001": [version("shared")], "GB0002": [version("other"), version("shared")]}
        known = entries(json.dumps({key: both[key] for key in order}), tmp_path / order[0])
        assert known.id_of("shared") == "GB0001"


def test_scraped_literals_become_sentences(tmp_path: Path, fresh: None) -> None:
    known = entries(
        one(
            Explanation='f"Dynamo cannot trace {name}. " f"It says \\"no\\"."',
            Hints=['"Set this "', "  ", "Plain  hint\nover lines."],
        ),
        tmp_path,
    )
    entry = known.entry("GB0001")
    assert entry is not None
    assert entry.explanation.startswith("Dynamo cannot trace {name}.")
    assert 'f"' not in entry.explanation
    assert entry.hints == ("Set this", "Plain hint over lines.")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"GB0001": 3}', '{"GB0001": [{"Gb_type": 3}]}', "\x00"], ids=range(6))
def test_a_registry_that_cannot_be_read_gives_way_to_the_next(text: str, tmp_path: Path, fresh: None) -> None:
    assert entries(text, tmp_path).entry("GB0059") is not None


def test_the_folder_of_the_targets_own_torch_comes_first(tmp_path: Path, fresh: None) -> None:
    """`--python` may name an interpreter with another torch."""
    assert entries(one(Gb_type="only here"), tmp_path).id_of("only here") == "GB0001"
    assert registry(str(tmp_path / "nowhere")).id_of("only here") is None
