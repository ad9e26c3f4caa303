"""Builds any architecture of the installed transformers with inputs for its modality. Runs in the child."""

from dynalyze.capture.libraries import LibraryFacts
from dynalyze.capture.settings import MODEL_OPTIONS, PHASES

FACTS = LibraryFacts(
    package="transformers",
    models="a class of transformers (hf:LlamaModel), a local folder or a hub id",
    example="hf:LlamaModel",
    options=frozenset(MODEL_OPTIONS) - {"features", "size", "steps", "lora"},
    phases=PHASES,
    shapes=("batch", "sequence"),
)
