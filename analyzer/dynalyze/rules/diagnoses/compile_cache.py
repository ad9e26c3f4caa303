"""Compiles that no cache keeps, and a second start that the caches do not make warm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dynalyze.report import BypassReason, CacheBypass, Compilation, Example, Impact, Report
from dynalyze.report.audit import SecondStart
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import listed, lookups

_MOST_NAMED = 3
_TUTORIAL = "https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html"
WHAT: dict[BypassReason, str] = {
    "custom_pass": "a custom pass has no uuid",
    "autograd_function": "a custom autograd.Function is in the graph",
    "autocast": "torch.autocast is entered inside of the graph",
    "function": "the graph calls a function that torch does not know",
    "higher_order": "a higher-order operator is in the graph",
    "checkpoint": "the context_fn of a checkpoint has no hash",
    "frozen": "weights are frozen into the graph",
    "switched_off": "a cache is switched off",
    "not_storable": "something in the graph cannot be stored",
    "version": "Triton is too old",
    "other": "torch gives another reason",
}
STEPS: dict[BypassReason, str] = {
    "custom_pass": "Make the pass a subclass of `torch._inductor.custom_graph_pass.CustomGraphPass` (or the class of "
    "its kind beside it) with a `uuid()` that changes with its code.",
    "autograd_function": "If its code depends on nothing but its inputs, allow it with "
    "`torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True`.",
    "autocast": "Allow it by the setting: what it does depends on its arguments alone, which are in the key. Or put "
    "`with torch.autocast(...)` around the call of the compiled function, where all of it may run under autocast.",
    "function": "Make the function a custom operator with `torch.library.custom_op` instead of "
    "`torch.compiler.allow_in_graph`.",
    "higher_order": "Keep `torch.cond` and its like out of the functions whose start must be fast. There is no "
    "setting.",
    "checkpoint": "Give the `context_fn` an attribute `cache_hash`: a text that changes with its code.",
    "frozen": "Compile without `torch._inductor.config.freezing`, if the start matters more than the speed that it "
    "gains.",
    "switched_off": "Set `torch._inductor.config.fx_graph_cache = True` (the default), or remove "
    "TORCHINDUCTOR_FX_GRAPH_CACHE=0.",
    "not_storable": "Look at what PyTorch names: an object that pickle refuses, held by the module or by a setting.",
    "version": "Install Triton 3.2 or later.",
    "other": "Look up what PyTorch says.",
}
_NOT_KEPT = (
    "torch keeps compiled graphs on disk, and a second start of the program takes them from there. These it cannot "
    "keep: each new process compiles them from the beginning."
)
_TRACED_ANEW = (
    "Inductor's kernels come from the cache at the next start. What AOTAutograd does before them, tracing forward and "
    "backward, is done anew in each process."
)
_EXAMPLE = Example(
    "torch._inductor.config.post_grad_custom_post_pass = my_pass",
    "from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files\n\n"
    "class MyPass(CustomGraphPass):\n"
    "    def __call__(self, graph):\n"
    "        my_pass(graph)\n\n"
    "    def uuid(self):\n"
    "        return get_hash_for_files((__file__,))\n\n"
    "torch._inductor.config.post_grad_custom_post_pass = MyPass()",
)


@Rule(
    title="A cache was bypassed",
    rank=600,
    link=_TUTORIAL,
    description="torch keeps compiled graphs on disk, so that the next start of the program is fast. Some graphs it "
    "cannot keep, and says so only in a trace: a custom pass without a uuid, an unknown function in the graph, frozen "
    "weights. Those are compiled anew in every process.",
)
def cache_bypass(report: Report) -> Iterator[Ranked]:
    groups: dict[tuple[BypassReason, str], list[tuple[Compilation, CacheBypass]]] = {}
    for compilation in report.compilations:
        for reason, bypass in _causes(compilation).items():
            function = _FUNCTION.search(bypass.said) if reason == "function" else None
            groups.setdefault((reason, function[0] if function else ""), []).append((compilation, bypass))
    for (reason, _), met in groups.items():
        yield _bypass(reason, *zip(*met, strict=True))


def _causes(compilation: Compilation) -> dict[BypassReason, CacheBypass]:
    """What the first cache refused: the same cause often stops both caches, and the second words it otherwise."""
    found: dict[BypassReason, CacheBypass] = {}
    for bypass in compilation.cache_bypasses:
        if bypass.cache == compilation.cache_bypasses[0].cache:
            found.setdefault(bypass.reason, bypass)
    return found


# Torch's words for an operation that it does not know to be safe.
_FUNCTION = re.compile(r"Function module: (?P<module>[\w.]+),\s+Function name: (?P<name>\w+)")
# torch's old constructors, `torch.FloatTensor([0.5])`, by the dtype of what they make.
_OLD = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
    "BoolTensor": "bool",
}  # fmt: skip
# Where Dynamo keeps what stands in graphs for NumPy's functions.
_NUMPY = "torch._dynamo.utils"
_OF_NUMPY = re.compile(r"<original (?P<name>\w+)>")
_DRAWN = (
    "Draw before the compiled function and pass the result in, or draw with torch (`torch.randint`, `torch.rand`); in "
    "a graph NumPy's numbers are others than in eager, for the same seed too"
)
_IN_TORCH = {
    "wrapped_getitem": "Keep this array as a tensor, made once (a buffer of the module), and index that",
    **dict.fromkeys(("rand", "randint", "randn", "random", "uniform", "normal", "choice", "permutation"), _DRAWN),
}
_IN_PYTHON = (
    "Compute a number with Python's `math` instead of NumPy (`math.ceil`, `math.sqrt`), and an array with torch"
)
_MARKED = "marked = torch._inductor.config.unsafe_marked_cacheable_functions"
_AUTOCAST = [f"torch.amp.autocast_mode._{way}_autocast" for way in ("enter", "exit")]


def _setting(reason: BypassReason, bypass: CacheBypass) -> str:
    """Statements with which a cache takes these graphs, for what torch itself put into them."""
    if reason == "autocast":
        return "\n".join([_MARKED, *(f'marked["{name}"] = "1"' for name in _AUTOCAST)])
    found = _FUNCTION.search(bypass.said) if reason == "function" else None
    if found is None or not found["module"].startswith("torch.") or found["module"] == _NUMPY:
        return ""
    return f'{_MARKED}\nmarked["{found["module"]}.{found["name"]}"] = "1"'


def _step(reason: BypassReason, bypass: CacheBypass, setting: str) -> str:
    """What to do; nobody can make a custom operator of torch's own function."""
    found = _FUNCTION.search(bypass.said) if reason == "function" else None
    if found is not None and found["module"] == "torch" and found["name"] in _OLD:
        dtype = _OLD[found["name"]]
        return (
            f"Make the tensor with `torch.tensor(..., dtype=torch.{dtype})`, or with `torch.empty` for sizes: "
            f"no cache knows the old constructor `torch.{found['name']}`."
        )
    if found is not None and found["module"] == _NUMPY:
        called = _OF_NUMPY.search(bypass.said)
        way = _IN_TORCH.get(called["name"] if called else "", _IN_PYTHON)
        return f"{way}: Dynamo makes operations of NumPy's calls, and no cache knows them."
    if found is not None and setting:
        return "If it depends on nothing but its arguments, allow it by the setting."
    return STEPS[reason]


# With one cause mended the graph is kept only where it has no other.
_ONE_AT_A_TIME = " torch names one cause of a graph at a time: run this again afterwards."


def _bypass(reason: BypassReason, compilations: Sequence[Compilation], bypasses: Sequence[CacheBypass]) -> Ranked:
    # Those that neither cache keeps; with Inductor's cache off, none is left.
    off = reason == "switched_off"
    cold = [each for each in compilations if off or any(one.cache == "fx_graph" for one in each.cache_bypasses)]
    concerned = cold or compilations
    said = next((" ".join(each.said.split()) for each in bypasses if each.said), "")
    quoted = f" PyTorch says: {said.rstrip('.')}." if said else ""
    names = list(dict.fromkeys(each.location.function or "a function" for each in concerned))
    place = next((each.location for each in bypasses if each.location is not None), concerned[0].location)
    setting = _setting(reason, bypasses[0])
    times = [each.seconds["total"] for each in cold if each.seconds.get("total") is not None]
    return cache_bypass.finding(
        f"{listed(names, _MOST_NAMED)} {'is' if len(names) == 1 else 'are'} {'compiled' if cold else 'traced'} anew "
        f"at every start: {WHAT[reason]}",
        f"{_step(reason, bypasses[0], setting)}{'' if off else _ONE_AT_A_TIME}{quoted}",
        why=_NOT_KEPT if cold else _TRACED_ANEW,
        example=_EXAMPLE if reason == "custom_pass" else None,
        severity="warning" if cold and not off else "info",
        config=setting,
        config_note="The text is a version of your own: change it when the function changes."
        if setting and reason == "function"
        else "",
        location=place,
        evidence=dict.fromkeys(compilation.compile_id for compilation in concerned),
        impact=Impact(compile_seconds=round(sum(times), 6), what="spent on compiles that no cache keeps")
        if times and len(times) == len(cold)
        else None,
    )


@Rule(
    title="A second start compiles again",
    rank=590,
    link=_TUTORIAL,
    description="torch keeps compiled graphs on disk. `dynalyze audit --shapes` starts a second process with the "
    "caches that the first one left; it should find every graph there. It did not: some were missing, or went past the "
    "cache.",
)
def second_start_cold(report: Report) -> Iterator[Ranked]:
    second = report.warmup.second_start if report.warmup is not None else None
    if second is None or second.warm:
        return
    counts = lookups(second.hits, second.misses, second.bypasses)
    quoted = f" PyTorch says: {second.said.rstrip('.')}." if second.said else ""
    yield second_start_cold.finding(
        f"A second start is not served by the caches: {counts or 'they were not asked'}",
        _action(second),
        why=f"Measured: the first calls with all shapes took {second.cold_seconds:.1f} s with empty caches, and "
        f"{second.warm_seconds:.1f} s in a new process with the caches that these left. Graphs that no cache keeps "
        f"are compiled anew at every start, on every machine.{quoted}",
        evidence=second.reasons,
        impact=Impact(compile_seconds=second.warm_seconds, what="taken by the first calls of a second start"),
    )


def _action(second: SecondStart) -> str:
    if reasons := [reason for reason in STEPS if reason in second.reasons]:
        steps = " ".join(f"{WHAT[each].capitalize()}: {STEPS[each][:1].lower()}{STEPS[each][1:]}" for each in reasons)
        return f"{steps} The finding cache-bypass names the functions."
    if second.misses:
        return (
            "Look for what differs from one process to the next: an object in the graph that is made anew, a constant "
            "drawn at random, a path or a setting that the program changes. `dynalyze cache` names it."
        )
    return (
        "Turn the caches on: `torch._inductor.config.fx_graph_cache = True`, and no TORCHINDUCTOR_FORCE_DISABLE_CACHES."
    )
