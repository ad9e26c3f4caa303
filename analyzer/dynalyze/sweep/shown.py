"""What may be shown of a sweep, and of two compared: secrets masked, source and names as the user chose."""

from __future__ import annotations

import msgspec

from dynalyze import privacy
from dynalyze.facts.registry import registry
from dynalyze.report.sensitivity import Restate
from dynalyze.sweep.clusters import exception_in
from dynalyze.sweep.compare import ItemChange, LineChange, SweepRegression
from dynalyze.sweep.records import Row, RowBreak


def shown(document: privacy.Document, *, no_source: bool, redact: bool) -> privacy.Document:
    """The document as it may be written. Long values were hidden, or not, when the items ran."""
    document = privacy.mask_secrets(document)
    document = privacy.without_source(document, _RESTATED) if no_source else document
    return privacy.redact(document) if redact else document


def _registered(gb_type: str, gb_id: str | None) -> str:
    """A type of PyTorch's registry is torch's own wording; anything else may quote the program."""
    entry = registry().entry(gb_id) if gb_id else None
    return gb_type if registry().id_of(gb_type) else (entry.gb_type if entry else "Graph break")


def _row_break(before: RowBreak, after: RowBreak) -> RowBreak:
    """A break without code, its reason as PyTorch's registry has it. This record is frozen."""
    entry = registry().entry(before.gb_id) if before.gb_id else None
    gb_type = _registered(before.gb_type, before.gb_id)
    return msgspec.structs.replace(after, gb_type=gb_type, reason=entry.explanation if entry else "")


def _failed(before: Row | ItemChange, after: Row | ItemChange) -> None:
    """The exception's name alone."""
    if before.error:
        after.error = exception_in(before.error) or f"The message is left out {privacy.LEFT_OUT}."


def _line(before: LineChange, after: LineChange) -> None:
    after.gb_type = _registered(before.gb_type, before.gb_id)


def _regression(before: SweepRegression, after: SweepRegression) -> None:
    """What is worse is a status, in our words, or the type of a break."""
    after.what = _registered(before.what, None) if before.kind == "break" else before.what


_RESTATED: Restate = {
    Row: _failed, ItemChange: _failed, RowBreak: _row_break, LineChange: _line, SweepRegression: _regression,
}  # fmt: skip
