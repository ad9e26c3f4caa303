"""Advice on what is around a call: modes of torch, the backend, several modules of one code."""

from __future__ import annotations

import re
from typing import NamedTuple

from dynalyze.report import Advice, Example, Recompile
from dynalyze.rules.recompile_advice.source import PRODUCTION, PRODUCTION_NOTE, Expression, clipped
from dynalyze.rules.recompile_series import Series
from dynalyze.text.amounts import listed

_NAMES = {
    "grad_mode": "the gradient mode", "inference_mode": "inference mode", "default_dtype": "the default dtype",
    "num_threads": "the number of threads", "autocast_cache_enabled": "the cache of autocast",
    "deterministic_algorithms": "the setting of deterministic algorithms", "torch_function": "torch function mode",
}  # fmt: skip
_AUTOCAST = re.compile(r"autocast(?:\((?P<device>\w+)\))?_(?P<what>enabled|dtype)$")


_MOST_NAMES = 4
AS_ONE = (
    "Leave it where they are compiled one by one on purpose, as repeated blocks are; to have them in one graph, "
    "compile the function or the module that calls them."
)


class TorchState(NamedTuple):
    """One state of torch that changed between two calls; None where a value is not known."""

    name: str
    before: str | None
    after: str | None

    @property
    def words(self) -> str:
        """As it is called in a sentence: `the gradient mode`, `autocast for "cpu"`."""
        autocast = _AUTOCAST.match(self.name)
        if autocast is None:
            return _NAMES.get(self.name, f"`{self.name}`")
        device = f' for "{autocast["device"]}"' if autocast["device"] else ""
        return f"{'the dtype of ' if autocast['what'] == 'dtype' else ''}autocast{device}"

    @property
    def is_autocast(self) -> bool:
        return self.name.startswith("autocast")


def states_of(lead: Recompile) -> list[TorchState]:
    """All states of torch that were others, in torch's own order."""
    names = (lead.source or "").split(", ") if lead.source else []
    before, after = _values(lead.expected, len(names)), _values(lead.actual, len(names))
    return [TorchState(*each) for each in zip(names, before, after, strict=True)]


def is_by_design(lead: Recompile) -> bool:
    """Whether it is the step from gradients to none, or back, as every training loop with a validation has it.

    Both versions are kept, and no other mode around the calls would spare one of them.
    """
    return lead.cause == "global_state" and any(state.name == "grad_mode" for state in states_of(lead))


def global_state(series: Series, source: Expression) -> Advice:
    """Modes of torch that were others while compiling."""
    states = states_of(series.lead)
    if is_by_design(series.lead):
        return _with_and_without_gradients(states)
    call = f"{source.call}(...)"
    block = _block(states)
    changes = [
        f"`{state.name}` was {f'{state.before} while compiling and ' if state.before is not None else ''}{state.after} "
        "in the call that did not fit"
        for state in states
        if state.after is not None
    ]
    # The same context, where one state stands for several ways to set it.
    names = {state.name for state in states}
    context = ""
    if "inference_mode" in names:
        context = " To the compiler `torch.no_grad()` and `torch.inference_mode()` are different contexts."
    elif "num_threads" in names:
        context = " Call `torch.set_num_threads` before the first call."
    return Advice(
        f"Keep {_listed(states)} the same in every call, the warm-up too{': ' if changes else ''}{', '.join(changes)}."
        f"{context}",
        "The mode is built into the compiled code, so each mode is compiled by itself.",
        Example(f"{call}\n{block}\n    {call}", f"{block}\n    {call}\n{block}\n    {call}") if block else None,
        PRODUCTION,
        PRODUCTION_NOTE,
    )


def _with_and_without_gradients(states: list[TorchState]) -> Advice:
    """Nobody who trains may be told to switch gradients off; who only infers has one mode for all calls."""
    also = [state for state in states if state.name != "grad_mode"]
    other = f" Between the two {_listed(also)} changed as well: that costs no compile more" if also else ""
    if any(state.is_autocast for state in also):
        other += ", but validates in another precision than it trains, unless both are under the same `torch.autocast`"
    other += "." if also else ""
    return Advice(
        "Expected if you train and validate: the step with gradients and the one without are two programs, each "
        "compiled once and kept. A program that only infers makes all its calls, the "
        f"warm-up too, under `torch.inference_mode()`.{other}",
        "With gradients the compiled code has a backward and keeps what that needs; without, it has neither. "
        "`torch.no_grad()` and `torch.inference_mode()` are two modes as well: validate in the same one every time.",
    )


def _block(states: list[TorchState]) -> str:
    """The `with` that sets the one state that changed; "" for several, and for what no block sets."""
    if len(states) != 1:
        return ""
    autocast = _AUTOCAST.match(states[0].name)
    if autocast and autocast["what"] == "enabled":
        return f'with torch.autocast("{autocast["device"] or "cpu"}"):'
    return "with torch.inference_mode():" if states[0].name == "inference_mode" else ""


def backend(series: Series, source: Expression) -> Advice:
    """One function compiled by two backends, or by two results of torch.compile."""
    return Advice(
        f"Call `torch.compile` on `{source.call}` once, with one backend and one set of options, and keep what it "
        "returns.",
        "Compiled code belongs to the function: a second torch.compile of it with other options compiles it again.",
    )


def _listed(states: list[TorchState]) -> str:
    return listed(list(dict.fromkeys(state.words for state in states)) or ["the state of torch"])


def _values(joined: str | None, count: int) -> list[str | None]:
    values = joined.split(", ") if joined is not None else []
    known = [None if value == "?" else value for value in values]
    return known if len(known) == count else [None] * count


def different_modules(series: Series, source: Expression) -> Advice:
    """One compile a module is what there is to do; what would spare it is one compile for all of them."""
    guard = clipped(series.lead.guard.partition("\n")[0])
    return Advice(
        f"Nothing changes between calls: these are different modules, and each is compiled once. {AS_ONE}",
        "Compiled code belongs to Python code, and these modules run the same: one class, or torch's own function "
        f"around modules of torch. What torch found different first: {guard}.",
    )


def several_threads(series: Series, source: Expression) -> Advice:
    """torch compiles in one thread at a time: the others wait, and then compile as well."""
    call = f"{source.call}(...)"
    return Advice(
        f"Call `{source.call}` once before the threads start, in the modes that they use: `torch.no_grad()` and "
        "autocast are each thread's own. Where sizes vary, compile with `dynamic=True` or make a call of each.",
        "A thread whose call fits no version waits while another one compiles, and does not look again whether the new "
        "version fits: it compiles the same once more.",
        Example(f"thread.start()  # calls {call}", f"{call}\nthread.start()  # calls {call}"),
    )


def one_code(series: Series) -> str:
    """ "`enc` and `dec` are different modules that run one code"; their number where they have no own names."""
    names = list(dict.fromkeys(name for name in series.modules if name))
    if len(names) < len(series.modules):
        return f"{len(series.modules)} different modules run one code"
    return f"{listed([f'`{clipped(name)}`' for name in names], _MOST_NAMES)} are different modules that run one code"
