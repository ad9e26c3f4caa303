"""Takes the name of a generated kernel apart: cpp_fused__softmax_add_native_layer_norm_3 holds three operations.

Inductor joins the names of the original ATen operations, sorted, by underscores, which stand in many of the names too.
"""

from __future__ import annotations

import re
from collections.abc import Collection

_NAME = re.compile(r"(?:cpp|triton(?:_[a-z]+)??)_fused_(?P<ops>\w+?)(?:_\d+)?$")
# Longest operation in parts, and the longest name that is worth the search.
_MOST_PARTS = 8
_LONGEST_NAME = 100
_UNKNOWN = 10
_IMPOSSIBLE = 1000

# Operations with an underscore in their name that AOTAutograd or Inductor take apart, so that no later graph has them.
_DECOMPOSED_NAMES = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _batch_norm_no_update _batch_norm_with_update _cdist_forward
    _embedding_bag _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm _fused_rms_norm_backward _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _prelu_kernel _prelu_kernel_backward _reshape_alias _safe_softmax _softmax
    _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_view
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _weight_norm_interface adaptive_max_pool2d affine_grid_generator
    avg_pool2d avg_pool2d_backward avg_pool3d binary_cross_entropy binary_cross_entropy_backward
    binary_cross_entropy_with_logits bitwise_and bitwise_not bitwise_or bitwise_xor clamp_max clamp_min
    constant_pad_nd convert_element_type convolution_backward diag_embed elu_backward embedding_dense_backward
    empty_like floor_divide full_like gelu_backward glu_backward grid_sampler_2d hardsigmoid_backward
    hardswish_backward hardtanh_backward huber_loss index_add index_copy index_fill index_put index_select
    leaky_relu leaky_relu_backward lift_fresh lift_fresh_copy linalg_cross linalg_vector_norm log_sigmoid_backward
    log_sigmoid_forward log_softmax logical_and logical_not logical_or logical_xor masked_fill masked_scatter
    max_pool2d_with_indices max_pool2d_with_indices_backward mish_backward mse_loss mse_loss_backward nan_to_num
    native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_full new_ones new_zeros
    nll_loss nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward ones_like pixel_shuffle
    pixel_unshuffle rand_like randn_like reflection_pad1d reflection_pad2d reflection_pad2d_backward
    repeat_interleave replication_pad2d rms_norm scalar_tensor scatter_add scatter_reduce select_backward
    select_scatter sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss
    smooth_l1_loss_backward soft_margin_loss softplus_backward special_bessel_j0 special_bessel_j1 special_entr
    special_erfcx special_i0 special_xlog1py split_with_sizes std_mean tanh_backward threshold_backward
    unfold_backward unsafe_split upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d var_mean zeros_like
"""
_DECOMPOSED = frozenset(_DECOMPOSED_NAMES.split())


def split_name(name: str, known: Collection[str] = ()) -> list[str]:
    """The operations in a kernel's name; parts that no known operation explains stand for themselves.

    A name of another making, such as that of a user's own kernel, holds none.
    """
    found = _NAME.match(name)
    if found is None:
        return []
    parts = found["ops"].split("_")
    if found["ops"].isdigit() or len(parts) > _LONGEST_NAME:
        return []
    return _cheapest(parts, _DECOMPOSED.union(known))


def _cheapest(parts: list[str], words: Collection[str]) -> list[str]:
    """The split into the fewest words, where an unknown word counts as many known ones."""
    best: list[tuple[int, list[str]]] = [(0, [])]
    for end in range(1, len(parts) + 1):
        ways = []
        for start in range(max(0, end - _MOST_PARTS), end):
            word = "_".join(parts[start:end])
            cost, before = best[start]
            ways.append((cost + _cost(word, end - start, words), [*before, word]))
        best.append(min(ways, key=lambda way: way[0]))
    return list(dict.fromkeys(best[-1][1]))


def _cost(word: str, parts: int, words: Collection[str]) -> int:
    if word in words:
        return 1
    return _UNKNOWN if parts == 1 and word else _IMPOSSIBLE * parts
