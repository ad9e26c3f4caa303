"""What was compiled, with the settings to know; what could have been, of a program that compiles nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynalyze.render.view.links import Anchors, Index, Place, Shown, shown
from dynalyze.report import Candidate, CandidateReason, Location, Region, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.text.amounts import percent
from dynalyze.text.visible import clipped

MAX_CANDIDATES = 100
_REASONS: dict[CandidateReason, str] = {
    "no_parameters": "It owns no parameters of its own, as a loss or a transform of data.",
    "backward": "Called inside backward, where torch computes again what a checkpoint dropped.",
    "worker": "Called in a worker of a DataLoader.",
    "torchscript": "torch.jit compiled it already.",
    "part_of_compiled": "A part of a compiled module, called by itself: torch.compile of the whole leaves it alone.",
    "not_chosen": "Not among what --compile names.",
    "raised": "It raised under compile, and ran in eager from there on",
    "too_many": "One of too many modules: only the first 64 were compiled.",
    "method": "A method that calls modules in place of forward: torch.compile of the module leaves it in eager.",
    "function": "A function that calls modules.",
}


@dataclass(frozen=True)
class CandidateView:
    anchor: str
    name: str
    class_name: str
    kind: str
    place: Place | None
    calls: str
    parameters: str
    share: str
    compiled: bool
    why: str
    option: str


@dataclass(frozen=True)
class RegionView:
    name: str
    class_name: str
    share: str
    parameters: str


@dataclass(frozen=True)
class CandidatesView:
    """`regions` are the parts that no graph break reaches."""

    items: list[CandidateView]
    amount: Shown
    regions: list[RegionView]


def candidates_view(report: Report, links: Index, anchors: Anchors) -> CandidatesView:
    """One row a module, method or function."""
    some, amount = shown(report.candidates, MAX_CANDIDATES)
    rows = [_candidate(number, item, links, anchors) for number, item in enumerate(some, 1)]
    return CandidatesView(rows, amount, [_region(region) for region in report.regions])


def _candidate(number: int, item: Candidate, links: Index, anchors: Anchors) -> CandidateView:
    why = _REASONS.get(item.reason, "")
    name = clipped(item.name, 200)
    return CandidateView(
        anchor=anchors.claim(f"candidate-{number}"),
        name=name or clipped(item.class_name, 200),
        class_name=clipped(item.class_name, 200) if name else "",
        kind=item.kind,
        place=links.place(item.location) if item.location is not None else None,
        calls="" if item.calls is None else f"{item.calls:,}",
        parameters="" if item.parameters is None else f"{item.parameters:,}",
        share="" if item.share is None else percent(item.share),
        compiled=item.compiled,
        why=f"{why}: {clipped(item.error, 300)}" if item.reason == "raised" and item.error else why,
        option=f"--compile {name}" if name and not item.compiled and item.reason != "raised" else "",
    )


def _region(region: Region) -> RegionView:
    times = f" × {region.count}" if region.count > 1 else ""
    return RegionView(
        name=clipped(f"{region.root or 'model'}.{region.path}{times}", 200),
        class_name=clipped(region.class_name, 200),
        share="not measured" if region.share is None else percent(region.share),
        parameters=percent(region.parameter_share),
    )


MAX_MODULES = 50
_MAX_NOTE = 300
_AS_USUAL: dict[str, Any] = {
    "torch.float32_matmul_precision": "highest",
    "torch.get_default_dtype": "float32",
    "torch.are_deterministic_algorithms_enabled": False,
    "torch.autocast.cpu.enabled": False,
    "torch.autocast.cuda.enabled": False,
    "torch.backends.cudnn.deterministic": False,
    "torch.backends.cuda.flash_sdp_enabled": True,
    "torch.backends.cuda.mem_efficient_sdp_enabled": True,
    "torch.backends.cuda.math_sdp_enabled": True,
    "torch.backends.cuda.cudnn_sdp_enabled": True,
    "torch._dynamo.config.capture_scalar_outputs": False,
    "torch._dynamo.config.capture_dynamic_output_shape_ops": False,
    "torch._dynamo.config.recompile_limit": 8,
    "torch._dynamo.config.automatic_dynamic_shapes": True,
    "torch._dynamo.config.assume_static_by_default": True,
    "torch._dynamo.config.allow_unspec_int_on_nn_module": False,
    "torch._dynamo.config.optimize_ddp": True,
    "torch._dynamo.config.suppress_errors": False,
    "torch._dynamo.config.compiled_autograd": False,
    "torch._inductor.config.triton.cudagraphs": False,
    "torch._inductor.config.max_autotune": False,
    "torch._inductor.config.freezing": False,
    "torch._inductor.config.emulate_precision_casts": False,
    "torch._inductor.config.cpp_wrapper": False,
}
"""Settings that change what compile does, with torch's own defaults: only another value is shown."""

_DEVICE = ("torch.cuda.get_device_name", "torch.cuda.get_device_capability")
_WITH_DTYPE = {f"torch.autocast.{device}.enabled": f"torch.autocast.{device}.dtype" for device in ("cpu", "cuda")}


@dataclass(frozen=True)
class ModuleView:
    anchor: str
    name: str
    place: Place | None
    options: str
    parameters: str
    mode: str
    about: list[str]


@dataclass(frozen=True)
class ModulesView:
    items: list[ModuleView]
    amount: Shown
    settings: list[tuple[str, str]]


def modules_view(report: Report, links: Index, anchors: Anchors) -> ModulesView:
    """One row a module, and the settings that are not torch's defaults."""
    some, amount = shown(report.modules, MAX_MODULES)
    return ModulesView([_module(module, links, anchors) for module in some], amount, list(_settings(report.settings)))


def _module(module: ModuleFacts, links: Index, anchors: Anchors) -> ModuleView:
    times = f" × {module.count}" if module.count > 1 else ""
    return ModuleView(
        anchor=anchors.claim(f"module-{module.id}"),
        name=f"{clipped(module.class_name, 200) or 'a module'}{times}",
        place=links.place(Location(module.file, module.line)) if module.file else None,
        options=", ".join(f"{name}={_word(value)}" for name, value in module.options.items()),
        parameters=_parameters(module),
        mode="training" if module.training else "evaluation",
        about=list(_about(module)),
    )


def _parameters(module: ModuleFacts) -> str:
    dtypes = ", ".join(f"{number:,} {dtype}" for dtype, number in module.parameters.items())
    devices = ", ".join(module.devices)
    return f"{dtypes} on {devices}" if dtypes and devices else dtypes or "none"


def _about(module: ModuleFacts) -> list[str]:
    """What else is known of it, in short phrases."""
    told = [
        f"{module.family} of transformers" if module.family else "",
        f"attention: {module.attention}" if module.attention else "",
        f"quantised with {module.quantization}" if module.quantization else "",
        f"cache: {module.cache}" if module.cache else "",
        _wrapped(module),
        f"{module.compiled_parts:,} of its parts are compiled by themselves" if module.compiled_parts else "",
    ]
    told += [f"{group.count:,} {group.library} {group.kind}" for group in module.layers]
    if module.adapters is not None:
        told.append(_adapters(module))
    return [text for text in told if text] + [clipped(note, _MAX_NOTE) for note in module.notes]


def _wrapped(module: ModuleFacts) -> str:
    if not module.wrappers:
        return ""
    names = ", then ".join(module.wrappers)
    return f"inside {names}" if module.inside_wrapper else f"compiled together with {names}"


def _adapters(module: ModuleFacts) -> str:
    adapters = module.adapters
    assert adapters is not None
    names = ", ".join(adapters.names) or "none"
    merged = ", merged" if adapters.merged else ""
    return f"{adapters.library} adapters: {names}{merged}"


def _settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    told = [(name, _word(settings[name])) for name in _DEVICE if name in settings]
    for name, usual in _AS_USUAL.items():
        if name in settings and settings[name] != usual:
            dtype = settings.get(_WITH_DTYPE.get(name, ""))
            told.append((name, f"{_word(settings[name])} ({dtype})" if dtype else _word(settings[name])))
    return told


def _word(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, list | tuple) else clipped(str(value), 200)
