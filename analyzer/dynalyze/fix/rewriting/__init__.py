"""Source changes that may end a graph break: one module a family, each a function under `@rewriter`.

A rewriter reads the site of a break and yields proposals, the best first. It looks at the syntax tree and at the values
of expressions when the program ran, never at the text of a line. Every proposal is verified by running it, so a
rewriter may be bold where running shows a difference. It must be careful where no call of the program does: exceptions,
effects of arguments, a side that is never taken.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import libcst as cst

from dynalyze.fix.sites import NoSite, Proposal, Site

Rewrite = Callable[[Site], Iterator[Proposal]]


@dataclass(frozen=True)
class Rewriter:
    """Proposes changes for breaks of some types, or of all without `gb_types`. Lower `rank` comes first."""

    name: str
    rewrite: Rewrite
    gb_types: tuple[str, ...]
    rank: int


_REWRITERS: list[Rewriter] = []


def rewriter(name: str, *gb_types: str, rank: int = 50) -> Callable[[Rewrite], Rewrite]:
    """Make a function a rewriter. `gb_types` are PyTorch's own texts, or their beginnings."""

    def register(rewrite: Rewrite) -> Rewrite:
        _REWRITERS.append(Rewriter(name, rewrite, gb_types, rank))
        return rewrite

    return register


@cache
def rewriters() -> tuple[Rewriter, ...]:
    """All rewriters, in the order in which they are asked."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return tuple(sorted(_REWRITERS, key=lambda each: (each.rank, each.name)))


def proposals(site: Site) -> Iterator[Proposal]:
    """The proposals of all rewriters for a break, each once."""
    seen = {(site.text, "{}")}
    for each in rewriters():
        if each.gb_types and not site.broken.gb_type.startswith(each.gb_types):
            continue
        try:
            for proposal in each.rewrite(site):
                proposal.rewrite = proposal.rewrite or each.name
                proposal.file = proposal.file or site.broken.location.file
                if (key := (proposal.source, str(proposal.settings))) not in seen:
                    seen.add(key)
                    yield proposal
        except (NoSite, cst.ParserSyntaxError, cst.CSTValidationError):
            continue  # What was put together is no Python: nothing is lost but this proposal.
        except Exception as error:  # A fault of ours must not cost what others find.
            fault = f"{type(error).__name__}: {error}"
            yield Proposal(f"What `{each.name}` would propose", rewrite=each.name, fault=fault)
