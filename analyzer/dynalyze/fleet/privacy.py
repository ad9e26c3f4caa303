"""What a sweep may show. Its rows come from reports that are cleaned already; this is for the rest, and for `diff`."""

from __future__ import annotations

import msgspec

from dynalyze import privacy
from dynalyze.fleet.clusters import exception_in
from dynalyze.fleet.records import Row, RowBreak, Sweep
from dynalyze.registry import registry


def mask_secrets(sweep: Sweep) -> Sweep:
    """Arguments that look like secrets, and every text that quotes them or holds a known kind of key."""
    secrets = privacy.secrets_of([sweep.command])
    masked = msgspec.structs.replace(sweep, command=privacy.masked_arguments(sweep.command))
    return privacy.without(masked, secrets)


def redact(sweep: Sweep) -> Sweep:
    """No home folder, user name or host name in any text; no names of the machines of a cluster either."""
    items = [msgspec.structs.replace(row, node="") for row in sweep.items]
    return privacy.redact(msgspec.structs.replace(sweep, items=items))


def without_source(sweep: Sweep) -> Sweep:
    """No line of user code: none of the breaks' own, and none that reasons and exceptions quote."""
    return msgspec.structs.replace(sweep, items=[_bare(row) for row in sweep.items])


def _bare(row: Row) -> Row:
    breaks = [bare_break(found) for found in row.breaks]
    return msgspec.structs.replace(row, error=bare_error(row.error), notes=[], breaks=breaks)


def bare_error(error: str | None) -> str | None:
    """The exception's name alone."""
    return (exception_in(error) or "The message is left out (--no-source).") if error else error


def bare_break(found: RowBreak) -> RowBreak:
    """A break without code, its reason as PyTorch's registry has it."""
    entry = registry().entry(found.gb_id) if found.gb_id else None
    reason = entry.explanation if entry else ""
    return msgspec.structs.replace(found, gb_type=bare_type(found.gb_type, found.gb_id), reason=reason, code=None)


def bare_type(gb_type: str, gb_id: str | None) -> str:
    """A type of PyTorch's registry is torch's own wording; anything else may quote the program."""
    known = registry()
    entry = known.entry(gb_id) if gb_id else None
    return gb_type if known.id_of(gb_type) else (entry.gb_type if entry else "Graph break")
