"""The line that most operations of a graph come from, and the Python loop that put them there round by round."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from dynalyze.facts.graph_text import GraphText
from dynalyze.facts.sources import Sources
from dynalyze.report import LineKey, Location
from dynalyze.report.graphs import TopLine

_FEWEST_ROUNDS = 8


def top_line(graph: GraphText, sources: Sources, compiled: Location | None = None) -> TopLine | None:
    """None for a graph of which nothing is known to come from a line. `compiled` is the function that was compiled: of
    its loops and those of functions with operations in the graph one is told.
    """
    ops: dict[LineKey, Counter[str]] = {}
    origins: dict[LineKey, Location] = {}
    for node in graph.nodes:
        if (origin := graph.origins.get(node.name)) is not None:
            ops.setdefault(origin.at, Counter())[node.op] += 1
            origins.setdefault(origin.at, origin)
    if not ops:
        return None
    at = max(ops, key=lambda each: ops[each].total())
    found = TopLine(_located(origins[at], sources), ops[at].total(), all_ops=len(graph.nodes))
    if min(ops[at].values()) < _FEWEST_ROUNDS:
        return found
    repeated = {each for each, counts in ops.items() if min(counts.values()) >= _FEWEST_ROUNDS}
    for file in dict.fromkeys([at[0], *(file for file, _ in repeated)]):
        lines = {line for other, line in repeated if other == file}
        traced = {line for other, line in ops if other == file}
        if compiled is not None and compiled.file == file:
            traced.add(compiled.line)
        for function, loop in _loops(sources.tree(file)):
            if not any(_first_line(function) <= line <= (function.end_lineno or 0) for line in traced):
                continue  # Another function that calls the same one.
            step = _goes_round(loop, origins[at], at[1] if file == at[0] else 0, lines)
            if step is not None:
                found.loop = _located(Location(file, loop.lineno, function=function.name), sources)
                found.step, found.rounds_ops = step, sum(ops[each].total() for each in repeated)
                return found
    return found


def _loops(tree: list[ast.stmt]) -> Iterator[tuple[ast.FunctionDef, ast.For | ast.While]]:
    """The loops of each function, the innermost first."""
    functions = (node for each in tree for node in ast.walk(each) if isinstance(node, ast.FunctionDef))
    for function in functions:
        loops = [each for each in ast.walk(function) if isinstance(each, ast.For | ast.While)]
        for loop in reversed(loops):
            yield function, loop


def _first_line(function: ast.FunctionDef) -> int:
    """The line that its code says it begins in."""
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _goes_round(loop: ast.For | ast.While, origin: Location, line: int, repeated: set[int]) -> str | None:
    """How a loop comes to the line: "" where it holds that, else the function that it calls; None where it does not.

    A loop whose rounds call another module each is no loop over one step.
    """
    calls = [each for part in loop.body for each in ast.walk(part) if isinstance(each, ast.Call)]
    if isinstance(loop, ast.For):
        names = {each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)}
        if any(isinstance(each.func, ast.Name) and each.func.id in names for each in calls):
            return None
    last = loop.body[-1].end_lineno or loop.body[-1].lineno
    if loop.lineno < line <= last:
        return ""
    inside = any(loop.lineno < each <= last for each in repeated)
    name = origin.function.rpartition(".")[2]
    for call in calls:
        called = ast.unparse(call.func)
        if called.rpartition(".")[2] == name or (name == "forward" and inside and called.startswith("self.")):
            return called
    return None


def _located(origin: Location, sources: Sources) -> Location:
    found = sources.location(origin.file, origin.line, origin.function)
    return found if found.code or not origin.code else origin
