"""Advice on what is around a call: modes of torch, the backend."""

from __future__ import annotations

import re

from dynalyze.report import Advice, Example
from dynalyze.rules.recompile_advice.source import Source
from dynalyze.rules.recompile_advice.writing import PRODUCTION, PRODUCTION_NOTE, RECOMPILATION_PAGE, callee
from dynalyze.rules.recompile_series import Series

_STATES = {
    "grad_mode": "gradient mode", "inference_mode": "inference mode", "default_dtype": "default dtype",
    "num_threads": "number of threads",
    "deterministic_algorithms": "setting of deterministic algorithms", "torch_function": "torch function mode",
}  # fmt: skip

_BLOCKS = {"grad_mode": "with torch.no_grad():", "inference_mode": "with torch.inference_mode():"}


def global_state(series: Series, source: Source) -> Advice:
    """A mode of torch that was another one while compiling."""
    call = f"{callee(series.lead.location)}(...)"
    autocast = re.match(r"autocast(?:\((\w+)\))?", source.text)
    if autocast:
        state, block = "autocast mode", f'with torch.autocast("{autocast[1] or "cpu"}"):'
    else:
        state, block = _STATES.get(source.text, source.text or "state of torch"), _BLOCKS.get(source.text, "")
    wanted = bool(block)
    return Advice(
        action=f"Run warm-up and serving in the same {state}{_both(series)}.{_context(source.text)}",
        why="The mode is built into the compiled code, so each mode is compiled by itself.",
        example=Example(f"{call}\n{block}\n    {call}", f"{block}\n    {call}\n{block}\n    {call}")
        if wanted
        else None,
        config=PRODUCTION,
        config_note=PRODUCTION_NOTE,
        link=RECOMPILATION_PAGE,
    )


def _context(state: str) -> str:
    """What the same context is, where one state stands for several ways to set it."""
    if state in ("grad_mode", "inference_mode"):
        return " To the compiler `torch.no_grad()` and `torch.inference_mode()` are different contexts."
    if state == "num_threads":
        return " Call `torch.set_num_threads` before the first call."
    return ""


def backend(series: Series, _: Source) -> Advice:
    """One function compiled by two backends, or by two results of torch.compile."""
    name = callee(series.lead.location)
    return Advice(
        action=f"Call `torch.compile` on `{name}` once, with one backend and one set of options, and keep what it "
        "returns.",
        why="Compiled code belongs to the function: a second torch.compile of it with other options compiles it again.",
        link=RECOMPILATION_PAGE,
    )


def _both(series: Series) -> str:
    expected, actual = series.lead.expected, series.lead.actual
    if actual is None:
        return ""
    name = series.lead.source
    before = f"`{name}` was {expected} while compiling and" if expected is not None else f"`{name}`"
    return f": {before} {'was ' if expected is None else ''}{actual} in the call that did not fit"
