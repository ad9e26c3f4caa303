"""Narrows a configuration: fewer heads of the same size, and every width divided by one number.

Dividing keeps what configurations rely on: equal sizes stay equal, sums and multiples stay sums and multiples, and the
size of a head, to which rotary embeddings and latent attention are cut, does not change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dynalyze.capture.libraries.building import map_numbers
from dynalyze.capture.libraries.hf.depth import overrides
from dynalyze.capture.libraries.hf.parts import change_fields, numbers_in

# No stack that is narrower than this is made narrower.
_NARROW = 256
_FACTORS = tuple(Fraction(factor) for factor in range(2, 33))

_HEADS = re.compile(r"^(?!index)(\w+_)?(num_|n_)?(\w+_)?(heads?|heads_per_layer|heads_per_stage)$|^num_query_groups$")
_NO_HEADS = re.compile(
    r"hidden|n_mamba_heads|use_|lm_head|dim_head|d_head|ratio|pred_head|chunk|score|freeze|share|resnet|structure|conf"
)
_KEY_VALUE = re.compile(r"key_value|kv_|query_groups|multi_query")
_MAIN = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim")
# A pyramid's widths go with channels, groups and merges of many names: it stays as wide as it is.
_PYRAMID = (
    "depths", "hidden_sizes", "embed_dims", "embed_dim_per_stage", "stage_out_channels", "block_out_channels",
    "stage_block_out_channels",
)  # fmt: skip
_WIDTHS = re.compile(
    r"^(d_model|n_embd|n_inner|dim|emb_dim|d_ff|d_inner|dim_ff|dim_feedforward|model_dim|lru_width|mamba_d_ssm"
    r"|mamba_headdim)$"
    r"|(hidden_size|hidden_sizes|hidden_dim|hidden_dims|embed_dim|embed_dims|ffn_dim|mlp_dim|intermediate_size"
    r"|intermediate_dim|projection_dim|projector_dim|feedforward_dim|hidden_size_global|embed_dim_per_stage|output_dim"
    r"|intermediate_size_mlp|ffn_hidden_size|feed_forward_size|word_embed_proj_dim|pooler_output_size|share_expert_dim"
    r"|out_hidden_size|mlp_hidden_size|projection_size|projection_hidden_dim|embed_proj_dim|output_proj_dims|neck_hidden_sizes)$"
)
# What is as large as one of the widths only by being the same: it follows where it is equal.
_SAME = re.compile(r"^(embedding_size|upsample_groups|thinker_hidden_size)$|_(channels|width|size|dim|dims)$")
# Four neighbouring patches side by side.
_MERGED = re.compile(r"^(merged_hidden_size|out_hidden_size)$")
_NO_WIDTHS = re.compile(r"per_layer|codebook|frequency|bbox|label|mask_downsampler")
_NO_SAME = re.compile(r"vocab|image|patch|window|kernel|chunk|crop|head|pool_|num_|codebook|label")
_GROUPS = ("num_conv_pos_embedding_groups", "num_groups", "mamba_n_groups", "n_groups", "mamba_ngroups", "q_groups")


def narrow(parts: list[Any]) -> None:
    """Narrow all parts of a configuration in place, by one factor where one suits all of them."""
    wide = [part for part in parts if _widest(part) > _NARROW]
    if not wide:
        return
    common = _factor(wide)
    factors = {id(part): common for part in wide}
    if max(_widest(part) for part in wide) // common > 2 * _NARROW:
        # A factor for each part; parts of one width share theirs.
        widths = {_widest(part) for part in wide}
        by_width = {each: _factor([part for part in wide if _widest(part) == each]) for each in widths}
        factors = {id(part): by_width[_widest(part)] for part in wide}
    sizes = {value: int(value // factors[id(part)]) for part in wide for value in _mains(part)}
    shared = common if len(set(factors.values())) == 1 else Fraction(1)
    for part in parts:
        if not _is_pyramid(part):
            _narrow_part(part, factors.get(id(part), Fraction(1) if _widest(part) else shared), sizes)


def _is_pyramid(part: Any) -> bool:
    return any(isinstance(vars(part).get(name), (list, tuple)) for name in _PYRAMID)


def _factor(parts: list[Any]) -> Fraction:
    """The smallest divisor that makes all parts narrow; the greatest possible one where none does.

    A number of heads without small divisors, such as 71, goes down to a few of them by a fraction.
    """
    widest = max(_widest(part) for part in parts)
    possible = [factor for factor in _FACTORS if all(_divides(factor, part) for part in parts)]
    best = _first_narrow(possible, widest)
    if widest / best > 2 * _NARROW:
        heads = math.gcd(*(value for part in parts for value in _query_heads(part)))
        fractions = (Fraction(heads, fewer) for fewer in range(heads - 1, 0, -1))
        best = _first_narrow([each for each in fractions if all(_divides(each, part) for part in parts)], widest, best)
    return best


def _first_narrow(factors: list[Fraction], widest: int, otherwise: Fraction = Fraction(1)) -> Fraction:
    """The first of ascending factors that is enough, else the last."""
    return next((factor for factor in factors if widest / factor <= _NARROW), max([otherwise, *factors]))


def _divides(factor: Fraction, part: Any) -> bool:
    """Whether heads, and widths with their groups, stay whole numbers, and several heads several."""
    numbers = [vars(part).get(name) for name in _GROUPS]
    groups = math.lcm(8, *(number for number in numbers if number and type(number) is int))
    return all(value % (factor * groups) == 0 for value in _mains(part)) and all(
        value % factor == 0 and value / factor >= min(2, value) for value in _query_heads(part)
    )


def _query_heads(part: Any) -> list[int]:
    named = [each for each in vars(part).items() if _is_heads(*each) and not _KEY_VALUE.search(each[0])]
    return [number for _, value in named for number in _flat(value)]


def _narrow_part(part: Any, factor: Fraction, sizes: dict[int, int]) -> None:
    query = max(_query_heads(part), default=0)
    change_fields(part, lambda name, value: _narrowed(name, value, factor, sizes, query))
    for override in overrides(part).values():
        for name, value in override.items():
            override[name] = _narrowed(name, value, factor, sizes, query)


def _narrowed(name: str, value: Any, factor: Fraction, sizes: dict[int, int], query: int) -> Any:
    if _is_heads(name, value):
        return value if factor == 1 else _each(value, lambda each: _fewer(name, each, factor, query))
    if _MERGED.match(name) and value not in sizes and isinstance(value, int) and value // 4 in sizes:
        return sizes[value // 4] * 4
    if _WIDTHS.search(name) and not _NO_WIDTHS.search(name) and _flat(value):
        return _each(value, lambda each: _narrower(each, factor, sizes))
    if _SAME.search(name) and not _NO_SAME.search(name):
        return _each(value, lambda each: sizes.get(each, each))
    return value


def _fewer(name: str, value: int, factor: Fraction, query: int) -> int:
    if value % factor == 0 or not _KEY_VALUE.search(name):
        return max(1, int(value // factor))
    # Fewer key and value heads than the factor: as many as still divide the query heads.
    return math.gcd(int(query // factor), max(1, int(value // factor)))


def _narrower(value: int, factor: Fraction, sizes: dict[int, int]) -> int:
    if factor > 1 and value % factor == 0:
        return int(value // factor)
    if factor > 1 and value > _NARROW:
        return max(8, int(value // factor) // 8 * 8)
    return sizes.get(value, value) if factor == 1 else value


def _widest(part: Any) -> int:
    return max(_mains(part), default=0)


def _mains(part: Any) -> list[int]:
    return [] if _is_pyramid(part) else [value for name in _MAIN for value in _flat(vars(part).get(name))]


def _is_heads(name: str, value: Any) -> bool:
    return bool(_HEADS.match(name) and not _NO_HEADS.search(name) and _flat(value))


def _flat(value: Any) -> list[int]:
    return [number for number in numbers_in(value) if number > 0]


def _each(value: Any, change: Callable[[int], int]) -> Any:
    return map_numbers(lambda number: change(number) if number > 0 else number, value)
