"""The part of a benchmark that measures what graph breaks and guards cost, and what a call takes with a setting of
torch that removes a break: the same program, compiled with it.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from dynalyze.bench import stats
from dynalyze.bench.extras import RowBench
from dynalyze.bench.schedule import RecordedProcess, loaded, recording, timed_turns
from dynalyze.bench.workers import Worker, WorkerFailed
from dynalyze.break_cost.attribution import CompiledRecord, advise, guards_are_dear
from dynalyze.break_cost.child import TakeApart
from dynalyze.break_cost.records import BreakPrice, Prices, SettingPrice, prices_of
from dynalyze.break_cost.settings import STAYS
from dynalyze.capture.bench.commands import Check, CompareAnswers
from dynalyze.capture.bench.protocol import RIGHT
from dynalyze.events.reading import read_run
from dynalyze.facts.stacks import Places
from dynalyze.report import Location, Report
from dynalyze.report.measurements import Interval, Pair
from dynalyze.text.amounts import percent

_SETTING_PAIRS = 3
"""Pairs of processes, with a setting and without, where there is no budget; else one."""

_SETTING_COST = 3.0
"""Times what the recorded process took: a setting is not tried with less time left."""

_BUSY = 0.1
"""Of the time of the passes, without a core to run on: more is told."""

_WIDEST = math.log(2)


class BreakCost:
    field = "prices"
    what = "what graph breaks take of a call"

    def measure(self, process: RecordedProcess, seconds: float, notes: list[str]) -> Prices:
        answer = process.worker.ask(TakeApart(seconds))
        found = CompiledRecord(process.run, process.torch_folder).prices(answer)
        if guards_are_dear(found):
            advise(found, Places(process.torch_folder))
        if (waited := found.waited or 0.0) > _BUSY:
            notes.append(
                f"other programs kept the machine busy: {percent(waited)} of the measured time was spent "
                "waiting for a CPU, so these costs are too high"
            )
        return found

    def failed(self, problem: str) -> Prices:
        return Prices(problem=problem)

    def ahead(self, part: Prices, budget: float | None) -> int:
        known = len(to_try(part))
        return known if budget is None else min(known, 1 - len(part.settings))

    def measure_more(self, part: Prices, bench: RowBench) -> None:
        """What calls take with the settings that may remove graph breaks; within a budget, only the one for the
        costliest.
        """
        few = bench.budget is not None
        for setting, breaks in to_try(part)[: 1 if few else None]:
            if few and bench.pool.seconds_left < _SETTING_COST * bench.recorded_seconds:
                return
            with bench.doing("a setting that may remove graph breaks"):
                part.settings.append(try_setting(bench, setting, breaks, 1 if few else _SETTING_PAIRS))

    def settle(self, report: Report) -> None:
        """Give each break its id in the report; "" if the report lacks it."""
        known = {_identity(each.location, each.gb_type): each.id for each in report.graph_breaks}
        for prices in prices_of(report.measurements):
            ids = {each.break_id: known.get(_identity(each.place, each.gb_type), "") for each in prices.breaks}
            for each in prices.breaks:
                each.break_id = ids[each.break_id]
            for part in prices.parts:
                part.break_id = ids.get(part.break_id, "")


EXTRA = BreakCost()


def _identity(place: Location, kind: str) -> tuple[str, int, int | None, str]:
    return place.file, place.line, place.column, kind


def to_try(prices: Prices) -> list[tuple[str, list[BreakPrice]]]:
    """The untried settings that may remove priced breaks, each with its breaks; the costliest first."""
    found: dict[str, list[BreakPrice]] = defaultdict(list)
    for each in prices.breaks:
        if each.setting:
            found[each.setting].append(each)
    for tried in prices.settings:
        found.pop(tried.setting, None)
    return sorted(found.items(), key=lambda item: -sum(each.ms.value for each in item[1]))


def try_setting(bench: RowBench, setting: str, breaks: Sequence[BreakPrice], wanted: int) -> SettingPrice:
    """What a call takes with the setting, from `wanted` pairs of processes with and without it; no times if a break
    stays, or the answers change. Raises Stopped.
    """
    found = SettingPrice(setting)
    request = bench.arm.request
    changed = replace(request, configuration=replace(request.configuration, settings=setting))
    pairs: list[Pair] = []
    try:
        while len(pairs) < wanted and not found.problem:
            arms = [bench.arm, replace(bench.arm, request=changed)]
            with loaded(arms, bench.pool, bench.generator) as workers:
                pairs += _timed(bench, workers, found, breaks)
    except WorkerFailed as error:
        found.problem = error.message
    if not found.problem:
        conclude(found, pairs, bench.control, bench.calls)
    return found


def _timed(bench: RowBench, workers: list[Worker], found: SettingPrice, breaks: Sequence[BreakPrice]) -> list[Pair]:
    """The samples of a pair; none if `found` has a problem."""
    warmed = [worker.ask(recording(bench.budget)) for worker in workers]
    other = workers[1]
    left = CompiledRecord(read_run(other.folder), warmed[1].torch_folder).breaks
    found.left = len(left)
    found.stays = [each.place for each in breaks if each.place.at in {one.location.at for one in left}]
    if len(found.stays) == len(breaks):
        found.problem = STAYS
        return []
    samples = timed_turns(workers, warmed, bench.seconds, bench.generator)
    found.problem = other.ask(Check()).invalid
    if not (found.problem or found.pairs):  # The answers of one process are those of all.
        answers = other.ask(CompareAnswers())
        if answers["verdict"] not in RIGHT:
            found.problem = f"its answers are {answers['verdict']}: {answers.get('reason') or 'no reason is known'}"
    found.pairs += 1
    return [] if found.problem else [Pair(*samples)]


def conclude(found: SettingPrice, pairs: Sequence[Pair], control: Sequence[Pair], calls: int) -> None:
    """Add what the pairs show to `found`; `control` are pairs of equal processes."""
    own, equals = stats.log_ratio(pairs), stats.log_ratio(control)
    margins = [own.margin(stats.CONFIDENCE)] if own is not None else []
    if equals is not None:  # How far the mean of so many other pairs of the same kind lies from this one.
        margins.append(equals.margin(stats.CONFIDENCE) * math.sqrt(1 + equals.pairs / len(pairs)))
    medians = [(statistics.median(pair.eager), statistics.median(pair.compiled)) for pair in pairs]
    if not margins:
        found.problem = "too few pairs of processes tell how far two equal ones differ"
        return
    mean, margin = statistics.fmean(math.log(one / other) for one, other in medians), max(margins)
    if margin > _WIDEST:
        found.problem = "the machine was too busy: two equal processes may differ by more than two times"
        return
    plain = statistics.fmean(one for one, _ in medians) / calls
    found.plain_ms = plain
    found.ms = Interval(*(plain * math.exp(-mean + off) for off in (0.0, -margin, margin)))
    found.saved_ms = Interval(plain - found.ms.value, plain - found.ms.high, plain - found.ms.low)
