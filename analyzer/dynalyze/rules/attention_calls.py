"""What rules about attention ask of a report, and the words they share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dynalyze.facts.stacks import Places
from dynalyze.report import Finding, GraphBreak, Location, Report
from dynalyze.report.models import AttentionBackend, AttentionCall, AttentionInput, ModuleFacts

FROM_GRAPH = "Read from the graph."
FROM_SETTINGS = "Read from the configuration; the run did not show it."
FROM_RUN = "Seen in this run."
HALVES = ("float16", "bfloat16")
# transformers' own names, and those of kernels from the hub.
_FLASH = re.compile(r"flash[-_]?(?:attention|attn)")
BACKENDS: dict[AttentionBackend, str] = {
    "flash": "FlashAttention inside PyTorch",
    "efficient": "the memory-efficient kernel",
    "cudnn": "cuDNN's kernel",
    "math": "single operations (math)",
    "cpu_flash": "the fused kernel for CPUs",
    "overrideable": "the kernel of this device's own",
    "flex": "a kernel that Inductor made for flex_attention",
    "external": "a kernel of another library",
    "": "an unknown kernel",
}


def sdpa_calls(report: Report) -> Iterator[AttentionCall]:
    """The calls of scaled_dot_product_attention."""
    return (call for call in report.attention if call.op == "sdpa")


def once(found: Iterable[tuple[int, Finding]]) -> Iterator[tuple[int, Finding]]:
    """What says the same of the same line once, with all calls as its evidence: graphs of other sizes have calls of
    their own, and are mended by one change.
    """
    kept: dict[object, tuple[int, Finding]] = {}
    for rank, finding in found:
        place = finding.location
        told = (finding.title, finding.advice, place and (place.file, place.line))
        _, first = kept.setdefault(told, (rank, finding))
        first.evidence += [name for name in finding.evidence if name not in first.evidence]
    yield from kept.values()


def on_cuda(call: AttentionCall) -> bool:
    """Whether its tensors were on a GPU of NVIDIA or AMD."""
    return call.device.startswith("cuda")


def place_of(report: Report, call: AttentionCall) -> Location | None:
    """The line that called it; where that is a library's, the compiled function, or the program's torch.compile."""
    places = Places()
    called = Location(call.file, call.line, function=call.function) if call.file else None
    compiled = [graph.location for graph in report.graphs if graph.id == call.graph and graph.location is not None]
    given = [Location(module.file, module.line) for module in report.modules if module.file]
    own = (each for each in (called, *compiled, *given[:1]) if each and places.origin(each.file) == "user")
    return next(own, called)


def shape(tensor: AttentionInput | None) -> str:
    """`float32 [2, 8, s77, 64]`."""
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]" if tensor else "unknown"


def flash_modules(report: Report) -> list[ModuleFacts]:
    """The modules whose configuration asks for FlashAttention of the library flash-attn."""
    return [module for module in report.modules if _FLASH.search(module.attention)]


def flash_calls(report: Report) -> list[AttentionCall]:
    """The calls of flash-attn's operators."""
    return [call for call in report.attention if call.op == "flash_attn"]


def users_line(found: GraphBreak) -> Location:
    """The innermost line of the user's own code that led to a break; the break's where a library called itself."""
    places = Places()
    return next((each for each in reversed(found.stack) if places.origin(each.file) == "user"), found.location)


def ids(facts: Iterable[AttentionCall | GraphBreak | ModuleFacts]) -> list[str]:
    """Their ids, once each."""
    return list(dict.fromkeys(fact.id for fact in facts))


def counted(number: int, one: str, many: str = "") -> str:
    """`1 call`, `3 calls`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
