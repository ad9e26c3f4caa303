"""Proves changes of source and settings in the user's interpreter: the same live objects, run with either code."""

from __future__ import annotations

import ast

RETURNED = "return"
"""In the place of an expression to look at: what the function returned, in the frame that ran its line first."""
ARGUMENT = "argument "
"""Before the name of an argument, in the place of an expression: what the function was given, whatever it is by now."""


def registers(statement: ast.stmt) -> bool:
    """Whether a statement at the top of a file does nothing but give an operator its gradient."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "register_autograd"
