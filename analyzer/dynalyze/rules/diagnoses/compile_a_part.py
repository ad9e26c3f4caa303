"""Parts of a model that no graph break reaches: compiled by themselves they are whole."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from dynalyze.files.paths import library_of
from dynalyze.report import Example, Impact, Region, Report
from dynalyze.rules.report_queries import ids
from dynalyze.rules.rule import Ranked, Rule, break_owners, severity_of
from dynalyze.text.amounts import listed

_MOST_PARTS = 4
_LEAST_SHARE = 0.25
_FIRST, _AFTER_BREAKS = -100, 350


@Rule(
    title="Part that compiles whole",
    severity="info",
    description="A model breaks, but large parts of it do not: no break has a line of theirs on its stack. Compiled by "
    "themselves they are whole graphs, and the code that breaks stays in eager around them. Where all breaks are "
    "in a library, this is what its user can do.",
    fix="Compile the part, `model.backbone.compile()`, in place of the whole model.",
)
def compile_a_part(report: Report) -> Iterator[Ranked]:
    by_root: dict[str, list[Region]] = {}
    for region in report.regions if report.graph_breaks else ():
        by_root.setdefault(region.root, []).append(region)
    for root, parts in by_root.items():
        gaining = parts if _measured(parts) else [part for part in parts if _gains(part, report)]
        if sum(map(_share, gaining)) >= _LEAST_SHARE:
            yield _finding(report, root, gaining[:_MOST_PARTS])


def _measured(parts: list[Region]) -> bool:
    return all(part.share is not None for part in parts)


def _foreign(report: Report) -> bool:
    """Whether all breaks are in libraries, and some of them have no rule that knows a way out."""
    owners = break_owners(report)
    unknown = [found for found in report.graph_breaks if owners.get(found.id, "recompile") == "recompile"]
    return bool(unknown) and all(library_of(found.location.file) for found in report.graph_breaks)


def _gains(part: Region, report: Report) -> bool:
    """Of a module that the program compiles itself: whether the whole loses more than a cut between two graphs, which
    costs less than code around the parts that runs in eager. Where the program's own code breaks, torch compiles the
    part by itself already, unless its forward is torch's own.
    """
    own = {found.location.at for found in report.compilations if found.status == "compiled"}
    known = part.location is not None and part.location.at in own
    lost = any(found.effect != "split" for found in report.graph_breaks) or _at_limit(report)
    return lost and _is_called(part, report) and (_is_libraries(report) or not known)


def _is_called(part: Region, report: Report) -> bool:
    """Whether its forward was traced, as far as is known: a module that holds a weight has one that nobody calls."""
    traced = {(file.path, each.line) for file in report.traced_files for each in file.functions}
    return part.of_torch or (part.location is not None and (part.location.file, part.location.line) in traced)


def _is_libraries(report: Report) -> bool:
    """Whether what breaks, or compiles without end, is not the user's to rewrite."""
    return _foreign(report) or _at_limit(report)


def _at_limit(report: Report) -> bool:
    return any(found.cause == "limit" and library_of(found.location.file) for found in report.recompiles)


def _finding(report: Report, root: str, parts: list[Region]) -> Ranked:
    foreign, measured = _foreign(report), _measured(parts)
    held = f"{min(1.0, sum(map(_share, parts))):.0%}".replace("%", " %")
    of = f"{held} of the {'time' if measured else 'parameters'}"
    compiles, holds, it = ("compiles", "holds", "it") if len(parts) == 1 else ("compile", "hold", "them")
    whole = _whole(parts[0])
    whose = "All graph breaks are in code of libraries, so there is nothing to rewrite. " if foreign else ""
    named = listed([f"`{_name(part)}`" for part in parts])
    lines = list(map(_line, parts))
    return compile_a_part.finding(
        f"{named} {compiles} without a graph break and {holds} {of}"
        if measured
        else f"No graph break reaches {named}, with {of}",
        f"Compile {it} in place of `{parts[0].within or whole}`: {listed([f'`{line}`' for line in lines])}."
        f"{_room(report, parts)}{_to_verify(report, parts)}",
        why=f"{whose}No graph break has a line of {it} on its stack.",
        example=Example(
            f"{whole} = torch.compile({', '.join(filter(None, [whole, parts[0].arguments]))})", "\n".join(lines)
        )
        if not parts[0].within
        else None,
        rank=_FIRST if _is_libraries(report) else _AFTER_BREAKS,
        severity="error" if _at_limit(report) else severity_of(report.graph_breaks) if foreign else "info",
        location=parts[0].compiled or parts[0].location,
        evidence=ids(report.graph_breaks),
        impact=_compiling_the_rest(report, parts) if _is_libraries(report) and not measured else None,
    )


def _room(report: Report, parts: list[Region]) -> str:
    """The limit that several parts of one code need, where that code reached it: each of another width is a version."""
    reached = {found.location.at for found in report.recompiles if found.cause == "limit"}
    count = max((part.count for part in parts if part.location is not None and part.location.at in reached), default=1)
    if count == 1:
        return ""
    return f" Their versions count together, so set `torch._dynamo.config.recompile_limit = {max(16, 4 * count)}` too."


def _compiling_the_rest(report: Report, parts: list[Region]) -> Impact | None:
    """What compiling all but the parts took, which is spared."""
    own = {part.location.at for part in parts if part.location is not None}
    seconds = (each.whole_seconds for each in report.compilations if each.location.at not in own)
    known = [each for each in seconds if each is not None]
    return Impact(compile_seconds=round(sum(known), 6), what="of compile time") if known else None


def _to_verify(report: Report, parts: list[Region]) -> str:
    """The run that shows it, where the program has a name for the module while it is called."""
    named = bool(parts[0].root) and not parts[0].root.startswith("self.")
    is_program = report.capture.mode in ("in_place", "observed") and report.fix_command
    if not is_program or not named or any(part.count > 1 for part in parts):
        return ""
    at = report.fix_command.index("--") if "--" in report.fix_command else len(report.fix_command)
    given, rest = report.fix_command[1:at], report.fix_command[at:]
    while "--compile" in given:
        del given[(chosen := given.index("--compile")) : chosen + 2]
    given += [word for part in parts for word in ("--compile", f"{part.root}{_path(part)}")]
    if "--backend" not in given:
        given += [word for name in re.findall(r"backend='(\w+)'", parts[0].arguments) for word in ("--backend", name)]
    return f" To see it: `{shlex.join(['dynalyze', 'explain', *given, *rest])}`."


def _share(part: Region) -> float:
    return part.share if part.share is not None else part.parameter_share


def _steps(part: Region) -> list[str]:
    """What to write for each step of the path: `.layers`, `[1]`, and `[*]` or `[0,2]` where there are several."""
    return [_step(word) for word in (part.pattern or part.path).split(".") if word]


def _step(word: str) -> str:
    if word == "*" or word.replace(",", "").isdigit():
        return f"[{word}]"
    name = word.strip('"')
    return f".{name}" if name.isidentifier() else f".get_submodule({json.dumps(name)})"


def _path(part: Region) -> str:
    return "".join(_steps(part))


def _whole(part: Region) -> str:
    """The module in the program's own code, without the function that it is local to."""
    return part.root.rpartition(":")[2] or "model"


def _name(part: Region) -> str:
    """Of several alike without their numbers in the lists."""
    return _whole(part) + re.sub(r"\[(\*|\d+(,\d+)+)\]", "[...]", _path(part))


def _line(part: Region) -> str:
    """What to write, one line for all parts of the entry and for no other.

    `x.compile()` does nothing for a module whose forward is torch's own: it has to be replaced in what holds it.
    """
    steps, held = _steps(part), _whole(part)
    loops: list[str] = []
    last = len(steps) - part.of_torch
    for step in steps[:last]:
        held = _looped(loops, held, step, "part" if held.startswith("block") else "block")
    if not part.of_torch:
        return _in_loops(loops, f"{held}.compile({part.arguments})")
    own = steps[-1] if steps else ""
    if _several(own):
        loops.append(f"for i in range(len({held}))" if own == "[*]" else f"for i in ({own[1:-1].replace(',', ', ')})")
        own = "[i]"
    compiled = f"torch.compile({held}{own}{', ' if part.arguments else ''}{part.arguments})"
    if len(loops) < 2 and not own.endswith(")"):
        return _in_loops(loops, f"{held}{own} = {compiled}")
    if own.startswith("["):
        return _in_loops(loops, f"{held}.__setitem__({own[1:-1]}, {compiled})")
    name = json.dumps(part.path.rpartition(".")[2])
    return _in_loops(loops, f"setattr({held}, {name}, {compiled})")


def _several(step: str) -> bool:
    return step == "[*]" or "," in step


def _looped(loops: list[str], held: str, step: str, item: str) -> str:
    """What a step leads to, through one more loop where it leads to several."""
    if not _several(step):
        return held + step
    over = held if step == "[*]" else f"[{held}[i] for i in ({step[1:-1].replace(',', ', ')})]"
    loops.append(f"for {item} in {over}")
    return item


def _in_loops(loops: list[str], statement: str) -> str:
    if len(loops) > 1:
        return f"[{statement} {' '.join(loops)}]"
    return f"{loops[0]}: {statement}" if loops else statement
