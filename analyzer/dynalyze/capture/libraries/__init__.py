"""The libraries whose models are targets by name, `hf:NAME`, `timm:NAME`: a folder each, called like its prefix.

A folder's own module holds `FACTS`, which the parent reads too and which imports nothing. Its module `library` is a
`Library`, which the child alone imports.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from dynalyze.capture.environment import torch_missing
from dynalyze.capture.hooks import after_import
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.settings import Phase

if TYPE_CHECKING:
    from dynalyze.capture.libraries.building import Built, ModelRequest

PREFIXES = tuple(sorted(each.name for each in pkgutil.iter_modules(__path__) if each.ispkg))


@dataclass(frozen=True)
class LibraryFacts:
    """What is known of a library without importing it.

    `package` is its name for pip and for import. `models` says what a name names, `example` is one. Of the options for
    models it takes `options`, and `shapes` are the names of --shapes that size its inputs.
    """

    package: str
    models: str
    example: str
    options: frozenset[str]
    phases: tuple[Phase, ...] = ("forward", "train")
    shapes: tuple[str, ...] = ("batch",)


class Library(Protocol):
    """What a module `library` has."""

    def resolve(self, name: str) -> object:
        """Raises Misuse, with the nearest names, where the installed library has no such model."""

    def listed(self, pattern: str) -> list[str]:
        """The names that `all` or a glob stands for, sorted, without a network."""

    def build(self, request: ModelRequest) -> Built:
        """The model in its mode, dtype and place, with its calls. Raises Misuse where the request cannot be for it, and
        CannotBuild where it cannot be had.
        """

    def make_calls(self, model: Any, request: ModelRequest) -> list[Inputs]:
        """The calls of another request, of other sizes, to a model that was built."""

    def preload(self) -> None:
        """Import what every model needs, so that a fork server does it once; runs no operation on a tensor."""


def prefix_of(text: str) -> str:
    """The prefix of a target that names a model of a library, "" for other targets."""
    prefix, colon, _ = text.partition(":")
    return prefix if colon and prefix in PREFIXES else ""


def is_pattern(name: str) -> bool:
    """Whether a name, without its prefix, stands for many models, and for no folder that is called so."""
    return name == "all" or (any(mark in name for mark in "*?[") and not Path(name).exists())


def library_facts(prefix: str) -> LibraryFacts:
    return cast(LibraryFacts, importlib.import_module(f"{__name__}.{prefix}").FACTS)


@functools.cache
def library(prefix: str) -> Library:
    """Raises Misuse where this interpreter does not have the library, or has no torch."""
    package = library_facts(prefix).package
    if importlib.util.find_spec(package) is None:
        wanted = f"{prefix}: targets need {package}, which {sys.executable} does not have: pip install {package}"
        raise Misuse(torch_missing() or wanted)
    from dynalyze.capture.libraries.building import describe_operators

    after_import("torchvision.extension", describe_operators)
    return cast(Library, importlib.import_module(f"{__name__}.{prefix}.library"))
