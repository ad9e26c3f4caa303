"""Where a run computes attention, on what, and by which kernel: read from the texts of its graphs."""

from __future__ import annotations

from collections.abc import Callable

from dynalyze.facts.attention.text import Lowered, Place, Written, lowered, mentions_attention, traced
from dynalyze.facts.graph_text import TensorText, read_tensor
from dynalyze.facts.graphs import CompileTexts, Text
from dynalyze.facts.stacks import Places
from dynalyze.report import Compilation, Graph, Location
from dynalyze.report.models import AttentionBackend, AttentionCall, AttentionInput, AttentionOp

_Signature = tuple[object, ...]


def attention(
    read: Callable[[str], str], texts: list[CompileTexts], graphs: list[Graph], compiled: list[Compilation],
    places: Places,
) -> list[AttentionCall]:  # fmt: skip
    """Every place in a graph where attention is computed; alike ones of a graph are one record.

    Args:
        read: gives the text behind a reference.
        texts, graphs: of the same compiles, in the same order.
    """
    failed = {(c.process, c.epoch, c.compile_id) for c in compiled if c.status == "failed"}
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
        self._traced = traced(dynamo) if mentions_attention(dynamo) else traced("")
        self._by_inductor = any(text.stage == "post_grad" for text in texts.texts)
        self._lowered = self._lowest([text for text in texts.texts if text.direction != "backward"], read)

    def calls(self) -> list[AttentionCall]:
        """The records, without ids."""
        records = [
            self._record(op, written, backend)
            for (op, written), backend in zip(self._traced.calls, self._backends(), strict=True)
        ]
        return _merged([*records, *self._found_by_inductor()])

    def _lowest(self, texts: list[Text], read: Callable[[str], str]) -> Lowered:
        """What the last stage says that still shows attention: Inductor replaces some of it, both ways."""
        for stages in (("post_grad",), ("forward", "inference")):
            codes = [read(text.reference) for text in texts if text.stage in stages]
            found = Lowered()
            for code in codes:
                if self._traced.calls or mentions_attention(code):
                    found.take(lowered(code))
            if found.at or found.kernels:
                return found
        return Lowered()

    def _backends(self) -> list[AttentionBackend]:
        """What computes each call, in their order."""
        asked: dict[Place, int] = {}
        backends: list[AttentionBackend] = []
        for op, written in self._traced.calls:
            number = asked.get(written.at, 0)
            asked[written.at] = number + 1
            backends.append(self._backend(op, written.at, number))
        return backends

    def _backend(self, op: AttentionOp, at: Place, number: int) -> AttentionBackend:
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

    def _record(self, op: AttentionOp, written: Written, backend: AttentionBackend) -> AttentionCall:
        place = self._place(written)
        tensors = {name: read_tensor(written.annotation(at, name)) for at, name in enumerate(_NAMES)}
        if op == "sdpa":
            tensors["mask"] = read_tensor(written.annotation(3, "attn_mask"))
        query = tensors["query"]
        return AttentionCall(
            "", self._graph.id, op, backend, place.file, place.line, place.function,
            query=_input(query),
            key=_input(tensors["key"]),
            value=_input(tensors["value"]),
            mask=_input(tensors.get("mask")),
            causal=_causal(op, written),
            device=query.device if query else "",
            name=written.op if op == "other" else "",
            dropout=_dropout(op, written),
            mask_made=op == "flex_attention" and self._traced.mask_made,
        )  # fmt: skip

    def _place(self, written: Written) -> Location:
        """The line that called it; the compiled function where torch tells only a line of its own."""
        origin = written.origin
        if origin is not None and not self._places.is_torch(origin.file):
            return Location(origin.file, origin.line, function=origin.function)
        if self._graph.location is not None:
            return self._graph.location
        return Location(origin.file, origin.line, function=origin.function) if origin else Location("", 0)

    def _found_by_inductor(self) -> list[AttentionCall]:
        """Kernels of attention at lines that asked for none: Inductor knows some hand-written forms of it."""
        if not self._by_inductor or self._failed:
            return []
        asked = {written.at for _, written in self._traced.calls}
        return [
            self._record("other", written, backend)
            for backend, written in self._lowered.kernels
            if backend != "flex" and written.at not in asked
        ]


_NAMES = ("query", "key", "value")


def _input(tensor: TensorText | None) -> AttentionInput | None:
    return AttentionInput(tensor.dtype, tensor.shape, tensor.stride) if tensor else None


def _causal(op: AttentionOp, written: Written) -> bool | None:
    if op == "sdpa":
        return {"": False, "True": True, "False": False}.get(written.argument(5, "is_causal"))
    if op == "flash_attn":
        # Its first flag says so, in each of the operators and versions of flash-attn 2.
        flags = [each for each in (*written.positional, written.named.get("causal", "")) if each in ("True", "False")]
        return flags[0] == "True" if flags else None
    return None


def _dropout(op: AttentionOp, written: Written) -> float | None:
    if op != "sdpa":
        return None
    try:
        return float(written.argument(4, "dropout_p") or 0.0)
    except ValueError:
        return None


def _merged(calls: list[AttentionCall]) -> list[AttentionCall]:
    """Alike ones counted, in the order of the first of each."""
    found: dict[_Signature, AttentionCall] = {}
    for call in calls:
        known = found.setdefault(_signature(call), call)
        if known is not call:
            known.count += 1
    return list(found.values())


def _signature(call: AttentionCall) -> _Signature:
    inputs = (call.query, call.key, call.value, call.mask)
    shapes = tuple((i.dtype, tuple(i.shape), tuple(i.stride)) if i else None for i in inputs)
    return call.op, call.name, call.backend, call.file, call.line, call.causal, call.device, call.dropout, shapes
