"""A small variant of any configuration: few layers, narrow, few experts, a small vocabulary.

The same code has to run as in the architecture itself, so its structure stays: the kinds of layers, the mixture of
experts, grouped heads, windows, the parts of a composite model. Only counts and sizes shrink, together.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from dynalyze.capture.hf import agreement, depth, pictures, quirks, vocabulary, width

_EXPERTS = 8
_EXPERT_COUNT = re.compile(r"^(?!.*(shared|per_tok|sink|top_k|bias|dense))\w*experts$|^zero_expert_num$")
_CHOSEN = re.compile(r"^(num_experts_per_tok(en)?|moe_topk|moe_k|top_k_experts|num_selected_experts|moe_top_k)$")
_POSITIONS = re.compile(r"^(max_position_embeddings|n_positions|max_sequence_length)$")
_LONGEST = 8192


def small(source: Any, model_class: Any = None) -> Any:
    """A small configuration for `model_class`: from a configuration, which stays as it is, or from its class."""
    config = source() if isinstance(source, type) else copy.deepcopy(source)
    parts = list(parts_of(config))
    for part in parts:
        depth.cut(part)
        _cut_experts(part)
        _cut_positions(part)
    width.narrow(parts)
    agreement.agree(config, parts)
    pictures.cut(parts)
    vocabulary.cut(parts)
    for part in parts:
        quirks.shrinks.apply(part, part)
    return config


def parts_of(config: Any) -> Iterator[Any]:
    """A configuration's sub-configurations, innermost first, and itself."""
    seen: set[int] = set()

    def walk(value: Any) -> Iterator[Any]:
        if isinstance(value, (list, tuple)):
            for each in value:
                yield from walk(each)
        elif isinstance(value, dict):
            yield from walk(list(value.values()))
        elif _is_config(value) and id(value) not in seen:
            seen.add(id(value))
            yield from walk(list(vars(value).values()))
            yield value

    yield from walk(config)


def _is_config(value: Any) -> bool:
    from transformers import PretrainedConfig

    return isinstance(value, PretrainedConfig)


def _cut_experts(part: Any) -> None:
    """Few experts, a whole number to each group of experts, and no more chosen than there are."""
    groups = vars(part).get("n_group") or vars(part).get("num_expert_group") or 1
    limit = max(_EXPERTS, 2 * groups)
    cut = False
    for name, value in list(vars(part).items()):
        if _EXPERT_COUNT.match(name) and not isinstance(value, bool):
            setattr(part, name, _limited(value, limit))
            cut = True
    if not cut:
        return
    for name, value in list(vars(part).items()):
        if _CHOSEN.match(name):
            setattr(part, name, _limited(value, limit // 2))


def _cut_positions(part: Any) -> None:
    """Tables of positions that are learned; rotary ones are computed as needed."""
    if vars(part).get("rope_parameters") is not None:
        return
    for name, value in list(vars(part).items()):
        if _POSITIONS.match(name):
            setattr(part, name, _limited(value, _LONGEST))


def _limited(value: Any, limit: int) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_limited(each, limit) for each in value)
    return min(value, limit) if isinstance(value, int) and not isinstance(value, bool) else value
