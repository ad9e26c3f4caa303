"""Kernels, read from the Python that Inductor wrote: what is generated, what is called, what was fused into it, and the
lines that it came from.

The output code is the one source that holds cold, on a cache hit, on CPU and on CUDA; torch's counters do not.
Inductor tracks lines where `trace.provenance_tracking_level` is on, and then gives each call of a kernel a handle; else
they are known through the nodes that its comments name. The records hold more handles than the output code (those of
earlier graphs stay in them), so only the code's count.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import msgspec

from dynalyze.capture.events import Frame
from dynalyze.facts.stacks import Places
from dynalyze.report import Direction, Graph, Kernel, KernelKind, LineKey, Location, Provenance

_NAME = re.compile(r"(?:cpp|triton(?:_[a-z]+)??)_fused_(?P<ops>\w+?)(?:_\d+)?$")
# Longest operation in parts, and the longest name that is worth the search.
_MOST_PARTS = 8
_LONGEST_NAME = 100
_UNKNOWN = 10
_IMPOSSIBLE = 1000

# Operations with an underscore in their name that AOTAutograd or Inductor take apart, so that no later graph has them.
_DECOMPOSED_NAMES = """
    _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _batch_norm_no_update _batch_norm_with_update _cdist_forward
    _embedding_bag _fft_c2c _fft_c2r _fft_r2c _fused_rms_norm _fused_rms_norm_backward _log_softmax
    _log_softmax_backward_data _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _prelu_kernel _prelu_kernel_backward _reshape_alias _safe_softmax _softmax
    _softmax_backward_data _to_copy _unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_view
    _upsample_bicubic2d_aa _upsample_bilinear2d_aa _weight_norm_interface adaptive_max_pool2d affine_grid_generator
    avg_pool2d avg_pool2d_backward avg_pool3d binary_cross_entropy binary_cross_entropy_backward
    binary_cross_entropy_with_logits bitwise_and bitwise_not bitwise_or bitwise_xor clamp_max clamp_min
    constant_pad_nd convert_element_type convolution_backward diag_embed elu_backward embedding_dense_backward
    empty_like floor_divide full_like gelu_backward glu_backward grid_sampler_2d hardsigmoid_backward
    hardswish_backward hardtanh_backward huber_loss index_add index_copy index_fill index_put index_select
    leaky_relu leaky_relu_backward lift_fresh lift_fresh_copy linalg_cross linalg_vector_norm log_sigmoid_backward
    log_sigmoid_forward log_softmax logical_and logical_not logical_or logical_xor masked_fill masked_scatter
    max_pool2d_with_indices max_pool2d_with_indices_backward mish_backward mse_loss mse_loss_backward nan_to_num
    native_batch_norm native_batch_norm_backward native_dropout native_dropout_backward native_group_norm
    native_group_norm_backward native_layer_norm native_layer_norm_backward new_empty new_full new_ones new_zeros
    nll_loss nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward ones_like pixel_shuffle
    pixel_unshuffle rand_like randn_like reflection_pad1d reflection_pad2d reflection_pad2d_backward
    repeat_interleave replication_pad2d rms_norm scalar_tensor scatter_add scatter_reduce select_backward
    select_scatter sigmoid_backward silu_backward slice_backward slice_scatter smooth_l1_loss
    smooth_l1_loss_backward soft_margin_loss softplus_backward special_bessel_j0 special_bessel_j1 special_entr
    special_erfcx special_i0 special_xlog1py split_with_sizes std_mean tanh_backward threshold_backward
    unfold_backward unsafe_split upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d
    upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d upsample_trilinear3d var_mean zeros_like
"""
_DECOMPOSED = frozenset(_DECOMPOSED_NAMES.split())


def split_name(name: str, known: Collection[str] = ()) -> list[str]:
    """The operations in a kernel's name; parts that no known operation explains stand for themselves.

    A name of another making, such as that of a user's own kernel, holds none.
    """
    found = _NAME.match(name)
    if found is None:
        return []
    parts = found["ops"].split("_")
    if found["ops"].isdigit() or len(parts) > _LONGEST_NAME:
        return []
    # The split into the fewest words, where an unknown word counts as many known ones.
    words = _DECOMPOSED.union(known)
    best: list[tuple[int, list[str]]] = [(0, [])]
    for end in range(1, len(parts) + 1):
        ways = []
        for start in range(max(0, end - _MOST_PARTS), end):
            word, length = "_".join(parts[start:end]), end - start
            cost, before = best[start]
            own = 1 if word in words else _UNKNOWN if length == 1 and word else _IMPOSSIBLE * length
            ways.append((cost + own, [*before, word]))
        best.append(min(ways, key=lambda way: way[0]))
    return list(dict.fromkeys(best[-1][1]))


_AOT_ID = re.compile(r"^# AOT ID: \['(?P<id>\w+?)'\]", re.MULTILINE)
_DEFINED = re.compile(r"(?P<name>\w+) = async_compile\.(?P<language>\w+)\(")
_COMMENT = re.compile(r"# (?P<order>(?:\w+ )*?\w*) ?Source Nodes: \[(?P<nodes>.*?)\], Original ATen: \[(?P<ops>.*?)\]")
# Inductor writes it above a call where it tracks where kernels came from; the number makes it unique.
_HANDLE = re.compile(r"# \[Provenance debug handles\] (?P<handle>\S+)")
# A call that is a statement, or all of what is assigned.
_CALLED = re.compile(r"(?:[\w, .\[\]()]+? = )?(?P<callee>[A-Za-z_][\w.]*)\(")
_NO_KERNELS_BELOW = ("def get_args(", "def benchmark_compiled_module(", 'if __name__ == "__main__"')
# With the C++ wrapper the calls stand in C++, which is not read.
_CPP_WRAPPER = "inductor_entry_impl"
_ATEN = ("torch.ops.aten.", "aten.")
_QUOTES = re.compile(r"'''|\"\"\"")
# By the method of async_compile that builds a kernel; cuda, rocm and xpu are C++ templates.
_LANGUAGES: dict[str, KernelKind] = {
    "cuda": "cpp", "rocm": "cpp", "xpu": "cpp", "triton": "triton", "multi_kernel": "triton",
}  # fmt: skip
_DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "inference")


class KernelCall(NamedTuple):
    """One call of a kernel: the nodes that the comment above it names, and Inductor's own handle of it."""

    nodes: list[str]
    handle: str


@dataclass
class KernelFound:
    """A kernel of one output code."""

    name: str
    kind: KernelKind
    ops: list[str] = field(default_factory=list)
    source_nodes: list[str] = field(default_factory=list)
    sites: list[KernelCall] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.sites)

    @property
    def is_library_call(self) -> bool:
        """Whether it computes one operation that nobody fused."""
        return self.kind in ("extern", "fallback")

    def add(self, note: re.Match[str] | None) -> list[str]:
        """Take over what a comment of Inductor's says about this kernel; returns the nodes that it names.

        A library call computes one operation; what stands before it in the comment led to its inputs.
        """
        if note is None:
            return []
        ops, nodes = _listed(note["ops"]), _listed(note["nodes"])
        if self.is_library_call:
            own = self.name.removeprefix("aten.").partition(".")[0]
            ops = [op for op in ops if op.rpartition(".")[2] == own] or ops[-1:]
            nodes = nodes[-1:] if note["order"] == "Topologically Sorted" else nodes
        self.ops, self.source_nodes = _joined(self.ops, ops), _joined(self.source_nodes, nodes)
        return nodes

    def merge(self, other: KernelFound) -> None:
        """Add the calls of the same kernel in another part of the graph."""
        self.sites += other.sites
        self.ops, self.source_nodes = _joined(self.ops, other.ops), _joined(self.source_nodes, other.source_nodes)


def aot_id(code: str) -> tuple[str, Direction]:
    """The id that AOTAutograd gave to the graph, `0_forward` say, and the direction that it ends with; "" for none."""
    found = _AOT_ID.search(code)
    part = found["id"] if found else ""
    return part, next((each for each in _DIRECTIONS if each == part.rpartition("_")[2]), "")


def kernels_of(code: str, known_ops: Iterable[str] = ()) -> list[KernelFound] | None:
    """The kernels that the code calls, in the order of their first call; None where calls cannot be read.

    C++ kernels carry their operations in their names alone: `known_ops` helps to take those apart.
    """
    if _CPP_WRAPPER in code:
        return None
    defined: dict[str, KernelFound] = {}
    called: dict[str, KernelFound] = {}
    note: re.Match[str] | None = None
    handle = ""
    known = set(known_ops)
    for line in _outside_strings(code):
        definition = _DEFINED.match(line)
        if definition is not None:
            kernel = KernelFound(definition["name"], _LANGUAGES.get(definition["language"], "other"))
            if definition["language"].startswith("cpp"):
                kernel.kind = "cpp"
            kernel.add(note)
            defined[kernel.name], note = kernel, None
            continue
        comment = _COMMENT.match(line.lstrip())
        if comment is not None:
            note = comment
            known.update(_listed(comment["ops"]))
        elif (tracked := _HANDLE.match(line.lstrip())) is not None:
            handle = tracked["handle"]
        elif (
            line.startswith(" ")
            and (call := _CALLED.match(line.lstrip())) is not None
            and (found := _kernel(call["callee"], defined, called)) is not None
        ):
            # C++ kernels have no comment: one that stands above is not theirs.
            nodes = found.add(note) if found.kind != "cpp" else []
            found.sites.append(KernelCall(nodes or list(found.source_nodes), handle))
            note, handle = note if found.kind == "cpp" else None, ""
            called[found.name] = found
    names = {op.rpartition(".")[2] for op in known}
    for kernel in called.values():
        if kernel.kind in ("cpp", "triton") and not kernel.ops:
            kernel.ops = [f"aten.{op}" for op in split_name(kernel.name, names)]
        elif kernel.kind == "fallback" and not kernel.ops:
            kernel.ops = [".".join(kernel.name.split(".")[:2])]
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


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _joined(*lists: list[str]) -> list[str]:
    return list(dict.fromkeys(chain(*lists)))


_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>[^\n]+)(?:\n +(?P<code>\S[^\n]*))?',
    re.MULTILINE,
)


class _Nodes(msgspec.Struct):
    """Inductor's record of nodes; each of its two maps has its inverse beside it."""

    kernels: dict[str, list[str]] = msgspec.field(name="cppCodeToPost", default_factory=dict)
    post_grad: dict[str, list[str]] = msgspec.field(name="postToPre", default_factory=dict)


@dataclass
class Tracked:
    """What Inductor tracked of one output code: nodes and stacks by the handle of a call, and nodes by nodes."""

    nodes: dict[str, list[str]] = field(default_factory=dict)
    pre_grad: dict[str, list[str]] = field(default_factory=dict)
    stacks: dict[str, list[str]] = field(default_factory=dict)

    def take(self, stage: str, text: str) -> bool:
        """Take over one record; False where it makes no sense. An empty one says that nothing was tracked."""
        if not text:
            return True
        of_stacks = stage == "kernel_stacks"
        try:
            if of_stacks:
                self.stacks = msgspec.json.decode(text, type=dict[str, list[str]])
            else:
                nodes = msgspec.json.decode(text, type=_Nodes)
                self.nodes, self.pre_grad = nodes.kernels, nodes.post_grad
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            self.stacks = {} if of_stacks else self.stacks
            return False
        return True

    def origins(self, handle: str, places: Places) -> list[Location]:
        """The lines behind a call, in the order of the source: the innermost one outside torch of each stack."""
        found = (_innermost(stack, places) for stack in self.stacks.get(handle, ()))
        return sorted({each.at: each for each in found if each is not None}.values(), key=lambda each: each.at)


@dataclass
class CameFrom:
    """Where a kernel came from: its lines with the number of calls that each is in, and its nodes."""

    lines: dict[LineKey, Location] = field(default_factory=dict)
    calls: dict[LineKey, int] = field(default_factory=dict)
    source_nodes: list[str] = field(default_factory=list)
    post_grad_nodes: list[str] = field(default_factory=list)
    provenance: Provenance = ""

    def add_lines(self, origins: Iterable[Location], provenance: Provenance) -> None:
        """The lines of one call."""
        for origin in {each.at: each for each in origins}.values():
            self.lines.setdefault(origin.at, origin)
            self.calls[origin.at] = self.calls.get(origin.at, 0) + 1
            self.provenance = "inductor" if "inductor" in (provenance, self.provenance) else provenance

    def merge(self, other: CameFrom) -> None:
        """Add what is known of the same kernel in another part of the graph."""
        self.lines = {**other.lines, **self.lines}
        for line, calls in other.calls.items():
            self.calls[line] = self.calls.get(line, 0) + calls
        self.source_nodes = _joined(self.source_nodes, other.source_nodes)
        self.post_grad_nodes = _joined(self.post_grad_nodes, other.post_grad_nodes)
        self.provenance = self.provenance or other.provenance


def came_from(kernel: KernelFound, tracked: Tracked, named: Mapping[str, Location], places: Places) -> CameFrom:
    """Where the calls of a kernel came from. `named` has the line of each node that a comment can name."""
    found = CameFrom()
    for site in kernel.sites:
        named_places = [named[node] for node in site.nodes if node in named]
        known = tracked.origins(site.handle, places)
        if known:
            # Inductor also tracks what was computed into the inputs of a library call.
            lines = {each.at for each in named_places} if kernel.is_library_call else {each.at for each in known}
            found.add_lines([each for each in known if each.at in lines] or known, "inductor")
        else:
            found.add_lines(named_places, "comments")
        nodes = tracked.nodes.get(site.handle, [])
        if kernel.is_library_call:
            own = set(site.nodes)
            nodes = [each for each in nodes if each in own or own.intersection(tracked.pre_grad.get(each, ()))] or nodes
        found.post_grad_nodes = _joined(found.post_grad_nodes, nodes)
    exact = dict.fromkeys(name for node in found.post_grad_nodes for name in tracked.pre_grad.get(node, ()))
    found.source_nodes = list(exact) or kernel.source_nodes
    return found


def lacking(graphs: Iterable[Graph], kernels: Iterable[Kernel]) -> list[str]:
    """A note where tracking was asked for and Inductor did not, or could not, do it."""
    kernels = list(kernels)
    compiled = {kernel.graph for kernel in kernels}
    missing = len(compiled - {kernel.graph for kernel in kernels if kernel.provenance == "inductor"})
    if not compiled and list(graphs):
        return ["With --provenance there was no kernel of Inductor's to track."]
    if not missing:
        return []
    return [
        f"Asked for by --provenance, but Inductor tracked nothing for {missing} of {len(compiled)} graphs with "
        "kernels. Their lines are read from the comments in its code, which C++ kernels lack. Tracking takes torch 2.9 "
        "or later and INDUCTOR_PROVENANCE=1; code from a cache that was filled without it has none."
    ]


def _innermost(stack: str, places: Places) -> Location | None:
    found = list(_FRAME.finditer(stack))
    at = places.innermost([Frame(each["file"], int(each["line"]), each["function"]) for each in found])
    if at is None:
        return None
    file, line, function, code = found[at].groups("")
    return Location(file, int(line), function=function.strip(), code=code.strip())
