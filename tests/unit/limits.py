"""The limit of every wait in the tests: it ends what hangs, and is never reached because a machine is busy."""

WALL_SECONDS = 600.0
