"""Sizes that are worked out of numbers which a module keeps in tensors."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site
from dynalyze.report import GraphBreak, Location

CONV = """
import torch


class Conv(torch.nn.Module):
    def __init__(self, features, kernel):
        super().__init__()
        self.conv = torch.nn.Conv1d(features, features, kernel, stride=2)
        stride = torch.tensor(self.conv.stride[0], dtype=torch.int64)
        kernel = torch.tensor((self.conv.kernel_size[0] - 1) * 2 + 1)
        self.stride = torch.nn.Buffer(stride, persistent=False)
        self.register_buffer("padding", kernel - stride, persistent=False)
        self.left = self.padding // 2

    def missing(self, x):
        \"\"\"How much.\"\"\"
        frames = (x.shape[-1] + self.padding) / self.stride + 1
        frames = torch.ceil(frames).to(torch.int64) - 1
        return frames * self.stride - x.shape[-1]

    def forward(self, x):
        if self.training:
            return torch.nn.functional.pad(x, (self.padding, self.missing(x)))  # here
        else:
            return torch.nn.functional.pad(x, (self.left, self.missing(x)))
"""


def proposed(text: str) -> list[str]:
    line = next(number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here"))
    place = Location("model.py", line, None, "forward")
    site = Site(GraphBreak("b1", None, "Data dependent operator", "split", place, [place]), text, line)
    return [each.source for each in proposals(site) if each.rewrite == "numbers-in-tensors"]


def methods_of(source: str) -> str:
    return source[source.index("    def missing") :].replace("  # here", "").strip("\n")


def test_methods_compute_with_what_the_tensors_were_made_of() -> None:
    whole, *_ = proposed(CONV)
    assert whole.startswith("\nimport torch\nimport math\n")
    assert methods_of(whole) == dedent(
        """
        |    def missing(self, x):
        |        \"\"\"How much.\"\"\"
        |        stride = self.conv.stride[0]
        |        padding = (self.conv.kernel_size[0] - 1) * 2 + 1 - stride
        |        frames = (x.shape[-1] + padding) / stride + 1
        |        frames = math.ceil(frames) - 1
        |        return frames * stride - x.shape[-1]
        |
        |    def forward(self, x):
        |        padding = (self.conv.kernel_size[0] - 1) * 2 + 1 - self.conv.stride[0]
        |        left = padding // 2
        |        if self.training:
        |            return torch.nn.functional.pad(x, (padding, self.missing(x)))
        |        else:
        |            return torch.nn.functional.pad(x, (left, self.missing(x)))
        """
    ).replace("|", "").strip("\n")  # fmt: skip


def test_branches_are_changed_one_by_one_too() -> None:
    _, first, second, *_ = proposed(CONV)
    assert "(padding, self.missing(x))" in first and "(self.left, self.missing(x))" in first
    assert "(self.padding, self.missing(x))" in second and "(left, self.missing(x))" in second


@pytest.mark.parametrize(
    ("was", "now", "unsure"),
    [
        ("(stride, persistent=False)", "(stride)", "stride"),
        ('"padding", kernel - stride, persistent=False', '"padding", kernel - stride', "padding"),
        ("self.conv.stride[0], dtype", "read_stride(), dtype", "stride"),
        ("def missing", "def step(self):\n        self.padding += 1\n\n    def missing", "padding"),
        ("def missing", "def step(self):\n        self.stride.add_(1)\n\n    def missing", "stride"),
        ("def missing", "def widen(self):\n        self.conv = self.wide\n\n    def missing", "stride"),
    ],
    ids=[
        "a checkpoint has it",
        "a checkpoint has the other",
        "not known",
        "counted",
        "changed in place",
        "made of what changes",
    ],
)
def test_a_number_that_may_be_another_is_read_from_its_tensor(was: str, now: str, unsure: str) -> None:
    text = CONV.replace(was, now)
    assert text != CONV
    for source in proposed(text):
        assert f"        {unsure} = " not in methods_of(source)


def test_tensors_that_another_method_needs_stay() -> None:
    told = "def told(self, x):\n        return self.missing(x).item()\n\n    def missing"
    assert not proposed(CONV.replace("def missing", told))
