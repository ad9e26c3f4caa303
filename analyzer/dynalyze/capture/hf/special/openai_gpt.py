"""GPT's double heads read several texts a sample, without a mask, as its tokenizer's texts of one length need none."""

from __future__ import annotations

from typing import Any

from dynalyze.capture.hf.request import ModelRequest


def inputs(model: Any, request: ModelRequest, given: dict[str, Any]) -> dict[str, Any]:
    if given["input_ids"].dim() > 2:
        del given["attention_mask"]
    return given
