"""Turns events into the facts of the report. Pure functions, no torch."""
