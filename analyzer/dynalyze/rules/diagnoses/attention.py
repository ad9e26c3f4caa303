"""Which kernels compute attention, what keeps it from a fused one (masks, shapes, dtypes), and flex_attention."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.facts.audit import CellOutcome, cell_name, instead_of, is_own, outcome, right
from dynalyze.report import Example, Location, Report, Severity, Target
from dynalyze.report.audit import AttentionCell, AttentionMatrix
from dynalyze.report.models import AttentionBackend, AttentionCall, AttentionInput
from dynalyze.rules import report_queries as queries
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import count_of, listed

_SWITCHES = ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "cudnn_sdp_enabled")
# torch compiles this around a call that is in no graph, only to run it as single operations.
_WRAPPER = "_flex_attention_hop_wrapper"
_ABOUT_MASKS = re.compile(r"\b(block_mask|mask_mod|score_mod)\b")
_CPU_LIMITS = {
    "only supports inference": "Run it under `torch.no_grad()` and without `return_lse`",
    "does not support backward on CPU": "Run it under `torch.no_grad()`",
    "Mixed query, key, and value dtype": "Give query, key and value one dtype",
    "not supported for CPU": "Use `scaled_dot_product_attention`: this CPU lacks AVX2",
    "max scores is not supported on CPU": "Leave `AuxRequest(max_scores=True)` out",
}


@Rule(
    title="Attention without a fused kernel",
    link="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
    description="scaled_dot_product_attention has kernels that never write the matrix of scores to memory. Where none "
    "of them fits the inputs it falls back to single operations, without a word.",
    fix="Give query, key and value four dimensions, one width and, on a GPU, float16 or bfloat16, and leave the "
    "fused kernels switched on.",
)
@queries.once
def sdpa_math(report: Report) -> Iterator[Ranked]:
    for call in queries.calls_of(report, "sdpa"):
        if call.backend == "math":
            reason, action = _reason(report, call)
            yield sdpa_math.finding(
                "scaled_dot_product_attention runs as single operations",
                action,
                why=f"{queries.FROM_GRAPH} {reason} The whole matrix of scores is written to memory. Query "
                f"{queries.shape(call.query)}, key {queries.shape(call.key)}, value {queries.shape(call.value)}.",
                rank=230 if queries.on_cuda(call) else 420,
                severity="warning" if queries.on_cuda(call) else "info",
                location=queries.place_of(report, call),
                evidence=[call.id],
            )


def _reason(report: Report, call: AttentionCall) -> tuple[str, str]:
    """Why there is no fused kernel, as far as it can be told, and what to do."""
    if _is_beside(report, call, "_sdpa_kernel"):
        return (
            "The graph chooses its kernels by `sdpa_kernel(...)`.",
            "Leave `SDPBackend.MATH` out of `sdpa_kernel(...)`, or list a fused backend first.",
        )
    off = [name for name in _SWITCHES if report.settings.get(f"torch.backends.cuda.{name}") is False]
    if len(off) == len(_SWITCHES) or (not queries.on_cuda(call) and "flash_sdp_enabled" in off):
        return (
            f"It is switched off: {', '.join(f'torch.backends.cuda.{name}() is False' for name in off)}.",
            "Switch the fused kernels on again: `torch.backends.cuda.enable_flash_sdp(True)` and its like.",
        )
    if call.why_not:
        said = "; ".join(f"{backend}: {words}" for backend, words in call.why_not.items())
        return f"PyTorch says: {said}.", "Change what PyTorch names, for one of its kernels."
    return _from_tensors(call)


def _is_beside(report: Report, call: AttentionCall, op: str) -> bool:
    """Whether an operation is in the same graph."""
    graph = next((graph for graph in report.graphs if graph.id == call.graph), None)
    return graph is not None and op in graph.histogram


def _from_tensors(call: AttentionCall) -> tuple[str, str]:
    """What rules fused kernels out by itself."""
    tensors = [tensor for tensor in (call.query, call.key, call.value) if tensor is not None]
    widths = {str(tensor.shape[-1]) for tensor in tensors if tensor.shape}
    if any(len(tensor.shape) != 4 for tensor in tensors):
        return (
            "Fused kernels take four dimensions.",
            "Give query, key and value the shape (batch, heads, length, width).",
        )
    if not queries.on_cuda(call) and call.dropout:
        return (
            "The fused kernel for CPUs has no dropout.",
            "Leave it where dropout is wanted, as in training; else call it with `dropout_p=0.0`, as in eval mode.",
        )
    if not queries.on_cuda(call) and len(widths) > 1:
        return (
            "The fused kernel for CPUs takes one width of heads.",
            f"Pad value to the width of query and key (here {', '.join(sorted(widths))}), and cut the result.",
        )
    if queries.on_cuda(call) and any(tensor.dtype == "float64" for tensor in tensors):
        return "No fused kernel takes float64.", f"Compute attention in {' or '.join(queries.HALVES)}, or in float32."
    return (
        "Why no fused kernel was taken is unknown here.",
        "Call it once in eager under `with sdpa_kernel(SDPBackend.FLASH_ATTENTION)`: PyTorch then warns why that "
        "kernel cannot be taken.",
    )


@Rule(
    title="Several kernels for attention",
    severity="info",
    rank=900,
    description="scaled_dot_product_attention is one name for several kernels. The ATen graph says which of them was "
    "taken for each call. Without such a graph (backend eager) it is unknown.",
    fix="Look at the calls that have another kernel than the rest: their types, masks and shapes chose it.",
)
def attention_backend(report: Report) -> Iterator[Ranked]:
    by_backend: dict[AttentionBackend, list[AttentionCall]] = {}
    for call in queries.calls_of(report, "sdpa"):
        by_backend.setdefault(call.backend, []).append(call)
    # One kernel for all calls is as it should be, or has a finding of its own; an unknown one is no news.
    if len(by_backend.keys() - {""}) < 2:
        return
    parts = [
        f"{queries.BACKENDS[backend]} ({count_of(sum(call.count for call in calls), 'call')})"
        for backend, calls in by_backend.items()
    ]
    calls = [call for group in by_backend.values() for call in group]
    yield attention_backend.finding(
        f"scaled_dot_product_attention is computed by {', '.join(parts)}",
        "What is unknown here is not in an ATen graph: compile with the default backend to see it."
        if "" in by_backend
        else attention_backend.fix,
        why=f"{queries.FROM_GRAPH} PyTorch chooses a kernel by device, types and shapes when a graph is made, and does "
        "not say which.",
        location=queries.place_of(report, calls[0]),
        evidence=queries.ids(calls),
    )


@Rule(
    title="A boolean mask for attention",
    severity="info",
    rank=510,
    description="Kernels add a mask to the scores. A boolean one is made into zeros and minus infinities first, in "
    "every layer, and any mask at all keeps FlashAttention from being taken.",
    fix="Pass `is_causal=True` and no mask where it is causal; else make a mask of numbers once, for all layers.",
    example=Example(
        "mask = allowed", "mask = torch.zeros(allowed.shape, dtype=query.dtype).masked_fill(~allowed, float('-inf'))"
    ),
)
@queries.once
def sdpa_bool_mask(report: Report) -> Iterator[Ranked]:
    for call in queries.calls_of(report, "sdpa"):
        if queries.on_cuda(call) and call.mask is not None and call.mask.dtype == "bool":
            dtype = call.query.dtype if call.query is not None else "float16"
            yield sdpa_bool_mask.finding(
                "A boolean attention mask is made into numbers in each call",
                "Pass `is_causal=True` and no mask where the mask is causal: FlashAttention takes no mask at all. Else "
                f"make a {dtype} mask once (0 where a key is seen, -inf elsewhere) and pass it to every layer.",
                why=f"{queries.FROM_GRAPH} The mask is {queries.shape(call.mask)}. What it costs was not measured.",
                location=queries.place_of(report, call),
                evidence=[call.id],
            )


_MULTIPLE = 8


@Rule(
    title="A mask with unaligned rows",
    rank=360,
    link="https://github.com/pytorch/pytorch/issues/121943",
    description="On CUDA the memory-efficient kernel reads a mask in aligned pieces. A mask whose last dimension is no "
    "multiple of 8 has to be copied first, and with compiled code this has failed.",
    fix="Make the mask a multiple of 8 wide and pass the part of it that is needed: `mask[..., :keys]`.",
    example=Example(
        "mask = torch.zeros(batch, 1, queries, keys)",
        "wide = -(-keys // 8) * 8\nmask = torch.zeros(batch, 1, queries, wide)[..., :keys]",
    ),
)
@queries.once
def attention_mask_alignment(report: Report) -> Iterator[Ranked]:
    for call in queries.calls_of(report, "sdpa"):
        if (
            not queries.on_cuda(call)
            or call.mask is None
            or call.backend not in ("efficient", "")
            or not _is_odd(call.mask)
        ):
            continue
        keys = int(call.mask.shape[-1])
        yield attention_mask_alignment.finding(
            f"The attention mask is {keys} wide, no multiple of {_MULTIPLE}",
            f"Make the mask {-(-keys // _MULTIPLE) * _MULTIPLE} keys wide and pass `mask[..., :{keys}]`: its rows then "
            f"begin at multiples of {_MULTIPLE}.",
            why=f"{queries.FROM_GRAPH} The mask is {queries.shape(call.mask)}. The memory-efficient kernel wants "
            "aligned rows: compiled code copies such a mask in each call, and some versions of torch stop with "
            "`attn_bias is not correctly aligned`, in compiled code alone.",
            location=queries.place_of(report, call),
            evidence=[call.id],
        )


def _is_odd(mask: AttentionInput) -> bool:
    """Whether rows are known to begin at odd places; a mask that is a part of a wider one is fine."""
    width = mask.shape[-1] if mask.shape else None
    if not isinstance(width, int) or width % _MULTIPLE == 0 or width == 1:
        return False
    step = mask.stride[-2] if len(mask.stride) > 1 else width
    return isinstance(step, int) and step % _MULTIPLE != 0


_NORM_IN_FLOAT32 = (2, 12)


@Rule(
    title="Attention over different types",
    rank=60,
    link="https://github.com/huggingface/diffusers/issues/14104",
    description="Kernels of other libraries want query, key and value in one type. Under autocast a norm on query and "
    "key may leave these two in float32 while value is bfloat16.",
    fix="Cast query and key to the type of value before the call.",
    example=Example(
        "flash_attn_func(query, key, value)", "flash_attn_func(query.to(value.dtype), key.to(value.dtype), value)"
    ),
)
@queries.once
def attention_mixed_dtypes(report: Report) -> Iterator[Ranked]:
    # PyTorch's own attention is put right by autocast, or refuses; other libraries' kernels are called as they are.
    for call in queries.calls_of(report, "flash_attn"):
        dtypes = queries.dtypes_of(call)
        if len(set(dtypes.values())) < 2:
            continue
        wanted = next((dtype for dtype in reversed(dtypes.values()) if dtype != "float32"), "bfloat16")
        given = next(name for name in reversed(dtypes) if dtypes[name] == wanted)
        others = [name for name, dtype in dtypes.items() if dtype != wanted]
        torch, cause = queries.version(report, "torch"), "What made them differ is not in the graph."
        if torch >= _NORM_IN_FLOAT32 and _is_beside(report, call, "rms_norm"):
            cause = (
                "This graph has rms_norm, which autocast computes in float32 on CUDA since torch 2.12 "
                f"({queries.shown_version(torch)} here): a norm on query and key leaves them in float32."
            )
        yield attention_mixed_dtypes.finding(
            f"FlashAttention is given {', '.join(f'{name} in {dtype}' for name, dtype in dtypes.items())}",
            f"Cast {' and '.join(others)} to {given}'s {wanted} before the call: "
            f"`{', '.join(f'{name}.to({given}.dtype)' for name in others)}`.",
            why=f"{queries.FROM_GRAPH} Its kernels take one type for all three. {cause}",
            location=queries.place_of(report, call),
            evidence=[call.id],
        )


@Rule(
    title="flex_attention below what it can do",
    link="https://docs.pytorch.org/docs/stable/nn.attention.flex_attention.html",
    description="flex_attention becomes one fused kernel inside a compiled graph alone. Outside, with a block mask "
    "made in each call, or with new functions in each call it is slow; on a CPU it computes no gradients.",
    fix="Compile the function that calls it, make block masks once outside of it, and define `mask_mod` and "
    "`score_mod` at the top of a module.",
)
def flex_attention(report: Report) -> Iterator[Ranked]:
    refused = [
        (each, step)
        for each in report.compilations
        if each.status == "failed"
        and (step := next((step for words, step in _CPU_LIMITS.items() if words in each.reason), None))
    ]
    for compilation, step in refused:
        yield flex_attention.finding(
            "flex_attention cannot be compiled here",
            f"{step}; or use `scaled_dot_product_attention` with a mask on this device.",
            why=f"{queries.FROM_RUN} torch says: {compilation.reason}",
            rank=5,
            severity="error",
            location=compilation.location,
            evidence=[compilation.compile_id],
        )
    if not refused and (outside := [each for each in report.compilations if each.function == _WRAPPER]):
        first = next((each for each in outside if each.caller is not None), outside[0])
        yield flex_attention.finding(
            "flex_attention is called outside of a compiled graph",
            "Compile the function that calls it, or call `torch.compile(flex_attention)` in its place.",
            why=f"{queries.FROM_RUN} There it runs as single operations and writes the whole matrix of scores to "
            "memory, which it is made to avoid.",
            rank=150,
            location=first.caller or first.location,
            evidence=dict.fromkeys(each.compile_id for each in outside),
        )
    yield from _masks_made(report)
    again = [each for each in report.recompiles if _ABOUT_MASKS.search(f"{each.source or ''} {each.guard}")]
    if again:
        yield flex_attention.finding(
            f"A new mask or score function of flex_attention: {count_of(len(again), 'recompile')}",
            "Define `score_mod` and `mask_mod` once, at the top of a module, and make each block mask once: a function "
            "defined in each call is a new one for the compiler. Read changing numbers in them from tensors.",
            why=f"{queries.FROM_RUN} The guard that failed: {again[0].guard}",
            rank=210,
            location=again[0].location,
            evidence=queries.ids(again),
        )


@queries.once
def _masks_made(report: Report) -> Iterator[Ranked]:
    for call in queries.calls_of(report, "flex_attention"):
        if call.mask_made:
            yield flex_attention.finding(
                "flex_attention's block mask is made anew in each call",
                "Make it once with `create_block_mask`, outside of the compiled function, and pass it in; make a new "
                "one only where the lengths change.",
                why=f"{queries.FROM_GRAPH} The graph looks at every pair of positions to find the blocks that can be "
                "left out. What it costs was not measured.",
                rank=370,
                severity="info",
                location=queries.place_of(report, call),
                evidence=[call.id],
            )


_MOST_NAMED = 3
# What torch.compile did to a combination; what fails in eager, or cannot be tried here, is none of its doing.
_OUTCOMES: dict[CellOutcome, str] = {
    "suspicious": "gives numbers that are wrong beyond rounding once it is compiled",
    "compile_error": "does not compile",
    "crash": "crashes when it is compiled",
    "timeout": "ran out of time",
    "breaks": "breaks the graph",
}


@Rule(
    title="An attention implementation does not go together with compiling",
    description="`dynalyze audit --attention-matrix` tried every attention implementation with every dtype, and both "
    "caches where the phase has one. This combination breaks the graph, does not compile, or gives numbers that are "
    "farther from fp64 than rounding explains. A warning is about the combination that the model has by itself; what "
    "fails without torch.compile, or cannot be tried on this device, is told in the matrix alone.",
)
def attention_matrix(report: Report) -> Iterator[Ranked]:
    matrix = report.attention_matrix
    if matrix is None:
        return
    good = right(matrix)
    others: dict[tuple[str, CellOutcome], list[AttentionCell]] = {}
    for cell in matrix.cells:
        found = outcome(cell)
        if found not in _OUTCOMES:
            continue
        if is_own(cell, matrix):
            title = f"{cell_name(cell)}, as the model has it, {_OUTCOMES[found]}"
            yield _matrix_finding(
                120, "warning", title, [cell], _matrix_step(cell, instead_of(cell, good), report.target, matrix)
            )
        else:
            others.setdefault((cell.attention, found), []).append(cell)
    for (attention, found), cells in others.items():
        which = listed([f"{cell.dtype}{_cache(cell)}" for cell in cells], _MOST_NAMED)
        other = instead_of(cells[0], good)
        kept = f"Keep to {cell_name(other)}: it runs without breaks and is right." if other is not None else ""
        step = kept or _look(cells[0], report.target)
        yield _matrix_finding(600, "info", f"{attention} with {which} {_OUTCOMES[found]}", cells, step)


def _matrix_finding(rank: int, severity: Severity, title: str, cells: list[AttentionCell], step: str) -> Ranked:
    first = cells[0]
    reason = first.reason if not first.reason or first.reason.endswith((".", "…")) else f"{first.reason}."
    return attention_matrix.finding(
        title,
        step,
        why=f"{reason} Read from a run of each combination on this device.".lstrip(),
        rank=rank,
        severity=severity,
        location=Location(first.file, first.line) if first.file else None,
        evidence=[cell.id for cell in cells],
    )


def _matrix_step(cell: AttentionCell, other: AttentionCell | None, target: Target, matrix: AttentionMatrix) -> str:
    """The setting of the user's own that leads to a combination which works."""
    if other is None:
        return _look(cell, target)
    changes = []
    if other.attention != cell.attention:
        changes.append(f'`attn_implementation="{other.attention}"`')
    if other.dtype != cell.dtype:
        changes.append(f"`dtype=torch.{other.dtype}`")
    if other.cache != cell.cache:
        changes.append(f"a {other.cache} cache")
    model = matrix.model or "the model"
    return f"Load {model} with {' and '.join(changes)}: {cell_name(other)} runs without breaks and is right."


def _look(cell: AttentionCell, target: Target) -> str:
    attention = f" --attn-implementation {cell.attention}" if target.kind == "transformers" else ""
    command = f"dynalyze explain {target.spec}{attention} --dtype {cell.dtype}"
    return f"No combination that could be tried works; look at this one alone: `{command}`."


def _cache(cell: AttentionCell) -> str:
    return f" and a {cell.cache} cache" if cell.cache else ""
