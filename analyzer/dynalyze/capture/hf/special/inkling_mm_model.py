"""Inkling: its images are those of its vision part."""

from dynalyze.capture.hf.special.inkling_vision import pixels as pixels
