"""Where the ranks of a job differ."""

from __future__ import annotations

from dynalyze.report import Compilation, Finding, GraphBreak, Location, Process, Recompile, Report
from dynalyze.rules.diagnoses.distributed import DIVERGENCE
from sample_reports import empty_report

F = Location("/job/m.py", 3, function="f")
G = Location("/job/m.py", 30, function="g")


def report(ranks: list[int | None], compilations: list[Compilation]) -> Report:
    found = empty_report()
    found.processes = [Process(number, 100 + number, rank) for number, rank in enumerate(ranks)]
    found.compilations, found.graph_breaks, found.recompiles = compilations, [], []
    return found


def compilation(process: int, compile_id: str = "0/0", where: Location = F, ops: int = 5) -> Compilation:
    return Compilation(compile_id, process, 0, where, "compiled", ops=ops)


def judged(found: Report) -> list[Finding]:
    return [finding for _, finding in DIVERGENCE.judge(found)]


def test_equal_ranks_do_not_diverge() -> None:
    assert judged(report([0, 1], [compilation(0), compilation(1)])) == []


def test_processes_without_ranks_are_no_ranks() -> None:
    assert judged(report([None, None], [compilation(0)])) == []
    assert judged(report([0, None], [compilation(0), compilation(0, "0/1"), compilation(1)])) == []


def test_one_rank_compiled_more_often() -> None:
    found = report([0, 1, 2], [compilation(0), compilation(1), compilation(1, "0/1"), compilation(2)])
    found.recompiles = [Recompile("r1", "0/1", "0/0", F, "shape", process=1)]
    (finding,) = judged(found)
    assert finding.title == "Ranks differ in f: compilations: 1 on ranks 0, 2; 2 on rank 1"
    assert "Recompiles: 0 on ranks 0, 2; 1 on rank 1." in finding.advice
    assert (finding.location, finding.evidence, finding.rule) == (F, ["r1"], "rank-divergence")


def test_a_function_that_one_rank_never_compiled() -> None:
    (finding,) = judged(report([0, 1], [compilation(0), compilation(1), compilation(1, "1/0", G)]))
    assert (finding.location, finding.title) == (G, "Ranks differ in g: compilations: 0 on rank 0; 1 on rank 1")


def test_a_break_on_some_ranks_only() -> None:
    found = report([0, 1, 2], [compilation(number) for number in range(3)])
    found.graph_breaks = [
        GraphBreak("b1", None, "T", "split", F, [F], compile_ids=["0/0"], process=0, processes=[0, 1, 2]),
        GraphBreak("b2", None, "T", "split", F, [F], compile_ids=["0/0"], process=1, processes=[1]),
    ]
    (finding,) = judged(found)
    assert finding.title == "Ranks differ in f: graph breaks: 1 on ranks 0, 2; 2 on rank 1"


def test_graphs_of_different_size_and_caches() -> None:
    one, two = compilation(0), compilation(1, ops=7)
    two.cache = {"aotautograd_local_cache_hit": 1}
    (finding,) = judged(report([0, 1], [one, two]))
    assert finding.title == "Ranks differ in f: operations in graphs: 5 on rank 0; 7 on rank 1"
    assert "1 aotautograd_local_cache_hit on rank 1" in finding.advice


def test_the_rest_of_a_function_after_a_break_is_no_second_finding() -> None:
    rest = compilation(1, "1/0", Location("/job/m.py", 5, function="f"))
    rest.resumes = True
    assert len(judged(report([0, 1], [compilation(0), compilation(1, ops=1), rest]))) == 1
    assert len(judged(report([0, 1], [compilation(0), compilation(1), rest]))) == 1


def test_many_ranks_are_named_briefly() -> None:
    found = report(list(range(64)), [compilation(number) for number in range(63)])
    (finding,) = judged(found)
    assert finding.title.endswith("1 on ranks 0, 1, 2, 3, 4, 5, 6, 7 and 55 more; 0 on rank 63")
