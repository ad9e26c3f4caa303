"""Proves changes of source and settings in the user's interpreter: the same live objects, run with either code."""

RETURNED = "return"
"""In the place of an expression to look at: what the function returned, in the frame that ran its line first."""
ARGUMENT = "argument "
"""Before the name of an argument, in the place of an expression: what the function was given, whatever it is by now."""
