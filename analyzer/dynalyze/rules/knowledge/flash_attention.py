"""Unpadding for FlashAttention's variable-length kernels."""

from dynalyze.rules.recipe import Recipe, graph_break_page

RECIPES = (
    Recipe(
        id="flash-attention-unpad",
        title="Give FlashAttention the sequence lengths instead of a padding mask",
        gb_types=(
            "Dynamic shape operator",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "Data dependent operator",
            "Data-dependent branching",
        ),
        place=(
            r"modeling_flash_attention_utils|flash_attn[/\\]bert_padding|"
            r":(_get_unpad_data|_?unpad_input|_upad_input)$"
        ),
        rank=9,
        why=(
            "With a padding mask FlashAttention first takes the padding out, so it has to find which tokens "
            "are real and how long the longest row is. Both depend on the data: the graph breaks in every "
            "layer, and a GPU waits."
        ),
        action=(
            "Pass `cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k` prepared outside the "
            'model, or pass no mask where nothing is padded, or use `attn_implementation="sdpa"`, so that '
            "`{expression}` is not needed."
        ),
        before="""\
import torch
import torch.nn.functional as F
from transformers.modeling_flash_attention_utils import _get_unpad_data


def f(query, key, value, attention_mask):
    indices, starts, _ = _get_unpad_data(attention_mask)
    packed = [part.transpose(1, 2).flatten(0, 1)[indices].transpose(0, 1) for part in (query, key, value)]
    row = torch.searchsorted(starts, torch.arange(len(indices)), right=True)
    out = F.scaled_dot_product_attention(*packed, attn_mask=row[:, None] == row)
    batch, heads, length, width = query.shape
    padded = query.new_zeros(batch * length, heads, width).index_copy(0, indices, out.transpose(0, 1))
    return padded.view(batch, length, heads, width).transpose(1, 2)
""",
        after="""\
import torch.nn.functional as F


def f(query, key, value, attention_mask):
    real = attention_mask.bool()
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
    return out * real[:, None, :, None]
""",
        inputs="(*torch.rand(3, 2, 1, 4, 2), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]))",
        config=(
            "torch._dynamo.config.capture_scalar_outputs = True\n"
            "torch._dynamo.config.capture_dynamic_output_shape_ops = True"
        ),
        config_note=(
            "The number of real tokens becomes an unknown in the graph. A GPU still waits for it in every layer."
        ),
        link=graph_break_page("GB0036"),
        requires=("transformers",),
    ),
)
