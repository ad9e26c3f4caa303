"""What a drawing is made of. Coordinates are CSS pixels; `kind` is a class of the style sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dynalyze.text.visible import visible

_LABEL_CHARACTERS = 20


@dataclass(frozen=True)
class Rect:
    """`anchor`: what it leads to on the page, "" for nothing."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str = ""
    anchor: str = ""
    tag: str = "rect"


@dataclass(frozen=True)
class Path:
    kind: str
    d: str
    title: str = ""
    tag: str = "path"


@dataclass(frozen=True)
class Label:
    """`anchor`: which end of the text stands at `x`."""

    kind: str
    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    tag: str = "text"


Shape = Rect | Path | Label


@dataclass(frozen=True)
class Key:
    """An entry of a legend."""

    kind: str
    words: str


@dataclass(frozen=True)
class Plot:
    """A drawing, painted in the order of `shapes`; `description` is what it shows, in words."""

    identity: str
    title: str
    description: str
    width: int
    height: float
    shapes: list[Shape]
    legend: list[Key]
    note: str = ""

    @property
    def leads(self) -> bool:
        """Whether parts of it are links."""
        return any(isinstance(shape, Rect) and shape.anchor for shape in self.shapes)


def label_of(name: str) -> str:
    """A name that fits beside a drawing."""
    line = " ".join(visible(name).split())
    return line if len(line) <= _LABEL_CHARACTERS else f"{line[: _LABEL_CHARACTERS - 1]}…"


def px(value: float) -> str:
    """A coordinate inside a path, as short as a tenth of a pixel allows."""
    return f"{value:.1f}".removesuffix(".0")
