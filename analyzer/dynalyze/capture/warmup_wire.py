"""What the warm-up check and its child agree on. Standard library only."""

from __future__ import annotations

REQUEST_FILE = "warmup.json"
# The passes: every shape in the order of the warm-up; all again in another order, as requests come; and a last one that
# looks at what runs.
WARM_UP = "warm_up"
SERVING = "serving"
LOOK = "look"
