"""Statements as the site of a break, for tests of rewriters: what each is changed to, without torch."""

from __future__ import annotations

import re
from textwrap import dedent, indent

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

BRANCH = "Data-dependent branching"
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SHAPE = "Dynamic shape operator"

_PRIVATE = re.compile(r"\btorch\._|fake_mode|shape_env|\._dynamo|functorch")

TENSOR = Value("tensor", dtype="float32", dims=2)
KNOWN = {
    "torch": Value("module", "torch"), "x": TENSOR, "y": TENSOR,
    "vector": Value("tensor", dtype="float32", dims=1), "counts": Value("tensor", dtype="int64", dims=1),
    "n": Value("tensor", dtype="int64", dims=0), "rows": Value("tensor", dtype="bool", dims=1),
    "mask": Value("tensor", dtype="bool", dims=2), "half": Value("tensor", dtype="float16", dims=2),
    "flag": Value("bool"), "size": Value("int"), "limit": Value("float"), "maybe": Value("NoneType"),
    "x.dtype": Value("dtype"),
    "wide": Value("tensor", dtype="float32", dims=3),
    "sent": Value("tensor", dtype="int64", dims=3), "weights": TENSOR, "self.experts": Value("nn.Module"),
    "self.f": Value("nn.Module", "torch.nn.Linear"), "scales": Value("list", "Tensor"), "gains": Value("list", "float"),
}  # fmt: skip


def changed(gb_type: str, body: str, known: dict[str, Value] = KNOWN) -> dict[str, str]:
    """What each rewriter makes of a function's body by source; its break is on the line that ends in `# here`."""
    lines = indent(dedent(body).strip("\n"), "    ").splitlines()
    (line,) = [number for number, each in enumerate(lines, 3) if each.endswith("# here")]
    head = f"import torch\ndef f({', '.join(each for each in known if each.isidentifier() and each != 'torch')}):\n"
    text = head + "\n".join(each.removesuffix("  # here") for each in lines) + "\n"
    place = Location("model.py", line, None, "f")
    site = Site(GraphBreak("b1", None, gb_type, "split", place, [place]), text, line, known)
    found: dict[str, str] = {}
    for each in proposals(site):
        if each.settings:
            continue
        compile(each.source, "model.py", "exec")
        assert private_names_in(text, each) == []
        found.setdefault(each.rewrite, dedent(each.source.removeprefix(head)).strip("\n"))
    return found


def private_names_in(before: str, proposal: Proposal) -> list[str]:
    """The lines that a proposal adds with names in them that torch keeps for itself, or that only its compiler has."""
    known = {line.strip() for line in before.splitlines()}
    added = [line for line in proposal.source.splitlines() if line.strip() not in known]
    return [line for line in [*added, *map(str, proposal.settings)] if _PRIVATE.search(line)]


def lines(text: str) -> str:
    return dedent(text).strip("\n")
