"""The operators: opaque to torch.compile as those of flash-attn are, with fake tensors' rules and gradients."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

_REFUSED = "FlashAttention only support fp16 and bf16 data type"
_Tensors = tuple[torch.Tensor, ...]


@torch.library.custom_op("flash_attn::_flash_attn_forward", mutates_args=())
def _flash_attn_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, left: int, right: int
) -> torch.Tensor:
    _check(q, k, v)
    return _attention(q, k, v, scale, causal, left, right)


@torch.library.custom_op("flash_attn::_flash_attn_varlen_forward", mutates_args=())
def _flash_attn_varlen_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts_q: torch.Tensor,
    starts_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float,
    causal: bool,
    left: int,
    right: int,
) -> torch.Tensor:
    _check(q, k, v)
    return _varlen(q, k, v, starts_q, starts_k, scale, causal, left, right)


@torch.library.custom_op("flash_attn::_flash_attn_backward", mutates_args=())
def _flash_attn_backward(
    grad: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts: list[torch.Tensor],
    scale: float,
    causal: bool,
    left: int,
    right: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    function = _varlen if starts else _attention
    with torch.enable_grad():
        inputs = [each.detach().requires_grad_() for each in (q, k, v)]
        out = function(*inputs, *starts, scale, causal, left, right)
    return tuple(torch.autograd.grad(out, inputs, grad))  # type: ignore[return-value]


@_flash_attn_forward.register_fake
@_flash_attn_varlen_forward.register_fake
def _like_query(q: torch.Tensor, *rest: Any) -> torch.Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


@_flash_attn_backward.register_fake
def _like_inputs(grad: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> _Tensors:
    return tuple(torch.empty_like(each) for each in (q, k, v))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    q, k, v, *rest = inputs
    starts = [each for each in rest if isinstance(each, torch.Tensor)]
    ctx.save_for_backward(q, k, v, *starts)
    ctx.options = rest[-4:]
    ctx.unused = len(rest)


def _gradients(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
    q, k, v, *starts = ctx.saved_tensors
    found = torch.ops.flash_attn._flash_attn_backward(grad, q, k, v, starts, *ctx.options)
    return (*found, *(None for _ in range(ctx.unused)))


_flash_attn_forward.register_autograd(_gradients, setup_context=_keep)
_flash_attn_varlen_forward.register_autograd(_gradients, setup_context=_keep)


def _check(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError(_REFUSED)
    if k.dtype != q.dtype:
        raise RuntimeError("query and key must have the same dtype")
    if v.dtype != q.dtype:
        raise RuntimeError("query and value must have the same dtype")


def _varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    starts_q: torch.Tensor,
    starts_k: torch.Tensor,
    *options: Any,
) -> torch.Tensor:
    """Sequence by sequence."""
    q_bounds, k_bounds = starts_q.tolist(), starts_k.tolist()
    done = [
        _attention(q[None, q0:q1], k[None, k0:k1], v[None, k0:k1], *options)[0]
        for q0, q1, k0, k1 in zip(q_bounds, q_bounds[1:], k_bounds, k_bounds[1:], strict=False)
    ]
    return torch.cat(done) if done else torch.empty_like(q)


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, left: int, right: int
) -> torch.Tensor:
    query, key, value = (each.transpose(1, 2) for each in (q, k, v))
    mask = _mask(q.shape[1], k.shape[1], causal, left, right, q.device)
    grouped = query.shape[1] != key.shape[1]
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)
    return out.transpose(1, 2).contiguous()


def _mask(queries: int, keys: int, causal: bool, left: int, right: int, device: torch.device) -> torch.Tensor | None:
    """Which keys a query sees; the last query stands at the last key, as in flash-attn since 2.1."""
    right = 0 if causal else right
    if left < 0 and right < 0:
        return None
    distance = torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None] - (keys - queries)
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen
