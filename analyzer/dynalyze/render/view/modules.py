"""What was compiled, and the settings of torch that a reader has to know: nothing where neither is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dynalyze.render.view.links import Anchors, Index, Place, Shown, shown
from dynalyze.report import Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.text.visible import clipped

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
