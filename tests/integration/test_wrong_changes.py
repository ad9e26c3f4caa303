"""`dynalyze verify` against changes that were made to deceive it: none that does something else is verified, those that
do not are, and whatever came of it, nothing outside has been touched.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest
from program import Outcome, dynalyze
from test_effects import counting, tree_of
from wrong_changes import BASES, BREAK, LEAVES, PORT, RIGHT, SENDS, SIGN_OF_ZERO, WRONG, Change

from dynalyze.launch.sandbox import why_no_sandbox
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(bool(why_no_sandbox()), reason="the whole program is compared in a sandbox")
_ENDED = "verified"
_SHOWN_BY_CALLS = (
    "values", "gradients", "dtype", "buffers", "second call", "other shapes", "exceptions", "globals",
)  # fmt: skip
"""The gates refuse these kinds on calls alone: unit/capture/fixing/test_proof_traps.py has them without a process."""
_SHOWN_LIKE_OTHERS = ("callers outside", "settings")
"""Printed lines show the first, as they do "printed text"; the settings of a report the second, in
unit/fix/test_whole_program.py.
"""


def each_kind() -> Iterator[object]:
    """One change of each kind that it takes the whole program to see, and of two others; the rest with `make slow`."""
    for kind, changes in WRONG.items():
        for number, name in enumerate(changes):
            slow = number > 0 or kind in _SHOWN_BY_CALLS + _SHOWN_LIKE_OTHERS
            yield pytest.param(kind, name, id=f"{kind}: {name}", marks=[pytest.mark.slow] if slow else [])


def written(folder: Path, files: Mapping[str, str], port: int) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(PORT, str(port)))


def sides(change: Change, folder: Path, port: int) -> tuple[Path, Path]:
    """The program as it is and as it is changed, each in a folder of its own."""
    base = dict(BASES[change.base])
    text = base["model.py"]
    assert text.count(BREAK) == 1
    for old, new in (*change.swaps, (BREAK, "")):
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    after = {name: each for name, each in {**base, **(change.files or {}), "model.py": text}.items() if each}
    folders = folder / "before", folder / "after"
    for number, (side, files) in enumerate(zip(folders, (base, after), strict=True)):
        written(side, files, port)
        for name, target in (change.links or ({}, {}))[number].items():
            (side / name).symlink_to(target)
        for name, mode in (change.modes or ({}, {}))[number].items():
            (side / name).chmod(mode)
        for name in (change.folders or ((), ()))[number]:
            (side / name).mkdir()
    return folders


def patch_of(change: Change, before: Path, after: Path) -> Path:
    """The change as a patch, with a hunk for a file that is no Python."""
    (before / change.patch).write_text("hello world\n")
    (after / change.patch).write_text("hello there\n")
    lines: list[str] = []
    for name in ("model.py", change.patch):
        texts = ((side / name).read_text().splitlines(keepends=True) for side in (before, after))
        lines += difflib.unified_diff(*texts, f"a/{name}", f"b/{name}")
    patch = after / "c.patch"
    patch.write_text("".join(lines))
    return patch


def left(folder: Path, allowed: Set[str]) -> dict[str, str]:
    """What is in a folder, but for what the program leaves there, and for what Python keeps of its sources."""
    return {name: state for name, state in tree_of(folder).items() if name not in allowed and "__pycache__" not in name}


def verified(change: Change, folder: Path) -> tuple[Outcome, str, str]:
    """What `verify` says, the status of the change and its reason; the outside is looked at before and after."""
    with counting() as server:
        before, after = sides(change, folder, server.port)
        given = patch_of(change, before, after) if change.patch else after / "model.py"
        file, leaves = folder / "verify.json", LEAVES.get(change.base, set())
        trees = [left(side, leaves) for side in (before, after)]
        done = dynalyze("verify", "model.py", given, "--json", file, "--no-bench", "--quiet-target",
                        cwd=before, bench=True)  # fmt: skip
        assert [left(side, leaves) for side in (before, after)] == trees
        assert server.count == SENDS.get(change.base, 0)
    fixes = json.loads(file.read_text())["fixes"] if file.exists() else []
    return done, fixes[0]["status"] if fixes else "", fixes[0]["reason"] if fixes else ""


@pytest.mark.parametrize(("kind", "name"), list(each_kind()))
def test_a_wrong_change_is_not_verified(kind: str, name: str, tmp_path: Path) -> None:
    done, status, reason = verified(WRONG[kind][name], tmp_path)
    # A program that ends with another exit status than 0 has failed: nothing of it can be verified.
    assert done.status == (3 if WRONG[kind][name].base == "fails" else 1), done.stdout + done.stderr
    assert status != _ENDED and (reason or not status)


@pytest.mark.slow
def test_zeros_of_another_sign_are_not_called_bit_identical(tmp_path: Path) -> None:
    done, _, _ = verified(SIGN_OF_ZERO, tmp_path)
    assert "bit-identical" not in done.stdout and "up to rounding" in done.stdout


@pytest.mark.parametrize("name", mostly_slow(RIGHT, every=len(RIGHT)))
def test_a_right_change_is_verified(name: str, tmp_path: Path) -> None:
    done, status, reason = verified(RIGHT[name], tmp_path)
    assert (done.status, status) == (0, _ENDED), reason + done.stdout + done.stderr
