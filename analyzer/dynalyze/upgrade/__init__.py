"""A target run under two interpreters, measured in turns, and what is not the same."""
