"""Each graph break, with what to change; functions left in eager without one, and comprehensions compiled apart."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

import msgspec

from dynalyze.facts.why_not_compiled import NEXT_STEPS, costly
from dynalyze.files.paths import library_of
from dynalyze.report import (
    Advice,
    Effect,
    Example,
    GraphBreak,
    Impact,
    LeftInEager,
    Location,
    Report,
    SkippedFrame,
    SkipReason,
)
from dynalyze.rules.diagnoses import compile_a_part
from dynalyze.rules.recipe import Recipe, config_of, fill, own_place, recipe_of
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule, break_owners, setting_fails, severity_of
from dynalyze.rules.statement import read_statement
from dynalyze.text.amounts import listed

# What costs most comes first: a whole function in eager, then a part, then a cut.
_RANKS: dict[Effect, int] = {"error": 0, "eager": 100, "partly_eager": 200, "split": 300}
_GENERIC_HINTS = (
    "Please report an issue",
    "This is likely to be a Dynamo bug",
    "It may be possible to write Dynamo tracing rules",
    "This graph break is fundamental",
    "This graph break may be difficult to debug",
    "This graph break may have been caused by an earlier",
)


@Rule(
    title="Graph break",
    description="Dynamo could not trace a line. The graph ends there: what follows is compiled apart, or runs in "
    "eager. Each break costs a return to Python and keeps the compiler from fusing across it.",
)
def graph_break(report: Report) -> Iterator[Ranked]:
    owners = break_owners(report)
    has_parts = any(compile_a_part.compile_a_part.judge(report))
    for found in report.graph_breaks:
        if found.id in owners:
            continue  # A rule of its own tells of it.
        recipe = recipe_of(found)
        advice = _advice(found, recipe, report, has_parts=has_parts)
        yield graph_break.finding(
            _title(found, recipe, report),
            advice,
            rank=_RANKS[found.effect] - min(found.occurrences, 99),
            severity=severity_of([found]),
            location=own_place(found),
            evidence=[found.id],
            after=_cause_of(found, recipe, report),
            package=_foreign(found, advice, recipe, report),
        )


def _foreign(found: GraphBreak, advice: Advice, recipe: Recipe | None, report: Report) -> str:
    """The package that alone can end a break: a line of it breaks, and no setting or call of the program's helps."""
    package = library_of(found.location.file)
    own = package and recipe is not None and recipe.id in _CALLED_OUTSIDE and _own_call(found, report)
    setting = advice.config or "torch._dynamo.config." in advice.action
    return "" if package == "torch" or own or setting or _decorated(found, report) is not None else package


def _cause_of(found: GraphBreak, recipe: Recipe | None, report: Report) -> str:
    """The break without which this one would not be; "" where it is one of its own."""
    if _is_generators(found) or (recipe is not None and recipe.kind == "consequence"):
        return _earlier(found, report)
    if _FAILED.match(found.explanation) is None:
        return ""
    # A backend fails anew at each function around the operation: the innermost is nearest to it.
    around = [frame.at for frame in found.stack[:-1]]
    inner = [
        each
        for each in report.graph_breaks
        if each.explanation == found.explanation and [frame.at for frame in each.stack][: len(around)] == around
    ]
    deepest = max(inner, key=lambda each: len(each.stack), default=found)
    return deepest.id if len(deepest.stack) > len(found.stack) else ""


def _earlier(found: GraphBreak, report: Report) -> str:
    """The break that a consequence follows from: the first one of the same attempt to compile."""
    first = next((each for each in report.graph_breaks if {*each.compile_ids} & {*found.compile_ids}), found)
    return first.id if first is not found else ""


def _title(found: GraphBreak, recipe: Recipe | None, report: Report) -> str:
    if _is_generators(found):
        return "A break inside of a generator ends the graph here too"
    if (decorated := _decorated(found, report)) is not None:
        return f"Compile without the checks of `@{decorated[0]}`"
    if recipe is not None and not recipe.place and (package := _called_package(found)):
        return f"A graph break inside {package}"  # No call for what only those who own that line can do.
    if recipe is None and (failed := _FAILED.match(found.explanation)) is not None:
        at_mask = failed["said"].startswith(_CHOSEN_BY_MASK)
        return (
            f"The backend {failed['backend']} fails at {'a mask that chooses elements' if at_mask else 'an operation'}"
        )
    return recipe.title if recipe is not None else found.gb_type or "Graph break"


def _advice(found: GraphBreak, recipe: Recipe | None, report: Report, *, has_parts: bool) -> Advice:
    """The recipe's, or PyTorch's own; who does not own the line that breaks cannot do what a recipe says for it.
    `has_parts`: a finding of its own names parts that can be compiled.
    """
    if _is_generators(found):
        return _of_generator(found, report)
    if (decorated := _decorated(found, report)) is not None:
        return _without_check(*decorated)
    inner = _inner(found)
    package = library_of(inner.file)
    place = own_place(found)
    own = (place.code or "").strip() if place is not found.location else ""
    if package and recipe is not None and recipe.id in _CALLED_OUTSIDE:
        own = _own_call(found, report)
    advice = _from_recipe(found, recipe, own) if recipe is not None else _from_torch(found, report)
    in_vain = setting_fails(report, [found.id])
    if in_vain or (_TRACED_BACKWARD in advice.config and _breaks_elsewhere(found, report)):
        advice = msgspec.structs.replace(advice, config="", config_note="", action=_without_setting(advice.action))
    advice = msgspec.structs.replace(advice, action=advice.action + _beside(found, report))
    if own or not package:
        return advice
    around = " Compile the parts that it does not reach, listed separately." if has_parts else ""
    whose = f"This line is in {package}."
    if _called_package(found):
        whose = f"It breaks inside {package}, in {inner.function}() ({inner.short})."
        if recipe is not None and recipe.place:  # It is for those who call that function.
            return msgspec.structs.replace(advice, action=f"{advice.action} {whose}{around}")
        if recipe is not None:
            # Whoever is told nothing to do is told at least what it means.
            rest = " What is before and behind that call is compiled all the same." if found.effect == "split" else ""
            return Advice(action=f"{whose}{around or rest}", why=advice.why, link=advice.link)
    action = f"{'Who can change it' if recipe is not None else 'PyTorch says'}: {advice.action}"
    if advice.config:
        action = "The setting below may end it."
    return msgspec.structs.replace(advice, action=f"{whose}{around} {action}")


def _without_setting(action: str) -> str:
    """An advice without its sentences on the setting below it."""
    left = " ".join(each for each in _SENTENCES.split(action) if "the setting" not in each)
    return left or _NOTHING_ELSE


_SENTENCES = re.compile(r"(?<=\.) (?=[A-Z`])")
_NOTHING_ELSE = "Compile what is around this line by itself, or leave it: nothing else is known to end this break."
_SIZES = "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
_TRACED_BACKWARD = "trace_autograd_ops"


def _breaks_elsewhere(found: GraphBreak, report: Report) -> bool:
    """Whether its function breaks elsewhere too. Behind such a break torch 2.13 traces a backward whose gradients do
    not reach the parameters: with that setting nothing is learned, and nothing says so.
    """
    place = found.location
    at = ((each.location.file, each.location.function) for each in report.graph_breaks if each is not found)
    return (place.file, place.function) in at


_CALLED_OUTSIDE = ("backward", "skipped-function")
"""Recipes for a call that can be made outside of the compiled code, whoever makes it there."""


def _own_call(found: GraphBreak, report: Report) -> str:
    """The program's own code in what was compiled that leads into a package; "" where there is none."""
    attempts = {(found.process, found.epoch, each) for each in found.compile_ids}
    begun = {(c.location.file, c.location.function) for c in report.compilations if c.key in attempts}
    inside = itertools.dropwhile(lambda frame: (frame.file, frame.function) not in begun, found.stack)
    return next((frame.code or "" for frame in reversed(list(inside)) if not library_of(frame.file)), "")


# What torch runs in the place of the program's own: `apply` of an autograd.Function, Python's builtins.
_OF_COMPILER = ("/torch/_dynamo/", "/torch/_functorch/")


def _inner(found: GraphBreak) -> Location:
    """The innermost line that is none of the compiler's own."""
    lines = (each for each in reversed(found.stack) if not any(part in each.file for part in _OF_COMPILER))
    return next(lines, found.location)


def _called_package(found: GraphBreak) -> str:
    """The package that breaks in a function that the line calls; "" for others."""
    inner = _inner(found)
    return "" if inner.file == found.location.file else library_of(inner.file)


# torch's own words. It reads the generator anew, by itself, and stops at a variable of the function around it.
_INSIDE_GENERATOR = "graph break in a generator's next() call"
_CHECKED = re.compile(r"<@(?P<decorator>\w+)\((?P<function>[\w.]+)\)")


def _is_generators(found: GraphBreak) -> bool:
    """Whether it is not a break of its own, but one that a break inside of a generator brings up again."""
    return _INSIDE_GENERATOR in found.context and found.gb_type == "Read uninitialized cell"


def _of_generator(found: GraphBreak, report: Report) -> Advice:
    attempts = {(found.process, found.epoch, each) for each in found.compile_ids}
    others = [
        each
        for each in report.graph_breaks
        if each is not found and attempts & {(each.process, each.epoch, name) for name in each.compile_ids}
    ]
    first = listed([f"{each.location.short} ({each.id})" for each in others[:_MOST_NAMED]])
    return Advice(
        action="Leave this line as it is, and end the break inside of its generator first"
        f"{f': {first}' if first else ''}.",
        why="A generator that is half way through cannot be handed from the graph to Python, so a break in what it "
        "calls is met once more here.",
        link=found.url,
    )


def _decorated(found: GraphBreak, report: Report) -> tuple[str, str] | None:
    """The decorator and the function it is around, where the code that broke was generated by that decorator: then the
    line that is told is the one that calls it.
    """
    attempts = {(found.process, found.epoch, each) for each in found.compile_ids}
    files = (each.location.file for each in report.compilations if each.key in attempts and each.location is not None)
    match = next((match for file in files if (match := _CHECKED.match(file))), None)
    return (match["decorator"], match["function"]) if match is not None and len(found.stack) < 2 else None


def _without_check(decorator: str, function: str) -> Advice:
    name = ".".join(function.split(".")[-2:])
    return Advice(
        action=f"Take `@{decorator}` off `{name}` before torch.compile: `{name} = {name}.__wrapped__`, or delete the "
        "decorator where the function is yours.",
        why=f"The break is not in this line, but in code that `@{decorator}` generated around `{name}` to check its "
        "arguments: to check one item of a list or a tuple it draws a random number, which Dynamo cannot trace; and "
        "what follows is compiled again for another number.",
    )


def _from_recipe(found: GraphBreak, recipe: Recipe, own: str) -> Advice:
    """`own` is code of the program's that takes the place of the expression that broke."""
    code = read_statement(found.block, found.expression)
    # Of a condition torch can tell columns that are no expression.
    asked = ast.unparse(code.test) if code.test is not None and code.expression is None else ""
    return Advice(
        action=fill(recipe.action, own or asked or found.expression or found.location.code, code) + _hidden(found),
        why=recipe.why,
        example=Example(recipe.before, recipe.after),
        config=(config := config_of(recipe, found)),
        config_note=recipe.config_note if config else "",
        link=recipe.link,
        recipe=recipe.id,
    )


_STAYS = (
    "Code behind this line may break next, or compile again for each size it meets: `dynalyze fix` tries the setting "
    "and reports what stays."
)


# What torch says of a backend that gave up on a whole graph, which then runs in eager.
_FAILED = re.compile(
    r"Backend compiler (?P<backend>`\w+`) failed with (?P<said>[^\n]+?)(?:\. Adding a graph break\.)?$", re.M
)
_CHOSEN_BY_MASK = "aten.nonzero."
_BY_POSITIONS = (
    "Keep the positions in the place of the mask: `positions = mask.nonzero().squeeze(1)` once, outside of the "
    "compiled code, then `x[positions] = y`. torch names no line for it: look for one like `x[mask] = y` in what "
    "breaks here. The setting below ends it too."
)


def _from_torch(found: GraphBreak, report: Report) -> Advice:
    """PyTorch's own hints, those first that say something about this code. A setting among them was tried on no program
    of its kind, so what it leaves is said to be open; one that was tried here in vain is left out.
    """
    # torch 2.13 has no dynamic form of the operator then (`ctc_loss`), whatever its hint says.
    fails = setting_fails(report, [found.id]) or found.gb_type == "Dynamic shape operator"
    logs = re.search(r"\b(?:print|warn\w*)\b", found.context) is not None
    hints = [
        hint
        for hint in found.hints
        if not (fails and "torch._dynamo.config." in hint) and (logs or "reorderable_logging_functions" not in hint)
    ]
    telling = [hint for hint in hints if not hint.startswith(_GENERIC_HINTS)]
    action = " ".join(" ".join(hint.split()) for hint in telling or hints)
    if fails and not telling:
        action = _NOTHING_ELSE
    failed = _FAILED.match(found.explanation)
    if failed is not None and failed["said"].startswith(_CHOSEN_BY_MASK) and not fails:
        why = f"{found.explanation} With gradients a line that writes through a mask asks the backend where it is true."
        return Advice(_BY_POSITIONS, why, config=_SIZES, link=found.url)
    if failed is not None:
        action = (
            f"Write this line with other operations: {failed['backend']} fails at it with {failed['said']}. Or move it "
            "into a function of its own with `@torch.compiler.disable`: the rest is compiled then."
        )
    if "torch._dynamo.config." in action:
        action = f"{action.rstrip('.')}. {_STAYS}"
    return Advice(
        action=(action or "PyTorch gives no hint for this one.") + _hidden(found), why=found.explanation, link=found.url
    )


def _beside(found: GraphBreak, report: Report) -> str:
    """The other breaks of the same line: ending one of them alone gains little."""
    told = break_owners(report)
    at = found.location.at
    others = [b.id for b in report.graph_breaks if b is not found and b.location.at == at and b.id not in told]
    return f" This line breaks again at {listed(others[:_MOST_NAMED])}: end all of them together." if others else ""


def _hidden(found: GraphBreak) -> str:
    """What of its own function a break hides that leaves it in eager."""
    return "".join(_behind(left) for left in found.left_in_eager if left.location.at == found.location.at)


_RANK_OF_ENTRIES = 90
_MOST_NAMED = 3
_WHY_TITLES: dict[SkipReason, str] = {
    "dispatch_mode": "torch compiles nothing inside a TorchDispatchMode",
    "skip_list": "the file is on torch's skip list",
    "disabled": "torch.compiler.disable keeps it from being compiled",
    "switched_off": "the compiler was switched off",
    "generated": "the code was made by exec",
    "other": "torch skipped it",
}


@Rule(
    title="A function was left in eager without a graph break",
    rank=210,
    link="https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_troubleshooting.html",
    description="torch was asked to compile the function, or met it below a compiled call, and left it in eager "
    "without tracing it: inside a TorchDispatchMode, because of a skip list or a setting. torch reports no graph "
    "break.",
)
def skipped_function(report: Report) -> Iterator[Ranked]:
    if report.outcome.status == "nothing_compiled":
        return  # That finding names the reason.
    groups: dict[SkipReason, list[SkippedFrame]] = {}
    texts = [f"{found.explanation} {found.context}" for found in report.graph_breaks]
    for frame in costly(report.skipped_frames):
        file, name = frame.location.file, frame.location.function.rpartition(".")[2]
        if not any(file in words and name in words for words in texts):  # A break over a call of this very function.
            groups.setdefault(frame.reason, []).append(frame)
    for reason, frames in groups.items():
        entries = [frame for frame in frames if frame.entry]
        first, *others = entries or frames  # What entries call follows them.
        names = list(dict.fromkeys(frame.location.function for frame in (first, *others)))
        yield skipped_function.finding(
            f"{listed(names, _MOST_NAMED)} {'runs' if len(names) == 1 else 'run'} in eager: {_WHY_TITLES[reason]}",
            NEXT_STEPS[reason],
            why=f"{first.explanation} No graph break is reported for it.",
            rank=_RANK_OF_ENTRIES if entries else None,
            location=first.location,
            evidence=ids(frames),
        )


_AROUND = {
    "loop": ", called in its loop",
    "with": ", called inside of its `with`",
    "try": ", called inside of its `try`",
}


@Rule(
    title="A function runs in eager because of a break in another",
    rank=310,
    description="A break in a function that is called in a loop, a `with` or a `try` leaves the caller in eager as a "
    "whole: torch cannot go on in the middle of these. The called function is compiled by itself.",
)
def caller_in_eager(report: Report) -> Iterator[Ranked]:
    for found in report.graph_breaks:
        inner = found.location.function.rpartition(".")[2]
        for left in found.left_in_eager:
            if left.location.at == found.location.at:
                continue  # The break itself says so.
            name, place = left.location.function.rpartition(".")[2], found.location.short
            tried = next(
                (c for c in report.compilations if (c.process, c.compile_id) == (found.process, left.compile_id)), None
            )
            seconds = tried.whole_seconds if tried is not None else None
            yield caller_in_eager.finding(
                f"`{name}` runs in eager because of the break in `{inner}`{_AROUND.get(left.around, '')}",
                f"End the break at {place} ({found.id}): `{name}` is one graph then, unless it breaks elsewhere. "
                f"What stands behind line {left.location.line} was not traced yet.{_behind(left)}",
                why="Seen in this run. torch compiles the function that is called by itself, and leaves its caller in "
                "eager: after the break it would have to go on in the middle of the caller's block.",
                location=left.location,
                evidence=[found.id, left.compile_id],
                impact=Impact(compile_seconds=seconds, what="spent on the attempt") if seconds else None,
                package=library_of(left.location.file) and library_of(found.location.file),
            )


def _behind(left: LeftInEager) -> str:
    """The lines of a function that are likely to break next; "" where none looks so."""
    lines = [f"line {each.line} (`{' '.join((each.code or '').split())}`)" for each in left.behind]
    if not lines:
        return ""
    looks = "looks at values or prints, and is" if len(lines) == 1 else "look at values or print, and are"
    named = listed(lines, _MOST_NAMED)
    return f" {named[0].upper()}{named[1:]} {looks} likely to break next."


# Functions of their own up to Python 3.11.
_COMPREHENSIONS = ("<dictcomp>", "<listcomp>", "<setcomp>", "<genexpr>")
_FIX = (
    "End what leaves the function around it in eager: the other findings on the way to this line. Leave the "
    "comprehension as it is."
)


def _owned_breaks(report: Report) -> Iterator[GraphBreak]:
    """What torch says of the iterator, in frames that hold nothing but a comprehension."""
    alone = {c.key for c in report.compilations if c.function in _COMPREHENSIONS}
    for each in report.graph_breaks:
        frames = {(each.process, each.epoch, compile_id) for compile_id in each.compile_ids}
        if each.gb_type.startswith("Missing tp_iternext") and frames and frames <= alone:
            yield each


@Rule(
    title="A comprehension compiled by itself",
    severity="info",
    rank=390,
    description="Up to Python 3.11 a comprehension is a function of its own. Where the function around it runs in "
    "eager, because of another break, torch tries to compile the comprehension alone, which fails. It is a "
    "consequence, not a cause.",
    fix=_FIX,
    owns_breaks=_owned_breaks,
    precedence=2,
)
def comprehension_apart(report: Report) -> Iterator[Ranked]:
    for found in comprehension_apart.breaks(report):
        yield comprehension_apart.finding(
            "A comprehension was compiled by itself, and cannot be",
            _FIX,
            why="Seen in this run. Up to Python 3.11 a comprehension is a function of its own. Where the "
            "function around it is compiled it is a part of that; where that one runs in eager, torch tries to "
            "compile the comprehension alone, and cannot follow the iterator that it is given.",
            severity="error" if found.effect == "error" else "info",
            location=found.location,
            evidence=[found.id],
        )
