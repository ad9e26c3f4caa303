"""Parts of a model that no graph break reaches: compiled by themselves they are whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from dynalyze.files.paths import library_of
from dynalyze.report import Advice, Example, Finding, Region, Report, Severity
from dynalyze.rules.rule import Rule, severity_of

_MOST_PARTS = 4
_LEAST_SHARE = 0.25
_FIRST, _AFTER_BREAKS = -100, 350
_BY_NUMBER = re.compile(r"\.(\d+)(?=\.|$)")


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    by_root: dict[str, list[Region]] = {}
    for region in report.regions:
        by_root.setdefault(region.root, []).append(region)
    if not report.graph_breaks:
        return
    foreign = all(library_of(found.location.file) for found in report.graph_breaks)
    for root, parts in by_root.items():
        held = sum(_share(part) for part in parts)
        if held >= _LEAST_SHARE:
            rank, severity = (_FIRST, severity_of(report.graph_breaks)) if foreign else (_AFTER_BREAKS, "info")
            yield rank, _finding(report, root, parts[:_MOST_PARTS], severity, foreign=foreign)


def _finding(report: Report, root: str, parts: list[Region], severity: Severity, *, foreign: bool) -> Finding:
    held = min(1.0, sum(_share(part) for part in parts))
    measured = all(part.share is not None for part in parts)
    of = f"{held:.0%}".replace("%", " %") + (" of the time" if measured else " of the parameters")
    names = [f"`{_expression(part)}`" for part in parts]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    whose = "All graph breaks are in code of libraries, so there is nothing to rewrite. " if foreign else ""
    return RULE.finding(
        title=f"{listed} {'compiles' if len(parts) == 1 else 'compile'} without a graph break and "
        f"{'holds' if len(parts) == 1 else 'hold'} {of}",
        severity=severity,
        location=parts[0].location,
        evidence=[found.id for found in report.graph_breaks],
        advice=Advice(
            action=f"Compile {'it' if len(parts) == 1 else 'them'} in place of `{_plain(root)}`: `{_line(parts[0])}`."
            + _to_verify(report, parts),
            why=f"{whose}No graph break has a line of {'it' if len(parts) == 1 else 'them'} on its stack.",
            example=Example(f"{_plain(root)} = torch.compile({_plain(root)})", "\n".join(map(_line, parts))),
        ),
    )


def _to_verify(report: Report, parts: list[Region]) -> str:
    """The run that shows it, where the program's own modules can be chosen."""
    if report.capture.mode != "in_place" or not parts[0].root:
        return ""
    chosen = [word for part in parts if part.count == 1 for word in ("--compile", f"{part.root}{_path(part)}")]
    target, arguments = report.target.spec, report.target.arguments
    program = [target] if target.endswith(".py") else ["-m", target]
    words = ["dynalyze", "explain", *program, *chosen, *(["--", *arguments] if arguments else [])]
    return f" To see it: `{shlex.join(words)}`." if chosen else ""


def _share(part: Region) -> float:
    return part.share if part.share is not None else part.parameter_share


def _plain(root: str) -> str:
    """The name in the program's own code, without the function that it is local to."""
    return root.rpartition(":")[2] or "model"


def _path(part: Region) -> str:
    return _BY_NUMBER.sub(r"[\1]", f".{part.path}")


def _expression(part: Region) -> str:
    name = f"{_plain(part.root)}{_path(part)}"
    return name if part.count == 1 else re.sub(r"\[\d+\]", "[...]", name)


def _line(part: Region) -> str:
    """What to write: `x.compile()` does nothing for a module whose forward is torch's own."""
    name = f"{_plain(part.root)}{_path(part)}"
    if part.count == 1:
        return f"{name} = torch.compile({name})" if part.of_torch else f"{name}.compile()"
    holder, _, rest = name.rpartition("[")
    after = rest.partition("]")[2]
    if part.of_torch:
        return f"for i in range(len({holder})): {holder}[i]{after} = torch.compile({holder}[i]{after})"
    return f"for part in {holder}: part{after}.compile()"


RULE = Rule(
    id="compile-a-part",
    title="Part that compiles whole",
    severity="info",
    description=(
        "A model breaks, but large parts of it do not: no break has a line of theirs on its stack. Compiled by "
        "themselves they are whole graphs, and the code that breaks stays in eager around them. Where all breaks are "
        "in a library, this is what its user can do."
    ),
    passed="No part of a model with graph breaks would compile whole by itself.",
    judge=_judge,
    fix="Compile the part, `model.backbone.compile()`, in place of the whole model.",
)
