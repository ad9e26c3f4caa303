"""A report for PyTorch's issue tracker: what the compiler did wrong, once each, with what it takes to see it again.

Only what torch itself should do better is told: wrong answers, compiles that failed, and graph breaks. It is Markdown
for the form of that tracker, and says which parts its reader still has to fill in.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from dynalyze.files.paths import portable_path
from dynalyze.render.markdown import code, prose
from dynalyze.render.text.report import command_line, count_of, effect_words
from dynalyze.report import Compilation, GraphBreak, Location, Report
from dynalyze.report.audit import Bisection, stage_name
from dynalyze.report.measurements import Accuracy
from dynalyze.text.escape import clipped, one_line, visible

Fact = TypeVar("Fact")

_MOST = 10
_LONGEST_MESSAGE = 6_000
_LONGEST_CODE = 400
_SHOWN = ("os", "system", "machine", "cuda", "hip", "cores")


def render(report: Report) -> str:
    """The issue. A run in which nothing went wrong gives one that says so."""
    return "\n".join(_parts(report)).rstrip() + "\n"


def _parts(report: Report) -> Iterator[str]:
    wrong = [test for test in report.accuracy if test.verdict == "suspicious"][:_MOST]
    # A refusal under fullgraph is told as its graph break.
    refusing = {found.id for found in report.graph_breaks if found.effect == "error"}
    failures = [each for each in report.compilations if each.status == "failed" and refusing.isdisjoint(each.breaks)]
    failed = _counted(failures, lambda each: each.reason)
    broken = _counted(report.graph_breaks, lambda found: (found.gb_type, found.explanation))
    yield from (f"Title: {_title(wrong, failed, broken)}", "", "### 🐛 Describe the bug", "")
    if not (wrong or failed or broken):
        yield from ("No fault of torch.compile was recorded in this run.", "")
    for test in wrong:
        yield from _wrong_answers(test, report.bisections)
    for compilation, times in failed:
        place = compilation.location
        often = f" ({count_of(times, 'compile')})" if times > 1 else ""
        yield from (f"**A compile failed**{often} at {_where(place, report.folder)}", "")
        yield from _fenced(place.code or "", "python")
        yield from _fenced(compilation.reason or "torch gave no reason", "text")
    for found, times in broken:
        yield from _break(found, times - 1, report.folder)
    yield from ("### To see it again", "", *_fenced(one_line(command_line(report.command)), "sh"))
    yield from ("<!-- Add the smallest program that shows it, if there is no script above. -->", "")
    yield from _versions(report)


def _title(wrong: list[Accuracy], failed: list[tuple[Compilation, int]], broken: list[tuple[GraphBreak, int]]) -> str:
    if wrong:
        return "[torch.compile] compiled results are wrong beyond rounding"
    if failed:
        first = next(iter(failed[0][0].reason.strip().splitlines()), "")[:_LONGEST_CODE]
        return f"[torch.compile] {prose(first or 'compile fails')}"
    if broken:
        return f"[dynamo] graph break: {prose(broken[0][0].gb_type)}"
    return "(nothing to report)"


def _counted(facts: Iterable[Fact], reason: Callable[[Fact], Hashable]) -> list[tuple[Fact, int]]:
    """The first fact of each reason that torch gave, and how many there are of it."""
    once: dict[Hashable, tuple[Fact, int]] = {}
    for each in facts:
        first, times = once.get(reason(each), (each, 0))
        once[reason(each)] = (first, times + 1)
    return list(once.values())[:_MOST]


def _wrong_answers(test: Accuracy, bisections: Iterable[Bisection]) -> Iterator[str]:
    worst = next((each for each in test.tensors if each.verdict == "suspicious"), None)
    what = f" {code(worst.name)}" if worst is not None else ""
    yield from (f"**Wrong answers** with {code(test.configuration)}:{what} {prose(test.reason)}", "")
    for found in bisections:
        if found.configuration != test.configuration or not found.stage:
            continue
        yield f"- first wrong at: {prose(stage_name(found))}"
        for name, value in (("module", found.module), ("operation", found.op)):
            if value:
                yield f"- {name}: {code(value)}"
        if found.eager_rmse is not None and found.compiled_rmse is not None:
            yield f"- error against fp64: {found.eager_rmse:.3g} in eager, {found.compiled_rmse:.3g} compiled"
        yield ""
        if found.repro:
            # Not read here: a report may come from anybody, and name any file. Nothing in the name can end the comment.
            name = visible(" ".join(found.repro.split())).replace("--", "- -").replace(">", "")
            yield from (f"<!-- {name} runs alone and shows it: put it here. -->", "")


def _break(found: GraphBreak, others: int, folder: str) -> Iterator[str]:
    more = f", and at {count_of(others, 'further line')}" if others else ""
    number = f" ({prose(found.gb_id)})" if found.gb_id else ""
    yield f"**Graph break**{number}: {prose(found.gb_type)}, at {_where(found.location, folder)}{more}"
    yield from (f"{prose(effect_words(found.effect))}.", "")
    if found.snippet is not None and found.snippet.lines:
        yield from _fenced(textwrap.dedent("\n".join(found.snippet.lines)).strip("\n"), "python", always=True)
    else:
        yield from _fenced(found.location.code or "", "python")
    yield from _fenced("\n".join(part for part in (found.context, found.explanation) if part), "text")


def _versions(report: Report) -> Iterator[str]:
    environment = report.environment
    yield from ("### Versions", "")
    known = {"torch": environment.get("torch"), "Python": environment.get("python")}
    known |= {name: environment.get(name) for name in _SHOWN} | dict(
        sorted((environment.get("packages") or {}).items())
    )
    yield from (f"- {prose(str(name))} {prose(str(value))}" for name, value in known.items() if value)
    for name, value in sorted((environment.get("variables") or {}).items()):
        yield f"- {code(f'{name}={value}')}"
    yield ""
    yield f"Written by dynalyze {prose(report.dynalyze)}. `python -m torch.utils.collect_env` tells more."


def _where(place: Location, folder: str) -> str:
    return code(f"{portable_path(place.file, folder)}:{place.line}")


def _fenced(text: str, language: str, *, always: bool = False) -> list[str]:
    """A block of code and a blank line, nothing for no text; its fence is longer than any in it, so that nothing in it
    can end it.
    """
    if not text and not always:
        return []
    shown = "\n".join(visible(line) for line in clipped(text, _LONGEST_MESSAGE).splitlines())
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", shown, fence, ""]
