"""Imports what every architecture needs, so that a fork server does it once."""

from __future__ import annotations

import contextlib
import importlib

from dynalyze.capture.hf import quirks

# Transformers imports these with the first model of a process; the last two only with composite and with remote ones.
_SHARED = (
    "torch._dynamo",
    "transformers",
    "transformers.models",
    "transformers.modeling_utils",
    "transformers.modeling_layers",
    "transformers.masking_utils",
    "transformers.generation",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.configuration_auto",
    "transformers.dynamic_module_utils",
)


def preload() -> None:
    """Import the shared modules that this version of transformers has; runs no operation on a tensor."""
    for name in _SHARED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("dynalyze.capture.hf.build")
    quirks.load()
