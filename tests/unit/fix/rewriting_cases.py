"""Graph breaks in a text, for tests of rewriters: what each line is changed to, without torch."""

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


def function(name: str) -> Value:
    return Value("function", name)


def site_of(text: str, gb_type: str, known: dict[str, Value]) -> Site:
    """A break on the line of a file that ends in `# here`, without that mark."""
    (line,) = [number for number, each in enumerate(text.splitlines(), 1) if each.endswith("# here")]
    place = Location("model.py", line, None, "f")
    return Site(GraphBreak("b1", None, gb_type, "split", place, [place]), text.replace("  # here", ""), line, known)


def proposed(source: str, gb_type: str = "", **values: Value) -> list[Proposal]:
    """What is proposed for a marked line. Dots in the names of values are written as `__`."""
    site = site_of(whole(source), gb_type, {name.replace("__", "."): each for name, each in values.items()})
    found = list(proposals(site))
    assert not [each for proposal in found for each in private_names_in(site.text, proposal)]
    return found


def rewritten(source: str, rewrite: str, gb_type: str = "", **values: Value) -> str:
    """The text that the rewriter of that name proposes first; "" if it proposes nothing."""
    return next((each.source for each in proposed(source, gb_type, **values) if each.rewrite == rewrite), "")


def changed(gb_type: str, body: str, known: dict[str, Value] = KNOWN) -> dict[str, str]:
    """What each rewriter makes of a function's body by source; its break is on the marked line."""
    head = f"import torch\ndef f({', '.join(each for each in known if each.isidentifier() and each != 'torch')}):\n"
    site = site_of(f"{head}{indent(lines(body), '    ')}\n", gb_type, known)
    found: dict[str, str] = {}
    for each in proposals(site):
        if each.settings:
            continue
        compile(each.source, "model.py", "exec")
        assert private_names_in(site.text, each) == []
        found.setdefault(each.rewrite, lines(each.source.removeprefix(head)))
    return found


def private_names_in(before: str, proposal: Proposal) -> list[str]:
    """The lines that a proposal adds with names in them that torch keeps for itself, or that only its compiler has."""
    known = {line.strip() for line in before.splitlines()}
    added = [line for line in proposal.source.splitlines() if line.strip() not in known]
    return [line for line in [*added, *map(str, proposal.settings)] if _PRIVATE.search(line)]


def lines(text: str) -> str:
    return dedent(text).strip("\n")


def whole(text: str) -> str:
    """A whole file as a test writes it."""
    return dedent(text).lstrip("\n")
