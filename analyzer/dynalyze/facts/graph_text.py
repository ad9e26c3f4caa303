"""Reads the Python that torch prints for an FX graph: its inputs and its operations, line by line.

The text is not always valid Python (`class <lambda>`, objects by their repr), so it is never compiled. What counts as
an operation is what torch counts: every call, an indexing and an operator too, but no input, attribute or output.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from dynalyze.report import GraphInput, InputKind, Location
from dynalyze.text.amounts import whole_number

_TENSOR = re.compile(
    r"(?:(?P<wrapper>\w+)\()?(?P<dtype>[a-z]+\d+\w*)\[(?P<shape>[^\]]*)\](?:\[(?P<stride>[^\]]*)\])?"
    r"(?P<device>[a-z]+(?::\d+)?)?"
)
_DTYPES = {
    "b8": "bool", "bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "u8": "uint8",
    "u16": "uint16", "u32": "uint32", "u64": "uint64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "c32": "complex32", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
_COMPLEX = re.compile(r"c\d+\[")
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
    return [part if (size := whole_number(part)) is None else size for part in parts]


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


_INPUT = re.compile(r'(\w+): (?:"([^"]*)"|\'([^\']*)\'|[\w.]+)')
_SIGNATURE_END = re.compile(r"\)(?: *-> *.*)?:\s*(?:#.*)?$")
# Within a checkpoint torch writes before it which one that is, and what is to become of the result.
_ORIGIN = re.compile(
    r"# (?:ac_graph_id: [^:]* )?File: (?P<file>.+?):(?P<line>\d{1,9}) in (?P<function>[^\n]+?), code: (?P<code>.*)$"
)
_NODE = re.compile(
    r"""(?P<name>\w+)(?: ?: ?(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|[\w.]+(?:\[[^=]*\])?))? = (?P<expression>.+)$"""
)
_CALL = re.compile(r"[A-Za-z_][\w.]*(?=\()")
_LITERAL_METHOD = re.compile(r"[^\s(]+\.(\w+)\(")
_ATTRIBUTE = re.compile(r"(?P<owner>[A-Za-z_]\w*)\.[\w.]+$")
_PLAIN = re.compile(r"\w+$")
_IN_PLACE = re.compile(r"\S+ (?P<symbol>[^\w\s=]+)= ")
_CLEARED = re.compile(r"\w+(?: = \w+)* = None$")
_SYMBOLS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift", "==": "eq", "!=": "ne", "<": "lt", "<=": "le",
    ">": "gt", ">=": "ge", "is": "is", "in": "contains",
}  # fmt: skip
_OPERATOR = re.compile(
    r"(?:\w[\w.]*|\([^()]*\)|-?[\d.e+-]+) (?P<symbol>\+|-|\*\*|\*|//|/|%|@|&|\||\^|<<|>>|==|!=|<=|>=|<|>|is|in) "
)


class Node(NamedTuple):
    """One operation. `op` is `aten.addmm` for an operator of a library, the bare name for anything else."""

    name: str
    op: str


class Signature(NamedTuple):
    """A graph begins, or the body of a higher-order operator: names of inputs and torch's annotations of them."""

    inputs: list[tuple[str, str]]


class Comment(NamedTuple):
    """What follows came from this line; None where torch says of nothing that follows where it came from."""

    origin: Location | None


class Assignment(NamedTuple):
    """One line. `in_place` is the statement before it where that changes a tensor: `x += y;  iadd: "f32[2]" = x`."""

    name: str
    annotation: str
    expression: str
    in_place: str = ""

    @property
    def op(self) -> str:
        """What it computes; "" for a name of an input or an attribute of the module."""
        if not self.in_place:
            return _op(self.expression)
        found = _IN_PLACE.match(self.in_place)
        return "i" + _SYMBOLS.get(found["symbol"], "other") if found else "setitem"


Statement: TypeAlias = Signature | Comment | Assignment


@dataclass
class GraphText:
    """A printed graph: its inputs with torch's annotation (`f32[2, 8][8, 1]cpu`), its operations, where they came from,
    and which of them compute complex numbers.

    The body of a higher-order operator is a graph of its own in the text; its operations count, its inputs do not.
    """

    inputs: list[tuple[str, str]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    origins: dict[str, Location] = field(default_factory=dict)
    complex: list[Node] = field(default_factory=list)

    def histogram(self) -> dict[str, int]:
        """How often each operation stands in the graph, the most frequent first."""
        counts = Counter(node.op for node in self.nodes)
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def parse(text: str) -> GraphText:
    """Read a printed graph; lines that are not understood are passed over."""
    found = GraphText()
    origin: Location | None = None
    outermost = True
    for statement in statements(text):
        if isinstance(statement, Signature):
            if outermost:
                found.inputs = statement.inputs
            outermost, origin = False, None
        elif isinstance(statement, Comment):
            origin = statement.origin
        elif op := statement.op:
            found.nodes.append(Node(statement.name, op))
            if _COMPLEX.match(statement.annotation):
                found.complex.append(found.nodes[-1])
            if origin is not None:
                found.origins[statement.name] = origin
    return found


def inputs_of(text: str) -> list[tuple[str, str]]:
    """The inputs alone of a printed graph, as `parse` gives them."""
    return next((each.inputs for each in statements(text) if isinstance(each, Signature)), [])


def statements(text: str) -> Iterator[Statement]:
    """The lines of a printed graph that mean something, in their order."""
    lines = iter(text.splitlines())
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("def "):
            inputs = _INPUT.findall(_signature(stripped, lines))
            yield Signature([(name, double or single) for name, double, single in inputs])
        elif stripped.startswith("#"):
            found = _ORIGIN.search(stripped)
            yield Comment(
                Location(found["file"], int(found["line"]), function=found["function"], code=found["code"])
                if found is not None
                else None
            )
        elif (assignment := _assignment(stripped)) is not None:
            yield assignment


def _signature(first: str, lines: Iterator[str]) -> str:
    parts = [first]
    while not _SIGNATURE_END.search(parts[-1]) and (following := next(lines, None)) is not None:
        parts.append(following.strip())
    return " ".join(parts)


def _assignment(line: str) -> Assignment | None:
    """A line such as `h: "f32[2]" = torch.relu(x);  x = None`."""
    first, _, rest = line.partition(";  ")
    in_place = bool(rest) and not _CLEARED.match(rest)
    found = _NODE.match(rest.partition(";  ")[0] if in_place else first)
    if found is None:
        return None
    annotation = found["double"] or found["single"] or ""
    return Assignment(found["name"], annotation, found["expression"], first if in_place else "")


def _op(expression: str) -> str:
    """What an expression computes; "" for the name of an input or an attribute of the module."""
    if (call := _CALL.match(expression)) is not None:
        # `aten.addmm` for `torch.ops.aten.addmm.default`; the last part of any other name.
        parts = call[0].split(".")
        return ".".join(parts[2:4]) if parts[:2] == ["torch", "ops"] and len(parts) >= 4 else parts[-1]
    if _PLAIN.match(expression):
        return ""
    if (attribute := _ATTRIBUTE.match(expression)) is not None:
        return "" if attribute["owner"] == "self" else "getattr"
    if (operator := _OPERATOR.match(expression)) is not None:
        return _SYMBOLS[operator["symbol"]]
    if expression.startswith(("-", "~")):
        return "neg" if expression.startswith("-") else "invert"
    if (method := _LITERAL_METHOD.match(expression)) is not None:
        return method[1]
    return "getitem" if expression.endswith("]") else "other"
