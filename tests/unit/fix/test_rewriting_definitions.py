"""What is disabled, imported or defined beside the code that is compiled, on source text."""

from __future__ import annotations

from breaks_in_text import TENSOR, function, rewritten
from dynalyze.fix.sites import Value

TORCH = {"torch": Value("module", "torch"), "x": TENSOR}
DISABLED = "Skip calling `torch.compiler.disable()`d function"
SKIPPED = "Attempted to call function marked as skipped"


def test_what_is_disabled_where_it_is_called_is_called_as_it_is() -> None:
    known = {**TORCH, "torch__compiler__disable": function("torch.compiler.disable")}
    source = "import torch\ndef f(x):\n    plain = torch.compiler.disable(scale, reason='slow')  # here\n"
    changed = rewritten(source, "not-disabled-here", SKIPPED, **known)
    assert changed.endswith("    plain = scale\n")
    recursive = source.replace("reason='slow'", "recursive=False")
    assert not rewritten(recursive, "not-disabled-here", SKIPPED, **known)


def test_a_function_of_the_file_is_no_longer_disabled() -> None:
    text = rewritten("""
        import torch

        class M(torch.nn.Module):
            @torch.compiler.disable(recursive=False)
            @torch.no_grad()
            def part(self, x):
                return x + 1

            def forward(self, x):
                return self.part(x)  # here
        """, "not-disabled", DISABLED)  # fmt: skip
    assert "    @torch.no_grad()\n    def part(self, x):" in text
    assert "disable" not in text
    one = "def g(x):\n    return x\n"
    twice = f"{one}@torch.compiler.disable\n{one}def f(x):\n    return g(x)  # here\n"
    assert rewritten(twice, "not-disabled", DISABLED) == ""
