"""Two starts of a program: which components of their cache keys differ, in the user's words; the same for vLLM."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

from dynalyze.facts.graph_text import Assignment, Comment, statements
from dynalyze.report import Compilation, Graph, Location, Report
from dynalyze.report.caches import CacheDifference, CacheKey, CacheName, Caches, DifferenceKind
from dynalyze.text.amounts import whole_number

_ORDER: tuple[DifferenceKind, ...] = (
    "torch", "device", "state", "variable", "setting", "path", "order", "tag", "pass", "threads", "inputs", "constant",
    "kernel", "graph", "arguments", "names", "new", "not_kept", "other",
)  # fmt: skip
"""The likelier cause first: what comes later often follows from what stands before it."""
_MODULES = {
    "inductor_config": "torch._inductor.config.", "autograd_config": "torch._functorch.config.",
    "inductor_config_comms": "torch._inductor.config_comms.",
}  # fmt: skip
# What the component is about, by its name without the item.
_KNOWN: dict[str, tuple[DifferenceKind, str]] = {
    "torch_version": ("torch", "torch's own source code: another version or another build"),
    "system_info": ("device", "the device, or the versions of its compilers"),
    "default_cuda_device_index": ("device", "the number of the device"),
    "cache_key_tag": ("tag", "the tag of the cache, torch.compiler.config.cache_key_tag"),
    "grad_enabled": ("state", "whether gradients are recorded"),
    "autocast_state": ("state", "autocast"),
    "deterministic_algorithms": ("state", "torch.use_deterministic_algorithms"),
    "deterministic_algorithms_settings": ("state", "torch.use_deterministic_algorithms: on, warn only, fill memory"),
    "default_dtype": ("state", "the default dtype"),
    "cuda_matmul_settings": ("state", "the precision of matrix products on the GPU"),
    "provenance_tracking_level": ("setting", "torch._inductor.config.trace.provenance_tracking_level"),
    "precompile_enabled": ("setting", "torch._functorch.config.bundled_autograd_cache"),
    "region_activation_memory_budget": ("setting", "the memory budget of a region"),
    "region_activation_memory_budget_annotations": ("setting", "the memory budgets of regions"),
    "nested_inductor_config_patches": ("setting", "settings that parts of the program are compiled with"),
    "compile_on_one_rank": ("setting", "whether one rank compiles for all"),
    "cpp_runtime_thread_count": ("threads", "the number of threads"),
    "user_defined_triton_source": ("kernel", "a Triton kernel of the program, or its constants"),
    "triton_kernel_source_codes": ("kernel", "the source of Triton kernels of the program"),
    "fx_kwargs": ("arguments", "how the graph is compiled"),
    "aot_config": ("names", "the names by which the graph finds its inputs, and which of them are static"),
    "sac_context_fn_hashes": ("kernel", "the cache_hash of a checkpoint's context_fn"),
    "var_to_hint_override": ("inputs", "sizes that stand for dynamic dimensions"),
    "cudagraph_override": ("arguments", "whether CUDA graphs are used"),
    "cudagraph_annotation": ("arguments", "whether CUDA graphs are used"),
}
_FOLLOWING = ("gm", "example_inputs", "fx_kwargs")
"""Components of Inductor's key that follow from AOTAutograd's: the same graph, one step further down."""
_PART = re.compile(r"(\w+)=((?:\w[\w.]*)?(?:\([^()]*(?:\([^()]*\))?[^()]*\)|\{[^}]*\})|[^,()]+)")
_SYMBOL = re.compile(r"torch\.SymInt|\bs\d+\b")
_TOKEN = re.compile(r"-?\d[\d.e+-]*|\w+|\S")
_NUMBER = re.compile(r"-?\d[\d.e+-]*\Z|True\Z|False\Z|None\Z|inf\Z")
_VARIABLE = re.compile(r"(?<![.\w])[A-Za-z_]\w*")
_OF_INPUTS = ("L_", "l_", "p_", "primals_", "arg")
_LONGEST = 300


@dataclass
class _CacheSide:
    report: Report
    caches: Caches = field(init=False)
    compiled: dict[tuple[int, int, str], Compilation] = field(init=False)

    def __post_init__(self) -> None:
        self.caches = self.report.caches or Caches()
        self.compiled = {each.key: each for each in self.report.compilations}

    def compile_of(self, key: CacheKey) -> Compilation | None:
        return self.compiled.get((key.process, key.epoch, key.compile_id))

    def place(self, key: CacheKey) -> tuple[str, Location | None]:
        found = self.compile_of(key)
        return (found.name, found.location) if found is not None else ("", None)

    def graphs(self, key: CacheKey) -> list[Graph]:
        return [each for each in self.report.graphs if each.key == (key.process, key.epoch, key.compile_id)]

    def components(self, key: CacheKey) -> dict[str, tuple[str, str]]:
        """Digest and value of each component; both are the value for settings."""
        found = {each.name: (each.digest, each.value) for each in key.components}
        for number in key.settings:
            if number < len(self.caches.settings):
                block = self.caches.settings[number]
                found.update({f"{block.of}[{name}]": (str(value), str(value)) for name, value in block.values.items()})
        return found

    def graph_texts(self, key: CacheKey) -> list[str]:
        """Dynamo's graphs of this compile as printed, with the program's lines."""
        return [code.text for graph in self.graphs(key) for code in graph.code[:1]]


def missed(report: Report) -> int:
    return sum(key.state == "miss" for key in report.caches.keys) if report.caches is not None else 0


def differences(before: Report, after: Report, *, shared: bool = False) -> list[CacheDifference]:
    """The differences between the keys of two runs, once for each component and pair of values, likeliest first.

    `shared`: the second run had the cache folder of the first, so that a miss with an equal key was not kept.
    """
    one, other = _CacheSide(before), _CacheSide(after)
    folded: dict[tuple[str, str | None, str | None], CacheDifference] = {}
    compared: set[str] = set()
    for first, second in _pairs(one, other):
        differing = _differences(one, other, first, second, compared)
        if shared and first is not None and first.key == second.key and second.state == first.state == "miss":
            differing = _not_kept(other, second, differing)
        for found in differing:
            known = folded.setdefault((found.component, found.before, found.after), found)
            known.compile_ids += [] if found.compile_id in known.compile_ids else [found.compile_id]
            known.caches += [] if found.cache in known.caches else [found.cache]
    return sorted(folded.values(), key=lambda each: _ORDER.index(each.kind))


def _pairs(one: _CacheSide, other: _CacheSide) -> Iterator[tuple[CacheKey | None, CacheKey]]:
    """Each look-up of the second run with its counterpart in the first; AOTAutograd's come first."""
    caches: tuple[CacheName, ...] = ("autograd", "fx_graph")
    for cache in caches:
        left = [key for key in one.caches.keys if key.cache == cache]
        waiting = []
        for key in (key for key in other.caches.keys if key.cache == cache):
            if (same := next((each for each in left if each.key and each.key == key.key), None)) is not None:
                left.remove(same)
                yield same, key
            else:
                waiting.append(key)
        for key in waiting:
            alike = [each for each in left if one.place(each)[0] == other.place(key)[0]]
            alike = alike or [each for each in left if _graph_of(each) == _graph_of(key) != ""]
            alike.sort(key=lambda each: each.compile_id != key.compile_id)
            if alike:
                left.remove(alike[0])
            yield (alike[0] if alike else None), key


def _graph_of(key: CacheKey) -> str:
    return next((each.digest for each in key.components if each.name == "gm"), "")


def _differences(
    one: _CacheSide, other: _CacheSide, first: CacheKey | None, second: CacheKey, compared: set[str]
) -> Iterator[CacheDifference]:
    """`compared` are the ids of compiles whose graphs differ, found by AOTAutograd's keys."""
    difference = partial(CacheDifference, second.compile_id, second.cache)
    place = other.place(second)
    if first is None:
        yield difference("key", None, second.key, "new", "the first start compiled no such graph", *place)
        return
    if first.key == second.key:
        if second.state == "miss" and second.detail == "guard_miss":
            says = "the graph is there, compiled for other sizes: its guards do not hold"
            yield difference("guards", None, None, "inputs", says, *place)
        return
    were, are = one.components(first), other.components(second)
    names = dict.fromkeys((*were, *are))
    if any(were.get(name) != are.get(name) for name in ("system_info[device]", "system_info[version]")):
        names.pop("system_info[hash]", None)  # A hash of these two.
    for name in names:
        before, after = were.get(name), are.get(name)
        if before == after or (before and after and before[0] == after[0]):
            continue
        head, _, item = name.partition("[")
        if second.cache == "fx_graph" and head in _FOLLOWING and second.compile_id in compared:
            continue
        if second.cache == "autograd" and head in (*_FOLLOWING, "aot_config"):
            compared.add(second.compile_id)
        texts = before[1] if before else None, after[1] if after else None
        kind, says, line = _explained(one, other, (first, second), (head, item.rstrip("]")), texts)
        shown = [None if text is None else text[:_LONGEST] for text in texts]
        yield difference(name, shown[0], shown[1], kind, says, place[0], line or place[1])


def _not_kept(other: _CacheSide, key: CacheKey, found: Iterator[CacheDifference]) -> Iterator[CacheDifference]:
    """Why a graph is missing that the first start looked up under the same key."""
    if known := list(found):
        yield from known
        return
    compiled = other.compile_of(key)
    records = any(each.name == "grad_enabled" and each.value == "True" for each in key.components)
    says = "the first start asked for the same graph and kept none"
    if key.cache == "autograd" and records and compiled is not None and not compiled.backward:
        says = (
            f"{says}: it records gradients, and its backward was never compiled; call backward in the start that fills "
            "the cache, or run it under torch.no_grad()"
        )
    yield CacheDifference(key.compile_id, key.cache, "entry", None, None, "not_kept", says, *other.place(key))


def _explained(
    one: _CacheSide, other: _CacheSide, keys: tuple[CacheKey, CacheKey], name: tuple[str, str],
    texts: tuple[str | None, str | None],
) -> tuple[DifferenceKind, str, Location | None]:  # fmt: skip
    """The kind of a difference, in words, and its line of the program where that is known."""
    head, item = name
    before, after = (text or "" for text in texts)
    component = f"{head}[{item}]" if item else head
    variables = [str(side.caches.variables.get(component) or "") for side in (one, other)]
    if head == "gm" and not item:
        return _of_graph(one, other, keys, before, after)
    if head == "gm":
        return "constant", f"a tensor that the graph holds: {item}", None
    if head == "example_inputs":
        number = whole_number(item) or 0
        return "inputs", f"an input: {_input(other, keys[1], number)}, {_parts(before, after)}", None
    if head in _MODULES:
        kind, says = _of_setting(f"{_MODULES[head]}{item}", before, after)
    elif head.endswith(("_pass", "_passes")) or head == "_custom_partitioner_fn":
        kind, says = "pass", f"a custom pass, by its uuid: torch._inductor.config.{head}"
    else:
        kind, says = _KNOWN.get(head, ("other", component))
        says = f"{says} ({item})" if item and head in ("autocast_state", "fx_kwargs", "system_info") else says
    if variables[0] != variables[1]:
        named = next(filter(None, variables)).partition("=")[0]
        shown = " -> ".join(each or f"{named} not set" for each in variables)
        return ("threads" if kind == "threads" else "variable"), f"{says}, set by the environment: {shown}", None
    return kind, says, None


def _of_setting(name: str, before: str, after: str) -> tuple[DifferenceKind, str]:
    one, other = _literal(before), _literal(after)
    if isinstance(one, dict) and isinstance(other, dict) and {*map(str, one.items())} == {*map(str, other.items())}:
        return "order", f"{name} holds the same in another order"
    if any(text.startswith("/") or "'/" in text for text in (before, after)):
        return "path", f"{name} names a path"
    return "setting", name


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _parts(before: str, after: str) -> str:
    """Which properties of an input differ: `shape (4, 8) -> (8, 8)`."""
    one, other = dict(_PART.findall(before)), dict(_PART.findall(after))
    names = [name for name in dict.fromkeys((*one, *other)) if one.get(name) != other.get(name)]
    if not names:
        return f"{before[:60]} -> {after[:60]}"
    if bool(_SYMBOL.search(before)) != bool(_SYMBOL.search(after)):
        sizes = "dynamic" if _SYMBOL.search(after) else "fixed"
        return f"its sizes are {sizes} now: marked otherwise, or learnt from earlier calls"
    # The others follow from the shape.
    if "shape" in names:
        names = [name for name in names if name not in ("stride", "memory_format", "storage_bytes")]
    return ", ".join(f"{name} {_plain(one.get(name))} -> {_plain(other.get(name))}" for name in names)


def _plain(value: str | None) -> str:
    return "none" if value is None else re.sub(r"\b(?:torch\.Size|device)\((.*)\)\Z", r"\1", value.strip())


def _input(side: _CacheSide, key: CacheKey, number: int) -> str:
    """The program's name for an input of Dynamo's graph; its number for graphs further down."""
    if key.cache == "autograd":
        own = side.graphs(key)
        if len(own) == 1 and number < len(own[0].inputs):
            found = own[0].inputs[number]
            return found.source or found.name
    return f"number {number + 1} of the graph"


def _of_graph(
    one: _CacheSide, other: _CacheSide, keys: tuple[CacheKey, CacheKey], before: str, after: str
) -> tuple[DifferenceKind, str, Location | None]:
    """The first line of the program whose operations differ; where only numbers do, it is a constant."""
    if before == after:
        return "constant", "something that the graph holds, and that its text does not show", None
    dynamic = [bool(_SYMBOL.search(text)) for text in (before, after)]
    if dynamic[0] != dynamic[1]:
        sizes = "dynamic" if dynamic[1] else "fixed"
        return "inputs", f"sizes of inputs are {sizes} now: marked otherwise, or learnt from earlier calls", None
    printed = one.graph_texts(keys[0]), other.graph_texts(keys[1])
    changed = None
    if keys[1].cache == "autograd" and all(len(texts) == 1 for texts in printed):  # These know lines of the program.
        changed = _first_change(*(_lines(_printed(texts[0])) for texts in printed))
    changed = changed or _first_change(_lines(_in_key(before)), _lines(_in_key(after)))
    if changed is None:
        return "names", "what the program calls inputs and variables of the graph", None
    was, now, place = changed
    tokens = zip_longest(_TOKEN.findall(was), _TOKEN.findall(now), fillvalue="")
    numbers_alone = was and now and all(a == b or (_NUMBER.match(a) and _NUMBER.match(b)) for a, b in tokens)
    kind: DifferenceKind = "constant" if numbers_alone else "graph"
    what = "a constant in the graph" if kind == "constant" else "the operations of the graph"
    return kind, f"{what}: {was or 'nothing'} -> {now or 'nothing'}", place


class _Operation(NamedTuple):
    """An operation of a printed graph; `plain` has numbers for names."""

    text: str
    place: Location | None
    plain: str


def _lines(assigned: Iterable[tuple[str, str, Location | None]]) -> list[_Operation]:
    """Operations from names, their expressions and places; the names of inputs and variables make no difference."""
    numbers: dict[str, str] = {}
    lines: list[_Operation] = []

    def number(found: re.Match[str]) -> str:
        if found[0].startswith(_OF_INPUTS):
            numbers.setdefault(found[0], f"input{len(numbers)}")
        return numbers.get(found[0], found[0])

    for name, expression, place in assigned:
        lines.append(_Operation(expression, place, _VARIABLE.sub(number, expression)))
        numbers[name] = f"v{len(lines)}"
    return lines


def _printed(text: str) -> Iterator[tuple[str, str, Location | None]]:
    """The assignments of a graph that Dynamo printed."""
    origin = None
    for each in statements(text):
        if isinstance(each, Comment):
            origin = each.origin
        elif isinstance(each, Assignment):
            yield each.name, each.expression, origin


def _in_key(text: str) -> Iterator[tuple[str, str, Location | None]]:
    """The assignments of a graph as it stands in a key."""
    for line in text.splitlines():
        name, is_one, expression = line.strip().partition(";  ")[0].partition(" = ")
        if is_one:
            yield name, expression, None


def _first_change(left: list[_Operation], right: list[_Operation]) -> tuple[str, str, Location | None] | None:
    one, other = ([each.plain for each in lines] for lines in (left, right))
    for tag, a, b, c, d in difflib.SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag != "equal":
            was, now = left[a] if a < b else None, right[c] if c < d else None
            place = now.place if now else was.place if was else None
            return was.text if was else "", now.text if now else "", place
    return None


# vLLM names its compile cache after `cache_key_factors.json`: `env` (raw values), `config_hash`, `compiler_hash` and
# `code_hash`; later versions add `config`, `compiler` and `code`, the values behind them.
VLLM_FILE = "cache_key_factors.json"
_VLLM_PARTS = {
    "env": "an environment variable of vLLM", "config": "vLLM's configuration", "compiler": "the compiler",
    "code": "the source of the model",
}  # fmt: skip
_VLLM_PATHS = ("VLLM_XLA_CACHE_PATH", "VLLM_CONFIG_ROOT", "VLLM_CACHE_ROOT", "VLLM_ASSETS_CACHE", "VLLM_RPC_BASE_PATH")


def is_vllm_factors(content: Any) -> bool:
    """Whether a JSON document is a cache_key_factors.json."""
    return isinstance(content, dict) and any(name in content for name in ("env", "config_hash", "code_hash"))


def vllm_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[CacheDifference]:
    """Every factor that differs; only its hash where the values behind it are missing or equal."""
    found = []
    for part, what in _VLLM_PARTS.items():
        one, other = before.get(part), after.get(part)
        values = [_difference_of(part, what, *each) for each in _changed_leaves(one, other, "")]
        found += values
        hashes = before.get(f"{part}_hash"), after.get(f"{part}_hash")
        if not values and hashes[0] != hashes[1] and None not in hashes:
            kind: DifferenceKind = "setting" if part == "config" else "other"
            found.append(_difference(f"{part}_hash", *hashes, kind, f"{what}: the file holds its hash alone"))
    return found


def _changed_leaves(one: Any, other: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two documents that differ, by dotted names."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _changed_leaves(one.get(key), other.get(key), f"{name}.{key}" if name else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _changed_leaves(left, right, f"{name}[{number}]")
    elif one != other:
        yield name, one, other


def _difference_of(part: str, what: str, name: str, before: Any, after: Any) -> CacheDifference:
    component = f"{part}.{name}" if name else part
    paths = [isinstance(value, str) and value.startswith(("/", "~")) for value in (before, after)]
    kind: DifferenceKind = "path" if any(paths) else "variable" if part == "env" else "setting"
    says = f"{what}: {name or part}"
    if kind == "path" and part == "env":
        irrelevant = ", which says nothing about what was compiled" if name in _VLLM_PATHS else ""
        says += f" names a path{irrelevant}: set it to the same value in both places"
    return _difference(component, before, after, kind, says)


def _difference(component: str, before: Any, after: Any, kind: DifferenceKind, says: str) -> CacheDifference:
    shown = [None if value is None else str(value)[:_LONGEST] for value in (before, after)]
    return CacheDifference("", "fx_graph", component, shown[0], shown[1], kind, says)
