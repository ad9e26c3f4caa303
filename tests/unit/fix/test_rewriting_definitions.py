"""What is disabled, imported or defined beside the code that is compiled, on source text."""

from __future__ import annotations

from breaks_in_text import TENSOR, function, rewritten
from dynalyze.fix.sites import Value

TORCH = {"torch": Value("module", "torch"), "x": TENSOR}
SKIPPED = "Attempted to call function marked as skipped"


def test_what_is_disabled_where_it_is_called_is_called_as_it_is() -> None:
    known = {**TORCH, "torch__compiler__disable": function("torch.compiler.disable")}
    source = "import torch\ndef f(x):\n    plain = torch.compiler.disable(scale, reason='slow')  # here\n"
    changed = rewritten(source, "not-disabled-here", SKIPPED, **known)
    assert changed.endswith("    plain = scale\n")
    recursive = source.replace("reason='slow'", "recursive=False")
    assert not rewritten(recursive, "not-disabled-here", SKIPPED, **known)
