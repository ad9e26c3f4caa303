"""Each graph break, with the cookbook's change for it, or PyTorch's own hint."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Effect, Example, GraphBreak, Report
from dynalyze.rules.recipe import Broken, Recipe, fill, find
from dynalyze.rules.rule import Ranked, Rule, break_owners, severity_of
from dynalyze.rules.statement_shapes import Statement, read_statement

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


def _judge(report: Report) -> Iterator[Ranked]:
    told = break_owners(report)
    for found in report.graph_breaks:
        if found.id in told:
            continue  # A rule of its own tells of it.
        code = read_statement(found.block, found.expression)
        place = f"{found.location.file}:{found.location.function}"
        recipe = find(Broken(found.gb_type, found.explanation, found.context, place, code))
        yield RULE.finding(
            recipe.title if recipe is not None else found.gb_type or "Graph break",
            _advice(found, recipe, code, report),
            rank=_RANKS[found.effect] - min(found.occurrences, 99),
            severity=severity_of([found]),
            location=found.location,
            evidence=[found.id],
        )


def _advice(found: GraphBreak, recipe: Recipe | None, code: Statement, report: Report) -> Advice:
    """The recipe's, or PyTorch's own; who does not own the line that breaks cannot do what a recipe says for it."""
    advice = _from_recipe(found, recipe, code) if recipe is not None else _from_torch(found)
    inner = found.stack[-1] if found.stack else found.location
    package = "" if "/_dynamo/" in inner.file else library_of(inner.file)
    if not package:
        return advice
    around = " Compile the parts that it does not reach, as told apart." if report.regions else ""
    whose = f"This line is in {package}."
    if inner.file != found.location.file:
        whose = f"It breaks inside {package}, in {inner.function}() ({PurePath(inner.file).name}:{inner.line})."
        if recipe is not None:
            return Advice(action=f"{whose}{around}", why=advice.why, link=advice.link)
    told = f"{'Who can change that' if recipe is not None else 'PyTorch says'}: {advice.action}"
    return msgspec.structs.replace(advice, action=f"{whose}{around} {told}")


def _from_recipe(found: GraphBreak, recipe: Recipe, code: Statement) -> Advice:
    # Of a condition torch can tell columns that are no expression.
    asked = ast.unparse(code.test) if code.test is not None and code.expression is None else ""
    return Advice(
        action=fill(recipe.action, asked or found.expression or found.location.code),
        why=recipe.why,
        example=Example(recipe.before, recipe.after),
        config=recipe.config,
        config_note=recipe.config_note,
        link=recipe.link,
        recipe=recipe.id,
    )


def _from_torch(found: GraphBreak) -> Advice:
    """PyTorch's own hints, those first that say something about this code; nothing is added to them."""
    telling = [hint for hint in found.hints if not hint.startswith(_GENERIC_HINTS)]
    action = " ".join(" ".join(hint.split()) for hint in telling or found.hints)
    return Advice(action=action or "PyTorch gives no hint for this one.", why=found.explanation, link=found.url)


RULE = Rule(
    id="graph-break",
    title="Graph break",
    severity="warning",
    description="Dynamo could not trace a line. The graph ends there: what follows is compiled apart, or runs in "
    "eager. Each break costs a return to Python and keeps the compiler from fusing across it.",
    passed="No graph breaks: every compiled function is one graph.",
    judge=_judge,
)
