"""Findings that a policy lets pass at a place: each with a reason, and a day after which it does not any more."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from dynalyze.files.project_file import check_keys, dashed, nearest
from dynalyze.report import Finding
from dynalyze.report.audit import Waiver
from dynalyze.rules.rule import stands_for
from dynalyze.text.errors import UsageError

_KEYS = ("rule", "file", "function", "code", "reason", "expires")
_NEEDED = ("rule", "reason", "expires")
_EXAMPLE = "e.g. expires = 2027-01-31"


@dataclass(frozen=True)
class WaiverRule:
    """One `[[ignore]]`. What it leaves out fits everything; `code` is a part of the line, blanks do not count."""

    rule: str
    reason: str
    expires: datetime.date
    file: str = ""
    function: str = ""
    code: str = ""

    def covers(self, finding: Finding) -> bool:
        """Whether it speaks of this finding; it may have expired."""
        if self.rule not in stands_for(finding):
            return False
        if not (self.file or self.function or self.code):
            return True
        place = finding.location
        if place is None:
            return False
        return (
            (not self.file or PurePath(place.file).match(self.file))
            and (not self.function or self.function in (place.function, place.function.rpartition(".")[2]))
            and (not self.code or _bare(self.code) in _bare(place.code or ""))
        )

    def expired(self, today: datetime.date) -> bool:
        """It holds to the end of its day."""
        return today > self.expires

    def told(self, used: int, today: datetime.date) -> Waiver:
        """As the report tells of it."""
        return Waiver(
            rule=self.rule, reason=self.reason, file=self.file, function=self.function,
            expires=self.expires.isoformat(), expired=self.expired(today), used=used,
        )  # fmt: skip


def read_waivers(tables: Any, where: str) -> tuple[WaiverRule, ...]:
    """Understand `[[ignore]]`.

    Raises:
        UsageError: an unknown key or rule, a value of another type, no reason or no day of expiry.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{where}: ignore is a list of tables, each begins with a line [[...ignore]]")
    return tuple(_waiver(table, f"{where}, ignore {number}") for number, table in enumerate(tables, 1))


def check_rule(name: str, what: str, more: Iterable[str] = ()) -> None:
    """Refuse what is no id of a rule.

    Raises:
        UsageError: one line that names the nearest one.
    """
    from dynalyze.rules.rule import rules

    known = [rule_id for rule in rules() for rule_id in rule.ids]
    if name not in known:
        raise UsageError(f"{what}: no rule is called {name!r}{nearest(name, [*more, *known])}")


def _waiver(table: Mapping[str, Any], where: str) -> WaiverRule:
    check_keys(table, _KEYS, where)
    given = {dashed(key): value for key, value in table.items()}
    for key in _NEEDED:
        if key not in given:
            raise UsageError(f"{where}: {key} is missing{f', {_EXAMPLE}' if key == 'expires' else ''}")
    expires = _day(given.pop("expires"), where)
    for key, value in given.items():
        if not isinstance(value, str) or not value.strip():
            raise UsageError(f"{where}: {key} is a text, not {value!r}")
    if "file" in given and not PurePath(given["file"]).name:
        raise UsageError(f"{where}: file is a file's name or the end of its path, not {given['file']!r}")
    check_rule(given["rule"], f"{where}: rule")
    return WaiverRule(expires=expires, **given)


def _day(value: Any, where: str) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    if isinstance(value, str):
        try:
            return datetime.datetime.strptime(value, "%Y-%m-%d").date()
        except ValueError:
            pass
    raise UsageError(f"{where}: expires is a day, {_EXAMPLE}, not {value!r}")


def _bare(code: str) -> str:
    return "".join(code.split())
