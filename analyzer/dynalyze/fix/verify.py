"""`dynalyze verify`: puts a change that somebody made through the gates of `fix`."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from dynalyze.bench.measure import planned
from dynalyze.bench.plan import Plan
from dynalyze.capture.source_lines import bare_lines
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.fix.git import top_of
from dynalyze.fix.run import FixOptions, FixResult, FixSession, GivenChange, counts_of
from dynalyze.fix.source_files import FileText, line_before
from dynalyze.launch.observe import Observation, observed
from dynalyze.report.fixes import Fixed
from dynalyze.text.errors import UsageError

_NOT_THE_PROGRAMS = frozenset({
    ".git", ".hg", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules",
    "dynalyze-reports",
})  # fmt: skip
_MOST_FILES = 100_000
_SECONDS = 60.0
_NEEDS_SANDBOX = "files that are not Python, or are new or gone, can be checked only in a sandbox (--sandbox)"

Change = Mapping[str, str]
"""Files of the code as it is, by path, each with one that holds its new contents; "" where it is to be gone."""


def verify(
    observation: Observation, plan: Plan, change: Change, bench_seconds: float, progress: Callable[[str], None]
) -> FixResult:
    """Run the unchanged target, and put a change of its files through the gates. Raises UsageError."""
    given = _given(change)
    with observed(observation) as seen:
        report = seen.report
        report.fixed = Fixed(given=True, before=counts_of(report), reproduce=list(report.command))
        if report.outcome.status not in ("complete", "incomplete"):
            how = report.outcome.message.rstrip(".")
            report.capture.notes.append(f"Nothing could be verified: the program did not finish. {how}.")
            return FixResult(report)
        ready, source = planned(seen, observation.target, plan)
        session = FixSession(observation, ready or plan, FixOptions(bench_seconds=bench_seconds), progress, seen)
        return session.judge(given, ready, source.reason)


def _given(change: Change) -> GivenChange:
    """The change as the gates take it, with its Python files read."""
    originals, texts, uncovered = {}, {}, ""
    for file, new in change.items():
        is_python = file.endswith(".py") and bool(new) and _mode(Path(file)) == _mode(Path(new))
        before, after = (FileText.read(file), FileText.read(new)) if is_python else (None, None)
        if before is not None and after is not None:
            originals[file], texts[file] = before.text, after.text
        else:
            uncovered = _NEEDS_SANDBOX
    return GivenChange(originals, texts, change, list(_sides(originals, texts)), uncovered)


def changed_files(before: Path, after: Path) -> dict[str, str]:
    """The change from `before` to `after`: of this one file, or, if both have the same name in two folders, of every
    differing file below these folders, or below the tops of their checkouts. Raises UsageError if nothing differs, or a
    file cannot be read.
    """
    found = {}
    try:
        for old, new in _pairs(before.resolve(), after.resolve()):
            if not _alike(old, new):
                found[str(old)] = str(new) if new.exists() else ""
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from error
    if not found:
        raise UsageError(f"{before} and {after} do not differ: there is nothing to verify")
    return found


def _pairs(before: Path, after: Path) -> Iterator[tuple[Path, Path]]:
    if before.name != after.name or before.parent == after.parent:
        yield before, after
        return
    roots = before.parent, after.parent
    tops = top_of(before.parent), top_of(after.parent)
    if tops[0] and tops[1] and tops[0] != tops[1] and before.relative_to(tops[0]) == after.relative_to(tops[1]):
        roots = tops[0], tops[1]
    names = {name for root in roots for name in _files(root)}
    if len(names) > _MOST_FILES:
        raise UsageError(f"{roots[0]} and {roots[1]} have more than {_MOST_FILES:,} files: give a patch")
    for name in sorted(names):
        yield roots[0] / name, roots[1] / name


def _files(root: Path) -> Iterator[str]:
    """The files below a folder, links followed, and the empty folders."""
    # The real paths of a folder and those above it: links may lead back to these.
    above: dict[Path, frozenset[str]] = {}
    for folder, folders, files in os.walk(root, followlinks=True):
        known, really = above.get(Path(folder).parent, frozenset()), os.path.realpath(folder)
        if really in known:
            folders.clear()
            continue
        above[Path(folder)] = known | {really}
        folders[:] = [name for name in folders if name not in _NOT_THE_PROGRAMS]
        for name in files or ([] if folders else [""]):
            yield os.path.relpath(Path(folder, name), root)


def _alike(one: Path, other: Path) -> bool:
    if not (one.is_file() and other.is_file()):
        return (one.is_file(), one.is_dir()) == (other.is_file(), other.is_dir())
    if one.stat().st_size != other.stat().st_size or _mode(one) != _mode(other):
        return False
    return one.read_bytes() == other.read_bytes()


def _mode(file: Path) -> int:
    """The executable bits: what git keeps of the mode."""
    return file.stat().st_mode & 0o111 if file.exists() else 0


@contextmanager
def patched_files(patch: Path, root: Path) -> Iterator[dict[str, str]]:
    """The change that a patch makes to files below `root`. Git applies it to copies of the files that it names. Raises
    UsageError if git is missing or refuses it, or it names a file outside `root`.
    """
    if shutil.which("git") is None:
        raise UsageError(f"{patch} is applied by git, which is not installed")
    with TemporaryFolder() as folder:
        copy = folder.resolve() / "copy"
        copy.mkdir()
        strip = _strip_of(patch, root)
        names = _named_in(patch, root, strip=strip)
        for name in names:
            source = root / name
            if not source.resolve().is_relative_to(root.resolve()):
                raise UsageError(f"the patch changes {name}, which is not below {root}")
            if source.is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy / name)
        _git(patch, copy, f"-p{strip}")
        change = {}
        for name in names:
            old, new = (root / name).resolve(), copy / name
            if not _alike(old, new):
                change[str(old)] = str(new) if new.is_file() else ""
        if not change:
            raise UsageError(f"{patch} changes nothing")
        yield change


def _strip_of(patch: Path, root: Path) -> int:
    """How many leading parts to strip from its names: usually 1 (`a/model.py`), 0 for the output of `diff -u`."""
    for strip in (1, 0):
        if all((root / name).exists() for name in _named_in(patch, root, strip=strip, quiet=True) or [""]):
            return strip
    return 1


def _named_in(patch: Path, root: Path, *, strip: int, quiet: bool = False) -> list[str]:
    """The files that a patch names, both sides of a rename."""
    said = _git(patch, root, "--numstat", "-z", f"-p{strip}", quiet=quiet)
    names: list[str] = []
    parts = iter(said.split("\0"))
    for part in parts:
        counts = part.split("\t", 2)
        if len(counts) == 3:
            names += [counts[2]] if counts[2] else [next(parts, ""), next(parts, "")]
    return [name for name in names if name]


def _git(patch: Path, folder: Path, *options: str, quiet: bool = False) -> str:
    """What `git apply` prints, run outside any checkout and without the user's settings: only the patch counts."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent),
                   "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}  # fmt: skip
    command = ["git", "apply", "--whitespace=nowarn", *options, str(patch.resolve())]
    try:
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_SECONDS)
        if ended.returncode:  # `git diff -U0` makes hunks without context.
            command.insert(2, "--unidiff-zero")
            ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{patch} cannot be applied: {error}") from error
    if ended.returncode and not quiet:
        said = ended.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(f"{patch} does not apply: {said[0].removeprefix('error: ') if said else 'git says nothing'}")
    return os.fsdecode(ended.stdout) if not ended.returncode else ""


def _sides(originals: Mapping[str, str], texts: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """The first lines of the sides of branches in functions that the change touches, in the condition or inside."""
    for file, original in originals.items():
        kept = {line_before(original, texts[file], number + 1) for number in range(len(bare_lines(texts[file])))}
        touched = {number + 1 for number in range(len(bare_lines(original)))} - kept
        try:
            tree = ast.parse(original)
        except (SyntaxError, ValueError):
            continue
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if not touched & set(range(function.lineno, (function.end_lineno or function.lineno) + 1)):
                continue
            for branch in ast.walk(function):
                if isinstance(branch, ast.If):
                    for side in (branch.body, branch.orelse):
                        within = range(side[0].lineno, (side[-1].end_lineno or 0) + 1) if side else range(0)
                        if side and (branch.lineno in touched or touched & {*within}):
                            yield file, side[0].lineno
