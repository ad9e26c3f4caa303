"""Parts of a model that no graph break reaches: compiled by themselves they are whole."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from dynalyze.files.paths import library_of
from dynalyze.report import Example, Region, Report
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule, severity_of
from dynalyze.text.amounts import listed

_MOST_PARTS = 4
_LEAST_SHARE = 0.25
_FIRST, _AFTER_BREAKS = -100, 350
_BY_NUMBER = re.compile(r"\.(\d+)(?=\.|$)")


@Rule(
    title="Part that compiles whole",
    severity="info",
    description="A model breaks, but large parts of it do not: no break has a line of theirs on its stack. Compiled by "
    "themselves they are whole graphs, and the code that breaks stays in eager around them. Where all breaks are "
    "in a library, this is what its user can do.",
    passed="No part of a model with graph breaks would compile whole by itself.",
    fix="Compile the part, `model.backbone.compile()`, in place of the whole model.",
)
def compile_a_part(report: Report) -> Iterator[Ranked]:
    by_root: dict[str, list[Region]] = {}
    for region in report.regions if report.graph_breaks else ():
        by_root.setdefault(region.root, []).append(region)
    for root, parts in by_root.items():
        if sum(map(_share, parts)) >= _LEAST_SHARE:
            yield _finding(report, root, parts[:_MOST_PARTS])


def _finding(report: Report, root: str, parts: list[Region]) -> Ranked:
    foreign = all(library_of(found.location.file) for found in report.graph_breaks)
    measured = all(part.share is not None for part in parts)
    held = f"{min(1.0, sum(map(_share, parts))):.0%}".replace("%", " %")
    of = f"{held} of the {'time' if measured else 'parameters'}"
    compiles, holds, it = ("compiles", "holds", "it") if len(parts) == 1 else ("compile", "hold", "them")
    whole = root.rpartition(":")[2] or "model"
    whose = "All graph breaks are in code of libraries, so there is nothing to rewrite. " if foreign else ""
    # Of several alike without their number in the list.
    names = [_name(part) if part.count == 1 else re.sub(r"\[\d+\]", "[...]", _name(part)) for part in parts]
    return compile_a_part.finding(
        f"{listed([f'`{name}`' for name in names])} {compiles} without a graph break and {holds} {of}",
        f"Compile {it} in place of `{whole}`: `{_line(parts[0])}`.{_to_verify(report, parts)}",
        why=f"{whose}No graph break has a line of {it} on its stack.",
        example=Example(f"{whole} = torch.compile({whole})", "\n".join(map(_line, parts))),
        rank=_FIRST if foreign else _AFTER_BREAKS,
        severity=severity_of(report.graph_breaks) if foreign else "info",
        location=parts[0].location,
        evidence=ids(report.graph_breaks),
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


def _path(part: Region) -> str:
    return _BY_NUMBER.sub(r"[\1]", f".{part.path}")


def _name(part: Region) -> str:
    """In the program's own code, without the function that the root is local to."""
    return f"{part.root.rpartition(':')[2] or 'model'}{_path(part)}"


def _line(part: Region) -> str:
    """What to write: `x.compile()` does nothing for a module whose forward is torch's own."""
    name = _name(part)
    if part.count == 1:
        return f"{name} = torch.compile({name})" if part.of_torch else f"{name}.compile()"
    holder, _, rest = name.rpartition("[")
    after = rest.partition("]")[2]
    if part.of_torch:
        return f"for i in range(len({holder})): {holder}[i]{after} = torch.compile({holder}[i]{after})"
    return f"for part in {holder}: part{after}.compile()"
