"""A small variant of any configuration: few layers, narrow, few experts, a small vocabulary.

The same code has to run as in the architecture itself, so its structure stays: the kinds of layers, the mixture of
experts, grouped heads, windows, the parts of a composite model. Only counts and sizes shrink, together.
"""

from __future__ import annotations

import copy
import re
from functools import partial
from typing import Any

from dynalyze.capture.libraries.building import map_numbers
from dynalyze.capture.libraries.hf import depth, quirks, width
from dynalyze.capture.libraries.hf.parts import agree, change_fields, numbers_in, parts_of

_EXPERTS = 8
_EXPERT_COUNT = re.compile(r"^(?!.*(shared|per_tok|sink|top_k|bias|dense))\w*experts$|^zero_expert_num$")
_CHOSEN = re.compile(r"^(num_experts_per_tok(en)?|moe_topk|moe_k|top_k_experts|num_selected_experts|moe_top_k)$")
_POSITIONS = re.compile(r"^(max_position_embeddings|n_positions|max_sequence_length)$")
_LONGEST = 8192

# Images with a longer edge are made smaller.
_LARGE = 256
_FACTOR = 4
# A size in pixels, and sizes in patches that follow from it.
_PIXELS = ("image_size", "image_embedding_size", "backbone_feature_sizes")
# The latter, and sizes of whole images that are cut into tiles of the image size, stand beside another's image too.
_BESIDE = ("backbone_feature_sizes", "image_grid_pinpoints")
# Counts that a small image or video cannot fill, with what is left of them.
_COUNTS = {"num_queries": 50, "num_frames": 8, "frames_per_clip": 8}

# Every token id stays inside a small vocabulary, and different ids stay different.
_VOCABULARY = 1024

_SIZES = re.compile(r"(^|_)(vocab_size|vocab)$|^vocab_size_\w+$|vocab_size_base$")
_NO_SIZES = re.compile(r"^(type|modality_type|task_type)_")
_IDS = re.compile(r"(_token_id|_token_index|_token_ids|_token_indices|token_idx|_id|_index)$")
# Places in other lists, and ids in the vocabularies of sounds, which stay as large as they are.
_NO_IDS = re.compile(
    r"^(layer|lang|insert|head|ignore|model|device|adapter)|layer_id|ignore_index|codebook|codec|audio_[be]os_token"
)


def small(source: Any, model_class: Any = None) -> Any:
    """A small configuration for `model_class`: from a configuration, which stays as it is, or from its class."""
    config = source() if isinstance(source, type) else copy.deepcopy(source)
    parts = list(parts_of(config))
    for part in parts:
        depth.cut(part)
        _cut_experts(part)
        _cut_positions(part)
    width.narrow(parts)
    agree(config, parts)
    cut_pictures(parts)
    _cut_vocabularies(parts)
    for part in parts:
        quirks.shrinks.apply(part)
    return config


def _cut_experts(part: Any) -> None:
    """Few experts, a whole number to each group of experts, and no more chosen than there are."""
    groups = vars(part).get("n_group") or vars(part).get("num_expert_group") or 1
    limit = max(_EXPERTS, 2 * groups)
    counts = [name for name, value in vars(part).items() if _EXPERT_COUNT.match(name) and not isinstance(value, bool)]
    chosen = [name for name in vars(part) if counts and _CHOSEN.match(name)]
    for names, most in ((counts, limit), (chosen, limit // 2)):
        for name in names:
            setattr(part, name, map_numbers(partial(min, most), vars(part)[name]))


def _cut_positions(part: Any) -> None:
    """Cut learned position tables; rotary ones are computed as needed."""
    if vars(part).get("rope_parameters") is not None:
        return
    cut = partial(map_numbers, partial(min, _LONGEST))
    change_fields(part, lambda name, value: cut(value) if _POSITIONS.match(name) else value)


def cut_pictures(parts: list[Any]) -> None:
    """Cut the images, videos and object queries of all parts in place."""
    for part in parts:
        for name, most in _COUNTS.items():
            count = vars(part).get(name)
            if isinstance(count, int) and count > most:
                setattr(part, name, most)
    # The image sizes are divided if every large one can be: one part's image is another's.
    large = [part for part in parts if max(numbers_in(vars(part).get("image_size")), default=0) > _LARGE]
    if not large or not all(_divides(part) for part in large):
        return
    # The large ones first: to set the size of a whole can set fields of its parts.
    for part in sorted(parts, key=lambda part: part not in large):
        for name in _PIXELS if part in large else _BESIDE:
            if vars(part).get(name) is not None:
                setattr(part, name, map_numbers(lambda size: size // _FACTOR, vars(part)[name]))


def _divides(part: Any) -> bool:
    edges = numbers_in(vars(part).get("patch_size")) or [1]
    return all(size % (_FACTOR * edge) == 0 for size in numbers_in(vars(part)["image_size"]) for edge in edges)


def _cut_vocabularies(parts: list[Any]) -> None:
    """Make the vocabularies of all parts small, and move their token ids into them, in place."""
    ids = [value for part in parts for name, value in vars(part).items() if _IDS.search(name)]
    taken = {number for number in numbers_in(ids) if 0 <= number < _VOCABULARY}
    free = (place for place in range(_VOCABULARY - 1, -1, -1) if place not in taken)
    places: dict[int, int] = {}

    def moved(number: int) -> int:
        if number >= _VOCABULARY and number not in places:
            places[number] = next(free)
        return places.get(number, number)

    def cut(name: str, value: Any) -> Any:
        if isinstance(value, int) and value > _VOCABULARY and _SIZES.search(name) and not _NO_SIZES.search(name):
            return _VOCABULARY
        if _IDS.search(name) and not _NO_IDS.search(name) and not isinstance(value, dict):
            return map_numbers(moved, value)
        return value

    for part in parts:
        change_fields(part, cut)
