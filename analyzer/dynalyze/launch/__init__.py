"""Starting, watching and ending the process of a target.

`run.py` is the entrance: `run(command, ...)` starts the target below a small supervisor (`supervisor.py`, a
script of its own), passes the target's output on (`streams.py`) and comes back with how it ended.
"""
