"""dynalyze explains what torch.compile did to a model.

This module stays empty of imports: the child process loads it beside the user's program.
"""

__version__ = "0.1.0"
