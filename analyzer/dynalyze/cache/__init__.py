"""Cold starts: a target run with a cache folder of its own, again with what that left, and elsewhere."""
