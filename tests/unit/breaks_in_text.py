"""Graph breaks in a text, for rewriters to look at: no program runs."""

from __future__ import annotations

import textwrap

from rewriting_cases import private_names_in

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Proposal, Site, Value
from dynalyze.report import GraphBreak, Location

TENSOR = Value("tensor", "Tensor", "float32", 2)
FILE = "program.py"


def function(name: str) -> Value:
    """A function of that module and name."""
    return Value("function", name)


def proposed(source: str, gb_type: str = "", **values: Value) -> list[Proposal]:
    """What is proposed for the line that ends with `# here`. Dots in the names of values are written as `__`."""
    text = textwrap.dedent(source).lstrip("\n")
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "# here" in each)
    place = Location(FILE, line)
    broken = GraphBreak(id="b1", gb_id=None, gb_type=gb_type, effect="split", location=place, stack=[place])
    found = list(proposals(Site(broken, text, line, {name.replace("__", "."): each for name, each in values.items()})))
    assert not [each for proposal in found for each in private_names_in(text, proposal)]
    return found


def rewritten(source: str, rewrite: str, gb_type: str = "", **values: Value) -> str:
    """The text that the rewriter of that name proposes first, without the mark; "" where it proposes nothing."""
    found = [each for each in proposed(source, gb_type, **values) if each.rewrite == rewrite]
    return found[0].source.replace("  # here", "") if found else ""


def lines(text: str) -> str:
    """A text as a test writes it, as `rewritten` gives it."""
    return textwrap.dedent(text).lstrip("\n")
