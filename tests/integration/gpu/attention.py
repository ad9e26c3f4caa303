"""One kernel of attention for each kind of inputs, as torch chooses it."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F


def plain(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def odd(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def single(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def double(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def wide(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def qkv(dtype, length=64, width=64):
    return [torch.randn(2, 4, length, width, device="cuda", dtype=dtype) for _ in range(3)]


mask = torch.ones(64, 64, dtype=torch.bool, device="cuda").tril()
odd_mask = torch.zeros(61, 61, dtype=torch.bfloat16, device="cuda")
calls = {
    "plain": (plain, qkv(torch.bfloat16)),
    "causal": (causal, qkv(torch.float16)),
    "masked": (masked, [*qkv(torch.bfloat16), mask]),
    "odd": (odd, [*qkv(torch.bfloat16, 61), odd_mask]),
    "single": (single, qkv(torch.float32)),
    "double": (double, qkv(torch.float64)),
    "wide": (wide, qkv(torch.bfloat16, width=300)),
}
chosen = {}
with torch.no_grad():
    for name, (function, inputs) in calls.items():
        q, k, v, *rest = inputs
        chosen[name] = torch._fused_sdp_choice(q, k, v, *rest, is_causal=name == "causal")
        torch.compile(function)(*inputs)
Path("chosen.json").write_text(json.dumps(chosen))
