"""Recipes: how to rewrite the code behind a graph break.

A recipe explains one cause in plain words and shows the change on a small program that really runs. It is one Markdown
file of the folder `cookbook`, named for its id, and read when it is asked for. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import contextlib
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from dynalyze.facts.sources import condition_span
from dynalyze.files.paths import is_pythons
from dynalyze.report import GraphBreak, Location
from dynalyze.rules.captured_numbers import asking_for_size, needing_a_number, stays_unknown
from dynalyze.rules.statement import Statement, read_statement
from dynalyze.rules.statement_shapes import SHAPES, chance
from dynalyze.text.errors import DynalyzeError

COOKBOOK = Path(__file__).parent / "cookbook"
# The types of graph breaks that no recipe is for, each below the reason.
WITHOUT_RECIPE = Path(__file__).parent / "without_recipe.md"
_LONGEST_EXPRESSION = 80

_HEAD = ("gb_types", "kind", "match", "place", "shape", "rank", "requires", "link")
_HEAD_LINE = re.compile(r"(?P<key>\w+):(?: (?P<value>.*\S))?|  - (?P<item>.*\S)")
_FILE = re.compile(r"---\n(?P<head>.*?)^---\n\n*# (?P<title>[^\n]+)\n(?P<body>.*)", re.DOTALL | re.MULTILINE)
_PART = re.compile(r"^(?:## (?P<section>.+)|```python\n(?P<code>(?:(?!```).*\n)*)```|(?P<words>.+))$", re.MULTILINE)
# The example's own method, as an argument: `ignore_logging_functions.add(logger.debug)`.
_CALLED = re.compile(r"\.add\((\w+\.\w+)\)")
# The context manager of a `with`.
_MANAGER = re.compile(r"^with (.+?)(?: as \w+)?:$")
_HINTED = re.compile(r"(torch\._dynamo\.config\.[a-z]\w*) ?= ?(True|False)\b")
# What the words of a section and what its code are.
_SECTIONS = {
    "": ("why", ""),
    "What to do": ("action", ""),
    "Before": ("", "before"),
    "After": ("", "after"),
    "Inputs": ("", "inputs"),
    "Setting": ("config_note", "config"),
}


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """One cause of graph breaks, and the change that removes it.

    Attributes:
        id: a slug, a noun.
        title: the change, as a short imperative.
        kind: "cause" for code that Dynamo cannot trace; "consequence" for what a break inside a loop, a
            `with` and the like did to the rest of the function, to be shown beside the cause, never instead.
        gb_types: the `gb_type` texts of PyTorch it can explain. Empty where PyTorch has no type for it.
        match: a regular expression that must be found in what PyTorch says of the break, where the operation and the
            types are named; "" fits every break.
        place: a regular expression for the file and function of the break, or of torch's own function that breaks,
            which may be found in place of `match`.
        shape: how the statement must be written, so that the change shown is one of it: a name in `statement_shapes`.
            "" fits every statement; where the source is not known, no shape fits.
        rank: decides between several recipes that fit; the higher one wins.
        why: why it breaks, for the owner of a model.
        action: what to do, one sentence; "{expression}" stands for the user's own source expression, and what
            `statement_shapes.chance` tells for its names, as "{drawn}".
        before, after: sources of two modules. Each defines a callable `f` that returns the same for the
            same inputs; `before` breaks, `after` does not.
        inputs: a Python expression, `torch` in scope, that gives the tuple of positional inputs of `f`.
        config: Python statements that remove the break without a change of the code, or "".
        config_note: what those statements cost, or when they do not help.
        link: where PyTorch writes about it.
        requires: modules that the examples import, beside torch and the standard library.
    """

    id: str
    title: str
    why: str
    action: str
    before: str
    after: str
    inputs: str
    link: str
    gb_types: tuple[str, ...] = ()
    kind: Literal["cause", "consequence"] = "cause"
    match: str = ""
    place: str = ""
    shape: str = ""
    rank: int = 0
    config: str = ""
    config_note: str = ""
    requires: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def recipes() -> tuple[Recipe, ...]:
    """Every recipe of the cookbook, sorted by id."""
    return tuple(read_recipe(path) for path in sorted(COOKBOOK.glob("*.md"), key=lambda path: path.stem))


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file, whose name is the recipe's id. Raises DynalyzeError, a line with the file and what is wrong
    in it, where it is none.
    """
    try:
        return _parsed(path.stem, path.read_text(encoding="utf-8"))
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise DynalyzeError(f"{path}: {error}") from error


def _parsed(recipe_id: str, text: str) -> Recipe:
    """A recipe from its text: a head between two lines `---`, a title, why, and the sections."""
    parts = _FILE.fullmatch(text)
    if parts is None:
        raise ValueError("a recipe begins with a head between two lines --- and a title after #")
    fields: dict[str, Any] = {"id": recipe_id, "title": parts["title"], **_head(parts["head"])}
    section = ""
    for part in _PART.finditer(parts["body"]):
        if part["section"]:
            section = part["section"]
            if section not in _SECTIONS:
                raise ValueError(f"the section {section!r} is none of {', '.join(filter(None, _SECTIONS))}")
            continue
        of_words, of_code = _SECTIONS[section]
        name = of_words if part["code"] is None else of_code
        if not name or (name == of_code and name in fields):
            kind = "text" if part["code"] is None else "code"
            raise ValueError(f"the section {section!r} has {kind} that is not read: {part[0].splitlines()[0]!r}")
        if name == of_words:
            fields[name] = f"{fields[name]} {part['words']}" if name in fields else part["words"]
        else:  # The examples are whole files; inputs and settings are parts of one.
            fields[name] = part["code"] if section in ("Before", "After") else part["code"].strip()
    recipe = msgspec.convert(fields, Recipe, strict=False)
    if recipe.shape and recipe.shape not in SHAPES:
        raise ValueError(f"the shape {recipe.shape!r} is none of {', '.join(sorted(SHAPES))}")
    return recipe


def _head(text: str) -> dict[str, Any]:
    """The head: lines `key: value`, and `key:` with lines `  - item` below. That much of YAML and no more is read."""
    found: dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        part = _HEAD_LINE.fullmatch(line.rstrip())
        if part is None or (part["item"] and not isinstance(found.get(key), list)):
            raise ValueError(f"the line {line!r} of the head is neither `key: value` nor `  - item` below a `key:`")
        if part["item"]:
            found[key].append(_unquoted(part["item"]))
            continue
        key = part["key"]
        if key not in _HEAD:
            raise ValueError(f"{key!r} in the head is none of {', '.join(_HEAD)}")
        if key in found:
            raise ValueError(f"{key!r} is twice in the head")
        found[key] = _unquoted(part["value"]) if part["value"] else []
    return found


def _unquoted(value: str) -> str:
    """A value: as it stands, or between single quotes, in which two stand for one."""
    if not value.startswith("'"):
        return value
    if len(value) < 2 or not value.endswith("'"):
        raise ValueError(f"{value} in the head has no quote at its end")
    return value[1:-1].replace("''", "'")


@dataclass(frozen=True)
class BrokenStatement:
    """What a recipe may look at: PyTorch's words, the place, and how the code is written."""

    gb_type: str
    explanation: str = ""
    context: str = ""
    place: str = ""
    written: Statement = field(default_factory=Statement)


def own_place(found: GraphBreak) -> Location:
    """Where it is to be ended: of a line of Python's own library, as of `logging`, the line that leads into that."""
    if not is_pythons(found.location.file):
        return found.location
    return next((each for each in reversed(found.stack) if not is_pythons(each.file)), found.location)


def find(broken: BrokenStatement) -> Recipe | None:
    """The recipe that says most about a break, or None where the cookbook has nothing to say.

    A recipe that asks for something beats one that fits all breaks of its types; then the higher rank wins, then the
    recipe for fewer types.
    """
    fitting = [recipe for recipe in recipes() if broken.gb_type in recipe.gb_types and _fits(recipe, broken)]
    fitting.sort(key=lambda each: (not (each.match or each.place or each.shape), -each.rank, len(each.gb_types)))
    return next(iter(fitting), None)


def recipe_of(found: GraphBreak) -> Recipe | None:
    """The recipe for a graph break of a report."""
    within = found.stack[-1:]  # torch's own line, where a function of torch breaks that the user's line calls.
    place = "\n".join(f"{each.file}:{each.function}" for each in (found.location, *within))
    code = read_statement(found.block, found.expression)
    return find(BrokenStatement(found.gb_type, found.explanation, found.context, place, code))


_REORDERED = "reorderable_logging_functions"
# Arguments that torch moves behind the graph for no print: containers, and numbers that are symbolic, or will be.
_NOT_REORDERED = re.compile(r"'(?:float|tuple|list|dict|set|Size)'|SymNodeVariable")
_SCALARS = "capture_scalar_outputs"
_SIZES = "capture_dynamic_output_shape_ops"


def config_of(recipe: Recipe, found: GraphBreak) -> str:
    """The setting of a recipe, "" where it is known to end nothing here: a number that an `if` below asks for breaks
    there; a print of a container, or of a float (symbolic once it has changed), stays; and
    a size that was captured, read into Python on the same line, raises an error as soon as reading is captured too.
    Where the setting takes the method that its example calls, that which the program calls.
    """
    if _REORDERED in recipe.config and _NOT_REORDERED.search(f"{found.explanation}\n{found.context}"):
        return ""
    code = read_statement(found.block, found.expression)
    if _SCALARS in recipe.config and stays_unknown(code):
        return ""
    if _SIZES in recipe.config and any(getattr(each, "attr", "") in ("item", "tolist") for each in code.around):
        return ""
    theirs = _CALLED.search(recipe.config)
    place = own_place(found)
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        written = found.expression if place is found.location else (place.code or "").strip()
        call = ast.parse(written, mode="eval").body
        if theirs is not None and isinstance(call, ast.Call):
            return recipe.config.replace(theirs[1], ast.unparse(call.func))
    return recipe.config


def setting_of(found: GraphBreak) -> str:
    """The statements that remove a graph break by torch's settings alone, of its recipe or else of torch's own hints.
    They run in any program: they name torch, warnings and builtins. "" where there are none.
    """
    recipe = recipe_of(found)
    if recipe is not None and recipe.config:
        setting = config_of(recipe, found)
        names = {each.id for each in ast.walk(ast.parse(setting)) if isinstance(each, ast.Name)}
        return setting if names <= {"torch", "warnings", "print"} else ""
    hinted = (_HINTED.search(hint) for hint in found.hints)
    return next((" = ".join(each.groups()) for each in hinted if each), "")


def _fits(recipe: Recipe, broken: BrokenStatement) -> bool:
    words = f"{broken.gb_type}\n{broken.explanation}\n{broken.context}"
    said = bool(recipe.match or not recipe.place) and re.search(recipe.match, words) is not None
    there = bool(recipe.place) and re.search(recipe.place, broken.place, re.MULTILINE) is not None
    return (said or there) and (not recipe.shape or SHAPES[recipe.shape](broken.written))


def find_by_id(recipe_id: str) -> Recipe | None:
    """The recipe of that id."""
    return next((r for r in recipes() if r.id == recipe_id), None)


@lru_cache(maxsize=1)
def reasons_without_recipe() -> dict[str, str]:
    """Why no recipe is for a type of graph breaks, by type."""
    found, reason = {}, ""
    for line in WITHOUT_RECIPE.read_text(encoding="utf-8").splitlines():
        reason = line.removeprefix("## ") if line.startswith("## ") else reason
        if line.startswith("- "):
            found[line.removeprefix("- ")] = reason
    return found


_KEPT = (
    "Where the result is only summed or counted, keep the shape in its place: set what a mask leaves out to zero with "
    "`torch.where`. A list of edges, boxes or rows that goes on is another one with zeros in it."
)


def fill(action: str, expression: str | None, code: Statement | None = None) -> str:
    """Put the user's own source expression into an action, on one line and cut to a readable length; what `chance`
    makes of a decision by a random number; and the code `{below}` that needs a number, or `{sized}` that asks for a
    size.
    """
    written = code or Statement()
    kept = "" if "unique" in (expression or "") else _KEPT
    below = {"below": needing_a_number(written), "sized": asking_for_size(written), "kept": kept}
    for name, words in {**chance(written), **below}.items():
        action = action.replace(f"{{{name}}}", words)
    line = _MANAGER.sub(r"\1", " ".join((expression or "").split()))
    if line == "with" and isinstance(written.statement, ast.With):
        line = ast.unparse(written.statement.items[0].context_expr)
    asked = condition_span(line)  # Of a line whose columns are not known.
    words = _readable(line[asked[0] : asked[1]] if asked else line)
    return action.replace("`{expression}`", f"`{words}`" if words else "this expression")


def _readable(words: str) -> str:
    """An expression that fits into a sentence, where a backquote would end it; of a long call the callee."""
    if len(words) <= _LONGEST_EXPRESSION and "`" not in words:
        return words
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):
        call = ast.parse(words, mode="eval").body
        if isinstance(call, ast.Call) and len(callee := ast.unparse(call.func)) <= _LONGEST_EXPRESSION - 5:
            words = f"{callee}(...)"
    if len(words) > _LONGEST_EXPRESSION:
        words = words[: _LONGEST_EXPRESSION - 4].rstrip() + " ..."
    return words.replace("`", "'")
