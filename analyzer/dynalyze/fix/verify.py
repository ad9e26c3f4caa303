"""`dynalyze verify`: a change that somebody made, proved by the rules of `fix`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from dynalyze.bench.measure import planned
from dynalyze.bench.plan import Plan
from dynalyze.capture.source_lines import bare_lines, lines_of
from dynalyze.fix.lines import line_before
from dynalyze.fix.run import Fixing, Road, Wish, counts_of, note_nothing_proved
from dynalyze.launch.observe import Observation, observed
from dynalyze.report.fixes import Fixed
from dynalyze.text.errors import UsageError

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_MOST_FILES = 500


def verify(
    observation: Observation,
    plan: Plan,
    texts: Mapping[str, str],
    bench_seconds: float,
    progress: Callable[[str], None],
) -> Fixing:
    """Run the target as it is, and prove that it is better with these texts for some of its files.

    Raises:
        UsageError: what was asked for cannot be run.
    """
    originals = {file: Path(file).read_text(encoding="utf-8") for file in texts}
    with observed(observation) as seen:
        report = seen.report
        report.fixed = Fixed(given=True, before=counts_of(report), reproduce=list(report.command))
        ready, source = planned(seen, observation.target, plan)
        if ready is None:
            note_nothing_proved(report, source.reason)
            return Fixing(report)
        road = Road(observation, ready, Wish(bench_seconds=bench_seconds), progress, seen)
        return road.judge(originals, texts, list(_sides(originals, texts)))


def changed_files(before: Path, after: Path) -> dict[str, str]:
    """The texts that make `before` what `after` is: of the one file, or, where both have the same name in two folders,
    of every Python file that is in both and differs.

    Raises:
        UsageError: there is no difference, or a file cannot be read.
    """
    pairs = [(before, after)]
    if before.name == after.name and before.resolve().parent != after.resolve().parent:
        others = sorted(after.parent.rglob("*.py"))[:_MOST_FILES]
        relative = [path.relative_to(after.parent) for path in others]
        pairs += [(before.parent / path, after.parent / path) for path in relative if (before.parent / path).is_file()]
    texts = {}
    for old, new in dict.fromkeys(pairs):
        try:
            one, other = old.read_text(encoding="utf-8"), new.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{new} cannot be read: {error}") from error
        if one != other:
            texts[str(old.resolve())] = other
    if not texts:
        raise UsageError(f"{before} and {after} do not differ: there is nothing to verify")
    return texts


def patched_files(patch: str, root: Path) -> dict[str, str]:
    """The texts that a unified diff makes of the files below `root`, by path.

    Raises:
        UsageError: it is no unified diff, a file is missing, or a hunk does not fit.
    """
    texts: dict[str, str] = {}
    lines = lines_of(patch)
    at = 0
    while at < len(lines):
        if not lines[at].startswith("+++ "):
            at += 1
            continue
        path = _below(lines[at][4:].split("\t")[0].strip(), root)
        at += 1
        hunks = []
        while at < len(lines) and not lines[at].startswith(("--- ", "diff ")):
            hunks.append(lines[at])
            at += 1
        if path.suffix != ".py":  # A README has no part in the program.
            continue
        try:
            original = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the patch changes {path}, which cannot be read: {error}") from error
        texts[str(path)] = _applied(original, hunks, path)
    if not texts and any(line.startswith("+++ ") for line in lines):
        raise UsageError("the patch changes no file of Python")
    if not texts:
        raise UsageError("the patch is no unified diff: no line begins with +++")
    return texts


def _below(name: str, root: Path) -> Path:
    """A file of a diff: as it is named, or without the first part, a/ or b/."""
    for candidate in (root / name, root / name.partition("/")[2]):
        if candidate.is_file() and candidate.resolve().is_relative_to(root.resolve()):
            return candidate.resolve()
    raise UsageError(f"the patch changes {name}, which is not below {root}")


def _applied(text: str, hunks: list[str], path: Path) -> str:
    lines = lines_of(text)
    made: list[str] = []
    at = 0
    for line in hunks:
        if (hunk := _HUNK.match(line)) is not None:
            start = int(hunk[1]) - (1 if hunk[2] != "0" else 0)
            if start < at:
                raise UsageError(f"the patch does not fit {path}: its hunks overlap")
            made += lines[at:start]
            at = start
        elif line[:1] in (" ", "-", "\n"):
            there = lines[at] if at < len(lines) else ""
            if there.rstrip("\n") != line[1:].rstrip("\n"):
                raise UsageError(f"the patch does not fit {path} at line {at + 1}")
            if line[:1] != "-":
                made.append(there)
            at += 1
        elif line.startswith("+"):
            made.append(line[1:])
    return "".join([*made, *lines[at:]])


def _sides(originals: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The first lines of the sides of each branch in the functions that the change touches."""
    for file, original in originals.items():
        kept = {line_before(original, texts[file], number + 1) for number in range(len(bare_lines(texts[file])))}
        touched = {number + 1 for number in range(len(bare_lines(original)))} - kept
        for function in ast.walk(ast.parse(original)):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not touched & set(range(function.lineno, (function.end_lineno or function.lineno) + 1)):
                continue
            for branch in ast.walk(function):
                if isinstance(branch, ast.If):
                    for side in (branch.body, branch.orelse):
                        if side and branch.lineno in touched:
                            yield file, side[0].lineno
