"""What is said of fixes: how far each was verified, and what all of them come to."""

from __future__ import annotations

from collections.abc import Collection

from dynalyze.facts.stacks import Places, is_file
from dynalyze.report import GraphBreak, Report
from dynalyze.report.fixes import Counts, Evidence, Fix, Fixed, FixStatus
from dynalyze.text.amounts import count_of, listed
from dynalyze.text.visible import visible
from dynalyze.words.bench import no_difference, ratio_words
from dynalyze.words.report import command_line

STATUSES: dict[FixStatus, str] = {"verified": "verified", "suggested": "not verified", "rejected": "tried and rejected"}
_OUTPUTS = {"bitwise": "equal to the bit", "tolerance": "equal within rounding, against fp64", "different": "different"}
_AS_COMPILED = (
    "Compiled, the code as it was gives something else than in eager already: with the change that stays as it is."
)
_MOST_EFFECTS = 3
_MOST_NAMED = 12


def verdict(report: Report, fixed: Fixed) -> str:
    """The first line."""
    if fixed.given:
        return _of_given(report, fixed)
    if not report.graph_breaks and report.outcome.status not in ("complete", "incomplete"):
        return f"Nothing could be fixed. {report.outcome.message}"
    if not report.graph_breaks:
        return "Nothing to fix: no graph break was met."
    ended = ended_breaks(report)
    asked = len(ended) + len(fixed.unfixed)
    suggested = dict.fromkeys(name for each in report.fixes if each.status == "suggested" for name in each.breaks)
    if not ended and suggested:
        found = f"Changes that end {len(suggested)} of {count_of(asked, 'graph break')} are suggested, not verified."
        return f"{found} {report.outcome.message}".strip() if report.outcome.status == "interrupted" else found
    if not ended:
        return f"No verified fix: none of {count_of(asked, 'graph break')} could be ended by a change that holds."
    whole = " The model compiles to one graph per call." if fixed.after and not fixed.after.breaks else ""
    for fix in report.fixes:
        if fix.status == "verified" and fix.instead is not None:
            whole = f" {len(fix.breaks)} of them by compiling less: {fix.instead.operators:.0%} of the operators."
    return f"{len(ended)} of {count_of(asked, 'graph break')} end, verified.{whole}"


def _of_given(report: Report, fixed: Fixed) -> str:
    """The first line on a change that somebody else made."""
    if not report.fixes:
        return "Not verified: the calls of the program could not be compared."
    fix = report.fixes[0]
    if fix.status != "verified":
        return f"Not verified: {fix.reason or 'the calls of the program could not be compared'}."
    whole = len(fix.breaks) + len(fixed.unfixed)
    ended = f"{len(fix.breaks)} of {count_of(whole, 'graph break')} end"
    return f"Verified: {ended}, and nothing else that was compared changes."


def ended_breaks(report: Report) -> list[str]:
    """The ids of the breaks that verified fixes end."""
    return list(dict.fromkeys(name for each in report.fixes if each.status == "verified" for name in each.breaks))


def proof(evidence: Evidence) -> str:
    """What was compared, in a sentence."""
    if not evidence.outputs:
        return ""
    draws = f" and {count_of(evidence.draws, 'fresh draw')} of inputs" if evidence.draws else ""
    what = "Outputs and gradients" if evidence.gradients else "Outputs"
    parts = [f"{what} {_OUTPUTS[evidence.outputs]} on the program's own inputs{draws}, in eager and compiled"]
    if evidence.raised:
        parts.append(f"{evidence.raised} of the draws raised the same exception before and after")
    return f"{'; '.join(parts)}."


def caveats(fix: Fix) -> list[str]:
    """What people have to judge themselves."""
    evidence, less = fix.evidence, fix.instead
    said = [_AS_COMPILED] if evidence.as_compiled else []
    if less is not None:
        shares = f"{less.operators:.0%} of the operators and {less.time:.0%} of the time of an eager call"
        graphs = f", in {count_of(evidence.after.graphs, 'graph')}" if evidence.after else ""
        said.append(f"Compiled is then {shares}{graphs}; the rest, with what broke, runs in eager.")
    if evidence.effects:
        more = len(evidence.effects) - _MOST_EFFECTS
        named = "; ".join(evidence.effects[:_MOST_EFFECTS])
        said.append(f"Compiled code: {named}{f'; and {more} more' if more > 0 else ''}.")
    if missed := [each for each in evidence.sides if not each.taken]:
        lines = listed([str(each.place.line) for each in missed])
        tried = f", nor any of {listed(list(evidence.searched))}" if evidence.searched else ""
        said.append(f"No call took the side of line {lines}{tried}: what it does is not verified there.")
    return said


def before_and_after(before: Counts, after: Counts) -> list[tuple[str, int, int]]:
    """The rows of the table: what is counted, before and after."""
    return [
        ("graph breaks", before.breaks, after.breaks),
        ("graphs", before.graphs, after.graphs),
        ("recompiles", before.recompiles, after.recompiles),
    ]


def patch_head(report: Report, *, suggested: bool = False) -> str:
    """Comments for the head of a patch: what each fix is and was verified by, and the settings, which no diff holds.
    With `suggested` changes are in it that were not verified.
    """
    assert report.fixed is not None
    said: list[str] = []
    for fix in report.fixes:
        if fix.status == "suggested" and suggested:
            said += [f"{fix.id} NOT VERIFIED {fix.title}: {changes(fix)}", f"   {' '.join(fix.reason.split())}"]
        if fix.status == "verified":
            said += [f"{fix.id} {fix.title}: {changes(fix)}", f"   {proof(fix.evidence)}"]
            said += [f"   {caveat}" for caveat in caveats(fix)]
    if report.fixed.setting:
        said += ["Settings, to be pasted where the program compiles:", *report.fixed.setting.splitlines()]
    return "".join(f"# {visible(line)}\n" for line in said)


def gain(evidence: Evidence | None) -> str:
    """What the whole gains in speed; empty where that was not measured."""
    if evidence is None or evidence.speedup is None:
        return ""
    speed = evidence.speedup
    said = no_difference(speed) if speed.verdict == "no difference shown" else ratio_words(speed)
    return f"A compiled call against one before the change: {said}."


def changes(fix: Fix) -> str:
    """How the fix is made."""
    if fix.instead is not None:
        return f"a setting that compiles less: {fix.instead.operators:.0%} of the operators"
    if fix.kind == "source":
        return "a change of source"
    return "a change of source with a setting" if fix.patch else "a setting"


def fix_command(report: Report, about: Collection[str] | None = None) -> str:
    """The command line that tries changes for these graph breaks, of their ids, or for all that it can be tried for;
    "" where there is none.
    """
    fixable = [each.id for each in report.graph_breaks if _can_change(each)]
    wanted = [name for name in fixable if about is None or name in about]
    if not (report.fix_command and wanted):
        return ""
    words = report.fix_command
    at = words.index("--") if "--" in words else len(words)
    all_of_them = len(wanted) == len(report.graph_breaks) or len(wanted) > _MOST_NAMED
    only = [] if about is None and all_of_them else ["--only", ",".join(wanted)]
    return command_line([*words[:at], *only, *words[at:]])


def write_command(report: Report, fixed: Fixed) -> str:
    """The command line that writes what was verified; "" where there is nothing to write, or it may not be written."""
    words = report.command
    at = words.index("--") if "--" in words else len(words)
    of_source = any(each.kind == "source" or each.files for each in report.fixes if each.id in fixed.kept)
    if fixed.given or not of_source or fixed.libraries or "--write" in words[:at]:
        return ""
    return command_line([*words[:at], "--write", *words[at:]])


def _can_change(broken: GraphBreak) -> bool:
    """Whether the line is in a file that is not torch's own, and the program's first process came there."""
    file = broken.location.file
    return is_file(file) and not Places().is_torch(file) and 0 in (broken.processes or [broken.process])


HOW_TO_GO_ON = "tries changes for the graph breaks and verifies each"
"""What the command of `fix_command` does."""
