"""Kernels, read from the Python that Inductor wrote: what is generated, what is called, and what was fused into it.

The output code is the one source that holds cold, on a cache hit, on CPU and on CUDA; torch's counters do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dynalyze.facts.kernel_names import split_name
from dynalyze.report import Direction, KernelKind

_AOT_ID = re.compile(r"^# AOT ID: \['(?P<id>\w+?)'\]", re.MULTILINE)
_DEFINED = re.compile(r"(?P<name>\w+) = async_compile\.(?P<language>\w+)\(")
_COMMENT = re.compile(r"# (?P<order>(?:\w+ )*?\w*) ?Source Nodes: \[(?P<nodes>.*?)\], Original ATen: \[(?P<ops>.*?)\]")
# A call that is a statement, or all of what is assigned.
_CALLED = re.compile(r"(?:[\w, .\[\]()]+? = )?(?P<callee>[A-Za-z_][\w.]*)\(")
_NO_KERNELS_BELOW = ("def get_args(", "def benchmark_compiled_module(", 'if __name__ == "__main__"')
# With the C++ wrapper the calls stand in C++, which is not read.
_CPP_WRAPPER = "inductor_entry_impl"
_ATEN = ("torch.ops.aten.", "aten.")
_QUOTES = re.compile(r"'''|\"\"\"")
_DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "inference")


@dataclass
class KernelFound:
    """A kernel of one output code."""

    name: str
    kind: KernelKind
    calls: int = 0
    ops: list[str] = field(default_factory=list)
    source_nodes: list[str] = field(default_factory=list)

    def add(self, note: re.Match[str] | None) -> None:
        """Take over what a comment of Inductor's says about this kernel.

        A library call computes one operation; what stands before it in the comment led to its inputs.
        """
        if note is None:
            return
        ops, nodes = _listed(note["ops"]), _listed(note["nodes"])
        if self.kind in ("extern", "fallback"):
            own = self.name.removeprefix("aten.").partition(".")[0]
            ops = [op for op in ops if op.rpartition(".")[2] == own] or ops[-1:]
            nodes = nodes[-1:] if note["order"] == "Topologically Sorted" else nodes
        self.ops = list(dict.fromkeys([*self.ops, *ops]))
        self.source_nodes = list(dict.fromkeys([*self.source_nodes, *nodes]))


def aot_id(code: str) -> str:
    """The id that AOTAutograd gave to the graph, `0_forward` say; "" where the code names none."""
    found = _AOT_ID.search(code)
    return found["id"] if found else ""


def direction_of(code: str) -> Direction:
    """Whether the code is of a forward, a backward or an inference graph."""
    ending = aot_id(code).rpartition("_")[2]
    return next((each for each in _DIRECTIONS if each == ending), "")


def kernels_of(code: str, known_ops: Iterable[str] = ()) -> list[KernelFound] | None:
    """The kernels that the code calls, in the order of their first call; None where calls cannot be read.

    C++ kernels carry their operations in their names alone: `known_ops` helps to take those apart.
    """
    if _CPP_WRAPPER in code:
        return None
    defined: dict[str, KernelFound] = {}
    called: dict[str, KernelFound] = {}
    note: re.Match[str] | None = None
    known = set(known_ops)
    for line in _outside_strings(code):
        definition = _DEFINED.match(line)
        if definition is not None:
            kernel = KernelFound(definition["name"], _kind(definition["language"]))
            kernel.add(note)
            defined[kernel.name], note = kernel, None
            continue
        comment = _COMMENT.match(line.lstrip())
        if comment is not None:
            note = comment
            known.update(_listed(comment["ops"]))
        elif (name := _callee(line)) and (found := _kernel(name, defined, called)) is not None:
            found.calls += 1
            if found.kind != "cpp":
                found.add(note)
                note = None
            called[found.name] = found
    _name_ops(called.values(), {op.rpartition(".")[2] for op in known})
    return list(called.values())


def _outside_strings(code: str) -> Iterator[str]:
    """The lines of the code that run, without the sources of kernels inside it and the benchmark below it."""
    inside = False
    for line in code.splitlines():
        if not inside and line.startswith(_NO_KERNELS_BELOW):
            return
        began_inside = inside
        inside ^= len(_QUOTES.findall(line)) % 2 == 1
        if not began_inside:
            yield line


def _kind(language: str) -> KernelKind:
    """The kind of a kernel by the method of async_compile that builds it."""
    if language.startswith("cpp") or language in ("cuda", "rocm", "xpu"):  # The latter three are C++ templates.
        return "cpp"
    return "triton" if language in ("triton", "multi_kernel") else "other"


def _callee(line: str) -> str:
    if not line.startswith(" "):
        return ""
    found = _CALLED.match(line.lstrip())
    return found["callee"] if found else ""


def _kernel(name: str, defined: dict[str, KernelFound], called: dict[str, KernelFound]) -> KernelFound | None:
    """The kernel behind a called name; None for a call that is none."""
    own = defined.get(name.removesuffix(".run"))
    if own is not None:
        return own
    kind: KernelKind
    if name.startswith("extern_kernels."):
        name, kind = name.removeprefix("extern_kernels."), "extern"
    elif name.startswith(_ATEN):
        name, kind = "aten." + name.partition("aten.")[2], "fallback"
    elif name.startswith("torch.ops.") and not name.startswith("torch.ops.inductor."):
        name, kind = name.removeprefix("torch.ops."), "extern"
    else:
        return None
    return called.get(name) or KernelFound(name, kind)


def _name_ops(kernels: Iterable[KernelFound], known: set[str]) -> None:
    """Operations for kernels that no comment described."""
    for kernel in kernels:
        if kernel.kind in ("cpp", "triton") and not kernel.ops:
            kernel.ops = [f"aten.{op}" for op in split_name(kernel.name, known)]
        elif kernel.kind == "fallback" and not kernel.ops:
            kernel.ops = [".".join(kernel.name.split(".")[:2])]


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
