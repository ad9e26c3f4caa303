"""Attention of real programs: PyTorch itself tells which kernel it would choose; flash-attn are stand-ins."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest
from program import explain

STAND_INS = Path(__file__).parents[1] / "stand_ins"
# What torch._fused_sdp_choice answers on a CPU.
CHOICES = {0: "math", 1: "cpu_flash"}

# Each function asks PyTorch itself for its kernel, before it is compiled.
SDPA = """
    import json
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v)

    def causal(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def masked(q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def dropped(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)

    def forced(q, k, v):
        with sdpa_kernel(SDPBackend.MATH):
            return F.scaled_dot_product_attention(q, k, v)

    def flexible(q, k, v):
        return flex_attention(q, k, v, block_mask=create_block_mask(past, None, None, 8, 8, device="cpu"))

    def past(batch, head, row, column):
        return row >= column

    q, k, v = (torch.randn(1, 2, 8, 16) for _ in range(3))
    mask = torch.ones(8, 8, dtype=torch.bool)
    choices = {
        "plain": torch._fused_sdp_choice(q, k, v),
        "causal": torch._fused_sdp_choice(q, k, v, is_causal=True),
        "masked": torch._fused_sdp_choice(q, k, v, mask),
        "dropped": torch._fused_sdp_choice(q, k, v, dropout_p=0.5),
    }
    with sdpa_kernel(SDPBackend.MATH):
        choices["forced"] = torch._fused_sdp_choice(q, k, v)
    with open("choices.json", "w") as out:
        json.dump(choices, out)
    for function in (plain, causal, dropped, forced, flexible):
        torch.compile(function, backend="aot_eager")(q, k, v)
    torch.compile(masked, backend="aot_eager")(q, k, v, mask)
"""


ADVISED = """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def model(attention):
        config = LlamaConfig(
            vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, attn_implementation=attention,
        )
        return LlamaForCausalLM(config).to(torch.bfloat16).eval()

    ends = torch.tensor([0, 2, 6], dtype=torch.int32)
    lengths = {"cu_seq_lens_q": ends, "cu_seq_lens_k": ends, "max_length_q": 4, "max_length_k": 4}
    places = torch.tensor([[0, 1, 0, 1, 2, 3]])
    padded, padding = torch.ones(2, 4, dtype=torch.long), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    flash, sdpa = (torch.compile(model(name), backend="eager") for name in ("flash_attention_2", "sdpa"))
    with torch.no_grad():
        flash(input_ids=torch.ones(1, 6, dtype=torch.long), position_ids=places, use_cache=False, **lengths)
        flash(input_ids=padded, use_cache=False)
        sdpa(input_ids=padded, attention_mask=padding, use_cache=False)
"""


def told(tmp_path: Path, program: str, stand_in: str = "", **options: Any) -> dict[str, Any]:
    (tmp_path / "net.py").write_text(textwrap.dedent(program), encoding="utf-8")
    env = {"OMP_NUM_THREADS": "1", **({"PYTHONPATH": str(STAND_INS / stand_in)} if stand_in else {})}
    return explain("net.py", cwd=tmp_path, env=env, **options)[1]


def findings(report: dict[str, Any], rule: str) -> list[dict[str, Any]]:
    return [finding for finding in report["findings"] if finding["rule"] == rule]


def line_of(program: str, code: str) -> int:
    lines = textwrap.dedent(program).splitlines()
    return next(number for number, line in enumerate(lines, 1) if code in line)


def test_the_kernel_of_each_call_is_the_one_that_pytorch_chooses(tmp_path: Path) -> None:
    report = told(tmp_path, SDPA)
    calls = {call["function"]: call for call in report["attention"]}
    choices = json.loads((tmp_path / "choices.json").read_text(encoding="utf-8"))
    assert set(choices.values()) == set(CHOICES)
    assert {name: calls[name]["backend"] for name in choices} == {name: CHOICES[c] for name, c in choices.items()}
    assert all(call["query"]["shape"] == [1, 2, 8, 16] and call["device"] == "cpu" for call in calls.values())
    assert calls["masked"]["mask"]["dtype"] == "bool" and calls["causal"]["causal"]
    assert calls["dropped"]["dropout"] == 0.5
    assert calls["causal"]["line"] == line_of(SDPA, "is_causal=True)")
    assert calls["flexible"]["mask_made"] and calls["flexible"]["op"] == "flex_attention"
    (masks,) = findings(report, "flex-attention")
    assert masks["evidence"] == [calls["flexible"]["id"]]
    math = {finding["location"]["function"]: finding["detail"]["why"] for finding in findings(report, "sdpa-math")}
    assert set(math) == {name for name, choice in choices.items() if CHOICES[choice] == "math"}
    assert "sdpa_kernel" in math["forced"] and "dropout" in math["dropped"]
    assert len(findings(report, "attention-backend")) == 1


@pytest.mark.slow
def test_what_is_advised_against_padding_breaks_nothing(tmp_path: Path) -> None:
    """Texts laid end to end with their lengths, a batch without a mask, and sdpa with one."""
    pytest.importorskip("transformers")
    report = told(tmp_path, ADVISED, "flash_attn")
    assert report["outcome"]["status"] == "complete", report["outcome"]["message"]
    assert report["graph_breaks"] == [] and findings(report, "flash-attention-padding") == []
    assert len([call for call in report["attention"] if call["op"] == "flash_attn"]) >= 2
