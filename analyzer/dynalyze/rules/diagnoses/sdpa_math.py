"""scaled_dot_product_attention that no fused kernel computes."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, Report
from dynalyze.report.models import AttentionCall
from dynalyze.rules.report_queries import FROM_GRAPH, HALVES, on_cuda, once, place_of, sdpa_calls, shape
from dynalyze.rules.rule import Rule

_LINK = "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"
_SWITCHES = ("flash_sdp_enabled", "mem_efficient_sdp_enabled", "cudnn_sdp_enabled")
_UNKNOWN = "Why no fused kernel was taken is unknown here."


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    return once(_found(report))


def _found(report: Report) -> Iterator[tuple[int, Finding]]:
    for call in sdpa_calls(report):
        if call.backend == "math":
            yield (230 if on_cuda(call) else 420), _finding(report, call)


def _finding(report: Report, call: AttentionCall) -> Finding:
    reason, action = _reason(report, call)
    return RULE.finding(
        title="scaled_dot_product_attention runs as single operations",
        severity="warning" if on_cuda(call) else "info",
        location=place_of(report, call),
        evidence=[call.id],
        advice=Advice(
            action=action,
            why=f"{FROM_GRAPH} {reason} The whole matrix of scores is written to memory. Query {shape(call.query)}, "
            f"key {shape(call.key)}, value {shape(call.value)}.",
            link=_LINK,
        ),
    )


def _reason(report: Report, call: AttentionCall) -> tuple[str, str]:
    """Why there is no fused kernel, as far as it can be told, and what to do."""
    graph = next((graph for graph in report.graphs if graph.id == call.graph), None)
    if graph is not None and "_sdpa_kernel" in graph.histogram:
        return (
            "The graph chooses its kernels by `sdpa_kernel(...)`.",
            "Leave `SDPBackend.MATH` out of `sdpa_kernel(...)`, or list a fused backend first.",
        )
    off = [name for name in _SWITCHES if report.settings.get(f"torch.backends.cuda.{name}") is False]
    if len(off) == len(_SWITCHES) or (not on_cuda(call) and "flash_sdp_enabled" in off):
        return (
            f"It is switched off: {', '.join(f'torch.backends.cuda.{name}() is False' for name in off)}.",
            "Switch the fused kernels on again: `torch.backends.cuda.enable_flash_sdp(True)` and its like.",
        )
    if call.why_not:
        said = "; ".join(f"{backend}: {words}" for backend, words in call.why_not.items())
        return f"PyTorch says: {said}.", "Change what PyTorch names, for one of its kernels."
    return _from_tensors(call)


def _from_tensors(call: AttentionCall) -> tuple[str, str]:
    """What rules fused kernels out by itself."""
    tensors = [tensor for tensor in (call.query, call.key, call.value) if tensor is not None]
    widths = {str(tensor.shape[-1]) for tensor in tensors if tensor.shape}
    if any(len(tensor.shape) != 4 for tensor in tensors):
        return (
            "Fused kernels take four dimensions.",
            "Give query, key and value the shape (batch, heads, length, width).",
        )
    if not on_cuda(call) and call.dropout:
        return "The fused kernel for CPUs has no dropout.", "Call it with `dropout_p=0.0` on a CPU (eval mode)."
    if not on_cuda(call) and len(widths) > 1:
        return (
            "The fused kernel for CPUs takes one width of heads.",
            f"Pad value to the width of query and key (here {', '.join(sorted(widths))}), and cut the result.",
        )
    if on_cuda(call) and any(tensor.dtype == "float64" for tensor in tensors):
        return "No fused kernel takes float64.", f"Compute attention in {' or '.join(HALVES)}, or in float32."
    return _UNKNOWN, (
        "Call it once in eager under `with sdpa_kernel(SDPBackend.FLASH_ATTENTION)`: PyTorch then warns why that "
        "kernel cannot be taken."
    )


RULE = Rule(
    id="sdpa-math",
    title="Attention without a fused kernel",
    severity="warning",
    description=(
        "scaled_dot_product_attention has kernels that never write the matrix of scores to memory. Where none of them "
        "fits the inputs it falls back to single operations, without a word."
    ),
    fix=(
        "Give query, key and value four dimensions, one width and, on a GPU, float16 or bfloat16, and leave the "
        "fused kernels switched on."
    ),
    passed="No scaled_dot_product_attention was seen to run as single operations.",
    judge=_judge,
)
