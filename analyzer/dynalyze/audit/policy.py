"""What a project asks of a run before it ships: `[tool.dynalyze.audit]` in pyproject.toml, or a file of its own.

[tool.dynalyze.audit]
targets = ["model.py:build --no-bench", "serve.py"]
max-graph-breaks = 0
min-speedup = 1.2
fail-on = ["error", "recompile"]

[[tool.dynalyze.audit.ignore]]
rule = "graph-break"
file = "model.py"
reason = "a log line of the data loader, gone with the next release"
expires = 2027-01-31

An ignore is a waiver: it lets findings pass at a place, with a reason, until its day is over.
"""

from __future__ import annotations

import contextlib
import datetime
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any, get_args

from dynalyze.files.project_file import PROJECT_FILE, check_keys, nearest, nearest_table, parsed, table_of, title
from dynalyze.report import Finding
from dynalyze.report.audit import Waiver
from dynalyze.report.measurements import AccuracyVerdict
from dynalyze.rules.rule import BREAK_LIMIT, break_limit, rules, stands_for
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed

_NEEDED = ("rule", "reason", "expires")
_KEYS = (*_NEEDED, "file", "function", "code")
_EXAMPLE = "e.g. expires = 2027-01-31"
ANY = "any"  # The value of a limit that is taken away.
_LEVELS = ("error", "warning", "info", "none")
_TABLE = "audit"
_TARGETS = "targets"


@dataclass(frozen=True)
class WaiverRule:
    """One `[[ignore]]`. Missing keys fit everything; `code` is a part of the line, blanks do not count."""

    rule: str
    reason: str
    expires: datetime.date
    file: str = ""
    function: str = ""
    code: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether it is about this finding; it may have expired."""
        place = finding.location
        if self.rule not in stands_for(finding):
            return False
        if place is None:
            return not (self.file or self.function or self.code)
        return (
            (not self.file or PurePath(place.file).match(self.file))
            and (not self.function or self.function in (place.function, place.function.rpartition(".")[2]))
            and "".join(self.code.split()) in "".join((place.code or "").split())
        )

    def waiver(self, used: int, today: datetime.date) -> Waiver:
        """Its record in a report; it holds to the end of its day."""
        return Waiver(
            rule=self.rule, reason=self.reason, file=self.file, function=self.function,
            expires=self.expires.isoformat(), expired=today > self.expires, used=used,
        )  # fmt: skip


def check_rule(name: str, what: str, more: Iterable[str] = ()) -> None:
    """Refuse what is no id of a rule, in one line that names the nearest one."""
    known = [rule_id for rule in rules() for rule_id in rule.ids]
    if name not in known:
        raise UsageError(f"{what}: no rule is called {name!r}{nearest(name, [*more, *known])}")


def _waiver(table: Mapping[str, Any], where: str) -> WaiverRule:
    check_keys(table, _KEYS, where)
    given = {dashed(key): value for key, value in table.items()}
    for key in _NEEDED:
        if key not in given:
            raise UsageError(f"{where}: {key} is missing{f', {_EXAMPLE}' if key == 'expires' else ''}")
    expires = given.pop("expires")
    with contextlib.suppress(TypeError, ValueError):  # A text; TOML has days of its own.
        expires = datetime.datetime.strptime(expires, "%Y-%m-%d").date()
    if not isinstance(expires, datetime.date) or isinstance(expires, datetime.datetime):
        raise UsageError(f"{where}: expires is a day, {_EXAMPLE}, not {expires!r}")
    for key, value in given.items():
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: {key} is a text, not {value!r}")
    if "file" in given and not PurePath(given["file"]).name:
        raise UsageError(f"{where}: file is a file's name or the end of its path, not {given['file']!r}")
    check_rule(given["rule"], f"{where}: rule")
    return WaiverRule(expires=expires, **given)


@dataclass(frozen=True)
class Policy:
    """The limits; None is no limit. The defaults are the built-in policy.

    `fail_on` are severities and ids of rules. `asked` are the keys that the user set: only for these, what cannot be
    judged fails. `source` is the file.
    """

    source: str = ""
    max_graph_breaks: int | None = 0
    max_recompiles: int | None = None
    max_recompiles_after_warmup: int | None = 0
    max_eager_frames: int | None = 0
    min_speedup: float | None = None
    max_compile_seconds: float | None = None
    max_memory_growth: float | None = None
    max_break_ms: float | None = None
    accuracy: tuple[AccuracyVerdict, ...] | None = ("equal", "benign", "rounding only")
    fail_on: tuple[str, ...] = ("error",)
    waivers: tuple[WaiverRule, ...] = ()
    asked: frozenset[str] = field(default_factory=frozenset)


def read_policy(path: Path | None, folder: Path | None = None) -> Policy:
    """The policy in `path`; without one, that of the project around `folder` (the working directory), or the built-in.
    Raises UsageError for an unknown key, or a value of another type.
    """
    if path is None:
        found = nearest_table(_TABLE, folder or Path.cwd())
        return Policy() if found is None else _policy(*found, f"{found[1]}, {title(_TABLE)}")
    document = parsed(path)
    if "tool" not in document and path.name != PROJECT_FILE:  # A whole file that holds nothing else.
        return _policy(document, path, str(path))
    table = table_of(document, _TABLE, path)
    if table is None:
        raise UsageError(f"{path}: it has no table [{title(_TABLE)}]")
    return _policy(table, path, f"{path}, {title(_TABLE)}")


def targets_of_project() -> list[list[str]]:
    """The arguments of `dynalyze audit` for each of the nearest project's `targets`; raises UsageError without any."""
    found = nearest_table(_TABLE, Path.cwd())
    if found is None or _TARGETS not in found[0]:
        raise UsageError(f'say what to audit: TARGET, or targets = ["model.py"] in [{title(_TABLE)}] of {PROJECT_FILE}')
    targets = found[0][_TARGETS]
    if not (isinstance(targets, list) and targets and all(isinstance(each, str) and each.strip() for each in targets)):
        raise UsageError(f'{found[1]}, {title(_TABLE)}: targets is a list of texts, e.g. targets = ["model.py"]')
    try:
        return [shlex.split(each) for each in targets]
    except ValueError as error:
        raise UsageError(f"{found[1]}, {title(_TABLE)}: targets = {targets}: {error}") from error


def with_options(policy: Policy, *, fail_on: str | None, baseline: bool, warmup: bool) -> Policy:
    """The policy with the options: `--fail-on` replaces its own, and a limit the same limit.

    With a baseline new warnings fail too, unless the policy says which findings do. `--shapes` asks for the warm-up
    check.
    """
    asked = policy.asked
    if fail_on is not None and (limit := break_limit(fail_on)) is not None:
        asked, fail_on = asked | {BREAK_LIMIT}, None
        policy = replace(policy, max_break_ms=limit, asked=asked)
    if fail_on is not None:
        policy = replace(policy, fail_on=() if fail_on == "none" else (fail_on,))
    elif baseline and "fail-on" not in asked:
        policy = replace(policy, fail_on=("warning",))
    return replace(policy, asked=asked | {"max-recompiles-after-warmup"}) if warmup else policy


def _policy(table: Mapping[str, Any], file: Path, where: str) -> Policy:
    check_keys(table, (*_READERS, "ignore", _TARGETS), where)
    given: dict[str, Any] = {}
    for key, value in ((key, value) for key, value in table.items() if key != _TARGETS):
        name = dashed(key)
        if name in given:
            raise UsageError(f"{where}: {name} is given twice")
        given[name] = value if name == "ignore" else _READERS[name](value, f"{where}: {name}")
    ignored = given.pop("ignore", [])
    if not isinstance(ignored, list) or not all(isinstance(each, dict) for each in ignored):
        raise UsageError(f"{where}: ignore is a list of tables, each begins with a line [[...ignore]]")
    waivers = tuple(_waiver(each, f"{where}, ignore {number}") for number, each in enumerate(ignored, 1))
    asked = frozenset(name for name, value in given.items() if value is not None)
    limits = {name.replace("-", "_"): value for name, value in given.items()}
    return Policy(source=str(file), waivers=waivers, asked=asked, **limits)


def _number(value: Any, what: str, *, whole: bool) -> float | None:
    if value == ANY:
        return None
    if type(value) is int and whole and value >= 0:
        return value
    if type(value) in (int, float) and not whole and 0 < value < 1e300:
        return float(value)
    kind = "a whole number, 0 or more" if whole else "a number above zero"
    raise UsageError(f'{what} is {kind}, or "{ANY}", not {value!r}')


def _verdicts(value: Any, what: str) -> tuple[AccuracyVerdict, ...] | None:
    if value == ANY:
        return None
    texts = _texts(value, what, f'a list of verdicts, or "{ANY}"')
    known: dict[str, AccuracyVerdict] = {verdict: verdict for verdict in get_args(AccuracyVerdict)}
    for each in texts:
        if each not in known:
            raise UsageError(f"{what}: no verdict is called {each!r}{nearest(each, known)}")
    if not texts:
        raise UsageError(f'{what}: no verdict would pass; to ask for none, write "{ANY}"')
    return tuple(known[each] for each in texts)


def _levels(value: Any, what: str) -> tuple[str, ...]:
    texts = _texts(value, what, "a severity, the id of a rule, or a list of these")
    for each in texts:
        if each not in _LEVELS:
            check_rule(each, what, more=_LEVELS)
    return tuple(each for each in texts if each != "none")


def _texts(value: Any, what: str, kind: str) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        raise UsageError(f"{what} is {kind}, not {value!r}")
    return texts


_COUNT, _AMOUNT = partial(_number, whole=True), partial(_number, whole=False)
_READERS: dict[str, Callable[[Any, str], Any]] = {
    "max-graph-breaks": _COUNT, "max-recompiles": _COUNT, "max-recompiles-after-warmup": _COUNT,
    "max-eager-frames": _COUNT, "min-speedup": _AMOUNT, "max-compile-seconds": _AMOUNT, "max-memory-growth": _AMOUNT,
    "max-break-ms": _AMOUNT, "accuracy": _verdicts, "fail-on": _levels,
}  # fmt: skip
