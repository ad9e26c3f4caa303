"""Real measuring processes, over their socket, on programs in which something is planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_process import EAGER, of_object, started

from dynalyze.capture.bench.protocol import Configuration

HEAD = "import torch\n"
PLAIN = (
    HEAD
    + """
import atexit, os
print("built by the target", os.environ.get("TORCH_TRACE"), os.environ.get("DYNALYZE_RUN"))
atexit.register(lambda: print("exit handler"))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        print("weights", self.linear.weight.sum().item())
    def forward(self, x):
        return self.linear(x).relu()
example_inputs = [(torch.randn(4, 8),), (torch.randn(2, 8),)]
"""
)
PLANTED = (
    HEAD
    + """
class Recompiles(torch.nn.Module):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return x * self.calls

class Disabled(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1

class Breaks(torch.nn.Module):
    def forward(self, x):
        print("broken here")
        return x + 1

class Raises(torch.nn.Module):
    def forward(self, x):
        raise ValueError("no such luck\\nand more")

class Leaves(torch.nn.Module):
    def forward(self, x):
        raise SystemExit(7)

class Greedy(torch.nn.Module):
    def forward(self, x):
        return x + torch.empty(1 << 50)

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return self.linear(x).relu()

class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(4))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

class PartlyCompiled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.compile(Block(), backend="eager")
        self.late = torch.compile(lambda x: x + 1, backend="eager")
    def forward(self, x):
        return self.late(self.part(x))

whole = torch.compile(Block(), backend="eager")

used = []
def counting(graph, inputs):
    print("counting backend")
    return graph.forward

def registered(graph, inputs):
    print("registered backend")
    return graph.forward
torch._dynamo.register_backend(registered)
"""
)
X = ["torch.randn(4, 8)"]


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return path


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    path = tmp_path / "planted.py"
    path.write_text(PLANTED)
    return path


def test_an_eager_process_answers_every_order_and_leaves_the_streams_to_the_target(plain: Path) -> None:
    with started(
        of_object(plain, "Net", configuration=EAGER), TORCH_TRACE="/nowhere", DYNALYZE_RUN="/nowhere"
    ) as worker:
        loaded = worker.done("load")
        assert (loaded["calls"], loaded["name"], loaded["device"], loaded["dtype"]) == (2, "Net", "cpu", "float32")
        assert (loaded["items"], loaded["batch"], loaded["threads"]) == (6, None, 1)
        assert loaded["import_seconds"] > 0 and loaded["load_seconds"] > 0
        warmed = worker.done("warm", seconds=20, most=5)
        assert len(warmed["calls_ms"]) == 5 and warmed["phases"] == {} and warmed["cache"] == {}
        assert len(worker.done("block", passes=7)["samples_ms"]) == 7
        assert sum(worker.done("block", seconds=0.1)["samples_ms"]) >= 100
        checked = worker.done("check")
        assert checked["invalid"] == "" and checked["counts"]["compiled_frames"] == 0
        memory = worker.done("memory")
        assert memory["kind"] in ("rss", "process") and memory["compile_peak"] >= memory["steady_peak"] > 50 << 20
        status, out, _ = worker.end()
    assert status == 0
    assert out.splitlines()[0] == "built by the target None None"
    assert "exit handler" not in out


def test_recompiling_on_every_call_is_revealed_while_timing_and_at_the_limit(planted: Path) -> None:
    with started(of_object(planted, "Recompiles", X)) as worker:
        worker.until_warm(most=3)
        worker.done("block", passes=1)
        checked = worker.done("check")
        assert checked["recompiles_while_timing"] >= 1
        assert "compiled again while it was timed" in checked["invalid"]
        warmed = worker.done("warm", seconds=20, most=30)
        assert warmed["counts"]["recompiles"] == 7  # torch's limit is 8 compiles of one function.
        worker.done("block", passes=3)
        checked = worker.done("check")
    assert checked["recompiles_while_timing"] == 0
    assert checked["invalid"] == "1 of 1 calls ran no compiled code: the recompile limit was reached"


@pytest.mark.slow
def test_silent_eager_is_revealed(planted: Path) -> None:
    with started(of_object(planted, "Block", X), TORCH_COMPILE_DISABLE="1") as worker:
        worker.until_warm(most=4)
        assert worker.done("check")["invalid"].endswith("ran in eager, because TORCH_COMPILE_DISABLE is set")
    with started(of_object(planted, "Disabled", X)) as worker:
        worker.until_warm(most=4)
        checked = worker.done("check")
    assert checked["counts"]["compiled_frames"] == 0
    assert checked["invalid"] == "nothing was compiled: every call ran in eager"


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("Greedy", "out_of_memory", "allocate"),
        ("Leaves", "eager", "the target left with sys.exit(7)"),
        pytest.param("Nowhere", "misuse", "no 'Nowhere' in", marks=pytest.mark.slow),
    ],
)
def test_no_failure_of_the_target_ends_the_process(planted: Path, name: str, kind: str, text: str) -> None:
    with started(of_object(planted, name, X, configuration=EAGER)) as worker:
        answer = worker.order("load")
        if answer["ok"]:
            answer = worker.order("warm", seconds=5, most=3)
        assert answer["error"]["kind"] == kind and text in answer["error"]["message"]
        assert "\n" not in answer["error"]["message"]
        assert worker.refused("dance")["kind"] == "internal"
        assert worker.end()[0] == 0


def test_a_target_that_cannot_be_imported_is_a_failed_load(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise KeyError('gone')\n")
    with started(of_object(path, "Net")) as worker:
        assert worker.refused("load") == {"kind": "load", "message": "KeyError: 'gone'"}
        assert worker.refused("warm", seconds=1, most=1)["kind"] == "internal"
        assert worker.end()[0] == 0


@pytest.mark.parametrize(
    ("backend", "said"), [("planted:counting", "counting backend"), ("registered", "registered backend")]
)
def test_backends_of_the_targets_own(planted: Path, backend: str, said: str) -> None:
    with started(of_object(planted, "Block", X, configuration=Configuration("own", backend=backend))) as worker:
        worker.until_warm(most=3)
        assert worker.done("check")["invalid"] == ""
        assert said in worker.end()[1]


def test_the_eager_arm_stays_eager_whatever_the_target_compiles(planted: Path) -> None:
    with started(of_object(planted, "PartlyCompiled", X, configuration=EAGER)) as worker:
        notes = worker.done("load")["notes"]
        assert any("compiles parts of itself (part)" in note for note in notes)
        worker.done("warm", seconds=5, most=3)
        checked = worker.done("check")
        assert checked["counts"]["compiled_frames"] == 0 and checked["invalid"] == ""
    with started(of_object(planted, "whole", X)) as worker:
        loaded = worker.done("load")
        assert loaded["name"] == "Block" and "compiled by its own program" in loaded["notes"][0]
        assert worker.done("warm", seconds=5, most=3)["counts"]["compiled_frames"] == 1


def test_a_training_step_compiles_forward_and_backward(planted: Path) -> None:
    compiled = Configuration("aot", backend="aot_eager")
    with started(of_object(planted, "Blocks", X, configuration=compiled, phase="train")) as worker:
        counts = worker.until_warm(most=6)["counts"]
        assert counts["compiled_frames"] == 1
        worker.done("block", passes=2)
        assert worker.done("check")["invalid"] == ""
        (step,) = worker.done("step_memory")["steps"]
        assert sum(each["bytes"] for each in step["saved"]) <= step["peak_bytes"]
        assert {each["graph"] for each in step["saved"]} == {0}


def test_a_phase_of_a_language_model_brings_its_own_calls(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "tiny.py"
    path.write_text(
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "def build():\n"
        "    sizes = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, vocab_size=32)\n"
        "    heads = dict(num_attention_heads=2, num_key_value_heads=1)\n"
        "    return LlamaForCausalLM(LlamaConfig(**sizes, **heads)).eval()\n"
    )
    wanted = {"phase": "decode", "static_cache": True, "batch": 2, "sequence": 8, "new_tokens": 3}
    with started(of_object(path, "build", **wanted)) as worker:
        loaded = worker.done("load")
        assert (loaded["calls"], loaded["batch"], loaded["sequence"], loaded["tokens"]) == (3, 2, 8, 6)
        assert worker.done("warm", seconds=60, most=3)["counts"]["recompiles"] == 0
        worker.done("block", passes=2)
        assert worker.done("check")["invalid"] == ""
