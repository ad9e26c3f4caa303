"""What is told of a job: which compile, of which rank in which step, and what the others waited for it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from watched_ranks import Ranks

from dynalyze.capture.events import CompileStarted, RecompileSeen
from dynalyze.privacy import cleaned
from dynalyze.watch.follow import read_job
from dynalyze.watch.notices import line_of
from dynalyze.watch.report import job_part


def warm(**options: object) -> Ranks:
    """Ranks that compiled in their first step and made a hundred more."""
    ranks = Ranks(**options)  # type: ignore[arg-type]
    for rank in range(ranks.count):
        ranks.compile(rank, 0)
    ranks.at_step(100)
    assert ranks.tell(over=True) == []
    return ranks


def test_a_recompile_after_warm_up_is_told_with_its_rank_step_line_and_values() -> None:
    ranks = warm()
    ranks.compile(1, 500, 1, seconds=3.0)
    ranks.slow(1, 500, 3.1, compiling=3.0)
    ranks.slow(0, 500, 3.2)
    ranks.at_step(502)
    (line,) = ranks.tell()
    (notice,) = ranks.notices
    assert (notice.kind, notice.ranks, notice.step, notice.alone) == ("recompile", [1], 500, True)
    assert (notice.expected, notice.actual, notice.source) == ("0", "1", "n")
    assert notice.location is not None and notice.location.at == ("/job/model.py", 10)
    assert notice.seconds == 3.0
    assert notice.waited == {"0": pytest.approx(3.1)}
    assert "rank 1, step 500" in line and "model.py:10" in line and "0 to 1" in line


def test_warm_up_is_not_told_and_a_compile_within_ten_steps_belongs_to_it() -> None:
    ranks = Ranks()
    for version, step in enumerate((0, 1, 9, 19)):
        ranks.compile(0, step, version)
    ranks.at_step(40)
    assert ranks.tell(over=True) == []


def test_steps_that_an_optimizer_counts_anew_are_warm_after_ten_of_them() -> None:
    ranks = Ranks(count=1)
    ranks.compile(0, 0)
    ranks.compile(0, 5, 1)
    ranks.compile(0, 0, 2)  # Calls counted until here.
    ranks.at_step(9)
    assert ranks.tell(over=True) == []
    ranks.compile(0, 3, 3)
    assert ranks.tell(over=True) == []
    later = Ranks(count=1)
    later.compile(0, 500)
    later.compile(0, 40, 1)
    assert [each.split(":")[0] for each in later.tell(over=True)] == ["rank 0, step 40"]


def test_it_waits_until_the_others_are_past_the_step_but_not_for_ever() -> None:
    ranks = warm()
    ranks.compile(0, 300, 1)
    ranks.at_step(300)
    assert ranks.tell() == []
    ranks.now += 2.6
    assert len(ranks.tell()) == 1


def test_what_all_ranks_do_is_one_line() -> None:
    ranks = warm(count=4)
    for rank in range(4):
        ranks.compile(rank, 300, 1, seconds=0.1)
    ranks.at_step(310)
    (line,) = ranks.tell()
    assert line.startswith("all 4 ranks, step 300")
    assert ranks.notices[0].waited == {} and not ranks.notices[0].alone


def test_two_values_that_change_in_one_step_are_two_lines_and_the_wait_is_told_once() -> None:
    ranks = warm()
    ranks.compile(0, 300, 1, source="n")
    ranks.compile(0, 300, 1, source="m", frame=1, seconds=2.0)
    ranks.slow(1, 300, 3.1)
    ranks.at_step(310)
    ranks.tell()
    assert [(each.source, len(each.waited)) for each in ranks.notices] == [("n", 0), ("m", 1)]


def test_the_part_of_a_wait_in_which_a_rank_compiled_itself_is_no_wait() -> None:
    ranks = warm(count=3)
    ranks.compile(0, 300, 1, seconds=5.0)
    ranks.slow(1, 300, 5.1, compiling=2.0)
    ranks.slow(2, 301, 5.1)
    ranks.at_step(310)
    ranks.tell()
    assert ranks.notices[0].waited == {"1": pytest.approx(3.0), "2": pytest.approx(5.0)}


def test_a_slow_step_in_which_nobody_compiled_is_not_told() -> None:
    ranks = warm()
    ranks.slow(0, 300, 9.0)
    ranks.at_step(310)
    assert ranks.tell(over=True) == []


def test_the_recompile_limit_is_told_while_warming_up_too() -> None:
    ranks = Ranks(count=1)
    for version in range(4):
        ranks.compile(0, version, version, limit=version == 3)
    ranks.at_step(5)
    (line,) = ranks.tell(over=True)
    assert ranks.notices[0].kind == "limit" and "eager" in line


def test_a_function_compiled_for_the_first_time_after_warm_up_is_told() -> None:
    ranks = warm()
    ranks.compile(0, 900, frame=3)
    ranks.at_step(910)
    ranks.tell()
    assert [(each.kind, each.step) for each in ranks.notices] == [("compile", 900)]


def test_what_is_new_beside_a_recompile_belongs_to_it() -> None:
    ranks = warm()
    ranks.compile(0, 900, 1)
    ranks.compile(0, 900, frame=3)
    ranks.at_step(910)
    assert len(ranks.tell()) == 1


def test_of_thousands_a_minute_few_are_told_and_the_others_counted() -> None:
    ranks = warm(count=1)
    for version in range(1, 10_001):
        ranks.compile(0, 200 + 2 * version, version, seconds=0.005)
        ranks.at_step(200 + 2 * version + 3)
        ranks.tell()
    told = len(ranks.lines)
    assert told <= 60
    assert sum(1 + each.again for each in ranks.notices) + ranks.source.untold >= 10_000
    assert "more like it" in ranks.lines[-1]


def test_ranks_that_an_elastic_job_starts_anew_are_cold_and_wait_for_each_other_alone() -> None:
    ranks = warm()
    ranks.start(restart=1)
    for rank in (0, 1):
        ranks.compile(rank, 0)
        ranks.compile(rank, 2, 1)
    ranks.at_step(50)
    assert ranks.tell(over=True) == []
    ranks.compile(0, 70, 2)
    ranks.slow(1, 70, 1.1)
    ranks.at_step(90)
    ranks.tell()
    assert [(each.ranks, each.waited) for each in ranks.notices] == [([0], {"1": pytest.approx(1.0)})]
    assert [(row.rank, row.restart) for row in ranks.job.rows(list(ranks.job.processes), ranks.now)] == [
        (0, 0), (1, 0), (0, 1), (1, 1),
    ]  # fmt: skip


def test_a_clock_that_is_set_back_changes_nothing() -> None:
    ranks = warm()
    ranks.now -= 50_000
    ranks.compile(1, 500, 1)
    ranks.slow(0, 500, 1.1)
    ranks.at_step(502)
    ranks.tell()
    assert [(each.step, each.ranks, list(each.waited)) for each in ranks.notices] == [(500, [1], ["0"])]


def test_a_compile_that_goes_on_for_long_is_told_before_it_ends_and_once() -> None:
    ranks = warm()
    ranks.begin(1, 500, 1)
    ranks.now += 31
    (line,) = ranks.tell()
    assert ranks.notices[0].kind == "compiling" and "31 s so far" in line
    ranks.now += 31
    assert ranks.tell() == []


def test_a_function_that_one_machine_compiles_and_others_have_cached_is_told_once() -> None:
    ranks = Ranks(count=4, hosts=("node0", "node1"))
    for rank in range(4):
        missed = rank % 2
        ranks.compile(rank, 0, hits=1 - missed, misses=missed, seconds=40.0 if missed else 1.0)
    told = ranks.tell(over=True)
    assert len(told) == 1 and "ranks 1 and 3" in told[0] and "node1" in told[0]
    assert (ranks.notices[0].kind, ranks.notices[0].seconds) == ("cache-miss", 40.0)
    assert ranks.tell(over=True) == []


def test_ranks_of_one_machine_that_race_for_its_cache_are_not_told() -> None:
    ranks = Ranks(count=2)
    ranks.compile(0, 0, misses=1)
    ranks.compile(1, 0, hits=1)
    assert ranks.tell(over=True) == []


def test_without_source_and_values_a_line_names_the_place_alone() -> None:
    ranks = warm()
    ranks.compile(0, 300, 1, source="secret['key']")
    ranks.at_step(310)
    ranks.tell()
    bare = cleaned(ranks.notices[0], no_source=True, show_values=False)
    line = line_of(bare, 2)
    assert "secret" not in line and "rank 0, step 300" in line and "model.py:10" in line
    assert "secret" not in str(msgspec.to_builtins(bare))


def test_a_wait_that_ends_long_after_the_compile_is_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    (tmp_path / "ranks").mkdir()
    for rank in (0, 1):
        rows: list[dict[str, object]] = [
            {"event": "process", "at": 1.0, "pid": 7 + rank, "rank": rank},
            {"event": "watch_rank", "at": 1.0, "rank": rank, "world": 2},
            {"event": "compile_start", "at": 1.0, "id": "0/0"},
            {"event": "compile_end", "at": 2.0, "id": "0/0", "metrics": {"has_guarded_code": True}},
        ]
        if rank == 0:
            rows += [
                {"event": "watch_step", "at": 100.0, "number": 50},
                {"event": "recompile", "at": 100.0, "id": "0/1", "text": "0/0: n == 1"},
                {"event": "compile_start", "at": 100.0, "id": "0/1"},
                {"event": "compile_end", "at": 103.0, "id": "0/1", "metrics": {"has_guarded_code": True}},
            ]
        else:
            rows += [{"event": "watch_slow", "at": 120.0, "number": 50, "took": 23.0, "usual": 20.0}]
        (tmp_path / "events" / f"{rank}-1.0.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
        state = {"pid": 7 + rank, "rank": rank, "world": 2, "steps": 90, "ended": True}
        (tmp_path / "ranks" / f"{rank}-1.json").write_text(json.dumps(state))
    (notice,) = job_part(read_job(tmp_path)).notices
    assert (notice.ranks, notice.step, notice.waited) == ([0], 50, {"1": pytest.approx(3.0)})


def test_what_is_kept_is_bounded() -> None:
    ranks = warm(count=1)
    for number in range(30_000):
        ranks.begin(0, number, frame=number)
    assert len(ranks.job.processes["0-0"].open) <= 1001


def test_of_a_compile_that_was_told_its_line_in_the_timeline_is_kept() -> None:
    ranks = warm(count=1)
    ranks.compile(0, 500, 1)
    (compile,) = [each for _, each in ranks.job.compiled if each.step == 500]
    assert any(isinstance(event, RecompileSeen) for event in compile.events)
    ranks.at_step(502)
    assert len(ranks.tell()) == 1
    assert all(isinstance(event, CompileStarted) for event in compile.events)
    assert [each.again for each in ranks.job.timeline(["0-0"])] == [False, True]
