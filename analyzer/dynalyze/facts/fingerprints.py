"""One name for a finding in every run: the same after lines moved, in another checkout, on another machine.

It is made of the rule, the file (by its package, or from the working directory on), the function, the line's code and
what the evidence is about. Findings that are alike in all of it are numbered from the top of the file.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator

from dynalyze.facts.stacks import original_name
from dynalyze.files.paths import portable_path
from dynalyze.report import Compilation, Finding, Graph, GraphBreak, Location, Recompile, Report

_DIGITS = 32
# A number by itself, not the 16 of bfloat16: counts and times differ from run to run.
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*")
# The rule whose findings are about the kernels of the graphs that are its evidence.
_ABOUT_KERNELS = "fallback-kernels"


def fingerprint(finding: Finding, report: Report) -> str:
    """The fingerprint of one finding of the report, hexadecimal. For all of them `fingerprints` is quicker."""
    for other, found in zip(report.findings, fingerprints(report), strict=True):
        if other is finding:
            return found
    return _digest((*_identity(finding, report.folder, _Subjects(report)), "0"))


def fingerprints(report: Report) -> list[str]:
    """The fingerprint of each finding, in their order: the one that it has, else a new one."""
    if all(finding.fingerprint for finding in report.findings):
        return [finding.fingerprint for finding in report.findings]
    subjects = _Subjects(report)
    identities = [_identity(finding, report.folder, subjects) for finding in report.findings]
    ordinals = _ordinals(identities, [_position(finding.location) for finding in report.findings])
    return [_digest((*identity, str(number))) for identity, number in zip(identities, ordinals, strict=True)]


def add_fingerprints(report: Report) -> None:
    """Write each finding's fingerprint into it, before names are left out of what it quotes (--redact)."""
    for finding, found in zip(report.findings, fingerprints(report), strict=True):
        finding.fingerprint = found


class _Subjects:
    """What each piece of evidence is about, in words that no run changes."""

    def __init__(self, report: Report) -> None:
        self._kernels: dict[str, set[str]] = {}
        for kernel in report.kernels:
            if kernel.kind == "fallback":
                self._kernels.setdefault(kernel.graph, set()).add(kernel.name)
        self._known: dict[str, set[str]] = {}
        for identity, subject in _subjects(report):
            self._known.setdefault(identity, set()).add(subject)

    def of(self, finding: Finding) -> list[str]:
        """Each subject once, sorted: that a change reached one function more makes no new finding."""
        found: set[str] = set()
        for identity in finding.evidence:
            if finding.rule == _ABOUT_KERNELS:
                found |= self._kernels.get(identity, set())
            else:
                found |= self._known.get(identity, {_without_numbers(identity)})
        return sorted(found)


def _subjects(report: Report) -> Iterator[tuple[str, str]]:
    for item in report.graph_breaks:
        yield item.id, _of_break(item)
    for again in report.recompiles:
        yield again.id, _of_recompile(again)
    for size in report.forced_sizes:
        yield size.id, f"size {size.source or ''} {size.dimension}"
    for frame in report.skipped_frames:
        yield frame.id, f"skipped {frame.reason}"
    for graph in report.graphs:
        yield graph.id, _of_graph(graph)
    for compilation in report.compilations:
        yield compilation.compile_id, _of_compilation(compilation)
    for module in report.modules:
        yield module.id, f"module {module.class_name}"
    for call in report.attention:
        yield call.id, f"attention {call.op} {call.backend} {original_name(call.function)}"


def _of_break(item: GraphBreak) -> str:
    """By PyTorch's id, which stays while its wording changes."""
    return f"break {item.gb_id or item.gb_type}"


def _of_recompile(again: Recompile) -> str:
    return f"recompile {again.cause} {again.source or ''}"


def _of_graph(graph: Graph) -> str:
    reason = graph.cudagraph_skip.partition(" Found from")[0].strip().partition("\n")[0]
    return f"graph {_without_numbers(reason)}"


def _of_compilation(compilation: Compilation) -> str:
    return " ".join(["compilation", *sorted({bypass.reason for bypass in compilation.cache_bypasses})])


def _identity(finding: Finding, folder: str, subjects: _Subjects) -> tuple[str, ...]:
    about = subjects.of(finding)
    place = finding.location
    if place is None:
        # Nothing else tells two findings of one rule apart.
        return finding.rule, *(about or [_without_numbers(finding.title)])
    return finding.rule, portable_path(place.file, folder), _function(place), _code(place), *about


def _function(place: Location) -> str:
    """Without its class: not every Python tells it."""
    return original_name(place.function).rpartition(".")[2]


def _code(place: Location) -> str:
    return " ".join((place.code or "").split())


def _position(place: Location | None) -> tuple[int, int]:
    return (place.line, place.column or 0) if place is not None else (0, 0)


def _ordinals(identities: list[tuple[str, ...]], positions: list[tuple[int, int]]) -> list[int]:
    """The number of each among those of the same identity, counted from the top of the file."""
    seen: Counter[tuple[str, ...]] = Counter()
    numbers = [0] * len(identities)
    downwards: Callable[[int], tuple[int, int]] = positions.__getitem__
    for at in sorted(range(len(identities)), key=downwards):
        numbers[at] = seen[identities[at]]
        seen[identities[at]] += 1
    return numbers


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)


def _digest(parts: tuple[str, ...]) -> str:
    text = "\0".join(part.replace("\0", " ") for part in parts)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_DIGITS]
