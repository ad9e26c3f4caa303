"""What every check of a policy is made of. Texts begin with our own words; the program's names come after a colon."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dynalyze.audit.policy import Policy
from dynalyze.audit.sorting import Sorting
from dynalyze.report import Location, Report
from dynalyze.report.audit import CheckStatus, PolicyCheck

_MOST_NAMED = 3


@dataclass(frozen=True)
class Case:
    """A run before its policy. `sorting` says which of its findings count."""

    report: Report
    policy: Policy
    sorting: Sorting

    def check(
        self, name: str, status: CheckStatus, limit: str, found: str, reason: str = "", evidence: Iterable[str] = ()
    ) -> PolicyCheck:
        """One line of the verdict."""
        return PolicyCheck(name, status, name in self.policy.asked, limit, found, reason, list(dict.fromkeys(evidence)))

    def unknown(self, name: str, limit: str, reason: str) -> PolicyCheck:
        """What the check needs was not measured."""
        return self.check(name, "unknown", limit, "not known", reason)


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and 4 more`."""
    once = list(dict.fromkeys(items))
    shown, left = once[:_MOST_NAMED], len(once) - _MOST_NAMED
    if left > 0:
        return f"{', '.join(shown)} and {left:,} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def place_words(place: Location) -> str:
    """`forward (model.py:12)`."""
    line = f"{Path(place.file).name}:{place.line}"
    return f"{place.function} ({line})" if place.function else line
