"""The part of a benchmark that measures what graph breaks and guards cost."""

from __future__ import annotations

from dynalyze.bench.extras import RowBench
from dynalyze.bench.schedule import RecordedProcess
from dynalyze.break_cost.attribution import Record, advise, guards_are_dear
from dynalyze.break_cost.child import TakeApart
from dynalyze.break_cost.records import Prices, prices_of
from dynalyze.break_cost.settings import SettingTrial, to_try
from dynalyze.facts.stacks import Places
from dynalyze.report import Location, Report
from dynalyze.text.amounts import percent

_SETTING_PAIRS = 3
"""Pairs of processes, with a setting and without, where there is no budget; else one."""

_SETTING_COST = 3.0
"""Times what the recorded process took: a setting is not tried with less time left."""

_BUSY = 0.1
"""Of the time of the passes, without a core to run on: more is told."""


class BreakCost:
    field = "prices"
    what = "what graph breaks take of a call"

    def measure(self, process: RecordedProcess, seconds: float, notes: list[str]) -> Prices:
        answer = process.worker.ask(TakeApart(seconds))
        found = Record(process.run, process.torch_folder).prices(answer)
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
        """What calls take with the settings that may remove graph breaks; of a budget, with the one for the dearest."""
        few = bench.budget is not None
        trial = SettingTrial(
            bench.pool, bench.arm, bench.control, pairs=1 if few else _SETTING_PAIRS, seconds=bench.seconds,
            budget=bench.budget, generator=bench.generator,
        )  # fmt: skip
        for setting, breaks in to_try(part)[: 1 if few else None]:
            if few and bench.pool.seconds_left < _SETTING_COST * bench.recorded_seconds:
                return
            with bench.doing("a setting that may remove graph breaks"):
                part.settings.append(trial.of(setting, breaks, bench.calls))

    def settle(self, report: Report) -> None:
        """Name each break by the id that the report has for it; "" for one that it lacks."""
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
