"""What a break hides: lines behind it, which nobody traced, that will break in their turn."""

from __future__ import annotations

import ast

from dynalyze.capture.events import Frame
from dynalyze.facts.sources import Sources

_READS = ("item", "tolist", "numpy", "nonzero", "any", "all")
"""Methods of tensors that read values: the last two break where they decide."""
_DECIDES = ("any", "all")


def looks(sources: Sources, frame: Frame) -> list[int]:
    """The lines of a function, after the one that a frame is at, that read values of tensors, decide by them, or print.

    A method is taken for a tensor's by its name, so that they are likely to break, not certain.
    """
    found = dict[int, None]()
    for statement in sources.after(frame.file, frame.line):
        for node in ast.walk(statement):
            if isinstance(node, ast.If | ast.While | ast.IfExp):
                decided = [each for each in ast.walk(node.test) if _method(each) in _DECIDES]
                found.update((each.lineno, None) for each in decided if isinstance(each, ast.expr))
            reads = _method(node) in _READS and _method(node) not in _DECIDES
            prints = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            if isinstance(node, ast.expr) and (reads or prints):
                found[node.lineno] = None
    return sorted(found)


def _method(node: ast.AST) -> str:
    """`any` for `x.any()`, `torch.isnan(x).any()`."""
    return node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
