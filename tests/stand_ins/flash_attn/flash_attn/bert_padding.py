"""Padding taken out before the variable-length kernel and put back after it."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def unpad_input(
    hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
    """The real tokens end to end, where they were, where each sequence starts, the longest, and all lengths."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(kept.flatten()).flatten()
    starts = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    tokens = hidden_states.flatten(0, 1)[indices]
    return tokens, indices, starts, int(lengths.max().item()), attention_mask.sum(dim=-1, dtype=torch.int32)


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> torch.Tensor:
    """Back to (batch, seqlen, ...), zeros where padding was."""
    padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    return padded.index_copy(0, indices, hidden_states).unflatten(0, (batch, seqlen))
