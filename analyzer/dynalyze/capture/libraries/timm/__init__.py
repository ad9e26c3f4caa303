"""Builds any model of the installed timm, with images for it. Runs in the child."""

from dynalyze.capture.libraries import LibraryFacts

FACTS = LibraryFacts(
    package="timm",
    models="one of timm.list_models() (timm:resnet50)",
    example="timm:resnet50",
    options=frozenset({"full_size", "weights", "init", "features", "size", "batch", "phase", "cold"}),
)
