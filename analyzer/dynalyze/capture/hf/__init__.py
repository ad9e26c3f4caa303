"""Builds any architecture of the installed transformers with inputs for its modality. Runs in the child."""
