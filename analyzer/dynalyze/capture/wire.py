"""What the child and the parent agree on: names of files and events, passes of the warm-up. Standard library only."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

# On PYTHONPATH it has each process of the target listen.
BOOT_FOLDER = str(Path(__file__).resolve().parent / "boot")
REQUEST_FILE = "request.json"
# Its presence asks for the bytecode that Dynamo makes of each frame.
BYTECODE_FILE = "bytecode"
EVENTS_FOLDER = "events"
TEXTS_FOLDER = "texts"
# Logs of torch's own, from descendants that could not be given the listener.
TRACE_FOLDER = "trace"
TRACE_VARIABLE = "TORCH_TRACE"
# Inductor's own switch (torch 2.9 and later), read when it is imported: 1 tracks nodes and stacks.
TRACKING_VARIABLE = "INDUCTOR_PROVENANCE"
RUN_VARIABLE = "DYNALYZE_RUN"
# What a forked child prints: it has no pipe to the parent.
OUTPUT_FILE = "output.txt"

# Longest text kept inside an event line; longer ones go to a side file or are cut.
INLINE_TEXT = 20_000

# The passes of the warm-up check: every shape in the order of the warm-up; all again in another order, as requests
# come; and a last one that looks at what runs.
WARM_UP = "warm_up"
SERVING = "serving"
LOOK = "look"

# What could have been compiled, and why it was not; see report.Candidate.
CandidateKind = Literal["module", "method", "function"]
CandidateReason = Literal[
    "no_parameters", "backward", "worker", "torchscript", "part_of_compiled", "not_chosen", "raised", "too_many",
    "method", "function", "constructor", "",
]  # fmt: skip
