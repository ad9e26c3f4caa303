"""Runs a target with a cache folder of its own, twice and elsewhere, and compares what its caches were asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from dynalyze.comparison.caches import differences, missed
from dynalyze.files.paths import working_folder
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.launch.interrupts import first_signal
from dynalyze.launch.observe import Observation, observed
from dynalyze.launch.run import NOTHING_REMOTE, cache_variables
from dynalyze.render.text import caches as words
from dynalyze.report import Report
from dynalyze.report.caches import CacheComparison, Caches, CacheUse, Move, Start, UsedCache, Way
from dynalyze.text.errors import UsageError

Progress = Callable[[str], None]
# Entries of a cache, by what their files are called; those of Triton are one a kernel.
_ENTRIES: dict[UsedCache, str] = {
    "autograd": "inductor/aotautograd/*/*", "fx_graph": "inductor/fxgraph/*/*/*", "kernels": "inductor/*/*.main.so",
    "triton": "triton/**/__grp__*.json", "autotune": "inductor/**/*.best_config", "pgo": "inductor/dynamo/*.pkl",
}  # fmt: skip
_SAVE = """
import atexit
def _save():
    made = torch.compiler.save_cache_artifacts()
    if made is not None:
        with open({file!r}, "wb") as file:
            file.write(made[0])
atexit.register(_save)
"""
# When the first compile begins: while torch's modules are still being imported it would know no kind of artifact.
_LOAD = """
from torch._dynamo.callback import on_compile_start
_waiting = [{file!r}]
def _load(*_):
    if _waiting:
        with open(_waiting.pop(), "rb") as file:
            torch.compiler.load_cache_artifacts(file.read())
on_compile_start(_load)
"""
# Of the folder of a program: what is copied, and what is left where it is.
_MOST_FILES, _LARGEST_FILE = 5000, 1 << 20
_NOT_COPIED = ("__pycache__", "site-packages", "node_modules", "dynalyze-reports")


def compare_reports(before: Report, after: Report) -> CacheComparison:
    """Compare two finished runs. Whether the second had the caches of the first is unknown."""
    return _compared(before, after, shared=False)


def run_now(before: Report, observation: Observation) -> CacheComparison:
    """Compare a finished run with one now, with an empty cache folder."""
    with TemporaryFolder() as folder:
        return _compared(before, _run(observation, folder / "cache"), shared=False)


def run_twice(observation: Observation, say: Progress) -> CacheComparison:
    """Compare a first start with an empty cache folder and a second one with what it left."""
    with TemporaryFolder() as folder:
        say("first start, with an empty cache")
        cold = _run(observation, folder / "cache")
        if (why_not := _not_to_compare(cold)) is not None:
            return why_not
        observation = _again(observation, cold, folder)
        say("second start, with the caches of the first")
        return _compared(cold, _run(observation, folder / "cache"), shared=True)


def run_elsewhere(observation: Observation, say: Progress) -> CacheComparison:
    """As `run_twice`, then in each of the ways to take a filled cache along. Each start finds the cache as the first
    one left it.
    """
    with TemporaryFolder() as folder:
        place = _CacheFolders(folder)
        say("first start, with an empty cache")
        cold = _run(replace(observation, settings=_SAVE.format(file=str(place.artifacts))), place.cache)
        if (why_not := _not_to_compare(cold)) is not None:
            return why_not
        observation = _again(observation, cold, folder)
        place.cache.rename(place.kept)
        second: Report | None = None
        moves = []
        for way, there, cache in _moves(observation, place):
            if first_signal() is not None:
                break
            if isinstance(there, str):
                moves.append(Move(way, None, reason=there))
                continue
            say(f"a start with {words.WAYS[way]}")
            place.restore(cache)
            report = _run(there, cache)
            second = second or report
            moves.append(_move(way, cold, report, second))
            shutil.rmtree(cache, ignore_errors=True)
        if second is None:
            return CacheComparison(_start(cold), None, words.ended("Interrupted."))
        found = _compared(cold, second, shared=True)
        found.portability = moves
        return found


class _CacheFolders:
    """Where a filled cache is kept, and where starts find it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache, self.kept, self.artifacts = folder / "cache", folder / "kept", folder / "artifacts.bin"

    def restore(self, cache: Path) -> None:
        """Restore the cache of the first start; a start that loads artifacts gets an empty one."""
        cache.mkdir(parents=True)
        if cache.name != "empty":
            shutil.copytree(self.kept, cache, dirs_exist_ok=True)


def _moves(observation: Observation, place: _CacheFolders) -> Iterator[tuple[Way, Observation | str, Path]]:
    """Starts elsewhere with their cache folder; a text says why there is none."""
    yield "again", observation, place.cache
    home = place.folder / "home"
    home.mkdir()
    yield "home", replace(observation, switches={**observation.switches, **_moved_home(home)}), place.cache
    work = place.folder / "elsewhere"
    work.mkdir()
    yield "working_folder", _in_folder(observation, work), place.cache
    yield "program", _copied(observation, place.folder / "copy"), place.cache
    yield "cache_folder", observation, place.folder / "moved" / "cache"
    yield "container", _in_container(observation, place.folder / "root"), place.folder / "root" / "cache"
    load: Observation | str = "the program left without Python's knowledge, or this torch has no artifacts"
    if place.artifacts.is_file():
        load = replace(observation, settings=_LOAD.format(file=str(place.artifacts)))
    yield "artifacts", load, place.folder / "empty"


def _moved_home(home: Path) -> dict[str, str]:
    """Another HOME; packages and checkpoints are found where they were."""
    old = Path.home()
    where = {"HF_HOME": old / ".cache" / "huggingface", "PYTHONUSERBASE": old / ".local"}
    kept = {name: os.environ.get(name) or str(path) for name, path in where.items()}
    return {**kept, "HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "XDG_CONFIG_HOME": str(home / ".config")}


def _in_folder(observation: Observation, folder: Path) -> Observation | str:
    target = observation.target
    if target.path is None:
        return "the target is found by its name, from the working directory"
    path = str(Path(target.path).resolve())
    python = observation.python
    if python is not None and os.sep in python:
        python = str(Path(python).absolute())
    return replace(observation, target=replace(target, path=path), folder=str(folder), python=python)


def _copied(observation: Observation, folder: Path) -> Observation | str:
    """The program in a copy of its folder: its code, and small files beside it."""
    target = observation.target
    if target.path is None:
        return "the target is found by its name, not by its file"
    path = Path(target.path).resolve()
    files = [file for file in _files(path.parent, _MOST_FILES + 1) if file.stat().st_size <= _LARGEST_FILE]
    if len(files) > _MOST_FILES:
        return f"its folder has more than {_MOST_FILES:,} files"
    for file in files:
        copy = folder / file.relative_to(path.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    # What the text of the target names is the working directory's business, which stays.
    return replace(observation, target=replace(target, path=str(folder / path.name)))


def _in_container(observation: Observation, root: Path) -> Observation | str:
    """Everything at once, as in an image: another user, HOME and TMPDIR, the program and the cache in other folders."""
    copied = _copied(observation, root / "app")
    if isinstance(copied, str):
        return copied
    for name in ("home", "tmp"):
        (root / name).mkdir(parents=True)
    user = {**_moved_home(root / "home"), "USER": "app", "LOGNAME": "app", "TMPDIR": str(root / "tmp")}
    return _in_folder(replace(copied, switches={**copied.switches, **user}), root / "app")


def _files(folder: Path, most: int) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_COPIED]
        for name in files:
            if (most := most - 1) < 0:
                return
            if (path := Path(root, name)).is_file():
                yield path


def _again(observation: Observation, first: Report, folder: Path) -> Observation:
    """The observation of the starts after the first. Raises UsageError if there must be none."""
    again = observation.again(first)
    if again.reason:
        raise UsageError(f"a second start would repeat what the first one did: {again.reason}")
    return replace(observation, isolation=again.isolation, keep=[str(folder)])


def _run(observation: Observation, cache: Path) -> Report:
    """One start with this cache folder; its report says what the start added to it."""
    before = _entries(cache)
    switches = {**observation.switches, **cache_variables(cache), **NOTHING_REMOTE}
    with observed(replace(observation, switches=switches)) as seen:
        report = seen.report
    report.folder = report.folder or working_folder()
    report.caches = report.caches or Caches()
    uses = {use.cache: use for use in report.caches.uses}
    for name, after in _entries(cache).items():
        if after and name not in uses:
            uses[name] = CacheUse(name)
            report.caches.uses.append(uses[name])
        if name in uses:
            uses[name].made = after - before[name]
    return report


def _entries(cache: Path) -> dict[UsedCache, int]:
    return {name: sum(1 for _ in cache.glob(pattern)) for name, pattern in _ENTRIES.items()}


def _compared(before: Report, after: Report, *, shared: bool) -> CacheComparison:
    found = CacheComparison(_start(before), _start(after), differences=differences(before, after, shared=shared))
    found.cold = missed(after) > 0
    found.verdict, found.notes = words.verdict(found, shared=shared), words.notes(before, after)
    return found


def _not_to_compare(cold: Report) -> CacheComparison | None:
    """The end of a first start that fills no cache; None if it fills one."""
    if cold.outcome.status in ("interrupted", "timed_out", "failed"):
        return CacheComparison(_start(cold), None, words.ended(cold.outcome.message))
    return None if cold.compilations else CacheComparison(_start(cold), None, words.NOTHING_ASKED)


def _move(way: Way, before: Report, after: Report, unmoved: Report) -> Move:
    """What a start elsewhere misses, except what one in the same place misses too."""
    start = _start(after)
    if after.outcome.status in ("failed", "timed_out", "interrupted"):
        return Move(way, None, start, reason=after.outcome.message)
    if way == "again":
        return Move(way, not _anew(after), start, differences(before, after, shared=True))
    found = [each for each in differences(before, after, shared=True) if each.kind != "not_kept"]
    move = Move(way, _anew(after) <= _anew(unmoved), start, found)
    move.advice = words.advice(move)
    return move


def _anew(report: Report) -> int:
    """Graphs that were missing, and kernels that were built."""
    kernels = [use for use in report.caches.uses if use.cache in ("kernels", "triton")] if report.caches else []
    return missed(report) + sum(use.made or 0 for use in kernels)


def _start(report: Report) -> Start:
    seconds = sum(each.whole_seconds or 0.0 for each in report.compilations)
    uses = report.caches.uses if report.caches is not None else []
    status = report.outcome.status
    return Start(report.target.spec, report.created, status, report.outcome.seconds, round(seconds, 6), uses)
