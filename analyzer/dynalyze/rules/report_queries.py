"""What several rules ask of a report: calls of attention, layers of libraries, device and settings; and shared words.

None, or nothing, stands for what is not known.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath

from dynalyze import registry
from dynalyze.facts.stacks import Places
from dynalyze.report import Graph, GraphBreak, Impact, Location, Recompile, Report, SkippedFrame, models
from dynalyze.report.intervals import Interval
from dynalyze.report.measurements import Measurement
from dynalyze.rules.recompile_series import seconds
from dynalyze.rules.rule import Ranked
from dynalyze.text.amounts import duration

_Judge = Callable[[Report], Iterator[Ranked]]

FROM_GRAPH = "Read from the graph."
FROM_SETTINGS = "Read from the configuration; the run did not show it."
FROM_RUN = "Seen in this run."
HALVES = ("float16", "bfloat16")
# transformers' own names, and those of kernels from the hub.
_FLASH = re.compile(r"flash[-_]?(?:attention|attn)")
BACKENDS: dict[models.AttentionBackend, str] = {
    "flash": "FlashAttention inside PyTorch", "efficient": "the memory-efficient kernel", "cudnn": "cuDNN's kernel",
    "math": "single operations (math)", "cpu_flash": "the fused kernel for CPUs",
    "overrideable": "the kernel of this device's own", "flex": "a kernel that Inductor made for flex_attention",
    "external": "a kernel of another library", "": "an unknown kernel",
}  # fmt: skip


def operators_in_graphs(report: Report) -> int:
    """Operators in the largest version of each frame: a call runs one of them."""
    of_versions: Counter[tuple[int, int, str]] = Counter()
    for graph in report.graphs:
        of_versions[graph.key] += graph.ops
    of_frames: Counter[tuple[int, int, str]] = Counter()
    for (process, epoch, compile_id), count in of_versions.items():
        frame = process, epoch, compile_id.partition("/")[0]
        of_frames[frame] = max(of_frames[frame], count)
    return of_frames.total()


def once(judge: _Judge) -> _Judge:
    """What a rule says in the same words of the same line once, with all calls as its evidence: graphs of other sizes
    have calls of their own, and are mended by one change.
    """

    @functools.wraps(judge)
    def judged(report: Report) -> Iterator[Ranked]:
        kept: dict[object, Ranked] = {}
        for rank, finding in judge(report):
            key = (finding.title, finding.advice, finding.location and finding.location.at)
            _, first = kept.setdefault(key, (rank, finding))
            first.evidence += [name for name in finding.evidence if name not in first.evidence]
        yield from kept.values()

    return judged


def on_cuda(call: models.AttentionCall) -> bool:
    """Whether its tensors were on a GPU of NVIDIA or AMD."""
    return call.device.startswith("cuda")


def place_of(report: Report, call: models.AttentionCall) -> Location | None:
    """The line that called it; where that is a library's, the compiled function, or the program's torch.compile."""
    places = Places()
    called = Location(call.file, call.line, function=call.function) if call.file else None
    compiled = [graph.location for graph in report.graphs if graph.id == call.graph and graph.location is not None]
    given = [Location(module.file, module.line) for module in report.modules if module.file]
    own = (each for each in (called, *compiled, *given[:1]) if each and places.origin(each.file) == "user")
    return next(own, called)


def shape(tensor: models.AttentionInput | None) -> str:
    """`float32 [2, 8, s77, 64]`."""
    return f"{tensor.dtype} [{', '.join(map(str, tensor.shape))}]" if tensor else "unknown"


def flash_modules(report: Report) -> list[models.ModuleFacts]:
    """The modules whose configuration asks for FlashAttention of the library flash-attn."""
    return [module for module in report.modules if _FLASH.search(module.attention)]


def calls_of(report: Report, op: models.AttentionOp) -> list[models.AttentionCall]:
    """The calls of one kind of attention: scaled_dot_product_attention is "sdpa"."""
    return [call for call in report.attention if call.op == op]


def dtypes_of(call: models.AttentionCall) -> dict[str, str]:
    """The dtypes of query, key and value, as far as they are known."""
    inputs = {"query": call.query, "key": call.key, "value": call.value}
    return {name: tensor.dtype for name, tensor in inputs.items() if tensor is not None and tensor.dtype}


def users_line(found: GraphBreak) -> Location:
    """The innermost line of the user's own code that led to a break; the break's where a library called itself."""
    places = Places()
    return next((each for each in reversed(found.stack) if places.origin(each.file) == "user"), found.location)


def costliest_break(measured: Iterable[Measurement]) -> tuple[tuple[Location, Interval] | None, str]:
    """Place and milliseconds of the graph break that takes most of a call, by the low end: so much at least. None with
    the reason where that is not known, and without one where breaks take nothing.
    """
    unknown = None, "no prices were measured"
    return next((each.costliest_break(measured) for each in registry.modules("rules")), unknown)


def ids(
    facts: Iterable[models.AttentionCall | Graph | GraphBreak | models.ModuleFacts | Recompile | SkippedFrame],
) -> list[str]:
    """Their ids, once each."""
    return list(dict.fromkeys(fact.id for fact in facts))


FROM_LAYERS = "Read from the configuration of the layers."
LORA_WEIGHT = re.compile(r"\blora_(?:A|B|embedding_A|embedding_B|magnitude_vector)\b")
"""A weight of an adapter in the source of a guard."""


def layers_of(report: Report, *libraries: str) -> list[tuple[models.ModuleFacts, models.LayerGroup]]:
    """The quantised layers of these libraries, module by module."""
    return [(module, group) for module in report.modules for group in module.layers if group.library in libraries]


def adapters_of(report: Report) -> Iterator[tuple[models.ModuleFacts, models.Adapters]]:
    """The modules that hold adapters."""
    return ((module, module.adapters) for module in report.modules if module.adapters is not None)


def uses_peft(report: Report) -> bool:
    """Whether a module holds adapters, or PEFT's code was traced."""
    traced = (Location(each.path, 1) for each in report.traced_files)
    return any(adapters_of(report)) or any(comes_from(each, "peft") for each in traced)


def version(report: Report, package: str) -> tuple[int, ...]:
    """The numbers of an installed version: (0, 50, 2); empty where it is not known."""
    packages = report.environment.get("packages")
    text = report.environment.get("torch") if package == "torch" else None
    if text is None and isinstance(packages, dict):
        text = packages.get(package)
    found = re.match(r"\d{1,9}(?:\.\d{1,9})*", str(text or ""))
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def shown_version(numbers: tuple[int, ...]) -> str:
    """`0.50.2`."""
    return ".".join(map(str, numbers))


def comes_from(location: Location, folder: str) -> bool:
    """Whether a line is in a file below a folder of this name: that of an installed package."""
    return folder in PurePosixPath(location.file.replace("\\", "/")).parts[:-1]


def breaks_in(report: Report, folder: str) -> list[GraphBreak]:
    """The graph breaks at lines of a package."""
    return [found for found in report.graph_breaks if comes_from(found.location, folder)]


def skipped_in(report: Report, folder: str) -> list[SkippedFrame]:
    """The functions of a package that torch left in eager, where they work on tensors."""
    return [each for each in report.skipped_frames if each.tensors and comes_from(each.location, folder)]


def compiled_at(module: models.ModuleFacts) -> Location | None:
    """The program's own call of torch.compile."""
    return Location(module.file, module.line) if module.file and module.line else None


def called_from(report: Report, again: Recompile) -> Location:
    """The function that was compiled again, where it is the program's own; for a library's, the line of the program
    that called it, or that compiled the only module of that class.
    """
    named = [each for each in report.modules if (again.location.function or "").startswith(f"{each.class_name}.")]
    compiled = [place for each in named if (place := compiled_at(each)) is not None]
    places = Places()
    known = (again.location, *callers(report, again), *(compiled if len(compiled) == 1 else ()))
    return next((each for each in known if places.origin(each.file) == "user"), again.location)


def callers(report: Report, again: Recompile) -> list[Location]:
    """The line that made the call which compiled again; empty where it is not known."""
    made = (each for each in report.compilations if each.key == again.key)
    return [each.caller for each in made if each.caller is not None]


def by_generate(report: Report, again: Recompile) -> bool:
    """Whether `generate` of transformers made the call."""
    files = (each.file.replace("\\", "/") for each in callers(report, again))
    return any(file.endswith("/transformers/generation/utils.py") for file in files)


def recompile_cost(members: list[Recompile], what: str = "of compile time") -> Impact | None:
    """What recompiles took together, where each was timed, and the next change will take as well."""
    known = seconds(members)
    if known is None:
        return None
    changes = len({each.change or each.id for each in members if each.cause != "limit"})
    each_time = f", {duration(known / changes)} each time" if changes > 1 else ""
    return Impact(compile_seconds=known, what=f"{what}{each_time}")


def capability(report: Report) -> tuple[int, int] | None:
    """The compute capability of the CUDA device in use; None without one."""
    found = report.settings.get("torch.cuda.get_device_capability")
    if isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(each, int) for each in found):
        return found[0], found[1]
    return None


def device_name(report: Report) -> str:
    """The GPU as torch calls it."""
    found = report.settings.get("torch.cuda.get_device_name")
    return found if isinstance(found, str) and found else "this GPU"


def autocast_dtype(report: Report, device: str) -> str | None:
    """The dtype of autocast on a kind of device while the first frame was compiled; None where it was off."""
    if report.settings.get(f"torch.autocast.{device}.enabled") is not True:
        return None
    found = report.settings.get(f"torch.autocast.{device}.dtype")
    return found if isinstance(found, str) else None


def graphs_on_cuda(report: Report) -> list[Graph]:
    """The graphs with an input on a CUDA device."""
    return [graph for graph in report.graphs if any(each.device.startswith("cuda") for each in graph.inputs)]


def dtype_of(module: models.ModuleFacts) -> str | None:
    """The dtype of all its floating parameters; None where there are several, or none."""
    floating = [name for name, number in module.parameters.items() if number and name.startswith(("float", "bfloat"))]
    return floating[0] if len(floating) == 1 else None
