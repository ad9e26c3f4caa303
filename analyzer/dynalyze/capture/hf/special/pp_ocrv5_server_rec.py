"""Reads one line of text, 48 pixels high as its processor makes it."""

from __future__ import annotations

from dynalyze.capture.hf.inputs.made import Made
from dynalyze.capture.hf.special.pp_ocrv5_mobile_rec import line


def pixels(made: Made) -> None:
    line(made, height=48)
