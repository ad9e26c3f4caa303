"""Proves changes of source and settings in the user's interpreter: the same live objects, run with either code."""

from __future__ import annotations
