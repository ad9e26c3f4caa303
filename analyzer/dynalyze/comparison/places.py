"""The same place in two reports: files of two checkouts, functions by their full name, lines counted from there."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from dynalyze.report import Location, Report

_RESUMED = "torch_dynamo_resume_in_"


def files_of(report: Report) -> set[str]:
    """Every source file that a report names."""
    files = {item.location.file for item in report.graph_breaks} | {item.path for item in report.traced_files}
    files |= {item.location.file for item in report.recompiles}
    return files | {item.location.file for item in report.compilations}


def match_files(before: Iterable[str], after: Iterable[str]) -> dict[str, str]:
    """Name each file of the first report as the second one does, where it has it.

    The same path is the same file. Others are matched below the deepest common folder of each report, then by
    the longest common end of their paths, so that two checkouts, or two machines, can be compared.
    """
    names, others = set(before), set(after)
    same = {name: name for name in names & others}
    left, right = sorted(names - others), sorted(others - names)
    roots = _root(names), _root(others)
    ranked = sorted(
        (_unlike(one, other, roots), one, other)
        for one in left
        for other in right
        if PurePosixPath(one).name == PurePosixPath(other).name
    )
    taken: set[str] = set()
    for _, one, other in ranked:
        if one not in same and other not in taken:
            same[one] = other
            taken.add(other)
    return same


def _unlike(one: str, other: str, roots: tuple[int, int]) -> tuple[bool, int]:
    """Sorts pairs of files, the likeliest first."""
    parts, others = _parts(one), _parts(other)
    relative = parts[roots[0] :] == others[roots[1] :]
    common = 0
    for part, also in zip(reversed(parts), reversed(others), strict=False):
        if part != also:
            break
        common += 1
    return not relative, -common


def _root(files: Iterable[str]) -> int:
    """How many parts of their paths the user's own files share; the file's own name is never one."""
    own = [_parts(file)[:-1] for file in files if file.startswith(("/", "~")) and not _is_library(file)]
    if not own:
        return 0
    shared = 0
    for parts in zip(*own, strict=False):
        if len(set(parts)) > 1:
            break
        shared += 1
    return shared


def _is_library(file: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(_parts(file)))


def _parts(file: str) -> tuple[str, ...]:
    return PurePosixPath(file).parts or ("",)


class Places:
    """Tells of the locations of one report what is comparable with another; `renamed` names its files."""

    def __init__(self, report: Report, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed
        self._starts: dict[tuple[str, str], list[tuple[int, str]]] = {}
        # Of two names for one definition the longer one counts: it has the class.
        for file, line, name in sorted(set(_definitions(report)), key=lambda each: (each[1], len(each[2]), each)):
            self._starts.setdefault((file, bare(name)), []).append((line, name))

    def file(self, location: Location) -> str:
        """The file as the other report names it."""
        return self._renamed.get(location.file, location.file)

    def function(self, location: Location) -> str:
        """The function with its class, where a definition above the line is known."""
        start = self._start(location)
        return start[1] if start else location.function

    def offset(self, location: Location) -> int | None:
        """The line, counted from the function's own; None where that is not known."""
        start = self._start(location)
        return location.line - start[0] if start else None

    def _start(self, location: Location) -> tuple[int, str] | None:
        starts = self._starts.get((location.file, bare(location.function)), [])
        at = bisect_right(starts, location.line, key=lambda start: start[0])
        return starts[at - 1] if at else None


@dataclass(frozen=True)
class Side:
    """One of the two reports: as it is, for matching, and as it may be shown, with the same facts in the same order."""

    report: Report
    shown: Report
    places: Places
    names: Places

    @classmethod
    def of(cls, report: Report, shown: Report, renamed: Mapping[str, str]) -> Side:
        return cls(report, shown, Places(report, renamed), Places(shown, {}))


def bare(function: str) -> str:
    """The name of a function without its class."""
    return function.rpartition(".")[2]


def _definitions(report: Report) -> Iterator[tuple[str, int, str]]:
    for file in report.traced_files:
        for function in file.functions:
            if _RESUMED not in function.name:
                yield file.path, function.line, function.name
    for item in report.compilations:
        if not item.resumes and item.function:
            yield item.location.file, item.location.line, item.function
