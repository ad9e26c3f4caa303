"""An attention matrix as a GPU would give it, and the parts of one, for tests of what is made of it."""

from __future__ import annotations

from typing import Any

from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.report.measurements import Interval, Speedup, SpeedVerdict

MASKS = "/opt/venv/lib/python3.11/site-packages/transformers/masking_utils.py"
NO_PACKAGE = "FlashAttention3 has been toggled on, but the package for FlashAttention3 doesn't seem to be installed."
FP32 = "RuntimeError: FlashAttention only support fp16 and bf16 data type"


def cell(attention: str, dtype: str, status: Any = "runs", accuracy: Any = "equal", **fields: Any) -> AttentionCell:
    """A cell; its id is made of what it is."""
    fields.setdefault("id", f"{attention}-{dtype}")
    return AttentionCell(attention, dtype, status=status, accuracy=accuracy, **fields)


def timed(milliseconds: float, ratio: float = 1.5, floor: float | None = 0.05) -> dict[str, Any]:
    """The fields of a cell that was timed."""
    verdict: SpeedVerdict = "faster" if ratio > 1.1 else "no difference shown"
    speedup = Speedup(Interval(ratio, ratio - 0.1, ratio + 0.1), verdict, floor, 5)
    return {"latency_ms": milliseconds, "eager_latency_ms": milliseconds * ratio, "speedup": speedup}


def matrix(**fields: Any) -> AttentionMatrix:
    """Five implementations, two dtypes: right, breaking, suspicious, failing in eager and not to be had."""
    cells = [
        cell("eager", "float32", **timed(9.0)),
        cell("eager", "bfloat16", accuracy="suspicious", **timed(6.0)),
        cell("sdpa", "float32", accuracy="benign", **timed(5.0, 1.02)),
        cell("sdpa", "bfloat16", accuracy="rounding only", backends=["flash"], **timed(2.0, 1.83)),
        cell("flash_attention_2", "float32", "eager_error", None, reason=FP32, facts={"raised": True}, graph_breaks=5),
        cell("flash_attention_2", "bfloat16", "breaks", graph_breaks=3, recompiles=1,
             reason="Unsupported Tensor.item() call", file=MASKS, line=713, **timed(2.5)),
        cell("flash_attention_3", "float32", "not_here", None, reason=NO_PACKAGE),
        cell("flash_attention_3", "bfloat16", "not_here", None, reason=NO_PACKAGE),
        cell("flex_attention", "float32", "recompiles", recompiles=2, facts={"cause": "shape"}, file=MASKS, line=9),
        cell("flex_attention", "bfloat16", "crash", None, reason="The program was killed by SIGSEGV."),
    ]  # fmt: skip
    attentions = list(dict.fromkeys(each.attention for each in cells))
    plain: dict[str, Any] = {
        "attentions": attentions, "dtypes": ["float32", "bfloat16"], "cells": cells, "device": "cuda",
        "model": "LlamaForCausalLM", "own_attention": "flash_attention_2", "own_dtype": "bfloat16",
    }  # fmt: skip
    return AttentionMatrix(**(plain | fields))
