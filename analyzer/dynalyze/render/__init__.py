"""Renderers: each turns a `Report` into text, and knows nothing but the report."""
