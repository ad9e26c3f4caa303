"""The second gate of a change: the whole program has to do the same with the change as without.

It runs twice unchanged, which shows what is stable: how it ends, what it prints, which files it leaves, how it sets
torch. Then it runs with the change, from its own folder. Whatever was stable has to stay the same.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import linecache
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dynalyze.bench.workers import Stopped
from dynalyze.capture.events import ProgramEnded
from dynalyze.launch.observe import Observation, observed
from dynalyze.launch.sandbox import Again, left_behind
from dynalyze.launch.sandbox_init import REMOVED
from dynalyze.launch.streams import Streams
from dynalyze.report import Report
from dynalyze.report.fixes import WholeProgram
from dynalyze.text.errors import UsageError

_PRINTED = "printed lines"
_MOST_OUTPUT = 16 << 20
_LONGEST = 32
"""Of a line that is quoted: longer texts count as values of the program, which a report hides."""
_NUMBERS = re.compile(
    r"\s*[-+]?(0x[0-9a-f]+|\d+([.:]\d+)*(e[-+]?\d+)?)|\b(tmp|pymp-|listener-)[a-z0-9_]{8}\b", re.IGNORECASE
)  # Names that tempfile makes up vary as numbers do.
_OF_TORCH = re.compile(
    r"^[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\S*[/\\])?torch[/\\]\S+\.py:\d+\]"
    r"|^.*[/\\]torch[/\\].*\.py:\d+: \w*Warning: "
)
"""Of torch's own log and warnings: what is compiled otherwise is told otherwise."""
_LONGEST_WARNING = 20
"""Lines of one warning, to the line of source below it."""

_CACHES = re.compile(r"/(__pycache__|torchinductor_[^/]*|\.triton|\.nv|torch_compile_debug|dynalyze-reports)(/|$)")
_CACHE_VARIABLES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCH_EXTENSIONS_DIR")
_TO_OTHERS = ("connects to", "sends to", "listens on", "looks up")
_NOT_LOOKED_AT = ("/dev/shm/", "/run/")
"""In the sandbox these folders are empty, and nobody lists what is left there."""

_NO_SETTINGS = ("torch._dynamo.", "torch._inductor.", "torch.is_grad_", "torch.is_inference_", "torch.autocast.")
_DIRECTORY = re.compile(r"4\d{4}$")
_ENDED = ("complete", "incomplete", "failed")


@dataclass
class ProgramRun:
    """What one run of the program did: how it ended, its output line by line, the files that it left, by path, how it
    left torch and Python set, and the functions and values of its modules, by name.
    """

    report: Report
    printed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left: dict[str, object] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        """How torch was set when something was first compiled, with the seed of its random numbers. Not settings of the
        compiler, which are changes of their own, nor modes, which hold for a part of the program.
        """
        return {name: value for name, value in self.report.settings.items() if not name.startswith(_NO_SETTINGS)}

    @property
    def ending(self) -> str:
        """How it ended, as a clause."""
        outcome = self.report.outcome
        if outcome.status == "failed":
            return f"{outcome.message[:1].lower()}{outcome.message[1:]}".rstrip(".")
        return f"the program ends with exit status {outcome.exit_status or 0}"


class Gate:
    """Compares one program with and without changes. `progress` gets a line before each run.

    The unchanged program is run only once for all changes, with the first. All methods may raise Stopped.
    """

    def __init__(self, observation: Observation, again: Again, progress: Callable[[str], None]) -> None:
        self._observation = replace(observation, bundle=False, isolation=again.isolation, compared=True)
        self._again = again
        self._progress = progress
        self._before: list[ProgramRun] = []

    def check(
        self, changed: Observation, put: Mapping[str, str], uncovered: str = ""
    ) -> tuple[WholeProgram, Report | None]:  # fmt: skip
        """What the program does with a change, and the report of that run; None if nothing can be learned from it.
        `put` are all files of the change, and `uncovered` says which part of it needs a sandbox.
        """
        if self._again.reason:
            return WholeProgram(unchecked=[self._again.reason]), None
        sandboxed = self._again.isolation == "sandbox"
        found = WholeProgram(runs=2, sandboxed=sandboxed)
        if uncovered and not sandboxed:
            found.unchecked.append(uncovered)
        put_there = put if sandboxed else {}
        changed = replace(changed, bundle=False, isolation=self._again.isolation, put=put_there, compared=True)
        try:
            while len(self._before) < found.runs:
                self._progress(f"running the unchanged program, {len(self._before) + 1} of {found.runs}")
                self._before.append(self._run(self._observation))
            self._progress("running the program with the changes")
            after = self._run(changed)
        except UsageError as error:
            found.unchecked.append(f"the program could not be run again: {error}")
            return found, None
        moved = [*changed.changes, *put]
        one, other, after = (_without_places(run, moved) for run in (*self._before, after))
        if problem := _unusable(one, other):
            found.unchecked.append(problem)
            return found, None
        found.different = next(_differences(found, one, other, after), "")
        if uncovered:  # No call tells of it: what nobody can compare might be another thing with it.
            found.unchecked += found.left_out
            found.unchecked += [f"it {each}: that is not compared" for each in _beyond(one)]
        return found, after.report

    def _run(self, observation: Observation) -> ProgramRun:
        target = observation.target
        streams = Streams(Path(target.path or target.stem).name, quiet=True, kept=_MOST_OUTPUT)
        with observed(observation, streams=streams) as seen:
            if seen.report.outcome.status == "interrupted":
                raise Stopped("interrupted")
            files = left_behind(seen.folder) if observation.isolation == "sandbox" else {}
            own = {path: state for path, state in files.items() if not _is_as_put(state, observation.put.get(path))}
            kept = _left(own, seen.folder)
            ended = seen.log.last(ProgramEnded)
        errors = list(_of_program(streams.lines("stderr")))
        left, names = (ended.left, ended.names) if ended else ({}, {})
        return ProgramRun(seen.report, streams.lines("stdout"), errors, kept, left, names)


def _is_as_put(state: str, source: str | None) -> bool:
    """Whether a file is as the change put it there, or took it away: then it is none of the program's."""
    if source is None:
        return False
    if not source:
        return state == REMOVED
    return Path(source).is_dir() or state.endswith(hashlib.sha256(Path(source).read_bytes()).hexdigest())


def _left(files: Mapping[str, str], own: Path) -> dict[str, str]:
    """The program's own files among these: not below `own`, a folder of ours, nor in a compiler's cache."""
    folders = [own, *(Path(os.environ[name]) for name in _CACHE_VARIABLES if os.environ.get(name))]
    others = tuple(f"{folder.resolve()}{os.sep}" for folder in folders)
    return {
        path: state for path, state in files.items()
        if not (path.startswith(others) or _CACHES.search(path) or _DIRECTORY.fullmatch(state))
    }  # fmt: skip


def _without_places(run: ProgramRun, files: Collection[str]) -> ProgramRun:
    """The run with `#` for the line numbers in these files that its output names, since a change moves the lines below
    it, and without the names of these files.
    """
    if not files:
        return run
    at = re.compile(rf"((?:{'|'.join(map(re.escape, files))})(?::|\", line ))\d+")
    return replace(run, printed=[at.sub(r"\1#", line) for line in run.printed],
                   errors=[at.sub(r"\1#", line) for line in run.errors],
                   names={name: what for name, what in run.names.items()
                          if name.partition(" of ")[2] not in files})  # fmt: skip


def _unusable(one: ProgramRun, other: ProgramRun) -> str:
    """Why nothing can be learned from two runs of the unchanged program; "" if something can."""
    for run in (one, other):
        if run.report.outcome.status not in _ENDED:
            return f"run again, the program did not finish: {run.report.outcome.message}"
    if _masked(one.ending) != _masked(other.ending):
        return f"run twice unchanged, the program ends in two ways: {one.ending}; {other.ending}"
    if one.report.outcome.status == "failed":
        return f"run again as it is, {one.ending}"
    return ""


def _differences(found: WholeProgram, one: ProgramRun, other: ProgramRun, after: ProgramRun) -> Iterator[str]:
    """What the changed program does differently; notes what was the same, and what nobody can tell."""
    if _other_lines([one.ending], [other.ending], [after.ending]):
        yield f"with the change, {after.ending}"
    known = {_masked(each) for run in (one, other) for each in _beyond(run)}
    yield from (f"the program {each} in addition" for each in _beyond(after) if _masked(each) not in known)
    for name in _other_names(one.settings, other.settings, after.settings):
        yield f"the program sets {name} to {after.settings.get(name)}, which was {one.settings.get(name)}"
    found.compared.append("exit status")
    for what, lines in ((_PRINTED, [run.printed for run in (one, other, after)]),
                        ("lines of standard error", [run.errors for run in (one, other, after)])):  # fmt: skip
        if (different := _other_lines(*lines)) is None:
            where = found.unchecked if what == _PRINTED else found.left_out
            where.append(f"{what} differ between two runs of the unchanged program")
        elif different:
            yield f"the program {different}"
        elif any(lines[0]):
            found.compared.append(what)
            if lines[0] != lines[1]:
                found.left_out.append(f"some numbers in {what} differ between two runs of the unchanged program")
    if found.sandboxed:
        if different := _other_files(one.files, other.files, after.files):
            yield f"the program {different}"
        found.left_out += [
            f"contents of {path} differ between two runs of the unchanged program"
            for path in sorted(one.files.keys() & other.files.keys()) if one.files[path] != other.files[path]
        ]  # fmt: skip
        if one.files:
            found.compared.append("files")
    for name in _other_names(one.left, other.left, after.left):
        yield f"the program leaves {name} set otherwise when it ends"
    # What the change alone imports, nothing else of the program calls.
    now = {name: what for name, what in after.names.items() if name in one.names}
    for name in _other_names(one.names, other.names, {**one.names, **now}):
        yield f"with the change, {name} is another one when the program ends"


def _beyond(run: ProgramRun) -> list[str]:
    """Outside effects of a run that leave no file, or none that is looked at."""
    effects = [(each.action, each.target) for each in run.report.capture.outside_effects]
    return [f"{what} {to}" for what, to in effects if what in _TO_OTHERS or to.startswith(_NOT_LOOKED_AT)]


def _other_lines(one: Sequence[str], other: Sequence[str], after: Sequence[str]) -> str | None:
    """What is printed differently; "" for nothing, None if two runs of the same code print different lines.

    A number that differs between these two runs may differ again.
    """
    if len(one) != len(other) or any(_masked(a) != _masked(b) for a, b in zip(one, other, strict=True)):
        return None
    varies = [_varying(a, b) for a, b in zip(one, other, strict=True)]
    expected = [_masked(a, those) for a, those in zip(one, varies, strict=True)]
    got = [_masked(line, varies[index] if index < len(varies) else set()) for index, line in enumerate(after)]
    if got == expected:
        return ""
    for kind, first, last, start, end in difflib.SequenceMatcher(None, expected, got, autojunk=False).get_opcodes():
        if kind != "equal":
            was, now = one[first:last], after[start:end]
            if was and now:
                at = next((at for at, (a, b) in enumerate(zip(was[0], now[0], strict=False)) if a != b), 0)
                return f"prints {_quoted(now[0], at)} instead of {_quoted(was[0], at)}"
            return f"prints {_quoted(now[0])} in addition" if now else f"no longer prints {_quoted(was[0])}"
    return "prints other numbers"


def _other_names(one: Mapping[str, object], other: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What was the same in both runs and is not with the change. A run without any is not compared."""
    names = sorted(one.keys() | other.keys() | after.keys()) if one and other and after else []
    return [name for name in names if one.get(name) == other.get(name) != after.get(name)]


def _other_files(one: Mapping[str, str], other: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which file is left differently; "" for none. If two runs leave different contents, the file only has to exist."""
    known = one.keys() | other.keys()
    for path in sorted(one.keys() & other.keys()):
        if path not in after:
            return f"no longer leaves {path}"
        if one[path] == other[path] != after[path]:
            return f"leaves {path} with other contents"
    new = next((path for path in sorted(after) if path not in known), None)
    return "" if new is None or one.keys() != other.keys() else f"leaves {new} in addition"


def _of_program(lines: Sequence[str]) -> Iterator[str]:
    """The lines of standard error that are not torch's."""
    end = -1
    for number, line in enumerate(lines):
        if _OF_TORCH.match(line):
            end = max(end, number + _lines_below(line, lines[number + 1 : number + 1 + _LONGEST_WARNING]))
        elif number > end:
            yield line


def _lines_below(line: str, below: Sequence[str]) -> int:
    """How many lines a warning goes on, to the line of source that it is at; a program may have that left out."""
    place = re.match(r"(.*\.py):(\d+): \w*Warning: ", line)
    source = linecache.getline(place[1], int(place[2])).strip() if place else ""
    return next((number for number, each in enumerate(below, 1) if source and each == f"  {source}"), 0)


def _masked(text: str, those: Collection[int] | None = None) -> str:
    """A text without its numbers, or without those at these positions among them."""
    places = itertools.count()
    return _NUMBERS.sub(lambda found: "#" if those is None or next(places) in those else found[0], text)


def _varying(one: str, other: str) -> set[int]:
    """Which numbers differ in two texts that are otherwise the same."""
    pairs = zip(_NUMBERS.finditer(one), _NUMBERS.finditer(other), strict=True)
    return {place for place, (a, b) in enumerate(pairs) if a[0] != b[0]}


def _quoted(text: str, at: int = 0) -> str:
    """A line, or the part of it around a position."""
    start = max(0, at - _LONGEST // 3) if len(text) > _LONGEST else 0
    rest = "..." if len(text) > start + _LONGEST else ""
    return repr(f"{'...' if start else ''}{text[start : start + _LONGEST]}{rest}".strip())
