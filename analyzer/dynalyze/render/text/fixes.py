"""Sentences on fixes: how far each was checked, and what they come to together."""

from __future__ import annotations

import re
from collections.abc import Collection

from dynalyze.facts.stacks import Places, is_file
from dynalyze.render.text.bench import ratio_words
from dynalyze.render.text.report import command_line
from dynalyze.report import GraphBreak, Report
from dynalyze.report.fixes import CompileCounts, Evidence, Fix, Fixed, FixStatus, Unfixed
from dynalyze.rules.settings import setting_name
from dynalyze.text.amounts import count_of, listed
from dynalyze.text.escape import clipped, visible

STATUSES: dict[FixStatus, str] = {
    "verified": "verified", "suggested": "suggested, not verified", "rejected": "tried and rejected",
}  # fmt: skip
_OUTPUTS = {"bitwise": "bit-identical", "tolerance": "match up to rounding", "different": "differ"}
_UNDER_BACKEND = {
    "equal": "match eager", "rounding only": "match eager up to rounding",
    "benign": "are about as exact as in eager, held to fp64",
}  # fmt: skip
_AS_COMPILED = "The unchanged code already gives other answers compiled than in eager; the change keeps that."
_CALLS_ALONE = "There is no whole program to run: only calls were compared."
_GONE = re.compile(r"not ([\w ]+) any more: (.*)", re.DOTALL)
_MORE = re.compile(r"([\w ]+) in addition: (.*)", re.DOTALL)
_VERBS = {
    "printed": "prints", "printed as an error": "prints to standard error", "logged": "logs", "warned": "warns",
    "kept": "keeps",
}  # fmt: skip
_REASONS: dict[FixStatus, str] = {"suggested": "Not verified", "rejected": "Rejected"}
_MOST_EFFECTS = 3
_MOST_NAMED = 12


def verdict(report: Report, fixed: Fixed) -> str:
    if fixed.given:
        return _of_given(report, fixed)
    if not report.graph_breaks and report.outcome.status not in ("complete", "incomplete"):
        return f"Nothing could be fixed. {report.outcome.message}"
    again = _of_recompiles(report, fixed)
    if not report.graph_breaks:
        return again or "Nothing to fix: the program has no graph break, and no recompile that a setting could end."
    ended, suggested = ended_breaks(report), suggested_breaks(report)
    asked = count_of(len(ended) + len(fixed.unfixed), "graph break")
    if not ended and suggested:
        ended_by = report.outcome.message if report.outcome.status == "interrupted" else ""
        suggestion = f"Suggested, not verified: changes for {len(suggested)} of {asked}."
        return " ".join(filter(None, [suggestion, ended_by, again]))
    if not ended:
        return f"Fixed none of {asked}: no change could be verified. {again}".strip()
    said = [f"Fixed and verified {len(ended)} of {asked}."]
    if suggested:
        said.append(f"Changes for {len(suggested)} more are suggested, not verified.")
    if fixed.after and not fixed.after.breaks and len(said) == 1:
        said.append(f"The changed program compiles to {count_of(fixed.after.graphs, 'graph')}.")
    return " ".join([*said, again]).strip()


def _of_recompiles(report: Report, fixed: Fixed) -> str:
    """How many recompiles are left, of all, with what was verified; "" if nothing changes about them."""
    tried = [each for each in report.fixes if each.recompiles]
    all_of_them = count_of(len(report.recompiles), "recompile")
    before, after = fixed.before, fixed.after
    if fixed.kept and before is not None and after is not None and after.recompiles < before.recompiles:
        return f"Of {all_of_them} {after.recompiles or 'none'} {'is' if after.recompiles < 2 else 'are'} left."
    if suggested := next((each for each in tried if each.status == "suggested"), None):
        return f"Suggested, not verified: a setting for {len(suggested.recompiles)} of {all_of_them}."
    if not tried:
        return ""
    last = tried[-1]  # `dynamic=True` for all sizes, where that was tried.
    setting, reason = clipped(setting_name(last.setting), 60), clipped(last.reason.rstrip("."), 120)
    return f"Fixed none of {all_of_them}: {setting} was rejected: {reason}."


def standing(report: Report) -> tuple[str, bool]:
    """The state of the changes in a word or two, and whether they are verified."""
    statuses = {each.status for each in report.fixes if each.ends}
    if "verified" in statuses:
        return "Verified", True
    if "suggested" in statuses:
        return "Suggested, not verified", False
    return ("Not verified", False) if report.graph_breaks or statuses else ("Nothing to fix", True)


def _of_given(report: Report, fixed: Fixed) -> str:
    if not report.fixes:
        return "Not verified: the calls of the program could not be compared."
    fix = report.fixes[0]
    if fix.status != "verified":
        return f"Not verified: {fix.reason or 'the calls of the program could not be compared'}."
    whole = count_of(len(fix.breaks) + len(fixed.unfixed), "graph break")
    return f"Verified: the change fixes {len(fix.breaks)} of {whole}, and nothing else that was compared changes."


def ended_breaks(report: Report) -> list[str]:
    return list(dict.fromkeys(name for each in report.fixes if each.status == "verified" for name in each.breaks))


def ended(report: Report) -> set[str]:
    """The ids of all that verified fixes end, breaks and recompiles."""
    return {name for each in report.fixes if each.status == "verified" for name in each.ends}


def suggested_breaks(report: Report) -> list[str]:
    """The ids of the breaks that suggested fixes alone would end."""
    named = dict.fromkeys(name for each in report.fixes if each.status == "suggested" for name in each.breaks)
    ended = ended_breaks(report)
    return [name for name in named if name not in ended]


def of_calls(evidence: Evidence) -> list[str]:
    if not evidence.outputs:
        return []
    random = f" and {evidence.draws} random ones" if evidence.draws else ""
    what = "Outputs and gradients" if evidence.gradients else "Outputs"
    said = f"{what} {_OUTPUTS[evidence.outputs]} on the program's inputs{random}, in eager and traced"
    if evidence.raised:
        said += f"; {evidence.raised} of the random ones raised the same exception before and after"
    before, after = evidence.compiled_before, evidence.compiled_after
    if before is None or after is None:
        return [f"{said}."]
    was = f"{before.compiled:,} of {before.operators:,}"
    share = f"Compiled: {after.compiled:,} of {after.operators:,} operators of the program's calls (was {was})."
    return [f"{said}.", share]


def of_whole(fixed: Fixed) -> list[str]:
    evidence = fixed.evidence
    if evidence is None:
        return []
    said = []
    if evidence.backend != "eager" and (match := _UNDER_BACKEND.get(evidence.accuracy)):
        who = "With all changes, outputs" if len(fixed.kept) > 1 else "Outputs"
        said.append(f"{who} under {evidence.backend} {match}.")
    program = evidence.program
    if program is None:
        return [*said, *([_CALLS_ALONE] if fixed.kept and evidence.outputs else [])]
    if program.compared and not program.different:
        where = " in a sandbox" if program.sandboxed else ""
        said.append(f"The whole program, run {program.runs + 1} times{where}: same {listed(program.compared)}.")
    return [*said, *([f"Not compared: {'; '.join(program.left_out)}."] if program.left_out else [])]


def caveats(fix: Fix) -> list[str]:
    """What people have to judge themselves."""
    evidence = fix.evidence
    said = [_AS_COMPILED] if evidence.as_compiled else []
    if evidence.effects:
        more = len(evidence.effects) - _MOST_EFFECTS
        named = "; ".join(_effect(each) for each in evidence.effects[:_MOST_EFFECTS])
        said.append(f"Compiled code {named}{f'; and {more} more' if more > 0 else ''}.")
    if missed := [each for each in evidence.sides if not each.taken]:
        lines = listed([str(each.place.line) for each in missed])
        one = "line" if len(missed) == 1 else "lines"
        tried = f", not even with inputs of these kinds: {listed(list(evidence.searched))}" if evidence.searched else ""
        said.append(f"No call reached {one} {lines}{tried}; what happens there was not checked.")
    return said


def _effect(text: str) -> str:
    if (found := _GONE.fullmatch(text)) and found[1] in _VERBS:
        return f"no longer {_VERBS[found[1]]} {found[2]}"
    if (found := _MORE.fullmatch(text)) and found[1] in _VERBS:
        return f"also {_VERBS[found[1]]} {found[2]}"
    return text if text.startswith("raises ") else f"differs: {text}"


def reason(fix: Fix) -> str:
    """Why a change is not verified, in a sentence; "" if unknown, or it is."""
    return f"{_REASONS[fix.status]}: {fix.reason.rstrip('.')}." if fix.reason and fix.status in _REASONS else ""


def why_it_stays(report: Report, left: Unfixed) -> list[str]:
    """What was tried against a graph break and why it fails, a sentence each; else why nothing was tried. Changes that
    fail for the same reason share a sentence.
    """
    by_reason: dict[str, list[str]] = {}
    for fix in report.fixes:
        if fix.status == "rejected" and left.break_id in fix.breaks and fix.reason:
            by_reason.setdefault(fix.reason, []).append(fix.id)
    titles = {each.id: each.title for each in report.fixes}
    said = [f"Tried {listed(ids)} ({titles[ids[0]]}): {why.rstrip('.')}." for why, ids in by_reason.items()]
    return said or [left.reason] * bool(left.reason)


def before_and_after(fixed: Fixed) -> tuple[str, list[tuple[str, int, int]]]:
    """The title and rows of a table of what is compiled before and after; no rows if unknown."""
    evidence = fixed.evidence
    if fixed.before is not None and fixed.after is not None:
        return "the whole program", _rows(fixed.before, fixed.after)
    if evidence is not None and evidence.before is not None and evidence.after is not None:
        return "the program's calls", _rows(evidence.before, evidence.after)
    return "", []


def _rows(before: CompileCounts, after: CompileCounts) -> list[tuple[str, int, int]]:
    return [
        ("graph breaks", before.breaks, after.breaks),
        ("graphs", before.graphs, after.graphs),
        ("recompiles", before.recompiles, after.recompiles),
    ]


def patch_head(report: Report, *, suggested: bool = False) -> str:
    """Comments for the head of a patch: each fix and how it was checked, and the settings, which no diff holds. With
    `suggested` it includes changes that were not verified.
    """
    assert report.fixed is not None
    said: list[str] = []
    for fix in report.fixes:
        if fix.status == "suggested" and suggested:
            said += [f"{fix.id} NOT VERIFIED {fix.title}: {changes(fix)}", f"   {' '.join(fix.reason.split())}"]
        if fix.status == "verified":
            said.append(f"{fix.id} {fix.title}: {changes(fix)}")
            said += [f"   {each}" for each in [*of_calls(fix.evidence), *caveats(fix)]]
    said += of_whole(report.fixed)
    if report.fixed.setting:
        said += ["Settings, to paste where the program compiles:", *report.fixed.setting.splitlines()]
    return "".join(f"# {visible(line)}\n" for line in said)


def gain(evidence: Evidence | None) -> str:
    """The speedup of the whole; "" if not measured."""
    if evidence is None or evidence.speedup is None:
        return ""
    return f"Speed of compiled calls, after vs before: {ratio_words(evidence.speedup)}."


def changes(fix: Fix) -> str:
    if fix.kind == "source":
        return "a change of source"
    return "a change of source with a setting" if fix.patch else "a setting"


def fix_command(report: Report, about: Collection[str] | None = None) -> str:
    """The command line that tries changes for the graph breaks with these ids, or for everything, recompiles included;
    "" if there is nothing to try.
    """
    fixable = [each.id for each in report.graph_breaks if _can_change(each)]
    wanted = [name for name in fixable if about is None or name in about]
    advised = [each.detail.config for each in report.findings if each.rule == "recompile" and each.detail is not None]
    has_setting = about is None and any(".config." in config for config in advised)
    if not report.fix_command or not (wanted or has_setting):
        return ""
    words = report.fix_command
    at = words.index("--") if "--" in words else len(words)
    all_of_them = len(wanted) in (0, len(report.graph_breaks)) or len(wanted) > _MOST_NAMED
    only = [] if about is None and all_of_them else ["--only", ",".join(wanted)]
    return command_line([*words[:at], *only, *words[at:]])


def write_command(report: Report, fixed: Fixed) -> str:
    """The command line that writes what was verified; "" if there is nothing to write, or it must not be."""
    if not _changes_files(report, "verified") or fixed.libraries:
        return ""
    return _with_options(report, fixed, "--write")


def apply_command(report: Report, fixed: Fixed, fix: Fix) -> str:
    """The command line that writes this change alone; "" if it changes no file, or must not be written."""
    if fix.status == "rejected" or not (fix.kind == "source" or fix.files) or fixed.libraries:
        return ""
    only = [] if "--only" in report.command else ["--only", ",".join(fix.breaks)]
    return _with_options(report, fixed, *only, "--write", *(["--unsafe-fixes"] if fix.status == "suggested" else []))


def unsafe_command(report: Report, fixed: Fixed) -> str:
    """The command line that writes what is suggested; "" if something was verified, or there is nothing to write."""
    if ended_breaks(report) or not _changes_files(report, "suggested"):
        return ""
    return _with_options(report, fixed, "--write", "--unsafe-fixes")


def _with_options(report: Report, fixed: Fixed, *options: str) -> str:
    words = report.command
    at = words.index("--") if "--" in words else len(words)
    if fixed.given or "--write" in words[:at]:
        return ""
    return command_line([*words[:at], *options, *words[at:]])


def _changes_files(report: Report, status: FixStatus) -> bool:
    return any(each.kind == "source" or each.files for each in report.fixes if each.status == status)


def _can_change(broken: GraphBreak) -> bool:
    """Whether the line is not in torch's own files, and the program's first process reached it."""
    file = broken.location.file
    return is_file(file) and not Places().is_torch(file) and 0 in (broken.processes or [broken.process])


WHERE_SETTINGS_GO = "Put it after `import torch`, before the first compiled call."
HOW_TO_GO_ON = "tries changes on copies and verifies each; --write applies them"
ON_COPIES = "changes copies; --write applies them"
"""What the command of `fix_command` does."""
