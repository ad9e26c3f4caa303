"""The catalogue as text: findings, recipes with their tried code, PyTorch's graph-break ids."""

from __future__ import annotations

import textwrap

from dynalyze import registry as pytorch
from dynalyze.rules.recipe import Recipe, find_by_id, recipes
from dynalyze.rules.rule import Rule
from dynalyze.rules.rule import rules as all_rules

_WIDTH = 88
_COLUMN = 28


def known_ids() -> list[str]:
    """Everything that `entry` explains."""
    return [
        *(rule_id for rule in all_rules() for rule_id in rule.ids),
        *(recipe.id for recipe in recipes()),
        *pytorch.registry().entries,
    ]


def overview() -> str:
    """One line for each finding and each recipe, and where PyTorch's ids are."""
    lines = ["Findings", ""]
    lines += [f"  {rule_id:<{_COLUMN}} {rule.title}" for rule in all_rules() for rule_id in rule.ids]
    lines += ["", "Recipes: changes that were tried, before and after", ""]
    lines += [f"  {recipe.id:<{_COLUMN}} {recipe.title}" for recipe in recipes()]
    count = len(pytorch.registry().entries)
    lines += ["", f"PyTorch's {count} graph-break ids are here too: dynalyze rules GB0059", ""]
    return "\n".join(lines)


def entry(rule_id: str) -> str | None:
    """All about one id; None where there is none."""
    rule = next((rule for rule in all_rules() if rule_id in rule.ids), None)
    if rule is not None:
        return _rule(rule)
    recipe = find_by_id(rule_id)
    if recipe is not None:
        return _recipe(recipe)
    known = pytorch.registry().entry(rule_id)
    return _break(known) if known is not None else None


def _rule(rule: Rule) -> str:
    lines = [f"{rule.title}  ({', '.join(rule.ids)}, {rule.severity})", "", _wrapped(rule.description), ""]
    lines += ["What to do:", "", _wrapped(rule.fix), ""] if rule.fix else []
    if rule.example is not None:
        lines += ["Before:", "", _code(rule.example.before), "After:", "", _code(rule.example.after)]
    return "\n".join(lines)


def _recipe(recipe: Recipe) -> str:
    lines = [f"{recipe.title}  ({recipe.id})", "", _wrapped(recipe.why), ""]
    lines += [_wrapped(recipe.action.replace("`{expression}`", "the expression")), ""]
    if recipe.before:
        lines += ["Before:", "", _code(recipe.before), "After:", "", _code(recipe.after)]
    if recipe.config:
        lines += ["Setting:", "", _code(recipe.config)]
        lines += [_wrapped(recipe.config_note), ""] if recipe.config_note else []
    if recipe.gb_types:
        ids = sorted({found for kind in recipe.gb_types if (found := pytorch.registry().id_of(kind))})
        lines += [f"PyTorch's ids: {', '.join(ids)}"] if ids else []
    return "\n".join([*lines, recipe.link, ""])


def _break(known: pytorch.Entry) -> str:
    lines = [f"{known.gb_type}  ({known.gb_id})", ""]
    if known.former:
        lines += [_wrapped(f"Called before: {'; '.join(known.former)}"), ""]
    if known.explanation:
        lines += [_wrapped(known.explanation), ""]
    lines += [_wrapped(f"- {hint}", hanging=2) for hint in known.hints]
    related = [recipe for recipe in recipes() if known.gb_type in recipe.gb_types]
    if related:
        lines += ["", "Recipes that may help:", *(f"  {recipe.id:<22} {recipe.title}" for recipe in related)]
    return "\n".join([*lines, "", pytorch.url(known.gb_id), ""])


def _wrapped(text: str, hanging: int = 0) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, subsequent_indent=" " * hanging, break_long_words=False)


def _code(source: str) -> str:
    return textwrap.indent(source.strip("\n"), "    ") + "\n"
