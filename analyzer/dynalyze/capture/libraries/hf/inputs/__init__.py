"""Inputs for a model of any modality, from the signature of its forward and its configuration.

Each contributor looks at the model and adds what it knows, so that a model of several modalities gets the inputs of
each. They run in this order because text comes after everything that puts placeholders into it.
"""

from __future__ import annotations

from typing import Any

from dynalyze.capture.inputs import Inputs
from dynalyze.capture.libraries.building import CannotBuild, ModelRequest
from dynalyze.capture.libraries.hf import quirks
from dynalyze.capture.libraries.hf.inputs import audio, series, text, vision
from dynalyze.capture.libraries.hf.inputs.input_builder import InputBuilder


def make_inputs(model: Any, request: ModelRequest) -> Inputs:
    """One call's as a user would send them, the same for the same seed. Raises CannotBuild with stage "inputs"."""
    try:
        builder = InputBuilder(model, request)
        for add in (vision.add, text.add_placeholders, audio.add, series.add, text.add, text.add_labels):
            add(builder)
        # A generator of its own, so that what a quirk draws does not depend on what was drawn before.
        changed = InputBuilder(model, request, builder.inputs)
        quirks.changes_inputs.apply(model.config, changed)
        return Inputs((), changed.inputs)
    except CannotBuild:
        raise
    except Exception as error:
        raise CannotBuild("inputs", f"{type(error).__name__}: {error}") from error
