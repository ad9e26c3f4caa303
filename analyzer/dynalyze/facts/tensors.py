"""Inputs of a graph, from the annotations that torch prints beside them."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from dynalyze.report import GraphInput, InputKind

_TENSOR = re.compile(
    r"(?:(?P<wrapper>\w+)\()?(?P<dtype>[a-z]+\d+\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?"
    r"(?P<device>[a-z]+(?::\d+)?)?"
)
_DTYPES = {
    "b8": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "c32": "complex32", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_FLOAT8 = re.compile(r"f8(e\d+m\d+\w*)$")
_BITS = re.compile(r"[a-z]+(\d+)")
_MANGLED = re.compile(r"L_(?P<path>.+?)_?$")
_HELD = re.compile(r"_(?P<kind>parameters|buffers)_")


class TensorText(NamedTuple):
    """What an annotation such as `f32[2, s77][s77, 1]cuda:0` says of a tensor."""

    dtype: str
    shape: list[int | str]
    stride: list[int | str]
    device: str


def read_tensor(annotation: str) -> TensorText | None:
    """The tensor that an annotation describes; None for anything else."""
    found = _TENSOR.match(annotation)
    if found is None:
        return None
    return TensorText(_dtype(found["dtype"]), _sizes(found["shape"]), _sizes(found["stride"]), found["device"] or "")


def graph_input(name: str, annotation: str) -> GraphInput:
    """An input as `f32[2, s77][s77, 1]cuda:0` describes it; what is no tensor keeps the annotation as its dtype."""
    kind, source = _source(name)
    found = _TENSOR.match(annotation)
    if found is None:
        symbol = annotation.startswith("Sym(")
        return GraphInput(name, "symbol" if symbol else kind, annotation, source=source)
    shape = _sizes(found["shape"])
    return GraphInput(
        name, kind, _dtype(found["dtype"]), shape, found["device"] or "", source, _bytes(found["dtype"], shape)
    )


def _sizes(text: str | None) -> list[int | str]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    return [int(part) if part.isdigit() else part for part in parts]


def _dtype(short: str) -> str:
    float8 = _FLOAT8.match(short)
    return f"float8_{float8[1]}" if float8 else _DTYPES.get(short, short)


def _bytes(dtype: str, shape: list[int | str]) -> int | None:
    """The size of a contiguous tensor of this shape; None where a dimension is symbolic."""
    bits = _BITS.match(dtype)
    sizes = [size for size in shape if isinstance(size, int)]
    if bits is None or len(sizes) < len(shape):
        return None
    return math.prod(sizes) * max(int(bits[1]), 8) // 8


def _source(name: str) -> tuple[InputKind, str]:
    """What the program calls an input: Dynamo writes `self.a.weight` as L_self_modules_a_parameters_weight_."""
    mangled = _MANGLED.match(name)
    path = mangled["path"] if mangled else name
    held = _HELD.search(path)
    if held is None:
        return "input", path
    kind: InputKind = "parameter" if held["kind"] == "parameters" else "buffer"
    return kind, _HELD.sub(".", path.replace("_modules_", "."), count=1)
