"""Advice where nothing changed between calls: different modules run one code, and each was compiled for itself."""

from __future__ import annotations

from dynalyze.report import Advice
from dynalyze.rules.recompile_advice.source import Source, clipped
from dynalyze.rules.recompile_advice.writing import RECOMPILATION_PAGE
from dynalyze.rules.recompile_series import Series

_MOST_NAMES = 4


def different_modules(series: Series, source: Source) -> Advice:
    """One compile a module is what there is to do; what would spare it is one compile for all of them."""
    integers = series.lead.cause == "module_attribute" and (series.lead.expected or "").lstrip("-").isdigit()
    guard = clipped(series.lead.guard.partition("\n")[0])
    config = "torch._dynamo.config.allow_unspec_int_on_nn_module = True" if integers else ""
    share = (
        f" They differ in the integer `{source.shown}`: with the setting below they can share code." if config else ""
    )
    return Advice(
        action="Nothing changes between calls: these are different modules, and each is compiled once. To have them in "
        f"one graph, compile the function or the module that calls them, in place of each by itself.{share}",
        why="Compiled code belongs to Python code, and these modules run the same: one class, or torch's own function "
        f"around modules of torch. What torch found different first: {guard}.",
        config=config,
        config_note="Then an integer that differs becomes dynamic in the second compile." if config else "",
        link=RECOMPILATION_PAGE,
    )


def one_code(series: Series) -> str:
    """ "`enc` and `dec` are different modules that run one code"; their number where they have no own names."""
    names = list(dict.fromkeys(name for name in series.modules if name))
    if len(names) < len(series.modules):
        return f"{len(series.modules)} different modules run one code"
    shown, left = [f"`{clipped(name)}`" for name in names[:_MOST_NAMES]], len(names) - _MOST_NAMES
    listed = f"{', '.join(shown)} and {left} more" if left > 0 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{listed} are different modules that run one code"
