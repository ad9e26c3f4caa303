"""The catalogue as text: findings, recipes with their tried code, PyTorch's graph-break ids."""

from __future__ import annotations

import textwrap

from dynalyze.facts import registry as pytorch
from dynalyze.rules.recipe import Recipe, find_by_id, reasons_without_recipe, recipes
from dynalyze.rules.rule import Rule
from dynalyze.rules.rule import rules as all_rules

WIDTH = 80
_COLUMN = 28
# In a narrower terminal a title stands below its id.
_NARROWEST = 60


def known_ids() -> list[str]:
    """Everything that `entry` explains."""
    return [
        *(rule_id for rule in all_rules() for rule_id in rule.ids),
        *(recipe.id for recipe in recipes()),
        *pytorch.registry().entries,
    ]


def overview(width: int = WIDTH) -> str:
    """An entry for each finding and each recipe, and where PyTorch's ids are."""
    lines = ["Findings", ""]
    lines += [_listed(rule_id, rule.title, width) for rule in all_rules() for rule_id in rule.ids]
    lines += ["", "Recipes: changes that were tried, before and after", ""]
    lines += [_listed(recipe.id, recipe.title, width) for recipe in recipes()]
    count = len(pytorch.registry().entries)
    lines += ["", _wrapped(f"PyTorch's {count} graph-break ids are here too: dynalyze rules GB0059", width), ""]
    return "\n".join(lines)


def entry(rule_id: str, width: int = WIDTH) -> str | None:
    """All about one id, which a finding and a recipe may share; None where there is none. Code is not wrapped."""
    texts = [_rule(rule, width) for rule in all_rules() if rule_id in rule.ids]
    recipe = find_by_id(rule_id)
    if recipe is not None:
        texts.append(_recipe(recipe, width))
    if texts:
        return "\n".join(texts)
    known = pytorch.registry().entry(rule_id)
    return _break(known, width) if known is not None else None


def _rule(rule: Rule, width: int) -> str:
    title = f"{rule.title}  ({', '.join(rule.ids)}, {rule.severity})"
    lines = [_wrapped(title, width), "", _wrapped(rule.description, width), ""]
    lines += ["What to do:", "", _wrapped(rule.fix, width), ""] if rule.fix else []
    if rule.example is not None:
        lines += ["Before:", "", _code(rule.example.before), "After:", "", _code(rule.example.after)]
    return "\n".join(lines)


def _recipe(recipe: Recipe, width: int) -> str:
    lines = [_wrapped(f"{recipe.title}  ({recipe.id})", width), "", _wrapped(recipe.why, width), ""]
    lines += [_wrapped(recipe.action.replace("`{expression}`", "the expression"), width), ""]
    if recipe.before:
        lines += ["Before:", "", _code(recipe.before), "After:", "", _code(recipe.after)]
    if recipe.config:
        lines += ["Setting:", "", _code(recipe.config)]
        lines += [_wrapped(recipe.config_note, width), ""] if recipe.config_note else []
    if recipe.gb_types:
        ids = sorted({found for kind in recipe.gb_types if (found := pytorch.registry().id_of(kind))})
        lines += [_wrapped(f"PyTorch's ids: {', '.join(ids)}", width)] if ids else []
    return "\n".join([*lines, recipe.link, ""])


def _break(known: pytorch.RegistryEntry, width: int) -> str:
    lines = [_wrapped(f"{known.gb_type}  ({known.gb_id})", width), ""]
    if known.former:
        lines += [_wrapped(f"Called before: {'; '.join(known.former)}", width), ""]
    if known.explanation:
        lines += [_wrapped(known.explanation, width), ""]
    hints = [_wrapped(f"- {hint}", width, hanging=2) for hint in known.hints if hint]
    lines += [*hints, ""] if hints else []
    related = [recipe for recipe in recipes() if known.gb_type in recipe.gb_types]
    if related:
        lines += ["Recipes that may help:", *(_listed(recipe.id, recipe.title, width) for recipe in related), ""]
    elif reason := reasons_without_recipe().get(known.gb_type.strip()):
        lines += [_wrapped(f"No recipe: {reason}", width), ""]
    return "\n".join([*lines, pytorch.url(known.gb_id), ""])


def _listed(name: str, title: str, width: int) -> str:
    if width < _NARROWEST:
        return f"  {name}\n{_wrapped(title, width, first=6, hanging=6)}"
    beside = _COLUMN + 3
    return f"  {name:<{_COLUMN}} {_wrapped(title, width, first=beside, hanging=beside).lstrip()}"


def _wrapped(text: str, width: int, first: int = 0, hanging: int = 0) -> str:
    return textwrap.fill(
        " ".join(text.split()), width, initial_indent=" " * first, subsequent_indent=" " * hanging,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _code(source: str) -> str:
    return textwrap.indent(source.strip("\n"), "    ") + "\n"
