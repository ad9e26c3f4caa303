"""One name for a finding in every run: the same after lines moved, in another checkout, on another machine.

It is made of the rule, the file (by its package, or from the working directory on), the function, the line's code and
what the evidence is about. Findings that are alike in all of it are numbered from the top of the file.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter

from dynalyze.facts.stacks import original_name
from dynalyze.files.paths import portable_path
from dynalyze.report import Finding, Report

_DIGITS = 32
# A number by itself, not the 16 of bfloat16: counts and times differ from run to run.
_NUMBER = re.compile(r"(?<![\w.])\d[\d.,]*")
# The rule whose findings are about the kernels of the graphs that are its evidence.
_ABOUT_KERNELS = "fallback-kernels"


def fingerprints(report: Report) -> list[str]:
    """The fingerprint of each finding, in their order: the one that it has, else a new one, hexadecimal."""
    if all(finding.fingerprint for finding in report.findings):
        return [finding.fingerprint for finding in report.findings]
    known = _subjects(report)
    # The kernels of each graph that eager has too.
    kernels: dict[str, set[str]] = {}
    for kernel in report.kernels:
        if kernel.kind == "fallback":
            kernels.setdefault(kernel.graph, set()).add(kernel.name)
    identities = []
    for finding in report.findings:
        # Each subject once, sorted: that a change reached one function more makes no new finding.
        of_kernels = finding.rule == _ABOUT_KERNELS
        subjects = (
            kernels.get(each, set()) if of_kernels else known.get(each, {_without_numbers(each)})
            for each in finding.evidence
        )
        identities.append(_identity(finding, report.folder, sorted(set().union(*subjects))))
    # Those of the same identity are numbered from the top of the file.
    places = [finding.location for finding in report.findings]
    downwards = sorted(
        range(len(places)), key=lambda at: (each.line, each.column or 0) if (each := places[at]) else (0, 0)
    )
    seen: Counter[tuple[str, ...]] = Counter()
    numbers = dict.fromkeys(downwards, 0)
    for at in downwards:
        numbers[at] = seen[identities[at]]
        seen[identities[at]] += 1
    texts = (
        "\0".join(part.replace("\0", " ") for part in (*identity, str(numbers[at])))
        for at, identity in enumerate(identities)
    )
    return [hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:_DIGITS] for text in texts]


def add_fingerprints(report: Report) -> None:
    """Write each finding's fingerprint into it, before names are left out of what it quotes (--redact)."""
    for finding, found in zip(report.findings, fingerprints(report), strict=True):
        finding.fingerprint = found


def _subjects(report: Report) -> dict[str, set[str]]:
    """What each piece of evidence is about, in words that no run changes; PyTorch's id of a break stays too."""
    subjects = [(each.id, f"break {each.gb_id or each.gb_type}") for each in report.graph_breaks]
    subjects += [(each.id, f"recompile {each.cause} {each.source or ''}") for each in report.recompiles]
    subjects += [(each.id, f"size {each.source or ''} {each.dimension}") for each in report.forced_sizes]
    subjects += [(each.id, f"skipped {each.reason}") for each in report.skipped_frames]
    subjects += [(each.id, f"module {each.class_name}") for each in report.modules]
    subjects += [
        (call.id, f"attention {call.op} {call.backend} {original_name(call.function)}") for call in report.attention
    ]
    for graph in report.graphs:
        reason = graph.cudagraph_skip.partition(" Found from")[0].strip().partition("\n")[0]
        subjects.append((graph.id, f"graph {_without_numbers(reason)}"))
    for compilation in report.compilations:
        reasons = sorted({bypass.reason for bypass in compilation.cache_bypasses})
        subjects.append((compilation.compile_id, " ".join(["compilation", *reasons])))
    known: dict[str, set[str]] = {}
    for identity, subject in subjects:
        known.setdefault(identity, set()).add(subject)
    return known


def _identity(finding: Finding, folder: str, about: list[str]) -> tuple[str, ...]:
    place = finding.location
    if place is None:
        # Nothing else tells two findings of one rule apart.
        return finding.rule, *(about or [_without_numbers(finding.title)])
    # Without its class: not every Python tells it.
    function = original_name(place.function).rpartition(".")[2]
    return finding.rule, portable_path(place.file, folder), function, " ".join((place.code or "").split()), *about


def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)
