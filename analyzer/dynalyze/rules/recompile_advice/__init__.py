"""Advice on one series of recompiles, and its title, by the guard that failed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import get_args

import msgspec

from dynalyze.facts.guards import MISSING
from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Cause, FailedGuard, Recompile
from dynalyze.rules.recompile_advice import numbers, sizes, state, tensors, values
from dynalyze.rules.recompile_advice.sizes import is_whole
from dynalyze.rules.recompile_advice.source import (
    RECOMPILATION_PAGE,
    Expression,
    as_called,
    as_written,
    clipped,
    continued,
    is_condition,
    read_source,
)
from dynalyze.rules.recompile_advice.state import different_modules, one_code, several_threads, states_of
from dynalyze.rules.recompile_series import Series, is_zero_or_one, named_breaks
from dynalyze.text.amounts import listed

_SUBJECTS: dict[Cause, str] = {
    "rank": "The number of dimensions of {name}", "dtype": "The dtype of {name}", "device": "The device of {name}",
    "requires_grad": "requires_grad of {name}", "tensor_type": "The class of {name}", "backend": "The backend",
}  # fmt: skip
_MOST_VALUES = 3
_DECIDED = ("value", "global_variable", "module_attribute")
_KINDS_OF_TENSOR = ("tensor_type", "dtype", "requires_grad")
_OF_CALL = ("global_state", "backend", "dynamic_marking")


def what_changed(series: Series) -> str:
    """ "`n` changed 7 times (1, 2, 3, ...)", "The dtype of `x` changed from Float to Double"."""
    if series.modules:
        return one_code(series)
    if series.lead.cause == "dynamic_marking":
        return "A tensor was marked dynamic in one call and not in another"
    if series.lead.cause == "aliasing":
        return f"{_name(series)} were {series.lead.expected}, then {series.lead.actual}"
    if series.lead.threads:
        return f"{series.lead.threads} threads compiled one function at once"
    if not series.lead.source:
        guard = series.lead.guard
        return f"`{clipped(guard)}` held no more" if is_condition(guard) else "Something changed between calls"
    if series.lead.cause == "global_state":
        return _states_changed(series)
    if series.differ:
        seen = f" ({', '.join(_rounded(shown_values(series))[:_MOST_VALUES])})" if len(series.values) > 1 else ""
        return f"{_name(series)} differs between modules that run one code{seen}"
    subject = _SUBJECTS.get(series.lead.cause, "{name}").format(name=_name(series))
    values = _rounded(shown_values(series))
    if series.changes > 1 and len(values) != 2:
        rest = ", ..." if len(values) > _MOST_VALUES else ""
        seen = f" ({', '.join(values[:_MOST_VALUES])}{rest})" if len(values) > 1 else ""
        return f"{subject} changed {series.changes} times{seen}"
    if series.lead.cause == "container" and " in " in (series.lead.expected or ""):
        return f"{subject} changed, now {series.lead.actual}"
    if (other := sizes.equal_size(series.lead)) and series.changes == 1:
        return f"{subject} and `{other}` were equal, and differed then"
    if is_zero_or_one(series.lead):
        return f"{subject} was {series.lead.actual}, the code was compiled for sizes from 2 up"
    if len(values) > 1:
        return f"{subject} changed from {values[0]} to {values[1]}"
    return f"{subject} changed to {values[0]}" if series.lead.actual is not None and values else f"{subject} changed"


def history(series: Series, most: int) -> str:
    """The values of a series of changes in their order, as a sentence, and what changed beside them; "" where the title
    tells all.
    """
    values, lead = shown_values(series), series.lead
    no_values = series.modules or series.differ or lead.source is None or lead.cause == "global_state"
    went = ""
    if not no_values and series.changes > 1 and len(values) > 2:
        went = f"{_name(series)} went {', '.join(values[:most])}{', ...' if len(values) > most else ''}."
    others = list(_by_themselves(series))
    names = dict.fromkeys(as_written(as_called(each.source or "", lead)) for each in others)
    shown = [f"`{clipped(name)}`" for name in names]
    beside = f"In the same call {listed(shown, _MOST_VALUES)} changed too, which compiles anew by itself"
    return f"{went} {f'{beside}{_remedy(others, series)}.' if others else ''}".strip()


def _remedy(others: list[FailedGuard], series: Series) -> str:
    """What spares what changed beside something else; "" where it is not the same for all, or not known."""
    if {each.cause for each in others} == {"shape"} and series.fixed.isdisjoint(each.source for each in others):
        return ": compile with `dynamic=True` as well"
    first = others[0]
    is_literal = re.fullmatch(r"'.*'|\".*\"|-?\d[\d.e+-]*|True|False", first.actual or "") is not None
    if len(others) == 1 and is_literal and _was_not_there(first):
        return f": set it to `{clipped(first.actual or '')}` before the first call"
    return ""


def _by_themselves(series: Series) -> Iterator[FailedGuard]:
    """What changed beside a size, the kind of a tensor or what the first call makes, and would have set off a recompile
    without it: what somebody decides on by hand, a line makes a constant, or has a size for the first time.
    """
    lead, made = series.lead, _was_not_there(series.lead)
    if lead.cause in _KINDS_OF_TENSOR:
        yield from (each for each in lead.also if each.cause == "shape" and "._parameters[" not in (each.source or ""))
    for each in lead.also if made or lead.cause == "shape" else ():
        # A whole number becomes dynamic with the size, unless a module or a global holds it.
        varies = is_whole(each.expected) and each.cause == "value" and "G['" not in each.guard
        filled = each.cause == "container" and " not in " in (each.expected or "")
        decided = (each.cause in _DECIDED or filled) and not varies and not (made and _was_not_there(each))
        if each.source and not re.search(r"___|\bself$", each.source) and (decided or each.source in series.fixed):
            yield each


_ABSENT = re.compile(r"'(?P<kind>\w+)' object has no attribute '(?P<attribute>\w+)'")


def _was_not_there(guard: Recompile | FailedGuard) -> bool:
    """Whether an attribute or a key was missing, or `None`, as before a first call that makes it."""
    return guard.expected in ("None", MISSING) or " not in " in (guard.expected or "")


def shown_values(series: Series) -> list[str]:
    """The values as a user writes them."""
    if series.lead.cause == "requires_grad":
        return [clipped({"0": "False", "1": "True"}.get(value, value)) for value in series.values]
    return [clipped(re.sub(r"\A<class '(?:__main__\.)?(.+)'>\Z", r"\1", value)) for value in series.values]


def _states_changed(series: Series) -> str:
    """ "The gradient mode changed from True to False, and autocast for "cpu" from True to False"."""
    often = f" {series.changes} times" if series.changes > 1 else ""
    clauses = []
    for number, each in enumerate(states_of(series.lead)):
        step = f" from {each.before}" if each.before is not None else ""
        step = f"{step} to {each.after}" if each.after is not None and not often else ""
        clauses.append(f"{each.words}{'' if number else f' changed{often}'}{step}")
    text = clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])}, and {clauses[-1]}"
    return text[0].upper() + text[1:]


def _name(series: Series) -> str:
    closed_over = read_source(series.lead).closed_over_by
    if closed_over:
        return f"A value that `{closed_over}` closes over"
    text = as_written(as_called(series.lead.source or "", series.lead)).removesuffix(".__code__")
    if "___stack" in text:
        return "A value that a graph break leaves behind"
    if series.lead.cause == "aliasing":
        return " and ".join(f"`{part.strip()}`" for part in text.split(","))
    return f"`{clipped(text)}`"


def _rounded(values: list[str]) -> list[str]:
    """Long fractions cut to the digits that tell them apart: a title is no place for sixteen."""
    if not all(re.fullmatch(r"-?\d+\.\d{4,}(e[-+]\d+)?", value) for value in values):
        return values
    shorter = ([f"{float(value):.{digits}g}" for value in values] for digits in (4, 6, 9, 12))
    return next((each for each in shorter if len(set(each)) == len(set(values))), values)


ADVISERS: dict[Cause, Callable[[Series, Expression], Advice]] = {
    cause: vars(module)[cause]
    for cause in get_args(Cause)
    for module in (sizes, tensors, values, state)
    if cause in vars(module)
}
"""The functions of these modules that are called as a cause."""


def advise(series: Series) -> Advice:
    """The one action against a series of recompiles.

    A guard that could not be read, and one without a source where the advice needs to name it, gets what is known.
    """
    source, lead = read_source(series.lead), series.lead
    readable = source.text or series.forced_by or lead.cause in ("dynamic_marking", "backend", "global_state")
    adviser = ADVISERS.get(lead.cause) if readable else None
    if series.modules:
        adviser = different_modules
    elif lead.threads:
        adviser = several_threads
    elif series.package and lead.cause not in _OF_CALL:
        adviser = values.inside_package
    elif values.of_other_class(lead):
        adviser = values.classes
    elif series.entries and lead.expected in ("True", "False"):  # Numbers that changed may vary.
        adviser = values.of_entries
    elif values.is_left_over(series, source):
        adviser = values.left_over
    elif lead.cause in _DECIDED and numbers.ends_a_loop(series, source):
        adviser = numbers.needed
    elif values.comes_and_goes(lead):
        adviser = values.attribute
    elif lead.library and lead.owner != "torch.Size" and lead.cause in _DECIDED:  # A size is a number of the program.
        adviser = values.of_library
    if adviser is not None:
        advice = adviser(series, source)
    else:
        guard = next((line for line in lead.guard.splitlines() if line.strip()), "")
        if is_condition(guard):
            return Advice(
                f"Take the decision on `{guard}` out of the compiled function; or leave it: its two answers are two "
                "programs, each compiled once.",
                "The code asks something about a number that may vary, and the compiled code holds for one answer.",
                link=RECOMPILATION_PAGE,
            )
        if guard.startswith("___check_metadata_"):
            guard = "what a tensor of a class of its own (quantised, nested, sharded) holds beside its numbers"
        if (absent := _ABSENT.fullmatch(guard)) is not None:  # Evaluating the guard raised.
            kind = "`None`" if absent["kind"] == "NoneType" else f"of the class `{absent['kind']}`"
            guard = f"a value that the code reads `.{absent['attribute']}` of, which was {kind} in this call"
            if absent["attribute"] in ("size", "stride"):  # The tensor that an input is a view of.
                guard += ". Where an input was a part of a larger tensor before, and is none now, pass `x.clone()`"
        advice = Advice(
            f"Keep this the same from call to call: {guard}" if guard else "Find out what changes between calls.",
            "A guard of the compiled code did not hold for a new call.",
        )
    # In a package that a package calls nobody can end them either.
    apart = [each for each in series.apart if not (series.package and library_of(each.location.file))]
    # What a first call makes is missing in it, whatever it is compiled with.
    if apart and adviser is not values.left_over and not _was_not_there(lead):
        it = "it stays" if len(apart) == 1 else "they stay"
        first = f"End {named_breaks(apart)} first, and run this again: torch compiles this function by itself because"
        advice = msgspec.structs.replace(
            advice, action=f"{first} of {'it' if len(apart) == 1 else 'them'}. Where {it}, {continued(advice.action)}"
        )
    return advice if advice.link else msgspec.structs.replace(advice, link=RECOMPILATION_PAGE)
