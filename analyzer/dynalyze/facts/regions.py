"""The parts of a compiled module that no graph break reaches: each would compile whole by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dynalyze.events.log import RunLog
from dynalyze.events.types import ModuleTree, TreePart
from dynalyze.facts.sources import Sources
from dynalyze.report import GraphBreak, Location, Region

_LEAST_SHARE = 0.05
_MOST = 20
_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
_CALLED = re.compile(r"\bself\.([\w.]+)\(")


def regions(run: RunLog, breaks: Sequence[GraphBreak], sources: Sources) -> list[Region]:
    """The largest such parts of each module, those that take the most time first; none where nothing breaks.

    A part is reached by a break where a line of its class stands on the break's stack, or where the line that broke
    calls it: torch refuses some modules before it enters them. Parts that differ in nothing but their number in a list
    are one entry; a single layer (a Linear) is none.
    """
    found: list[Region] = []
    for _, event in run.all():
        if isinstance(event, ModuleTree) and breaks:
            found += _of_tree(event, breaks, sources)
    return sorted(found, key=lambda region: -(region.share or region.parameter_share))[:_MOST]


def _of_tree(tree: ModuleTree, breaks: Sequence[GraphBreak], sources: Sources) -> Iterator[Region]:
    frames = {frame for each in breaks for frame in (*each.stack, each.location)}
    reached = [any(_holds(code, frame) for code in kind.code for frame in frames) for kind in tree.classes]
    parts = {part.path: part for part in tree.parts}
    refused = set(_called_where_it_broke(tree, breaks))
    whole = {path: not reached[part.kind] and path not in refused for path, part in parts.items()}
    for path in [path for path, is_whole in whole.items() if not is_whole]:
        whole.update(dict.fromkeys(_above(path), False))
    root = parts.get("")
    if root is None or not any(reached):
        return
    groups: dict[tuple[str, int], list[TreePart]] = {}
    for path, part in parts.items():
        if path and _is_largest(path, part, tree, whole):
            groups.setdefault((_NUMBER.sub("*", path), part.kind), []).append(part)
    for (_, kind), alike in groups.items():
        region = _region(tree, kind, alike, root, sources)
        if (region.share if region.share is not None else region.parameter_share) >= _LEAST_SHARE:
            yield region


def _called_where_it_broke(tree: ModuleTree, breaks: Sequence[GraphBreak]) -> Iterator[str]:
    """The paths of the modules that the expression of a break calls: `self.rnn(x)`."""
    for each in breaks:
        for name in _CALLED.findall(each.expression or each.location.code or ""):
            for part in tree.parts:
                if any(_holds(code, each.location) for code in tree.classes[part.kind].code):
                    yield f"{part.path}.{name}".lstrip(".")


def _is_largest(path: str, part: TreePart, tree: ModuleTree, whole: dict[str, bool]) -> bool:
    """Whether it compiles whole, and nothing above it that could be compiled does."""
    if not whole[path] or not tree.classes[part.kind].callable:
        return False
    if tree.classes[part.kind].layer and not any(each.path.startswith(f"{path}.") for each in tree.parts):
        return False
    kinds = {each.path: each.kind for each in tree.parts}
    return not any(whole.get(above) and tree.classes[kinds[above]].callable for above in _above(path))


def _region(tree: ModuleTree, kind: int, alike: list[TreePart], root: TreePart, sources: Sources) -> Region:
    known = [part.seconds for part in alike if part.seconds is not None]
    share = min(1.0, sum(known) / root.seconds) if root.seconds and known else None
    parameters = sum(part.parameters for part in alike)
    forward = tree.classes[kind].forward
    return Region(
        root=tree.name,
        path=alike[0].path,
        class_name=tree.classes[kind].name,
        location=sources.location(*forward, "forward") if forward else None,
        of_torch=tree.classes[kind].of_torch,
        count=len(alike),
        parameters=parameters,
        share=None if share is None else round(share, 4),
        parameter_share=round(parameters / root.parameters, 4) if root.parameters else 0.0,
    )


def _above(path: str) -> Iterator[str]:
    """The paths of the modules that hold this one, the root "" last."""
    while path:
        path = path.rpartition(".")[0]
        yield path


def _holds(code: tuple[str, int, int], frame: Location) -> bool:
    file, first, last = code
    return frame.file == file and first <= frame.line <= last
