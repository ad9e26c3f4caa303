"""Compares two reports, or two sweeps: what a change fixed, what it broke, and what it left alone."""
