"""A drafting model with the inputs of its unified relative."""

from dynalyze.capture.hf.special.gemma4_unified_assistant import inputs as inputs
