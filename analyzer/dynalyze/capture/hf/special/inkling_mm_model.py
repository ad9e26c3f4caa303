"""Inkling: its images are those of its vision part, its sounds those of its audio part."""

from dynalyze.capture.hf.special.inkling_audio import sounds as sounds
from dynalyze.capture.hf.special.inkling_vision import pixels as pixels
