"""Diagnoses: from the facts of a run to findings, and the cookbook of graph-break fixes."""
