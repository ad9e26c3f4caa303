"""Numbers that a model keeps in Python from call to call, for which there is no change that holds."""

from __future__ import annotations

import libcst as cst

from dynalyze.fix.rewriting.purity import names_of
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import NoSite, Site, walk


def kept_in_python(site: Site) -> str:
    """Why nothing can end a break that reads a number: compiled code is made for one value of what keeps it. "" where
    nothing does.
    """
    if not site.broken.gb_type.startswith(READS):
        return ""
    try:
        read = _names_read(site)
    except NoSite:
        return ""
    for node in walk(site.function.body):
        if isinstance(node, cst.Call) and called(node) == "append" and isinstance(node.func, cst.Attribute):
            kept = node.func.value
            if isinstance(kept, cst.Attribute) and any(_holds(site, each.value, read) for each in node.args):
                return (
                    f"`{site.code(kept)}` gets a number of Python in each call: compiled code is made for one length "
                    "of it, and made anew at each call. Return the tensor, and keep it where the model is called"
                )
        target = node.target if isinstance(node, cst.AugAssign) else None
        if isinstance(node, cst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
        if not isinstance(target, cst.Attribute) or not isinstance(node, cst.Assign | cst.AugAssign):
            continue
        state = site.code(target)
        if _holds(site, node.value, read) and (isinstance(node, cst.AugAssign) or _is_read(site, target)):
            return (
                f"`{state}` is a number of Python that each call reads and changes: compiled code is made for one "
                f"value of it, and made anew at each call. Keep it in a buffer, as a tensor: "
                f'`self.register_buffer("{target.attr.value}", torch.zeros(()))`'
            )
    return ""


def _names_read(site: Site) -> set[str]:
    """The variables that hold what the statement reads, or what is computed from it by Python."""
    statement = site.statement
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    found = {each.target.value for small in statement.body if isinstance(small, cst.Assign)
             for each in small.targets if isinstance(each.target, cst.Name)}  # fmt: skip
    return {name for name in found if site.value(cst.Name(name)) is None or not site.is_tensor(cst.Name(name))}


def _holds(site: Site, value: cst.CSTNode, read: set[str]) -> bool:
    """Whether an expression is on the line that breaks and reads a number, or computes with what it read."""
    here = site.range_of(value)[0] <= site.line <= site.range_of(value)[2]
    calls = {called(each) for each in walk(value) if isinstance(each, cst.Call)}
    return bool((here and calls & {"item", "float", "int", "tolist"}) or names_of(value) & read)


def _is_read(site: Site, target: cst.Attribute) -> bool:
    code = site.code(target)
    return any(
        isinstance(each, cst.Attribute) and each is not target and site.code(each) == code
        and not isinstance(site.parents[each], cst.AssignTarget)
        for each in walk(site.function.body)
    )  # fmt: skip
