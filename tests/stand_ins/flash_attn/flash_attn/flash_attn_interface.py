"""What users and libraries call: plain functions over the operators of this stand-in."""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from flash_attn import operators  # noqa: F401  (registers torch.ops.flash_attn)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> torch.Tensor:
    """Attention over (batch, length, heads, width)."""
    _refuse(dropout_p, softcap, alibi_slopes, return_attn_probs)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    return torch.ops.flash_attn._flash_attn_forward(q, k, v, scale, causal, *window_size)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention over sequences of several lengths laid end to end: (tokens, heads, width)."""
    _refuse(dropout_p, softcap, alibi_slopes, return_attn_probs or block_table is not None)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    return torch.ops.flash_attn._flash_attn_varlen_forward(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, scale, causal, *window_size
    )


def flash_attn_with_kvcache(*arguments: Any, **named: Any) -> NoReturn:
    raise NotImplementedError("this stand-in has no paged cache")


def _refuse(dropout: float, softcap: float, alibi_slopes: torch.Tensor | None, more: bool) -> None:
    if dropout or softcap or alibi_slopes is not None or more:
        raise NotImplementedError("this stand-in has no dropout, softcap, ALiBi, block table or returned probabilities")
