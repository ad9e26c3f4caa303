"""Key-value caches of the real transformers, in loops of one's own and in `generate`; and that the advice ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from program import explain

BUILD = """\
import sys, torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, StaticCache

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64,
)
model = LlamaForCausalLM(config).eval()
tokens = torch.ones(1, 6, dtype=torch.long)
static = "static" in sys.argv
"""
LOOP = (
    BUILD
    + """\
compiled = torch.compile(model, backend="eager")
with torch.no_grad():
    for text in range(2):
        cache = StaticCache(config=model.config, max_cache_len=32) if static else DynamicCache(config=model.config)
        out = compiled(input_ids=tokens, past_key_values=cache)
        for step in range(3):
            out = compiled(input_ids=out.logits[:, -1:].argmax(-1), past_key_values=cache)  # here
        if static:
            torch.compiler.set_stance("fail_on_recompile")
"""
)
GENERATE = (
    BUILD
    + """\
model.forward = torch.compile(model.forward, backend="eager")
for text in range(2):
    words = {"cache_implementation": "static"} if static else {}
    model.generate(tokens, max_new_tokens=4, min_new_tokens=4, do_sample=False, **words)
    if static:
        torch.compiler.set_stance("fail_on_recompile")
"""
)


def told(tmp_path: Path, program: str, *words: str) -> dict[str, dict[str, Any]]:
    """The findings, by their rules."""
    file = tmp_path / "serve.py"
    file.write_text(program)
    ended, report = explain(file, "--quiet-target", "--", *words, cwd=tmp_path, env={"OMP_NUM_THREADS": "1"})
    assert ended.status == 0, ended.stderr[-2000:]
    found = {each["rule"]: each for each in report["findings"]}
    assert len(found) == len(report["findings"])
    return found


@pytest.mark.slow
def test_a_cache_that_grows_in_a_loop_of_ones_own(tmp_path: Path) -> None:
    """`make test` has it in test_layer_rules.py, and `generate` in test_compatibility_plants.py."""
    found = told(tmp_path, LOOP)
    assert set(found) == {"dynamic-cache", "prefill-and-decode"}
    assert "StaticCache(config=model.config" in found["dynamic-cache"]["advice"]
    line = next(number for number, text in enumerate(LOOP.splitlines(), 1) if "# here" in text)
    assert {each["location"]["line"] for each in found.values()} == {line}


@pytest.mark.slow
@pytest.mark.parametrize("program", [LOOP, GENERATE], ids=["own loop", "generate"])
def test_a_static_cache_ends_it(tmp_path: Path, program: str) -> None:
    """And after the first text nothing compiles: torch would end the program with an error."""
    assert set(told(tmp_path, program, "static")) == {"prefill-and-decode"}


@pytest.mark.slow
def test_a_cache_that_grows_in_generate(tmp_path: Path) -> None:
    found = told(tmp_path, GENERATE)
    assert set(found) == {"dynamic-cache", "prefill-and-decode"}
    assert 'cache_implementation="static"' in found["dynamic-cache"]["advice"]
    line = next(number for number, text in enumerate(GENERATE.splitlines(), 1) if "torch.compile(" in text)
    assert {each["location"]["line"] for each in found.values()} == {line}, "transformers makes the calls"
