"""Finds attention in the Python that torch prints for a graph: the calls in Dynamo's, the kernels in ATen's."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from dynalyze.facts.graph_text import Assignment, Comment, Origin, Signature, statements
from dynalyze.report.models import AttentionBackend, AttentionOp

Place = tuple[str, int]
NOWHERE: Place = ("", 0)
FUSED: dict[str, AttentionBackend] = {
    "_scaled_dot_product_flash_attention_for_cpu": "cpu_flash",
    "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient",
    "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "overrideable",
    "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_attention_math_for_mps": "math",
    "_flash_attention_forward": "flash",
    "_efficient_attention_forward": "efficient",
    "_cudnn_attention_forward": "cudnn",
}
"""ATen's operators that compute the whole of attention."""

# Of the pieces that attention falls into, the one that each call leaves exactly once.
_SOFTMAX = ("aten._safe_softmax", "aten._softmax", "aten.amax", "prims.prepare_softmax_online")
_MAKES_BLOCK_MASK = ("create_mask", "_convert_mask_to_block_mask", "create_block_mask")
_NAMED = re.compile(r"attention|attn", re.IGNORECASE)
_FLASH = re.compile(r"flash_?attn|flash_attention", re.IGNORECASE)
_NO_FORWARD = re.compile(r"backward|bwd", re.IGNORECASE)
# What a library does for attention, beside it.
_AROUND = re.compile(r"mask|bias|cache|rotary|rope|norm|metadata", re.IGNORECASE)
_OWN_LIBRARIES = ("aten", "prims", "higher_order", "prim", "quantized")
_OPENING, _CLOSING = "([{", ")]}"
_KEYWORD = re.compile(r"(\w+) = (.*)", re.DOTALL)
_NAME = re.compile(r"\w+$")


@dataclass
class Written:
    """A call as it stands in a graph. `annotations` are torch's, of every name that was known there."""

    name: str
    op: str
    origin: Origin | None
    positional: list[str]
    named: dict[str, str]
    annotations: dict[str, str]

    def argument(self, position: int, keyword: str) -> str:
        """The argument as it is written; "" where it was left out."""
        if keyword in self.named:
            return self.named[keyword]
        return self.positional[position] if position < len(self.positional) else ""

    @property
    def at(self) -> Place:
        """Its line; torch gives none to the nodes of some graphs."""
        return self.origin.at if self.origin is not None else NOWHERE

    def annotation(self, position: int, keyword: str) -> str:
        """torch's annotation of an argument that is a tensor."""
        return self.annotations.get(self.argument(position, keyword), "")


@dataclass
class Traced:
    """Attention in Dynamo's graph. `mask_made`: a block mask is made there too."""

    calls: list[tuple[AttentionOp, Written]] = field(default_factory=list)
    mask_made: bool = False


@dataclass
class Lowered:
    """Attention in an ATen graph: what computes it, in order, by the line that it came from.

    A softmax that belongs to no kernel of attention counts as `math`: the caller knows whether that line asked for
    attention.
    """

    kernels: list[tuple[AttentionBackend, Written]] = field(default_factory=list)
    at: dict[Place, list[AttentionBackend]] = field(default_factory=dict)

    def add(self, backend: AttentionBackend, place: Place) -> None:
        self.at.setdefault(place, []).append(backend)

    def take(self, other: Lowered) -> None:
        """Add what another part of the same graph holds."""
        self.kernels += other.kernels
        for at, backends in other.at.items():
            self.at.setdefault(at, []).extend(backends)


def mentions_attention(text: str) -> bool:
    """A quick look at a text, before it is read."""
    return _NAMED.search(text) is not None


def traced(text: str) -> Traced:
    """The calls of attention in a Dynamo graph."""
    written, mask_made = _read(text)
    calls = [(op, each) for each in written if (op := _asked(each.op)) is not None]
    return Traced(calls, mask_made)


def lowered(text: str) -> Lowered:
    """What an ATen graph computes attention with."""
    found = Lowered()
    for written in _read(text)[0]:
        if written.op in _SOFTMAX:
            found.add("math", written.at)
        elif (backend := _backend(written.op)) is not None:
            found.kernels.append((backend, written))
            found.add(backend, written.at)
    return found


def _asked(op: str) -> AttentionOp | None:
    """Which attention an operation of a Dynamo graph is."""
    library, _, name = op.rpartition(".")
    if _NO_FORWARD.search(name):
        return None
    if name == "scaled_dot_product_attention":
        return "sdpa"
    if name == "flex_attention":
        return "flex_attention"
    if library in _OWN_LIBRARIES or not library:
        return "other" if name in FUSED or name == "multi_head_attention_forward" else None
    if _AROUND.search(name):
        return None
    return "flash_attn" if _FLASH.search(op) else "other" if _NAMED.search(op) else None


def _backend(op: str) -> AttentionBackend | None:
    if op == "higher_order.flex_attention":
        return "flex"
    library, _, name = op.rpartition(".")
    return FUSED.get(name) if library == "aten" else None


def _read(text: str) -> tuple[list[Written], bool]:
    """The operations that may be attention, or a piece of it, and whether a block mask is made among them."""
    found: list[Written] = []
    annotations: dict[str, str] = {}
    origin: Origin | None = None
    mask_made = False
    for statement in statements(text):
        if isinstance(statement, Signature):
            annotations, origin = dict(statement.inputs), None
        elif isinstance(statement, Comment):
            origin = statement.origin
            mask_made = mask_made or _makes_mask(origin)
        else:
            _note(annotations, statement)
            if (op := statement.op) in _SOFTMAX or _NAMED.search(op):
                positional, named = _arguments(statement.expression)
                found.append(Written(statement.name, op, origin, positional, named, annotations))
            elif found and origin is not None:
                _claim(found, statement, origin)
    return found, mask_made


def _note(annotations: dict[str, str], line: Assignment) -> None:
    """Remember the annotation of a name; `l_x_ = L_x_` has that of the other name."""
    known = line.annotation
    if not known and _NAME.match(line.expression):
        known = annotations.get(line.expression, "")
    if known:
        annotations[line.name] = known


def _claim(found: list[Written], line: Assignment, origin: Origin) -> None:
    """What Inductor puts in the place of hand-written attention has no line, but the use of its result has."""
    for written in found[-2:]:
        if written.origin is None and line.expression.startswith(f"{written.name}["):
            written.origin = origin


def _makes_mask(origin: Origin | None) -> bool:
    if origin is None or origin.function not in _MAKES_BLOCK_MASK:
        return False
    return origin.file.replace("\\", "/").endswith("/flex_attention.py")


def _arguments(expression: str) -> tuple[list[str], dict[str, str]]:
    """The arguments of a call as they are written, positional ones and keywords."""
    positional: list[str] = []
    named: dict[str, str] = {}
    inside = expression[expression.find("(") + 1 : expression.rfind(")")]
    for part in _parts(inside):
        keyword = _KEYWORD.match(part)
        if keyword is not None:
            named[keyword[1]] = keyword[2].strip()
        elif part:
            positional.append(part)
    return positional, named


def _parts(text: str) -> list[str]:
    """A text cut at its outermost commas."""
    parts, depth, start, quote = [], 0, 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
