"""Graphs that go past torch's caches: from the record to the finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import CacheBypassed, Event, Frame
from dynalyze.capture.trace_records import TraceRecords
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.privacy import without_source
from dynalyze.render.words.report import cache_words
from dynalyze.report import Compilation, Finding, Report
from records import TORCH, end, frame, run_of, start, write_source
from sample_reports import empty_report, found_by

PASS = "Unsupported post grad custom pass"
FUNCTION = (
    "Unsupported call_function target <function mine at 0x7f>. \n Function module: __main__, \nFunction name: mine"
)


AUTOCAST = (
    "Unsupported call_function target <function _enter_autocast>. \n Function module: torch.amp.autocast_mode, \n"
    "Function name: _enter_autocast"
)


def bypass(said: str = PASS, cache: str = "fx_graph", id: str = "0/0") -> Event:
    return CacheBypassed(id=id, cache=cache, reason=said)


def compiled(*events: Event) -> list[Compilation]:
    return compilations(run_of(*events), Places(TORCH), Sources(readable=False))


def report_of(*events: Event) -> Report:
    report = empty_report()
    report.compilations = compiled(*events)
    return report


def findings(report: Report) -> list[Finding]:
    return found_by(report, "cache-bypass")


def read(name: str, payload: Any) -> CacheBypassed:
    text = payload if isinstance(payload, str) else json.dumps(payload)
    event = TraceRecords().read({"artifact": {"name": name}, "frame_id": 0, "frame_compile_id": 0}, text)
    assert isinstance(event, CacheBypassed)
    return event


@pytest.mark.parametrize(
    ("name", "payload", "cache", "reason"),
    [
        ("fx_graph_cache_bypass", {"cache_bypass_reason": PASS}, "fx_graph", PASS),
        ("aotautograd_cache_bypass", {"cache_bypass_reason": FUNCTION}, "autograd", FUNCTION.replace(" at 0x7f", "")),
        ("aotautograd_cache_pickle_failure", {"error": "no", "field": "f"}, "autograd", "Unable to serialize: no"),
        ("fx_graph_cache_bypass", {}, "fx_graph", ""),
        ("fx_graph_cache_bypass", {"cache_bypass_reason": None}, "fx_graph", ""),
        ("fx_graph_cache_bypass", "[1, 2]", "fx_graph", ""),
        ("fx_graph_cache_bypass", '{"cache_bypass_reason": "cut sh', "fx_graph", ""),
        ("fx_graph_cache_bypass", "[" * 100_000, "fx_graph", ""),
    ],
)
def test_records_of_torch(name: str, payload: Any, cache: str, reason: str) -> None:
    event = read(name, payload)
    assert (event.cache, event.reason, event.id) == (cache, reason, "0/0")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (PASS, "custom_pass"),
        ("Unsupported _post_fusion_custom_pass", "custom_pass"),
        ("activation_memory_budget_solver is a raw callable without uuid() method, bypassing cache.", "custom_pass"),
        ("Unsupported call_function target autograd_function_apply. \n Function module: torch", "autograd_function"),
        (FUNCTION, "function"),
        (AUTOCAST, "autocast"),
        ("Can't cache HigherOrderOperator: cond", "higher_order"),
        ("Unsupported call_function target cond. \n Function module: torch.ops.higher_order", "higher_order"),
        ("SAC context_fn does not have a cache_hash attribute.", "checkpoint"),
        ("Cannot cache a graph with freezing enabled", "frozen"),
        ("mkldnn tensors unpickleable", "not_storable"),
        ("Unable to serialize: cannot pickle 'module' object", "not_storable"),
        ("FX graph cache is not enabled", "switched_off"),
        ("AOTAutogradCache requires triton 3.2.0", "version"),
        ("a reason of next year", "other"),
        ("", "other"),
    ],
)  # fmt: skip
def test_reasons(said: str, reason: str) -> None:
    (found,) = compiled(start(), bypass(said), end())[0].cache_bypasses
    assert (found.reason, found.said) == (reason, said)


def test_counts_stand_beside_hits_and_misses() -> None:
    metrics = {"inductor_fx_local_cache_miss_count": 1, "aotautograd_local_cache_hit_count": 2}
    (found,) = compiled(start(), bypass(), bypass(), bypass(cache="autograd"), end(**metrics))
    assert found.cache == {
        "inductor_fx_local_cache_miss": 1, "aotautograd_local_cache_hit": 2, "inductor_fx_cache_bypass": 2,
        "aotautograd_cache_bypass": 1,
    }  # fmt: skip
    assert [(each.cache, each.count) for each in found.cache_bypasses] == [("fx_graph", 2), ("autograd", 1)]
    assert cache_words(found) == f"2 hits, 1 miss, 3 bypasses: {PASS}"


def test_a_bypass_of_an_unknown_compile_or_cache_is_left_out() -> None:
    (found,) = compiled(start(), bypass(id="7/0"), bypass(cache="remote"), end())
    assert (found.cache, found.cache_bypasses) == ({}, [])


def test_what_a_cache_would_refuse_next_has_a_finding_of_its_own_and_its_line(tmp_path: Path) -> None:
    file = write_source(
        tmp_path, "def f(x):\n    with torch.autocast('cpu'):\n        x = x @ x\n    return F.apply(x)\n"
    )
    first = CacheBypassed(id="0/0", cache="autograd", reason=AUTOCAST, place=Frame(file, 3, "f"), next_one=True)
    apply = "Unsupported call_function target autograd_function_apply."
    later = CacheBypassed(id="0/0", cache="autograd", reason=apply, place=Frame(file, 4, "f"), further=True)
    again = CacheBypassed(id="0/0", cache="autograd", reason=AUTOCAST.replace("enter", "exit"), further=True)
    report = empty_report()
    report.compilations = compilations(run_of(start(), first, again, later, end()), Places(TORCH), Sources())
    assert report.compilations[0].cache == {"aotautograd_cache_bypass": 1}
    assert [each.count for each in report.compilations[0].cache_bypasses] == [1, 0, 0]
    told = [
        (each.location.line, each.detail.config.count("marked["))
        for each in findings(report)
        if each.location and each.detail
    ]
    assert told == [(2, 2), (4, 0)]


def test_fifty_graphs_with_one_reason_are_one_finding() -> None:
    events: list[Event] = []
    for n in range(50):
        id = f"{n}/0"
        events += [start(id, frame(n + 1, f"f{n}")), bypass(id=id), end(id, duration_us=100_000)]
    (found,) = findings(report_of(*events))
    assert found.title == "f0, f1, f2 and 47 more are compiled anew at every start: a custom pass has no uuid"
    assert (found.severity, len(found.evidence)) == ("warning", 50)
    assert found.impact is not None
    assert found.impact.compile_seconds == pytest.approx(5.0)
    assert "uuid()" in found.advice
    assert f"PyTorch says: {PASS}." in found.advice


def test_where_inductors_cache_still_works_less_is_lost() -> None:
    (found,) = findings(report_of(start(), bypass(FUNCTION, "autograd"), end(duration_us=5)))
    assert (found.severity, found.impact) == ("info", None)
    assert found.title.startswith("forward is traced anew")


def test_without_source_the_kind_stays_and_the_words_go() -> None:
    cleaned = without_source(report_of(start(), bypass(FUNCTION, "autograd"), end()))
    assert cleaned.compilations[0].cache_bypasses[0].said == ""
    (found,) = findings(cleaned)
    assert "mine" not in found.advice
    assert "custom_op" in found.advice
