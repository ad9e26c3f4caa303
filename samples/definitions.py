"""A file that runs nothing: it only defines `model` and `example_inputs`, which dynalyze compiles and calls.

Try:

    dynalyze explain samples/definitions.py --backend eager
"""

import torch
from torch import nn


class Pooled(nn.Module):
    """Averages the rows that a mask keeps."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.project = nn.Linear(width, width)

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        kept = self.project(rows)[mask]  # break: GB0036 split
        return kept.mean(0)


model = Pooled()
example_inputs = (torch.randn(6, 8), torch.tensor([True, True, False, True, False, True]))
