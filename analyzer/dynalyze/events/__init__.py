"""Reads back the events that a child emitted; a TORCH_TRACE log becomes the same ones."""
