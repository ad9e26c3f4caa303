"""Layers that are left out by chance (LayerDrop, stochastic depth): computed always, and chosen by a random number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.choices import after, choice_of
from dynalyze.fix.rewriting.conditions import import_of_torch, tensor_condition, torch_name
from dynalyze.fix.rewriting.purity import fresh_name, names_of, pure
from dynalyze.fix.sites import Proposal, Site, Value, replaced, statements_of, walk

_OTHER = "it draws random numbers of torch, not of Python: other layers are left out, so nothing can be compared"


@rewriter("dropped-layer", "Attempted to call function marked as skipped", "Data-dependent", rank=25)
def choose_by_chance(site: Site) -> Iterator[Proposal]:
    """`if self.training and random.random() < p: continue`, `x = layer(x)`: the layer always, and torch.where."""
    branch, torch = site.statement, torch_name(site)
    if not isinstance(branch, cst.If) or branch.orelse is not None:
        return
    drawn = [each for each in walk(branch.test) if site.code(each) in ("random.random()", "random()")]
    choice = choice_of(site, branch, after(site, branch))
    if len(drawn) != 1 or choice is None or len(choice.names) != 1 or not choice.rest:
        return
    test = replaced(branch.test, {drawn[0]: cst.parse_expression(f"{torch}.rand(())")})
    known = {**site.values, f"{torch}.rand": Value("function", "torch.rand")}
    condition = tensor_condition(replace(site, values=known), test)
    if condition is None or not all(map(pure, choice.when_false)):
        return
    (name,) = choice.names
    before = fresh_name(f"{name}_before", names_of(site.function))
    chosen = f"{name} = {torch}.where({condition.tensor}, {before}, {name})\n"
    if condition.static is not None:
        chosen = f"if {condition.static}:\n    {chosen}"
    new = [*statements_of(f"{before} = {name}\n"), *choice.when_false, *statements_of(chosen)]
    yield Proposal(
        "", f"Compute `{name}` always, and let a random number of torch's choose whether it is taken",
        site.with_statement(*new, also=site.following, top=import_of_torch(site)), uncompared=_OTHER,
    )  # fmt: skip
