"""What the compile caches of a run were asked, and what went past them: facts, findings, words."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.events import CacheBypassed, CacheLooked, CacheVariables, Event, Frame
from dynalyze.capture.torch_private import cache_keys
from dynalyze.capture.trace_records import CacheKeys, TraceRecords
from dynalyze.events.log import RunLog
from dynalyze.facts.caches import caches
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.privacy import without_source
from dynalyze.render.text.report import cache_words
from dynalyze.report import Compilation, Finding, Report
from dynalyze.report.caches import Caches
from records import MODEL, TORCH, end, frame, run_of, start, write_source
from sample_reports import empty_report, found_by

LINES = [
    "[aaa] gm: GraphModule()\n\n\n\ndef forward(self, p_0):\n    return (p_0 * 3,)",
    "[bbb] example_inputs[0]: TensorMetadata(dtype=torch.float32, shape=torch.Size([4, 8]))",
    "[ccc] torch_version: \x00\ufffd",
    "[ddd] fx_kwargs[get_decomp_fn]: <function table at 0x7ff3a1cf9e40>",
    "[eee] inductor_config[max_autotune]: False",
    "[fff] inductor_config[cpp.threads]: -1",
    "not a component",
]
TEXTS: dict[str, str] = {}


def wrote(text: str) -> str:
    name = f"texts/{len(TEXTS)}"
    TEXTS[name] = text
    return name


def looked(state: str = "miss", cache: str = "fx_graph", **more: object) -> list[Event]:
    """The events of a record as torch 2.13 logs it."""
    TEXTS.clear()
    told: list[Event] = []
    keys = CacheKeys(wrote, told.append)
    content = {"key": "fkey", "cache_status_detailed": "full_miss", "components": LINES, **more}
    name = f"{'fx_graph' if cache == 'fx_graph' else 'aotautograd'}_cache_{state}"
    events = [keys.readers[name](name, {}, json.dumps(content)) for _ in range(2)]
    for event in events:
        event.id = "0/0"
    return [*events, *told]


def read(*events: Event) -> Caches:
    run = run_of(start(), *events, end())
    run.read_text = TEXTS.get  # type: ignore[assignment]
    found = caches(run, compiled(run))
    assert found is not None
    return found


def compiled(run: RunLog) -> list[Compilation]:
    return compilations(run, Places(TORCH), Sources(readable=False))


def test_a_key_is_taken_apart_and_its_settings_are_kept_once() -> None:
    found = read(*looked(time_taken_ns=2_500_000_000))
    assert [(key.cache, key.state, key.key, key.detail, key.seconds) for key in found.keys] == [
        ("fx_graph", "miss", "fkey", "full_miss", 2.5)
    ] * 2
    parts = {part.name: part for part in found.keys[0].components}
    assert parts["gm"].value.endswith("return (p_0 * 3,)")
    assert parts["torch_version"].value == "ccc"  # Bytes of a digest: nothing to read.
    assert parts["fx_kwargs[get_decomp_fn]"].value == "<function table>"  # Where it lies differs in each process.
    assert [(block.of, block.values) for block in found.settings] == [
        ("inductor_config", {"max_autotune": "False", "cpp.threads": "-1"})
    ]
    assert [key.settings for key in found.keys] == [[0], [0]]


def test_what_a_hit_saved_is_told_by_both_caches() -> None:
    inductor, autograd = looked("hit", time_saved_ns=1e9), looked("hit", "autograd", time_saved_ms=2500.0)
    uses = {use.cache: use for use in read(inductor[0], autograd[0]).uses}
    assert (uses["fx_graph"].hits, uses["fx_graph"].saved_seconds) == (1, 1.0)
    assert (uses["autograd"].hits, uses["autograd"].saved_seconds) == (1, 2.5)


def test_the_profile_is_hit_or_stored_and_was_missed_then() -> None:
    stored, hit = CacheLooked(cache="pgo", state="stored"), CacheLooked(cache="pgo", state="hit")
    assert [(use.hits, use.misses) for use in read(stored, stored).uses] == [(0, 1)]
    assert [(use.hits, use.misses) for use in read(hit, stored).uses] == [(1, 0)]


def test_a_bypass_has_its_reason_and_the_line_of_the_operation() -> None:
    refused = CacheBypassed(
        id="0/0", cache="autograd", reason="Unsupported call_function target f", place=Frame(MODEL, 7)
    )
    (use,) = read(refused).uses
    assert (use.cache, use.bypasses, use.reasons) == ("autograd", 1, ["Unsupported call_function target f"])
    assert [(place.file, place.line) for place in use.places] == [(MODEL, 7)]


def test_variables_are_those_that_a_setting_takes_its_value_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.py"
    config.write_text(
        "import os\n"
        'max_autotune = os.environ.get("TORCHINDUCTOR_MAX_AUTOTUNE") == "1"\n'
        'unset: bool = os.environ.get("TORCHINDUCTOR_NOT_SET") == "1"\n'
        "class cpp:\n"
        '    simdlen = os.environ.get("TORCHINDUCTOR_SIMDLEN")\n'
        "class trace:\n"
        '    provenance_tracking_level = int(os.environ.get("INDUCTOR_PROVENANCE", 0))\n'
    )
    module = types.SimpleNamespace(__file__=str(config))
    monkeypatch.setitem(cache_keys.sys.modules, "torch._inductor.config", module)
    for name in ("torch._functorch.config", "torch.compiler.config"):
        monkeypatch.setitem(cache_keys.sys.modules, name, types.SimpleNamespace(__file__=str(tmp_path / "none")))
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_SIMDLEN", "INDUCTOR_PROVENANCE", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    expected = {
        "inductor_config[max_autotune]": "TORCHINDUCTOR_MAX_AUTOTUNE=1",
        "inductor_config[cpp.simdlen]": "TORCHINDUCTOR_SIMDLEN=1",
        "provenance_tracking_level": "INDUCTOR_PROVENANCE=1",
        "cpp_runtime_thread_count": "MKL_NUM_THREADS=1",
    }
    assert cache_keys.variables_of_settings() == expected
    assert read(*looked(), CacheVariables(expected)).variables == expected


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


def compiled_past(*events: Event) -> list[Compilation]:
    return compilations(run_of(*events), Places(TORCH), Sources(readable=False))


def report_of(*events: Event) -> Report:
    report = empty_report()
    report.compilations = compiled_past(*events)
    return report


def findings(report: Report) -> list[Finding]:
    return found_by(report, "cache-bypass")


@pytest.mark.parametrize(
    ("original", "way"),
    [("randint", "torch.randint"), ("wrapped_getitem", "buffer"), ("ceil", "math.ceil")],
)
def test_each_kind_of_call_of_numpy_has_its_way(original: str, way: str) -> None:
    said = (
        f"Unsupported call_function target <Wrapped function <original {original}>>. \n "
        f"Function module: torch._dynamo.utils, \nFunction name: wrapped_{original}"
    )
    (found,) = findings(report_of(start("0/0"), bypass(said, "autograd"), end("0/0")))
    assert way in found.advice


def read_bypass(name: str, payload: Any) -> CacheBypassed:
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
    event = read_bypass(name, payload)
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
    (found,) = compiled_past(start(), bypass(said), end())[0].cache_bypasses
    assert (found.reason, found.said) == (reason, said)


def test_counts_stand_beside_hits_and_misses() -> None:
    metrics = {"inductor_fx_local_cache_miss_count": 1, "aotautograd_local_cache_hit_count": 2}
    (found,) = compiled_past(start(), bypass(), bypass(), bypass(cache="autograd"), end(**metrics))
    assert found.cache == {
        "inductor_fx_local_cache_miss": 1, "aotautograd_local_cache_hit": 2, "inductor_fx_cache_bypass": 2,
        "aotautograd_cache_bypass": 1,
    }  # fmt: skip
    assert [(each.cache, each.count) for each in found.cache_bypasses] == [("fx_graph", 2), ("autograd", 1)]
    assert cache_words(found) == f"2 hits, 1 miss, 3 bypasses: {PASS}"


def test_a_bypass_of_an_unknown_compile_or_cache_is_left_out() -> None:
    (found,) = compiled_past(start(), bypass(id="7/0"), bypass(cache="remote"), end())
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
