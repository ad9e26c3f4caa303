"""Cuts a configuration to a few layers, with a layer of each kind among them where two can show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from dynalyze.capture.libraries.hf.parts import change_fields

LAYERS = 2

_COUNT = re.compile(
    r"^(num_|n_)?(\w+_)?layers?$|^depth$|^\w+_depth$|^num_blocks$|^num_self_attends_per_block$|^num_layers_per_stack$"
)
# Counts that other lists of the configuration go with, or that are no counts of layers.
_NO_COUNT = re.compile(
    r"feature|feat_|extract|adapter|shared|nextn|mtp|dense|residual|conv|postnet|prenet|proj|predict|window_layers"
    r"|weighted|all_|freeze|first|last|head|moe|insert|conditional|drop|accept|norm|extra|add_|max_depth|min_depth"
    r"|resampler|per_layer|sparse|qformer|vision_layer|lstm|pooler|wavenet|layer_group|attn_res|interval|separable"
    r"|iou|query_dec|global|use_|share|source"
)
_STAGES = re.compile(r"^(depths|stage_num_blocks|blocks_per_stage|stage_numb_of_layers|block_sizes|num_block_repeats)$")
# The numbers of the layers that are of one kind.
_MEMBERS = re.compile(
    r"^(?!target_)(\w*cross_attention_layers|moe_layers|mlp_only_layers|\w*layer_ids|attn_layer_indices|global_attn_indexes"
    r"|fullatt_block_indexes|window_block_ind\w+|global_attention_blocks|kv_source_layers|rope_scaling_layers)$"
)
# The numbers of the layers whose states somebody reads.
_TAPS = re.compile(
    r"^(?!num_)\w*(feature_layers?|out_indices|layers_indices|state_indices|visual_indexes|extract_layers"
    r"|target_layer_ids)$"
)
# Every n-th layer is of another kind: with n = 2, two layers show both.
_PERIODS = {
    "attn_layer_period": 2, "expert_layer_period": 2, "decoder_sparse_step": 2, "encoder_sparse_step": 2,
    "interleave_moe_layer_step": 2, "moe_layer_interval": 2, "global_attn_every_n_layers": 2, "moe_layer_freq": 2,
    "no_rope_layer_interval": 2, "cross_layer_interval": 2, "cross_attention_frequency": 2, "layer_group_size": 2,
}  # fmt: skip
_OFFSETS = {"attn_layer_offset": 1, "expert_layer_offset": 1, "first_k_dense_replace": 1, "num_dense_layers": 1}


def cut(part: Any) -> None:
    """Cut one configuration (none of its sub-configurations) in place."""
    before = layers_of(part)
    kept = _kept(part, before) if before else []
    own = overrides(part)
    change_fields(part, lambda name, value: _cut_field(part, name, value, before, kept))
    if own:
        part.per_layer_config = {new: own[old] for new, old in enumerate(kept) if old in own}
    if before > len(kept):
        _cut_stage_names(part, len(kept))


def _cut_field(part: Any, name: str, value: Any, before: int, kept: list[int]) -> Any:
    staged = isinstance(vars(part).get("depths"), (list, tuple))  # Its counts are those of stages, which stay.
    after, most = len(kept), max(LAYERS, len(kept))
    if type(value) is int:
        if _COUNT.match(name) and not _NO_COUNT.search(name) and not staged:
            value = min(value, most)
        if before > after and _TAPS.search(name) and not name.startswith("_"):
            value = _inside(value, before, after)
        return min(value, _PERIODS.get(name, value), _OFFSETS.get(name, value))
    if not isinstance(value, (list, tuple)):
        return value
    kind = type(value)
    if before > after and len(value) == before and not name.startswith("_"):
        value = kind(value[number] for number in kept)
    if before > after and _MEMBERS.match(name):
        value = kind(new for new, old in enumerate(kept) if old in value)
    if not all(isinstance(each, int) for each in value):
        return value
    if _STAGES.match(name):
        value = kind(min(each, LAYERS) for each in value)
    if before > after and value and _TAPS.search(name) and not name.startswith("_"):
        value = kind(_places(value, before, after))
    return value


def overrides(part: Any) -> dict[int, dict[str, Any]]:
    """What single layers have otherwise than the configuration says, by their number."""
    spec = vars(part).get("_heterogeneity_spec")
    return getattr(spec, "per_layer_overrides", {})


def layers_of(part: Any) -> int:
    """Those of the main stack, 0 where there is none: stages have layers of their own."""
    if isinstance(vars(part).get("depths"), (list, tuple)):
        return 0
    names = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth", "encoder_layers", "layers")
    return next((vars(part)[name] for name in names if type(vars(part).get(name)) is int), 0)


def _kept(part: Any, layers: int) -> list[int]:
    """The layers to keep: those that show the most kinds, filled up from the front.

    Where the last layers take keys and values from earlier ones, the last of each of these kinds as well.
    """
    wanted = max(LAYERS, _tapped(part))
    if layers <= wanted:
        return list(range(layers))
    kinds = [set(enumerate(kind)) for kind in zip(*_kind_lists(part, layers), strict=True)]
    kept: list[int] = []
    for _ in range(wanted):
        seen: set[tuple[int, str]] = set().union(*(kinds[number] for number in kept))
        others = (number for number in range(layers) if number not in kept)
        kept.append(max(others, key=lambda number: (len(kinds[number] - seen), -number)))
    kept.sort()
    if vars(part).get("num_kv_shared_layers"):
        part.num_kv_shared_layers = len(kept)
        kept += sorted(layers - 1 - kinds[::-1].index(kinds[number]) for number in kept)
    return kept


def _kind_lists(part: Any, layers: int) -> list[list[str]]:
    kinds = [[str(overrides(part).get(number)) for number in range(layers)]]
    for name, value in vars(part).items():
        if isinstance(value, (list, tuple)):
            if len(value) == layers and all(isinstance(each, (str, bool)) for each in value):
                kinds.append([str(each) for each in value])
            if _MEMBERS.match(name):
                kinds.append([str(number in value) for number in range(layers)])
    return kinds


def _tapped(part: Any) -> int:
    """How many layers hand out their states: a decoder wants as many different ones."""
    names = ("backbone_out_indices", "out_indices", "intermediate_layers_indices", "_out_indices")
    lists = [vars(part).get(name) for name in names]
    if not any(vars(part).get(name) for name in ("num_hidden_layers", "depth")) or vars(part).get("depths"):
        return 0
    return max((len(each) for each in lists if isinstance(each, (list, tuple))), default=0)


def _cut_stage_names(part: Any, layers: int) -> None:
    """A backbone of one stack names each layer a stage."""
    names = vars(part).get("stage_names")
    if not names or vars(part).get("depths") or len(names) <= layers + 1:
        return
    part.stage_names = names[: layers + 1]
    count = len(vars(part).get("_out_indices") or [0])
    part._out_indices = list(range(layers + 1))[-count:]
    part._out_features = [part.stage_names[index] for index in part._out_indices]


def _places(places: Iterable[int], before: int, after: int) -> list[int]:
    """The same places in a shorter stack: as many as before where it has so many layers."""
    places = list(dict.fromkeys(places))
    if len(places) <= after and min(places) >= 0:
        return [max(index, _inside(place, before, after)) for index, place in enumerate(places)]
    return list(dict.fromkeys(_inside(place, before, after) for place in places))


def _inside(place: int, before: int, after: int) -> int:
    """The same place in a shorter stack, counted from the same end."""
    if place < 0:
        return max(place, -after)
    return min(place * after // before, after - 1)
