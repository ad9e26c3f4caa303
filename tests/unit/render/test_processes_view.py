"""The table of processes: each rank's counts beside each other's."""

from __future__ import annotations

from dynalyze.render.view.compiles import ProcessesView
from dynalyze.render.view.links import Anchors
from dynalyze.report import Compilation, GraphBreak, Location, Outcome, Process, Recompile, Report, Target

PLACE = Location("/job/model.py", 3, function="step")


def report(*processes: Process) -> Report:
    found = Report("0.1.0", "", [], {}, Target("trace", "logs"), Outcome("complete"))
    found.processes = list(processes)
    return found


def test_each_rank_has_its_own_counts() -> None:
    found = report(Process(0, 7, 0), Process(1, 8, 1))
    found.compilations = [
        Compilation("0/0", 0, 0, PLACE, "compiled", {"total": 1, "backward": 0.5}, {"x_hit": 2, "why": "x"}, ops=4),
        Compilation("0/0", 1, 0, PLACE, "broken", {"total": 2.0}, {"x_miss": 1, "y_miss": 1}, ops=3),
        Compilation("0/1", 1, 0, PLACE, "eager", {}),
    ]
    found.graph_breaks = [GraphBreak("b1", None, "x", "split", PLACE, [PLACE], processes=[1])]
    found.recompiles = [Recompile("r1", "0/1", "0/0", PLACE, "shape", process=1)]
    first, second = ProcessesView(found, Anchors()).shown.items
    assert (first.rank, first.compilations, first.eager, first.breaks, first.recompiles) == ("0", "1", "0", "0", "0")
    assert (second.rank, second.compilations, second.eager, second.breaks, second.recompiles) == (
        "1",
        "2",
        "1",
        "1",
        "1",
    )
    assert (first.seconds, first.ops, first.cache) == ("1.5 s", "4", "2 hits, 0 misses")
    assert (second.seconds, second.ops, second.cache) == ("2.0 s", "3", "0 hits, 2 misses")
    assert not ProcessesView(found, Anchors()).commands
