"""What to do against a recompile: one piece of advice a cause, with code that names the user's own variable."""

from __future__ import annotations

from collections.abc import Callable

from dynalyze.report import Advice, Cause
from dynalyze.rules.recompile_advice import sizes, state, tensors, values
from dynalyze.rules.recompile_advice.modules import different_modules
from dynalyze.rules.recompile_advice.source import Source, read_source
from dynalyze.rules.recompile_advice.writing import RECOMPILATION_PAGE
from dynalyze.rules.recompile_series import Series

ADVISERS: dict[Cause, Callable[[Series, Source], Advice]] = {
    "shape": sizes.shape,
    "symbolic": sizes.symbolic,
    "rank": sizes.rank,
    "stride": sizes.stride,
    "dynamic_marking": sizes.dynamic_marking,
    "dtype": tensors.dtype,
    "device": tensors.device,
    "requires_grad": tensors.requires_grad,
    "tensor_type": tensors.tensor_type,
    "aliasing": tensors.aliasing,
    "value": values.value,
    "module_attribute": values.module_attribute,
    "global_variable": values.global_variable,
    "identity": values.identity,
    "container": values.container,
    "global_state": state.global_state,
    "backend": state.backend,
}


def advise(series: Series) -> Advice:
    """The one action against a series of recompiles.

    A guard that could not be read, and one without a source where the advice needs to name it, gets what is known.
    """
    source = read_source(series.lead)
    if series.modules:
        return different_modules(series, source)
    adviser = ADVISERS.get(series.lead.cause)
    readable = source.text or series.forced_by or series.lead.cause in ("dynamic_marking", "backend", "global_state")
    if adviser is None or not readable:
        return _unread(series)
    return adviser(series, source)


def _unread(series: Series) -> Advice:
    guard = next((line for line in series.lead.guard.splitlines() if line.strip()), "")
    return Advice(
        action=f"Keep this the same from call to call: {guard}" if guard else "Find out what changes between calls.",
        why="A guard of the compiled code did not hold for a new call.",
        link=RECOMPILATION_PAGE,
    )
