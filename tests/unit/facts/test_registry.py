"""PyTorch's registry of graph breaks, without torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dynalyze.facts import registry as module
from dynalyze.facts.registry import Registry, id_in, registry, url


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
    assert entry is not None
    assert entry.gb_type == "Failed to trace builtin operator"
    assert known.id_of("Data-dependent branching") == "GB0170"


def test_an_id_in_any_case_and_one_that_is_none() -> None:
    known = Registry(module._read(module._COPY))
    assert known.entry("gb0059") is known.entry("GB0059")
    assert known.entry("GB9999999") is None
    assert known.id_of("no such type") is None
    assert known.id_of("") is None


def test_former_types_of_an_id_still_lead_to_it(tmp_path: Path, fresh: None) -> None:
    versions: list[dict[str, Any]] = [
        {"Gb_type": kind, "Context": "", "Explanation": "", "Hints": []} for kind in ("new", "old", "oldest")
    ]
    known = entries(json.dumps({"GB0007": versions}), tmp_path)
    assert [known.id_of(kind) for kind in ("new", "old", "oldest")] == ["GB0007"] * 3
    entry = known.entry("GB0007")
    assert entry is not None
    assert (entry.gb_type, entry.former) == ("new", ("old", "oldest"))


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


def test_no_shown_text_is_still_source() -> None:
    for entry in Registry(module._read(module._COPY)).entries.values():
        for text in (entry.explanation, *entry.hints):
            assert not text.startswith(('f"', 'r"', '"', "f'")), entry
            assert "\n" not in text


@pytest.mark.parametrize("text", ["", "[]", "{", '{"GB0001": 3}', '{"GB0001": [{"Gb_type": 3}]}', "\x00"], ids=range(6))
def test_a_registry_that_cannot_be_read_gives_way_to_the_next(text: str, tmp_path: Path, fresh: None) -> None:
    assert entries(text, tmp_path).entry("GB0059") is not None


def test_an_id_without_versions_is_left_out(tmp_path: Path, fresh: None) -> None:
    assert entries('{"GB0001": []}', tmp_path).entries == {}


def test_a_registry_that_is_no_utf_8_gives_way_too(tmp_path: Path, fresh: None) -> None:
    folder = tmp_path / "torch" / "_dynamo"
    folder.mkdir(parents=True)
    (folder / "graph_break_registry.json").write_bytes(b'{"GB0001": [{"Gb_type": "\xff"}]}')
    assert registry(str(tmp_path / "torch")).entry("GB0059") is not None


def test_the_folder_of_the_targets_own_torch_comes_first(tmp_path: Path, fresh: None) -> None:
    """`--python` may name an interpreter with another torch."""
    assert entries(one(Gb_type="only here"), tmp_path).id_of("only here") == "GB0001"
    assert registry(str(tmp_path / "nowhere")).id_of("only here") is None


def test_ids_in_links() -> None:
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    assert url("GB0059") == page
    assert id_in(f"visit: {page} or {url('GB0170')}") == "GB0059"
    assert id_in("no link") is None


def test_nothing_here_imports_torch() -> None:
    code = (
        "import sys; from dynalyze.facts.registry import registry; assert registry().entries; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
