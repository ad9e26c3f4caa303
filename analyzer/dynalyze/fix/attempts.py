"""Changes that are tried for a break, one on top of the others, and what came of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from dynalyze.capture.regions import RegionalCompile
from dynalyze.fix.proof import Compiled
from dynalyze.report import GraphBreak
from dynalyze.report.fixes import Evidence, FixKind, FixStatus

_NOTHING = RegionalCompile()


@dataclass(frozen=True)
class FixState:
    """The files as they are after some changes, the settings, and what the calls compile then. `loses` are the kinds of
    side effects that compiled code lacks by intention of these changes, `effects` those that differ. `instead` is what
    is compiled in the place of the model.
    """

    texts: dict[str, str]
    settings: dict[str, object]
    compiled: Compiled
    instead: RegionalCompile = _NOTHING
    loses: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    changed: bool = False


@dataclass
class Attempt:
    """What came of a proposal for one break. `proposed` is the state with it, as far as it came; it is the next one
    where it was verified. `key` tells one proposal for a break from another.
    """

    broken: GraphBreak
    before: FixState
    kind: FixKind = "source"
    status: FixStatus = "rejected"
    title: str = ""
    rewrite: str = ""
    reason: str = ""
    proposed: FixState | None = None
    evidence: Evidence = field(default_factory=Evidence)
    ends: list[GraphBreak] = field(default_factory=list)
    key: tuple[int, str, str] = (0, "", "")
