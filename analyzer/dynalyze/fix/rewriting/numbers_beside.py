"""Numbers that a model reads out of an argument as a whole: given beside it, by the caller, who has them first."""

from __future__ import annotations

import math
from collections.abc import Iterator

import libcst as cst

from dynalyze.capture.numbers_of_python import MOST, SETTING
from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.computing import WHOLE, is_plain_tensor
from dynalyze.fix.rewriting.conditions import called
from dynalyze.fix.rewriting.signatures import taking
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, Proposal, Site, walk


@rewriter("numbers-beside", *READS, rank=60)
def take_numbers_beside(site: Site) -> Iterator[Proposal]:
    """`grid.tolist()` of an argument: `grid_numbers`, where the call of the model gives that as well. Whether it is the
    function that the program calls shows in the proof.
    """
    function = site.function
    names = [each.name.value for each in (*function.params.params, *function.params.kwonly_params)]
    used = {each.value for each in walk(function) if isinstance(each, cst.Name)}
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == "tolist"):
        of = call.func.value if isinstance(call.func, cst.Attribute) else None
        value = None if of is None else site.value(of)
        if not isinstance(of, cst.Name) or of.value not in names or value is None or not is_plain_tensor(value, WHOLE):
            continue
        numbers = f"{of.value}_numbers"
        if call.args or numbers in used or math.prod(value.sizes) > MOST:
            continue
        read = cst.parse_expression(f"{site.code(call)} if {numbers} is None else {numbers}")
        changes: Changes = {call: read, function.params: taking(function, [numbers])}
        yield Proposal(
            "", f"Give the model the numbers in `{of.value}` beside it, which compiles anew for other ones",
            site.with_nodes(changes), settings={SETTING: [f"{numbers}={of.value}"]}, last_resort=True,
        )  # fmt: skip
        return
