"""What made functions compile again, one finding a change, and those that reached the recompile limit."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from dynalyze.capture.trace_records import LIMITS
from dynalyze.report import Advice, Example, Recompile, Report
from dynalyze.rules.recompile_advice import advise, history, what_changed
from dynalyze.rules.recompile_advice.sizes import OR_DYNAMIC
from dynalyze.rules.recompile_advice.source import as_written, clipped, continued
from dynalyze.rules.recompile_advice.state import is_by_design
from dynalyze.rules.recompile_advice.tensors import is_of_input
from dynalyze.rules.recompile_series import (
    Limited,
    Series,
    functions,
    gather,
    named_breaks,
    seconds,
    spared_by_dynamic,
    split_off_by,
)
from dynalyze.rules.report_queries import ids, recompile_cost
from dynalyze.rules.rule import Ranked, Rule, recompile_owner, recompiled_instead, setting_fails
from dynalyze.rules.settings import ALL_SIZES, as_python
from dynalyze.text.amounts import listed

_RANK = 400
_RANK_OF_LIMITS = 3
_MOST_MILLISECONDS = 10**9
_MOST_VALUES = 8
_MOST_NAMES = 4
_FEWEST_VALUES = 5
_BY_DYNAMIC = "Compile with `torch.compile(..., dynamic=True)`"
_DYNAMIC_OR = f"{_BY_DYNAMIC}; or "
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@Rule(
    title="Recompilation",
    description="A guard of the compiled code did not hold for a new call, so functions were compiled again. "
    "Recompiles that come of one value are one finding. After the limit (8 by default) later calls run in eager; that "
    "is the finding recompile-limit, an error. What a library changes by itself has findings of its own, such as "
    "adapter-switch.",
    # A call past the limit that torch refuses.
    owns_breaks=lambda report: [each for each in report.graph_breaks if each.gb_type.startswith(LIMITS)],
    precedence=-1,
    more_ids=("recompile-limit",),
)
def recompile(report: Report) -> Iterator[Ranked]:
    free, limited = gather(report)
    for series in free:
        if recompile_owner(series, report) is None:
            yield _changed(series, report)
    for group in limited:
        yield _reached_limit(group, report)


def _rank(base: int, members: list[Recompile]) -> int:
    """The most expensive first; among those that were not timed, the most frequent."""
    milliseconds = min(round((seconds(members) or 0.0) * 1000), _MOST_MILLISECONDS)
    return base + (_MOST_MILLISECONDS - milliseconds) * 1000 - min(len(members), 999)


def _changed(series: Series, report: Report) -> Ranked:
    advice = advise(series)
    action = _as_tried(advice, ids(series.members), report) + _kept_static(series, report)
    if values := history(series, _MOST_VALUES):
        action += f" {values}"
    action += _then(series, report)
    advice = msgspec.structs.replace(advice, action=action)
    return recompile.finding(
        f"{what_changed(series)}: {_again(series)}",
        advice,
        rank=_rank(_RANK, series.members),
        severity="info" if series.modules or is_by_design(series.lead) or is_of_input(series.lead) else "warning",
        location=series.place,
        evidence=_evidence(series.members),
        impact=recompile_cost(series.members),
        after=_ended_first(series, report),
        package=series.package,
    )


def _as_tried(advice: Advice, evidence: list[str], report: Report) -> str:
    """The action without `dynamic=True`, where running showed that it ends nothing."""
    if not setting_fails(report, evidence, as_python(ALL_SIZES)):
        return advice.action
    if advice.action.startswith(_DYNAMIC_OR):
        rest = advice.action.removeprefix(_DYNAMIC_OR)
        return f"{rest[0].upper()}{rest[1:]}"
    setting = advice.config and not setting_fails(report, evidence, advice.config)
    instead = "Use the setting below" if setting else "`dynamic=True` does not end it"
    return advice.action.replace(OR_DYNAMIC, "").replace(_BY_DYNAMIC, instead)


def _then(series: Series, report: Report) -> str:
    """What compiles it again once that is done, and the action against it, where running showed one."""
    other = recompiled_instead(report, ids(series.members))
    found, _ = gather(msgspec.structs.replace(report, recompiles=[other] if other is not None else []))
    told = (f"{what_changed(each)}: {continued(advise(each).action)}" for each in found)
    return "".join(f" Tried alone, that leaves another recompile, {each}" for each in told)


def _kept_static(series: Series, report: Report) -> str:
    """That the program itself forbids sizes to vary, where one changed twice: elsewhere it had become dynamic."""
    varies = series.changes < 2 or series.forced_by is not None
    if varies or not (report.capture.static and spared_by_dynamic(series.lead)):
        return ""
    places = listed([each.short for each in report.capture.static], _MOST_NAMES)
    return f" `dynamic=False` at {places} has each size compiled anew: take it out, unless the sizes are few."


def _ended_first(series: Series, report: Report) -> str:
    """The graph break without which there would be no such recompile; "" where there is none."""
    place = series.apart[0].location if series.apart else series.lead.result_of
    return next((each.id for each in report.graph_breaks if place is not None and each.location.at == place.at), "")


def _again(series: Series) -> str:
    """ "forward was compiled again 3 times, 2.8 s", with every function that one change concerns."""
    names, times, spent = functions(series.members), len(series.recompiles), seconds(series.members)
    how = "compiled for each of them"
    if not series.modules:
        parts = f", in {series.parts} parts" if len(names) == 1 and series.parts > 1 else ""
        processes = len({member.process for member in series.members})
        ranks = f", in {processes} processes" if processes > 1 else ""
        how = f"compiled again{'' if times == 1 else f' {times} times'}{parts}{ranks}"
    if spent is not None:
        how += f", {spent * 1000:.0f} ms" if spent < 0.1 else f", {spent:.1f} s"
    return f"{listed(names, _MOST_NAMES)} {'was' if len(names) == 1 else 'were'} {how}"


def _reached_limit(group: Limited, report: Report) -> Ranked:
    stopped = functions(group.reached)
    at_limit = {each.key for each in group.reached}
    refused = [
        found
        for found in recompile.breaks(report)
        if not at_limit.isdisjoint((found.process, found.epoch, each) for each in found.compile_ids)
    ]
    then = "torch raises there" if refused else f"{'runs' if len(stopped) == 1 else 'run'} in eager from there on"
    return recompile.finding(
        f"{listed(stopped, _MOST_NAMES)} reached the recompile limit and {then}",
        _limit_advice(group, stopped, report, raises=bool(refused)),
        rank=_rank(_RANK_OF_LIMITS, group.members),
        rule="recompile-limit",
        severity="error",
        location=group.main.read_at or group.reached[0].location,
        evidence=[*_evidence(group.members), *ids(refused)],
        impact=recompile_cost(group.members),
        after=_ended_first(group.main, report),
    )


def _limit_advice(group: Limited, stopped: list[str], report: Report, *, raises: bool) -> Advice:
    """The cause first; raising the limit only for a set of values that is known to be small."""
    main = group.main
    split = split_off_by(group.reached[0].location, report)
    if main.apart:  # Each of them is enough to have torch compile the function by itself.
        split = [*main.apart, *(each for each in split if each not in main.apart)]
        main = replace(main, apart=split)
    owner, advice = recompile_owner(main, report), advise(main)
    place = named_breaks(split) if split else ""
    if owner is not None and owner.at_limit:
        advice = msgspec.structs.replace(advice, action=owner.at_limit, example=None)
    if main.modules:
        # Many modules, each compiled by itself: nothing varies, so a limit that has room for all of them does help.
        limit = 2 * max(len(group.members), 8)
        note = "The limit counts all modules that run one code together."
        whole = "compile the function or the module that calls them, in place of each by itself"
        if place:
            whole = f"end {place}, because of which torch compiles each by itself"
        action = f"{what_changed(main)}: raise the limit, as the setting does; or {whole}."
    else:
        limit = 2 * max(sum(map(group.share_of, group.series)), 8) if main.package else 16
        note = (
            "A higher limit helps only where the values are few: each costs a compile, and every call checks the "
            'guards of all versions. torch.compiler.set_stance("fail_on_recompile") in production makes the change '
            "visible."
        )
        changed = f"{what_changed(main)}. " if main.lead.source else ""
        first = "Fix the cause first. "
        if place and (not main.apart or main.package):  # Else the advice begins with it.
            first = f"End {place} first: torch compiles this function by itself because of that. "
        action = f"{first}{changed}{advice.action}{_kept_static(main, report)}{_beside(group)}"
        if main.package:
            dynamic = "compile with `torch.compile(..., dynamic=True)`, or " if spared_by_dynamic(main.lead) else ""
            action = (
                f"{first if place else ''}{changed}{main.package} makes these calls by itself: {dynamic}raise the "
                f"limit, see the setting.{_beside(group)}"
            )
    # No limit has room for a value that is another in each call.
    higher = "" if any(map(_is_new_each_time, group.series)) else f"torch._dynamo.config.recompile_limit = {limit}"
    return msgspec.structs.replace(
        advice,
        action=action,
        why=f"{_what_follows(group, stopped, raises=raises)} {advice.why}",
        config=f"{advice.config}\n{higher}".strip(),
        config_note=f"{advice.config_note} {note if higher else ''}".strip(),
    )


def _is_new_each_time(series: Series) -> bool:
    """Whether a number or a length counts, or is as good as random: each value that came was new, and none the last."""
    values = [each for each in series.values if _NUMBER.fullmatch(each)]
    causes = ("value", "module_attribute", "global_variable", "container")
    if series.lead.cause not in causes or len(values) < _FEWEST_VALUES:
        return False
    steps = {float(b) - float(a) for a, b in itertools.pairwise(values)}
    return len(set(values)) == len(values) and (steps in ({1.0}, {-1.0}) or any("." in each for each in values))


def _beside(group: Limited) -> str:
    """What else brought the functions there. Where no cause has half of it, the end of one does not help by itself."""
    main, counts = group.main, Counter[str]()
    own = as_written(main.lead.source or "")
    for one in group.series:
        if one.lead.source and (share := group.share_of(one)):
            counts[as_written(one.lead.source)] += share
    whole, share = counts.total(), counts.pop(own, group.share_of(main))
    if not counts:
        return ""
    named = {f"`{clipped(name)}`": count for name, count in counts.most_common()}
    if 2 * share >= whole:
        return f" Also changed: {', '.join(named)}."
    others = ", ".join(f"{name} ({count})" for name, count in named.items())
    return (
        f" This caused {share} of {whole}; the others: {others}. Where each has only a few values, as "
        "prefill and decoding, warm them up and raise the limit to their number."
    )


def _what_follows(group: Limited, stopped: list[str], *, raises: bool) -> str:
    versions = group.reached[0].compile_id.rpartition("/")[2]
    fits = f"one of its {versions} compiled versions" if versions.isdigit() else "a version compiled so far"
    others = (
        "Every other call raises, as fullgraph=True, error_on_graph_break or fail_on_recompile_limit_hit asks."
        if raises
        else "Every other call runs in eager, and what it calls is not compiled anew either."
    )
    return f"A call of {listed(stopped, _MOST_NAMES)} that fits {fits} still runs compiled. {others}"


def _evidence(members: list[Recompile]) -> list[str]:
    return sorted((member.id for member in members), key=lambda name: (len(name), name))


@Rule(
    title="Where Accelerate's torch.compile is set up",
    severity="info",
    rank=700,
    link="https://huggingface.co/docs/accelerate/package_reference/utilities#accelerate.utils.TorchDynamoPlugin",
    description="Functions were compiled again over a size or a value, and it was Accelerate, directly or for a "
    "Trainer, that called torch.compile. The arguments that other findings name are settings of Accelerate there.",
    fix="Give the Accelerator a `TorchDynamoPlugin`, or set its environment variables.",
    example=Example(
        'Accelerator(dynamo_backend="inductor")',
        'Accelerator(dynamo_plugin=TorchDynamoPlugin(backend="inductor", dynamic=True))',
    ),
)
def accelerate_settings(report: Report) -> Iterator[Ranked]:
    modules = [
        module
        for module in report.modules
        if "/accelerate/" in module.file.replace("\\", "/") and module.options.get("dynamic") is not True
    ]
    again = [each for each in report.recompiles if spared_by_dynamic(each)]
    if modules and again:
        yield accelerate_settings.finding(
            f"Accelerate compiles {modules[0].class_name}: the arguments of torch.compile are its settings",
            "For `dynamic=True` give the Accelerator a `TorchDynamoPlugin(dynamic=True)`, or set the environment "
            "variable `ACCELERATE_DYNAMO_USE_DYNAMIC=true`, which a Trainer with torch_compile=True obeys too.",
            why="No call of torch.compile stands in your program: Accelerate makes it when it prepares the model. A "
            "Trainer has arguments for backend and mode alone.",
            example=accelerate_settings.example,
            evidence=[*(module.id for module in modules), *(recompile.id for recompile in again)],
        )
