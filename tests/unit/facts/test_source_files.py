"""The traced files, and the per-line status of their functions: compiled, broken, eager."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from dynalyze.capture.events import TracedSeen
from dynalyze.facts import source_files as module
from dynalyze.facts.source_files import LineOps, hash_of_set, source_files, traced_files
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import (
    Compilation,
    GraphBreak,
    Location,
    Recompile,
    Report,
    SkippedFrame,
    TracedFile,
    TracedFunction,
)
from records import TORCH, run_of, write_source
from sample_reports import empty_report

PROGRAM = '''\
import torch


class Net(torch.nn.Module):
    @torch.no_grad()
    def forward(self, x):
        """Two parts."""
        h = x.relu()

        # A comment.
        print(h)
        n = 3
        return self.head(h) * n

    def head(self, h):
        def inner(t):
            return t + 1
        return inner(h)


def train(net, x):
    for _ in range(3):
        net(x)


def unseen():
    return 1
'''


def compilation(file: str, line: int, name: str, status: str = "compiled", **more: object) -> Compilation:
    fields: dict[str, object] = {"compile_id": "0/0", "process": 0, "epoch": 0, **more}
    return Compilation(location=Location(file, line, None, name, None), status=status, **fields)  # type: ignore[arg-type]


def broken(file: str, line: int, effect: str = "split", identity: str = "b1") -> GraphBreak:
    place = Location(file, line, None, "forward", None)
    return GraphBreak(identity, None, "call", effect, place, [place])  # type: ignore[arg-type]


@pytest.fixture
def net(tmp_path: Path) -> str:
    return write_source(tmp_path, PROGRAM)


Facts = tuple[Report, LineOps]


def run_facts(
    compilations: Sequence[Compilation] = (), breaks: Sequence[GraphBreak] = (), *, ops: LineOps | None = None,
    recompiles: Sequence[Recompile] = (), skipped: Sequence[SkippedFrame] = (), traced: Sequence[TracedFile] = (),
) -> Facts:  # fmt: skip
    report = empty_report()
    report.compilations, report.graph_breaks, report.recompiles = list(compilations), list(breaks), list(recompiles)
    report.skipped_frames, report.traced_files = list(skipped), list(traced)
    return report, ops or {}


def states(facts: Facts) -> dict[int, str]:
    (file,) = source_files(*facts, Sources(), Places(TORCH))
    return {line.line: line.state for line in file.lines if line.state != "silent"}


def test_lines_that_were_compiled_and_lines_that_broke(net: str) -> None:
    facts = run_facts(
        [compilation(net, 6, "Net.forward", "broken"), compilation(net, 12, "forward", resumes=True)],
        [broken(net, 11)],
        ops={(net, 8): {"g1": 1}, (net, 13): {"g2": 2, "g3": 1}, (net, 17): {"g2": 1}},
        traced=[TracedFile(net, "", [TracedFunction("Net.head", 15)])],
    )
    (file,) = source_files(*facts, Sources(), Places(TORCH))
    assert [(each.name, each.line, each.last, each.status) for each in file.functions] == [
        ("Net.forward", 6, 13, "broken"),
        ("Net.head", 15, 18, "inlined"),
    ]
    assert (file.path, file.origin, file.omitted) == (net, "user", 0)
    assert [line.line for line in file.lines] == [*range(6, 14), *range(15, 19)]
    assert states(facts) == {8: "compiled", 11: "broken", 13: "compiled", 17: "compiled"}
    last = next(line for line in file.lines if line.line == 13)
    assert (last.code, last.ops, last.graphs, last.breaks) == ("        return self.head(h) * n", 3, ["g2", "g3"], [])


def test_after_a_break_that_gives_up_the_rest(net: str) -> None:
    facts = run_facts(
        [compilation(net, 6, "Net.forward", "broken")], [broken(net, 11, "partly_eager")], ops={(net, 8): {"g1": 1}}
    )
    assert states(facts) == {8: "compiled", 11: "broken", 12: "eager", 13: "eager"}


def test_recompiles_stand_at_the_function_and_at_the_line_that_forced_them(net: str) -> None:
    again = Recompile(
        "r1", "0/1", "0/0", Location(net, 6, None, "Net.forward", None), "shape",
        forced_by=Location(net, 8, None, "Net.forward", None),
    )  # fmt: skip
    facts = run_facts([compilation(net, 6, "Net.forward")], recompiles=[again])
    (file,) = source_files(*facts, Sources(), Places(TORCH))
    assert {line.line: line.recompiles for line in file.lines if line.recompiles} == {6: ["r1"], 8: ["r1"]}


def test_of_torch_only_what_breaks_is_shown(tmp_path: Path) -> None:
    folder = tmp_path / "torch"
    folder.mkdir()
    inside = write_source(folder, "def relu(x):\n    return x.clamp(0)\n", "functional.py")
    facts = run_facts(traced=[TracedFile(inside, "", [TracedFunction("relu", 1)])])
    places = Places(str(folder))
    assert source_files(*facts, Sources(), places) == []
    facts[0].graph_breaks.append(broken(inside, 2))
    assert [file.origin for file in source_files(*facts, Sources(), places)] == ["torch"]


def test_what_is_broken_finds_room_first(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CODE", 100)
    facts = run_facts(
        [compilation(net, 6, "Net.forward"), compilation(net, 21, "train"), compilation(net, 26, "unseen")],
        [broken(net, 23)],
    )
    (file,) = source_files(*facts, Sources(), Places(TORCH))
    assert ([each.name for each in file.functions], file.omitted) == (["train", "unseen"], 1)
    assert {line.line for line in file.lines} == {21, 22, 23, 26, 27}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "def f(",
        "def f(x):\n  '''never closed\n  x\n",
        "lambda x: x +\n",
        "@deco\n" * 60,
        "def f(x):\n\tif x:\n        y\n",
    ],
)
def test_damaged_source_is_no_harm(tmp_path: Path, text: str) -> None:
    file = write_source(tmp_path, text)
    facts = run_facts([compilation(file, 1, "f")], [broken(file, 2)], ops={(file, 1): {"g1": 1}})
    for found in source_files(*facts, Sources(), Places(TORCH)):
        assert all(line.line >= 1 for line in found.lines)


def test_of_a_library_only_functions_that_left_something_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    text = "def helper(config):\n    return config.n + 1\n\n\ndef block(x):\n    return x + 1\n"
    library = write_source(folder, text, "library.py")
    traced = [TracedFile(library, "", [TracedFunction("helper", 1), TracedFunction("block", 5)])]
    (file,) = source_files(*run_facts(traced=traced, ops={(library, 6): {"g1": 1}}), Sources(), Places(TORCH))
    assert ([each.name for each in file.functions], [line.line for line in file.lines]) == (["block"], [5, 6])
    assert (file.origin, file.omitted) == ("library", 0)


PLACES = Places(TORCH)


def traced_event(*functions: tuple[str, str, int]) -> TracedSeen:
    return TracedSeen(id="0/0", functions=list(functions))


def test_the_hash_is_of_the_bytes_as_they_are(tmp_path: Path) -> None:
    data = b"# -*- coding: latin-1 -*-\r\nx = '\xe9'\r\n"
    (file,) = traced_files(run_of(traced_event((write_source(tmp_path, data), "f", 1))), PLACES)
    assert file.sha256 == hashlib.sha256(data).hexdigest()


def test_nothing_is_opened_where_paths_are_not_ours_to_open(tmp_path: Path) -> None:
    (file,) = traced_files(run_of(traced_event((write_source(tmp_path, "x = 1\n"), "f", 1))), PLACES, readable=False)
    assert file.sha256 == ""


def test_code_that_has_no_file_is_left_out() -> None:
    assert (
        traced_files(
            run_of(traced_event(("<string>", "f", 1), ("<eval_with_key>.3", "forward", 2), ("", "g", 1))), PLACES
        )
        == []
    )


def file(path: str, sha256: str = "00") -> TracedFile:
    return TracedFile(path, sha256, [])


def test_the_hash_of_the_set_knows_paths_and_contents_but_no_order() -> None:
    whole = hash_of_set([file("/a"), file("/b", "11")])
    assert len(whole) == 64
    assert whole == hash_of_set([file("/b", "11"), file("/a")])
    others = [
        [file("/a")],
        [file("/a"), file("/b", "12")],
        [file("/a"), file("/c", "11")],
        [file("/a", "11"), file("/b")],
        [file("/a"), file("/b", "11"), file("/c", "22")],
    ]
    assert len({whole, *map(hash_of_set, others)}) == 1 + len(others)
