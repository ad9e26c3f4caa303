"""Many targets at once: the items of a sweep, the workers that run them, and what becomes of their results."""
