"""What a case in tests/cases expects, and how a run of dynalyze is compared with it.

An expectation is written by hand from what torch itself does with the program. The format is described in
tests/cases/README.md; unknown keys are refused, so a misspelt expectation cannot silently check nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

# Another interpreter for the targets, with a torch of its own: `make matrix`.
PYTHON = os.environ.get("DYNALYZE_TESTS_PYTHON", "")
LISTS = [
    "processes",
    "compilations",
    "graph_breaks",
    "recompiles",
    "graphs",
    "kernels",
    "traced_files",
    "accuracy",
    "measurements",
    "findings",
]
EFFECTS = {"split", "partly_eager", "eager", "error"}

Json = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """`path:line` relative to the case's folder, or below `<stdlib>` or `<site-packages>`; line `*` is any."""

    path: str
    line: int | None

    @classmethod
    def parse(cls, text: str) -> Place:
        path, _, line = text.rpartition(":")
        return cls(path, None if line == "*" else int(line))

    def fits(self, location: Json, folder: Path) -> bool:
        if self.line is not None and location.get("line") != self.line:
            return False
        return Path(str(location.get("file"))).resolve() == resolved(self.path, folder)


@dataclass
class ExpectedBreak:
    """One graph break. `at`, `id` and `effect` list the accepted answers; `through` the accepted stacks."""

    at: list[str]
    code: str
    id: list[str | None]
    effect: list[str]
    column: int | None = None
    through: list[list[str]] = field(default_factory=list)
    occurrences: int = 1

    def fits(self, entry: Json, folder: Path) -> bool:
        here = any(Place.parse(place).fits(entry["location"], folder) for place in self.at)
        if self.column is not None and have_columns() and entry["location"].get("column") != self.column:
            return False
        return here and entry.get("gb_id") in self.id

    def __str__(self) -> str:
        column = "" if self.column is None else f" column {self.column}"
        return f"{' or '.join(self.at)}{column} {'/'.join(map(str, self.id))} ({self.code})"


@dataclass
class Expectation:
    """All that a case promises. Lists under `status`, `effect` and the like hold the accepted answers."""

    truth: str
    target: list[str]
    options: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    json_to_stdout: bool = False
    fresh: bool = False
    wall: float = 150
    exit_status: int = 0
    report: bool = True
    status: list[str] = field(default_factory=lambda: ["complete"])
    target_exit_status: list[int | None] = field(default_factory=lambda: [0])
    kind: str = "script"
    breaks: list[ExpectedBreak] = field(default_factory=list)
    extras: list[ExpectedBreak] = field(default_factory=list)
    recompiles: list[str] | None = None
    traced: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    findings_lack: list[str] = field(default_factory=list)
    processes: int = 1
    epochs: int | None = None
    stdout_has: list[str] = field(default_factory=list)
    stdout_lacks: list[str] = field(default_factory=list)
    stderr_has: list[str] = field(default_factory=list)
    stderr_lacks: list[str] = field(default_factory=list)
    writes: dict[str, str] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Expectation:
        """What a file expects of the torch of the targets."""
        document = json.loads(path.read_text())
        for changed in document.pop("versions", []):
            if holds_for(changed.pop("torch")):
                document.update(changed)
        for key in ("breaks", "extras"):
            document[key] = [ExpectedBreak(**entry) for entry in document.get(key, [])]
        unknown = set(document) - {f.name for f in fields(cls)}
        if unknown:
            raise ValueError(f"{path}: unknown keys {sorted(unknown)}")
        return cls(**document)


@dataclass
class Outcome:
    """What came of a run: `report` is the parsed JSON or None, `exit_status` None where the wall ended it."""

    folder: Path
    exit_status: int | None
    stdout: str
    stderr: str
    report: Json | None


def holds_for(versions: str) -> bool:
    """Whether the torch of the targets is one of `>=2.15` or `<2.11`, or `nested`: with nested graph breaks on."""
    if versions == "nested":
        return bool(os.environ.get("DYNALYZE_TESTS_NESTED"))
    sign, than = re.fullmatch(r"(>=|<)(\d+\.\d+)", versions).groups()  # type: ignore[union-attr]
    at_least = torch_version() >= tuple(map(int, than.split(".")))
    return at_least if sign == ">=" else not at_least


def have_columns() -> bool:
    """Whether Python and torch tell the column of a break."""
    return sys.version_info >= (3, 11) and torch_version() >= (2, 13)


@cache
def torch_version() -> tuple[int, ...]:
    """The first two numbers of the targets' torch."""
    asked = [PYTHON or sys.executable, "-c", "import importlib.metadata as m; print(m.version('torch'))"]
    version = subprocess.run(asked, capture_output=True, check=True, text=True).stdout
    return tuple(map(int, version.split(".")[:2]))


def differences(expected: Expectation, outcome: Outcome) -> list[str]:
    """Every difference between a run and its expectation, as lines for a person; empty when they agree."""
    found = [*_process(expected, outcome), *_streams(expected, outcome), *_files_written(expected, outcome)]
    report = outcome.report
    if not expected.report:
        return found + ([] if report is None else ["a report was written for a wrong call"])
    if report is None:
        return [*found, "no report was written"]
    broken = _form(report)
    if broken:
        return found + broken
    return [
        *found,
        *_outcome(expected, report),
        *_breaks(expected, report, outcome.folder),
        *_recompiles(expected, report),
        *_traced(expected, report, outcome.folder),
        *_identities(expected, report),
    ]


def resolved(path: str, folder: Path) -> Path:
    """The real path that an expectation's path stands for."""
    root, _, rest = path.partition("/")
    place = {"<stdlib>": "stdlib", "<site-packages>": "purelib"}.get(root)
    return (Path(_folders()[place]) / rest if place else folder / path).resolve()


@cache
def _folders() -> dict[str, str]:
    """Where the interpreter of the targets has its modules."""
    if not PYTHON:
        return sysconfig.get_paths()
    asked = [PYTHON, "-c", "import json, sysconfig; print(json.dumps(sysconfig.get_paths()))"]
    found: dict[str, str] = json.loads(subprocess.run(asked, capture_output=True, check=True).stdout)
    return found


def runs_through(stack: list[Json], steps: list[str], folder: Path) -> bool:
    """Whether the steps are in the stack in their order; other frames may lie between."""
    frames = iter(stack)
    return all(any(Place.parse(step).fits(frame, folder) for frame in frames) for step in steps)


def _process(expected: Expectation, outcome: Outcome) -> list[str]:
    if outcome.exit_status is None:
        return [f"not finished after {expected.wall:.0f} s"]
    if outcome.exit_status != expected.exit_status:
        last = outcome.stderr.strip().splitlines()[-3:]
        return [f"exit status {outcome.exit_status}, true is {expected.exit_status}; standard error ends {last}"]
    if not expected.report and "Traceback" in outcome.stderr:
        return ["a traceback for a user's mistake"]
    return []


def _streams(expected: Expectation, outcome: Outcome) -> list[str]:
    streams = {"standard output": outcome.stdout, "standard error": outcome.stderr}
    wanted = {"standard output": expected.stdout_has, "standard error": expected.stderr_has}
    unwanted = {"standard output": expected.stdout_lacks, "standard error": expected.stderr_lacks}
    lacks = [f"{name} lacks {w!r}" for name, words in wanted.items() for w in words if w not in streams[name]]
    holds = [f"{name} holds {w!r}" for name, words in unwanted.items() for w in words if w in streams[name]]
    return lacks + holds


def _files_written(expected: Expectation, outcome: Outcome) -> list[str]:
    found = []
    for name, text in expected.writes.items():
        path = outcome.folder / name
        have = path.read_text() if path.exists() else None
        if have != text:
            found.append(f"the target's own file {name} holds {have!r}, true is {text!r}")
    return found


def _form(report: Json) -> list[str]:
    """What holds for every report, whatever the case."""
    found = [f"no list {name!r}" for name in LISTS if not isinstance(report.get(name), list)]
    found += [f"no object {n!r}" for n in ("environment", "target", "outcome") if not isinstance(report.get(n), dict)]
    if report.get("schema_version") != 1:
        found.append(f"schema_version {report.get('schema_version')!r}")
    if found:
        return found
    for kind in ("graph_breaks", "recompiles"):
        ids = [entry.get("id") for entry in report[kind]]
        if len(set(ids)) != len(ids) or None in ids:
            found.append(f"{kind}: the ids are not unique: {ids}")
        for entry in report[kind]:
            found += [f"{kind} {entry.get('id')}: {fault}" for fault in _location(entry.get("location"))]
    return found + [fault for entry in report["graph_breaks"] for fault in _break_form(entry)]


def _location(location: Any) -> list[str]:
    if not isinstance(location, dict):
        return ["no location"]
    path, line = Path(str(location.get("file"))), location.get("line")
    if not path.is_absolute() or not isinstance(line, int) or line < 1:
        return [f"location {path}:{line} is not an absolute path and a line"]
    code = (location.get("code") or "").strip()
    if not code or not path.is_file():
        return []
    lines = path.read_text(errors="replace").splitlines()
    return [] if line <= len(lines) and code == lines[line - 1].strip() else [f"{code!r} is not on {path.name}:{line}"]


def _break_form(entry: Json) -> list[str]:
    found = []
    if entry.get("effect") not in EFFECTS:
        found.append(f"effect {entry.get('effect')!r}")
    if not isinstance(entry.get("occurrences"), int) or entry["occurrences"] < 1:
        found.append(f"occurrences {entry.get('occurrences')!r}")
    stack = entry.get("stack") or []
    place = (entry["location"]["file"], entry["location"]["line"])
    if place not in [(frame.get("file"), frame.get("line")) for frame in stack]:
        found.append("the stack does not hold the location")
    return [f"graph break {entry.get('id')}: {fault}" for fault in found]


def _outcome(expected: Expectation, report: Json) -> list[str]:
    outcome, target = report["outcome"], report["target"]
    pairs = (
        ("outcome.status", outcome.get("status"), expected.status),
        ("outcome.exit_status", outcome.get("exit_status"), expected.target_exit_status),
        ("target.kind", target.get("kind"), [expected.kind]),
        ("target.arguments", target.get("arguments"), [expected.arguments]),
    )
    found = [f"{name} is {have!r}, true is {true!r}" for name, have, true in pairs if have not in true]
    rules = {finding.get("rule") for finding in report["findings"]}
    found += [f"no finding {rule!r}, only {sorted(rules)}" for rule in expected.findings if rule not in rules]
    return found + [f"a finding {rule!r}" for rule in expected.findings_lack if rule in rules]


def _breaks(expected: Expectation, report: Json, folder: Path) -> list[str]:
    left, found = list(report["graph_breaks"]), []
    # The most particular first: one with a column may not be taken by one without.
    for wanted in sorted(expected.breaks, key=lambda b: b.column is None):
        entry = next((entry for entry in left if wanted.fits(entry, folder)), None)
        if entry is None:
            found.append(f"missing break: {wanted}")
            continue
        left.remove(entry)
        found += _break_details(wanted, entry, folder)
    for entry in left:
        if not any(extra.fits(entry, folder) for extra in expected.extras):
            found.append(f"break too many: {_spot(entry)} {entry.get('gb_id')} {entry.get('gb_type')!r}")
    if found:
        found.append(
            f"breaks in the report: {[(_spot(e), e.get('gb_id'), e.get('effect')) for e in report['graph_breaks']]}"
        )
    return found


def _break_details(wanted: ExpectedBreak, entry: Json, folder: Path) -> list[str]:
    found = []
    if entry.get("effect") not in wanted.effect:
        found.append(f"{wanted}: effect {entry.get('effect')!r}, true is {'/'.join(wanted.effect)}")
    if entry["occurrences"] < wanted.occurrences:
        found.append(f"{wanted}: occurrences {entry['occurrences']}, true is at least {wanted.occurrences}")
    if wanted.through and not any(runs_through(entry["stack"], steps, folder) for steps in wanted.through):
        stack = [f"{Path(frame['file']).name}:{frame['line']}" for frame in entry["stack"]]
        found.append(f"{wanted}: the stack {stack} does not run through {wanted.through}")
    return found


def _recompiles(expected: Expectation, report: Json) -> list[str]:
    if expected.recompiles is None:
        return []
    have = Counter(entry.get("cause") for entry in report["recompiles"])
    true = Counter(expected.recompiles)
    if have == true:
        return []
    entries = [(_spot(e), e.get("cause"), e.get("guard")) for e in report["recompiles"]]
    return [f"recompile causes {dict(have)}, true is {dict(true)}: {entries}"]


def _traced(expected: Expectation, report: Json, folder: Path) -> list[str]:
    listed = [str(entry.get("path")) for entry in report["traced_files"]]
    found = [f"traced_files lists {path} {n} times" for path, n in Counter(listed).items() if n > 1]
    found += [f"traced_files: {path!r} is no absolute path" for path in listed if not Path(path).is_absolute()]
    hashes = {Path(str(entry.get("path"))).resolve(): entry.get("sha256") for entry in report["traced_files"]}
    for name in expected.traced:
        path = resolved(name, folder)
        if path not in hashes:
            found.append(f"traced_files lacks {name}: {sorted(p.name for p in hashes)}")
        elif hashes[path] != hashlib.sha256(path.read_bytes()).hexdigest():
            found.append(f"traced_files: wrong sha256 for {name}")
    return found


def _identities(expected: Expectation, report: Json) -> list[str]:
    """Compilations are told apart by process and epoch; no two carry the same three."""
    keys = [(c.get("process"), c.get("epoch"), c.get("compile_id")) for c in report["compilations"]]
    found = [f"two compilations are {key}" for key, n in Counter(keys).items() if n > 1]
    processes, epochs = len({key[0] for key in keys}), len({key[:2] for key in keys})
    if expected.processes > 1 and processes != expected.processes:
        found.append(f"compilations in {processes} processes, true is {expected.processes}")
    if expected.epochs is not None and epochs != expected.epochs:
        found.append(f"compilations in {epochs} epochs, true is {expected.epochs}")
    return found


def _spot(entry: Json) -> str:
    location = entry["location"]
    return f"{Path(location['file']).name}:{location['line']}:{location.get('column')}"
