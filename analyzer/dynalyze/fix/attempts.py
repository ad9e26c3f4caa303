"""Changes that are tried for a break, one on top of the others, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dynalyze.capture.numbers_of_python import SETTING
from dynalyze.capture.regions import Instead
from dynalyze.fix.callers import CallingLines
from dynalyze.fix.patches import is_library
from dynalyze.fix.proof import Compiled
from dynalyze.fix.settings import numbers_of
from dynalyze.fix.source_files import Originals
from dynalyze.report import GraphBreak
from dynalyze.report.fixes import Evidence, FixKind, FixStatus

_NOTHING = Instead()


@dataclass(frozen=True)
class State:
    """The files as they are after some changes, the settings, and what the calls compile then. `loses` are the kinds of
    side effects that compiled code lacks by intention of these changes, `effects` those that differ. `instead` is what
    is compiled in the place of the model.
    """

    texts: dict[str, str]
    settings: dict[str, object]
    compiled: Compiled
    instead: Instead = _NOTHING
    loses: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    changed: bool = False


@dataclass
class Attempt:
    """What came of a proposal for one break. `proposed` is the state with it, as far as it came; it is the next one
    where it was proved.
    """

    broken: GraphBreak
    before: State
    kind: FixKind = "source"
    status: FixStatus = "rejected"
    title: str = ""
    rewrite: str = ""
    reason: str = ""
    proposed: State | None = None
    evidence: Evidence = field(default_factory=Evidence)
    ends: list[GraphBreak] = field(default_factory=list)


def giving_numbers(
    attempts: Sequence[Attempt], state: State, calling: CallingLines, originals: Originals
) -> tuple[list[Attempt], State] | None:
    """The same where the program's own lines give numbers of Python to its model, in the place of a setting of ours;
    None where nothing needs them, or the lines do not show how. Their files are added to `originals`.
    """
    if not numbers_of(state.settings):
        return None
    for file, _ in calling.places:
        if is_library(file) or originals.read(file) is None:
            return None
    whole = _in_calls(state, calling, originals)
    return None if whole is None else ([_attempt_in_calls(each, calling, originals) for each in attempts], whole)


def _attempt_in_calls(attempt: Attempt, calling: CallingLines, originals: Mapping[str, str]) -> Attempt:
    """An attempt with the lines that call in its files; as it is where these do not show how it gives its numbers."""
    if attempt.proposed is None:
        return attempt
    before, proposed = (_in_calls(each, calling, originals) for each in (attempt.before, attempt.proposed))
    if before is None or proposed is None:
        return attempt
    of_source = proposed.settings == before.settings and proposed.instead == before.instead
    return replace(attempt, before=before, proposed=proposed, kind="source" if of_source else attempt.kind)


def _in_calls(state: State, calling: CallingLines, originals: Mapping[str, str]) -> State | None:
    names = numbers_of(state.settings)
    texts = {**{file: originals[file] for file, _ in calling.places}, **state.texts}
    if not names:
        return replace(state, texts=texts)
    changed = calling.with_numbers(originals, texts, names)
    settings = {name: value for name, value in state.settings.items() if name != SETTING}
    return None if changed is None else replace(state, texts={**texts, **changed}, settings=settings)
