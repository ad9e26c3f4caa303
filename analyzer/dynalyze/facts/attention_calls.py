"""Where a run computes attention, on what, and by which kernel: read from the texts of its graphs.

The calls stand in Dynamo's graphs, the kernels in those of ATen.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from dynalyze.facts.graph_text import Comment, Signature, TensorText, read_tensor, statements
from dynalyze.facts.graphs import CompileTexts, Text
from dynalyze.facts.stacks import Places
from dynalyze.report import Compilation, Graph, LineKey, Location
from dynalyze.report.models import AttentionBackend, AttentionCall, AttentionInput, AttentionOp

_NOWHERE: LineKey = ("", 0)
FUSED: dict[str, AttentionBackend] = {
    "_scaled_dot_product_flash_attention_for_cpu": "cpu_flash", "_scaled_dot_product_flash_attention": "flash",
    "_scaled_dot_product_efficient_attention": "efficient", "_scaled_dot_product_cudnn_attention": "cudnn",
    "_scaled_dot_product_fused_attention_overrideable": "overrideable", "_scaled_dot_product_attention_math": "math",
    "_scaled_dot_product_attention_math_for_mps": "math", "_flash_attention_forward": "flash",
    "_efficient_attention_forward": "efficient", "_cudnn_attention_forward": "cudnn",
}  # fmt: skip
"""ATen's operators that compute the whole of attention."""

_PYTORCHS: dict[str, AttentionOp] = {"scaled_dot_product_attention": "sdpa", "flex_attention": "flex_attention"}
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


@dataclass
class GraphCall:
    """A call as it stands in a graph. `annotations` are torch's, of every name that was known there."""

    name: str
    op: str
    origin: Location | None
    positional: list[str]
    named: dict[str, str]
    annotations: dict[str, str]

    def argument(self, position: int, keyword: str) -> str:
        """The argument as it is written; "" where it was left out."""
        if keyword in self.named:
            return self.named[keyword]
        return self.positional[position] if position < len(self.positional) else ""

    @property
    def at(self) -> LineKey:
        """Its line; torch gives none to the nodes of some graphs."""
        return self.origin.at if self.origin is not None else _NOWHERE

    def annotation(self, position: int, keyword: str) -> str:
        """torch's annotation of an argument that is a tensor."""
        return self.annotations.get(self.argument(position, keyword), "")


class Traced(NamedTuple):
    """Attention in Dynamo's graph. `mask_made`: a block mask is made there too."""

    calls: list[tuple[AttentionOp, GraphCall]]
    mask_made: bool


@dataclass
class Lowered:
    """Attention in an ATen graph: what computes it, in order, by the line that it came from.

    A softmax that belongs to no kernel of attention counts as `math`: the caller knows whether that line asked for
    attention.
    """

    kernels: list[tuple[AttentionBackend, GraphCall]] = field(default_factory=list)
    at: dict[LineKey, list[AttentionBackend]] = field(default_factory=dict)


def mentions_attention(text: str) -> bool:
    """A quick look at a text, before it is read."""
    return _NAMED.search(text) is not None


def traced(text: str) -> Traced:
    """The calls of attention in a Dynamo graph."""
    written, mask_made = _read(text)
    calls = [(op, each) for each in written if (op := _asked(each.op)) is not None]
    return Traced(calls, mask_made)


def lowered(*texts: str) -> Lowered:
    """What an ATen graph computes attention with, all of its parts together."""
    found = Lowered()
    for written in chain.from_iterable(_read(text)[0] for text in texts):
        library, _, name = written.op.rpartition(".")
        if written.op in _SOFTMAX:
            found.at.setdefault(written.at, []).append("math")
        elif written.op == "higher_order.flex_attention" or (library == "aten" and name in FUSED):
            backend = FUSED.get(name, "flex")
            found.kernels.append((backend, written))
            found.at.setdefault(written.at, []).append(backend)
    return found


def _asked(op: str) -> AttentionOp | None:
    """Which attention an operation of a Dynamo graph is."""
    library, _, name = op.rpartition(".")
    if _NO_FORWARD.search(name):
        return None
    if name in _PYTORCHS:
        return _PYTORCHS[name]
    if library in _OWN_LIBRARIES or not library:
        return "other" if name in FUSED or name == "multi_head_attention_forward" else None
    if _AROUND.search(name):
        return None
    return "flash_attn" if _FLASH.search(op) else "other" if _NAMED.search(op) else None


def _read(text: str) -> tuple[list[GraphCall], bool]:
    """The operations that may be attention, or a piece of it, and whether a block mask is made among them."""
    found: list[GraphCall] = []
    annotations: dict[str, str] = {}
    origin: Location | None = None
    mask_made = False
    for statement in statements(text):
        if isinstance(statement, Signature):
            annotations, origin = dict(statement.inputs), None
        elif isinstance(statement, Comment):
            origin = statement.origin
            if origin is not None and origin.function in _MAKES_BLOCK_MASK:
                mask_made |= origin.file.replace("\\", "/").endswith("/flex_attention.py")
        else:
            # `l_x_ = L_x_` has the annotation of the other name.
            if known := statement.annotation or annotations.get(statement.expression, ""):
                annotations[statement.name] = known
            if (op := statement.op) in _SOFTMAX or _NAMED.search(op):
                positional, named = _arguments(statement.expression)
                found.append(GraphCall(statement.name, op, origin, positional, named, annotations))
            elif origin is not None:
                # What Inductor puts in the place of hand-written attention has no line, but the use of its result has.
                for written in found[-2:]:
                    if written.origin is None and statement.expression.startswith(f"{written.name}["):
                        written.origin = origin
    return found, mask_made


def _arguments(expression: str) -> tuple[list[str], dict[str, str]]:
    """The arguments of a call as they are written, positional ones and keywords."""
    positional: list[str] = []
    named: dict[str, str] = {}
    inside = expression[expression.find("(") + 1 : expression.rfind(")")]
    for part in _parts(inside):
        if (keyword := _KEYWORD.match(part)) is not None:
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


def attention(
    read: Callable[[str], str], texts: list[CompileTexts], graphs: list[Graph], compiled: list[Compilation],
    places: Places,
) -> list[AttentionCall]:  # fmt: skip
    """Every place in a graph where attention is computed; alike ones of a graph are one record.

    Args:
        read: gives the text behind a reference.
        texts, graphs: of the same compiles, in the same order.
    """
    failed = {c.key for c in compiled if c.status == "failed"}
    found: list[AttentionCall] = []
    for own, graph in zip(texts, graphs, strict=True):
        found += _Graph(graph, own, read, places, failed=own.key in failed).calls()
    for number, call in enumerate(found, 1):
        call.id = f"a{number}"
    return found


class _Graph:
    """The attention of one graph, from its texts at each stage."""

    def __init__(
        self, graph: Graph, texts: CompileTexts, read: Callable[[str], str], places: Places, *, failed: bool
    ) -> None:
        self._graph = graph
        self._places = places
        self._failed = failed
        dynamo = "".join(read(text.reference) for text in texts.texts if text.stage == "dynamo")
        self._traced = traced(dynamo if mentions_attention(dynamo) else "")
        self._by_inductor = any(text.stage == "post_grad" for text in texts.texts)
        self._lowered = self._lowest([text for text in texts.texts if text.direction != "backward"], read)

    def calls(self) -> list[AttentionCall]:
        """The records, without ids."""
        asked = Counter[LineKey]()
        records = []
        for op, written in self._traced.calls:
            records.append(self._record(op, written, self._backend(op, written.at, asked[written.at])))
            asked[written.at] += 1
        if self._by_inductor and not self._failed:
            # Kernels of attention at lines that asked for none: Inductor knows some hand-written forms of it.
            records += [
                self._record("other", written, backend)
                for backend, written in self._lowered.kernels
                if backend != "flex" and written.at not in asked
            ]
        return _merged(records)

    def _lowest(self, texts: list[Text], read: Callable[[str], str]) -> Lowered:
        """What the last stage says that still shows attention: Inductor replaces some of it, both ways."""
        found = self._at_stages(texts, read, "post_grad")
        if "math" in found.at.get(_NOWHERE, ()):
            # Inductor's own softmax for GPUs stands at no line; that in whose place it stands does, a stage before.
            for at, computed in self._at_stages(texts, read, "forward", "inference").at.items():
                found.at.setdefault(at, computed)
        return found if found.at or found.kernels else self._at_stages(texts, read, "forward", "inference")

    def _at_stages(self, texts: list[Text], read: Callable[[str], str], *names: str) -> Lowered:
        codes = [read(text.reference) for text in texts if text.stage in names]
        return lowered(*(code for code in codes if self._traced.calls or mentions_attention(code)))

    def _backend(self, op: AttentionOp, at: LineKey, number: int) -> AttentionBackend:
        if op == "flash_attn":
            return "external"
        if self._failed:
            return ""
        computed = self._lowered.at.get(at, [])
        if op == "flex_attention":
            # Outside of Inductor the operator runs as it stands, by way of the whole matrix of scores.
            return "" if not computed else "flex" if self._by_inductor else "math"
        if len(set(computed)) <= 1:
            return computed[0] if computed else ""
        calls = sum(1 for _, each in self._traced.calls if each.at == at)
        return computed[number] if len(computed) == calls else ""

    def _record(self, op: AttentionOp, written: GraphCall, backend: AttentionBackend) -> AttentionCall:
        place = self._place(written)
        names = ("query", "key", "value", *(("attn_mask",) if op == "sdpa" else ()))
        tensors = {name: read_tensor(written.annotation(at, name)) for at, name in enumerate(names)}
        query = tensors["query"]
        return AttentionCall(
            "", self._graph.id, op, backend, place.file, place.line, place.function,
            query=_input(query), key=_input(tensors["key"]), value=_input(tensors["value"]),
            mask=_input(tensors.get("attn_mask")),
            causal=_causal(op, written),
            device=query.device if query else "",
            name=written.op if op == "other" else "",
            dropout=_dropout(op, written),
            mask_made=op == "flex_attention" and self._traced.mask_made,
        )  # fmt: skip

    def _place(self, written: GraphCall) -> Location:
        """The line that called it; the compiled function where torch tells only a line of its own."""
        origin = written.origin
        if self._graph.location is not None and (origin is None or self._places.is_torch(origin.file)):
            return self._graph.location
        return origin or Location("", 0)


def _input(tensor: TensorText | None) -> AttentionInput | None:
    return AttentionInput(tensor.dtype, tensor.shape, tensor.stride) if tensor else None


def _causal(op: AttentionOp, written: GraphCall) -> bool | None:
    if op == "sdpa":
        return {"": False, "True": True, "False": False}.get(written.argument(5, "is_causal"))
    if op == "flash_attn":
        # Its first flag says so, in each of the operators and versions of flash-attn 2.
        flags = [each for each in (*written.positional, written.named.get("causal", "")) if each in ("True", "False")]
        return flags[0] == "True" if flags else None
    return None


def _dropout(op: AttentionOp, written: GraphCall) -> float | None:
    with contextlib.suppress(ValueError):
        return float(written.argument(4, "dropout_p") or 0.0) if op == "sdpa" else None
    return None


def _merged(calls: list[AttentionCall]) -> list[AttentionCall]:
    """Alike ones counted, in the order of the first of each."""
    found: dict[object, AttentionCall] = {}
    for call in calls:
        inputs = (call.query, call.key, call.value, call.mask)
        shapes = tuple((i.dtype, tuple(i.shape), tuple(i.stride)) if i else None for i in inputs)
        alike = (call.op, call.name, call.backend, call.file, call.line, call.causal, call.device, call.dropout, shapes)
        known = found.setdefault(alike, call)
        if known is not call:
            known.count += 1
    return list(found.values())
