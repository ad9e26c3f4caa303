"""Recipes: how to rewrite the code behind a graph break.

A recipe explains one cause in plain words and shows the change on a small program that really runs. The
recipes themselves live in `dynalyze.rules.knowledge`, one module a cause or a small family of causes; adding
one means adding a `Recipe` to a module's `RECIPES`. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import msgspec

from dynalyze.conditions import condition_span
from dynalyze.rules.written import Written

_LONGEST_EXPRESSION = 80


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
        place: a regular expression for the file and function of the break, which may be found in place of `match`.
        shape: how the statement must be written, by its syntax tree: so that the change shown is one of it. None fits
            every statement; where the source is not known, no shape fits.
        rank: decides between several recipes that fit; the higher one wins.
        why: why it breaks, for the owner of a model.
        action: what to do, one sentence; "{expression}" stands for the user's own source expression.
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
    gb_types: tuple[str, ...]
    why: str
    action: str
    before: str
    after: str
    inputs: str
    link: str
    kind: Literal["cause", "consequence"] = "cause"
    match: str = ""
    place: str = ""
    shape: Callable[[Written], bool] | None = None
    rank: int = 0
    config: str = ""
    config_note: str = ""
    requires: tuple[str, ...] = ()


def graph_break_page(gb_id: str) -> str:
    """The page of PyTorch's graph-break site about an id such as "GB0059"."""
    return f"https://meta-pytorch.github.io/compile-graph-break-site/gb/{gb_id.lower()}.html"


@lru_cache(maxsize=1)
def recipes() -> tuple[Recipe, ...]:
    """Every recipe of the cookbook, sorted by id."""
    from dynalyze.rules import knowledge

    found: dict[str, Recipe] = {}
    for module in pkgutil.iter_modules(knowledge.__path__, f"{knowledge.__name__}."):
        for recipe in importlib.import_module(module.name).RECIPES:
            if recipe.id in found:
                raise ValueError(f"two recipes are called {recipe.id!r}; the second is in {module.name}")
            found[recipe.id] = recipe
    return tuple(found[key] for key in sorted(found))


@dataclass(frozen=True)
class Broken:
    """What a recipe may look at: PyTorch's words, the place, and how the code is written."""

    gb_type: str
    explanation: str = ""
    context: str = ""
    place: str = ""
    written: Written = field(default_factory=Written)

    @property
    def said(self) -> str:
        """PyTorch's words, one part a line."""
        return f"{self.gb_type}\n{self.explanation}\n{self.context}"


def find(broken: Broken) -> Recipe | None:
    """The recipe that says most about a break, or None where the cookbook has nothing to say.

    A recipe that asks for something beats one that fits all breaks of its types; then the higher rank wins, then the
    recipe for fewer types.
    """
    fitting = [recipe for recipe in _by_type().get(broken.gb_type, ()) if _fits(recipe, broken)]
    return min(fitting, key=_generality, default=None)


def _fits(recipe: Recipe, broken: Broken) -> bool:
    said = re.search(recipe.match, broken.said) is not None if recipe.match or not recipe.place else False
    there = bool(recipe.place) and re.search(recipe.place, broken.place) is not None
    return (said or there) and (recipe.shape is None or recipe.shape(broken.written))


def find_by_id(recipe_id: str) -> Recipe | None:
    """The recipe of that id."""
    return next((r for r in recipes() if r.id == recipe_id), None)


def fill(action: str, expression: str | None) -> str:
    """Put the user's own source expression into an action, on one line and cut to a readable length."""
    line = " ".join((expression or "").split())
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


@lru_cache(maxsize=1)
def _by_type() -> dict[str, list[Recipe]]:
    """Recipes under each of the types they explain."""
    index: dict[str, list[Recipe]] = {}
    for recipe in recipes():
        for gb_type in recipe.gb_types:
            index.setdefault(gb_type, []).append(recipe)
    return index


def _generality(recipe: Recipe) -> tuple[bool, int, int]:
    """A sort key: the recipe that says most about a break comes first."""
    general = not (recipe.match or recipe.place or recipe.shape)
    return (general, -recipe.rank, len(recipe.gb_types))
