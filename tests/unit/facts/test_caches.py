"""Cache keys from torch's records: taken apart in the child, read back by the parent, with what stands in variables."""

from __future__ import annotations

import json
import types
from pathlib import Path

import pytest

from dynalyze.capture.cache_keys import CacheKeys
from dynalyze.capture.events import CacheBypassed, CacheLooked, CacheVariables, Event, Frame
from dynalyze.capture.torch_private import cache_keys
from dynalyze.events.log import RunLog
from dynalyze.facts.caches import caches
from dynalyze.facts.compilations import compilations
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places
from dynalyze.report import Compilation
from dynalyze.report.caches import Caches
from records import MODEL, TORCH, end, run_of, start

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
