"""What a comparison of two sweeps may show: cleaned after the matching, so that what is hidden still counts in it."""

from __future__ import annotations

from dynalyze import privacy
from dynalyze.comparison.sweeps import ItemChange, LineChange, SweepComparison, SweepRegression
from dynalyze.privacy.sweep import bare_error, bare_type, row_break
from dynalyze.report.held import Restate
from dynalyze.sweep.records import RowBreak


def without_source(comparison: SweepComparison) -> SweepComparison:
    """No line of user code, and nothing that may quote one."""
    return privacy.without_source(comparison, _RESTATED)


def _line(before: LineChange, after: LineChange) -> LineChange:
    after.gb_type = bare_type(before.gb_type, before.gb_id)
    return after


def _item(before: ItemChange, after: ItemChange) -> ItemChange:
    after.error = bare_error(before.error) or ""
    return after


def _regression(before: SweepRegression, after: SweepRegression) -> SweepRegression:
    """What is worse is a status, in our words, or the type of a break."""
    after.what = bare_type(before.what, None) if before.kind == "break" else before.what
    return after


_RESTATED: Restate = {LineChange: _line, ItemChange: _item, SweepRegression: _regression, RowBreak: row_break}
