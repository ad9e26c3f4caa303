"""Applies a configuration: makes what is called in place of the model. The model itself stays as it is.

By regions, repeated blocks are compiled one by one, so that they share one compile. A list of repeated blocks is an
nn.ModuleList whose items are of one class. Modules that hold such a list somewhere below stay in eager themselves; all
others are compiled whole. Accelerate's compile_regions draws the same lines.
"""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch

from dynalyze.capture.bench.failures import Failed
from dynalyze.capture.bench.protocol import AS_WRITTEN, Configuration
from dynalyze.capture.bench.workload import Workload
from dynalyze.capture.compiling import compile_arguments, compile_parts, mark_dynamic_inputs
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.nested_values import reachable_modules
from dynalyze.capture.torch_private import compiled_calls, runtime
from dynalyze.capture.torch_private.dynamo import wrapped_by_compile

Target = Callable[..., Any]
CompilePart = Callable[[torch.nn.Module], Any]


def configured(model: Target, configuration: Configuration, device: str = "cpu") -> Target:
    """`model` as the configuration wants it run; autocast is for this type of `device`. Raises Misuse: torch knows no
    such backend or mode; Failed: Accelerate is asked for and not installed, or a function is to be compiled by regions.
    """
    if isinstance(model, CallableGroup):
        return model.each(lambda part: configured(part, configuration, device))
    target = model if not configuration.compile else _compiled(model, configuration)
    if configuration.dynamic == "mark" and configuration.compile:
        target = _marking(target)
    if not configuration.autocast:
        return target
    uncast, dtype = target, _autocast_dtype(configuration.autocast)

    def autocast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device or "cpu", dtype):
            return uncast(*args, **kwargs)

    return _standing_for(autocast, uncast)


def target_of(workload: Workload, configuration: Configuration, device: str) -> Target:
    """What is called in place of the workload's model: as configured, or as the program itself compiled it."""
    if configuration.name == AS_WRITTEN:
        return configured(workload.as_written(), replace(configuration, compile=False), device)
    return configured(workload.model, configuration, device)


def uncompiled(model: Target) -> tuple[Target, list[str]]:
    """The model without its own compiles, and notes on these."""
    notes = []
    original = wrapped_by_compile(model)
    while original is not None:
        model, original = original, wrapped_by_compile(original)
        notes = ["The target is compiled by its own program; what it wraps is measured, compiled anew."]
    owner = getattr(model, "__self__", None)
    if notes and isinstance(owner, torch.nn.Module) and getattr(model, "__name__", "") == "forward":
        model = owner  # Of a module that is compiled twice, torch keeps the forward only.
    if not isinstance(model, torch.nn.Module):
        return model, notes
    if runtime.compiled_in_place(model):
        runtime.drop_compiled_call(model)
        notes = ["The target called .compile() on itself; that was undone, and each configuration compiles it."]
    parts = ((name, part) for name, part in model.named_modules() if name)
    inside = [n for n, part in parts if wrapped_by_compile(part) is not None or runtime.compiled_in_place(part)]
    if inside:
        names = ", ".join([*inside[:3], *(["..."] if len(inside) > 3 else [])])
        notes.append(f"The target compiles parts of itself ({names}); eager runs them in eager.")
    return model, notes


def check(configuration: Configuration) -> None:
    """Refuse what torch does not know. Raises Misuse: an unknown backend, mode or dtype of autocast."""
    if configuration.compile and configuration.name != AS_WRITTEN:
        checked_arguments(configuration)
    if configuration.autocast:
        _autocast_dtype(configuration.autocast)


def _compiled(model: Target, configuration: Configuration) -> Target:
    arguments = checked_arguments(configuration)
    regions = getattr(model, "compiled_regions", {})
    if compile_parts(model, regions, lambda call: torch.compile(call, **arguments)):
        return model
    if not configuration.region:
        return cast(Target, torch.compile(model, **arguments))
    if not isinstance(model, torch.nn.Module):
        raise Failed("misuse", "regional compilation is for modules: the target is a function")
    if configuration.region == "accelerate":
        return _by_accelerate(model, arguments)
    return cast(Target, compile_regions(model, lambda part: torch.compile(part, **arguments)))


def _by_accelerate(model: torch.nn.Module, arguments: dict[str, Any]) -> Target:
    """As a program that prepares its model with Accelerate; a backend that its plugin lacks goes in directly."""
    if importlib.util.find_spec("accelerate") is None:
        raise Failed("misuse", "Accelerate is not installed in the Python that runs the target")
    from accelerate import Accelerator
    from accelerate import utils as accelerate_utils

    if not hasattr(accelerate_utils, "compile_regions"):
        raise Failed("misuse", "this Accelerate cannot compile by regions: version 1.6 or later can")
    backend = arguments["backend"]
    known = {each.value for each in accelerate_utils.DynamoBackend}
    if not isinstance(backend, str) or backend.upper() not in known:
        return cast(Target, accelerate_utils.compile_regions(model, **arguments))
    plugin = accelerate_utils.TorchDynamoPlugin(use_regional_compilation=True, **arguments)
    device = next((p.device.type for p in model.parameters()), "cpu")
    accelerator = Accelerator(dynamo_plugin=plugin, cpu=device == "cpu")
    return cast(Target, accelerator.prepare_model(model, device_placement=False, evaluation_mode=True))


def checked_arguments(configuration: Configuration) -> dict[str, Any]:
    """The keyword arguments for torch.compile. Raises Misuse: an unknown backend, or a mode that torch has not."""
    if configuration.mode is not None:
        if configuration.backend != "inductor":
            raise Misuse(f"mode {configuration.mode!r} is Inductor's; backend {configuration.backend!r} has none")
        if (known := runtime.mode_names()) and configuration.mode not in known:
            raise Misuse(f"unknown --mode {configuration.mode!r}; this torch has {', '.join(known)}")
    return compile_arguments(configuration)


def _marking(target: Target) -> Target:
    """Marks the inputs as dynamic, each combination of sizes once: what is compiled then serves them ever after."""
    seen: set[tuple[Any, ...]] = set()

    def call(*args: Any, **kwargs: Any) -> Any:
        sizes = tuple(getattr(value, "shape", None) for value in (*args, *kwargs.values()))
        if sizes not in seen:
            seen.add(sizes)
            mark_dynamic_inputs(args, kwargs)
        return target(*args, **kwargs)

    return _standing_for(call, target)


def _autocast_dtype(name: str) -> torch.dtype:
    wanted = getattr(torch, name, None)
    if not isinstance(wanted, torch.dtype):
        raise Misuse(f"unknown dtype {name!r} for autocast; for example bfloat16, float16")
    return wanted


def _standing_for(call: Target, target: Target) -> Target:
    """`call`, with the module that it stands for as `__wrapped__`."""
    call.__wrapped__ = target  # type: ignore[attr-defined]
    return call


def compile_regions(model: torch.nn.Module, compile_part: CompilePart) -> Any:
    """A stand-in for `model` that shares all of its parameters and buffers; `model` itself does not change."""
    if is_repeated(model):
        return torch.nn.ModuleList([compile_part(block) for block in model.children()])
    if not holds_repeated(model):
        return compile_part(model)
    made = shell_of(model)
    for name, child in model._modules.items():
        made._modules[name] = None if child is None else compile_regions(child, compile_part)
    return made


def is_repeated(module: torch.nn.Module) -> bool:
    """Whether it is a list of blocks of one class."""
    return isinstance(module, torch.nn.ModuleList) and len({type(item) for item in module}) == 1


def holds_repeated(module: torch.nn.Module) -> bool:
    return any(is_repeated(part) for part in module.modules())


def shell_of(module: torch.nn.Module) -> torch.nn.Module:
    """A module of the same class and attributes, with room for children of its own."""
    made: torch.nn.Module = object.__new__(type(module))
    made.__dict__.update(module.__dict__)
    for name, value in module.__dict__.items():
        # A forward that a library put on the instance must call the children of this one.
        if isinstance(value, types.MethodType) and value.__self__ is module:
            made.__dict__[name] = types.MethodType(value.__func__, made)
    made.__dict__["_modules"] = {}
    return made


class CallableGroup(torch.nn.Module):  # type: ignore[misc]
    """Stands for the model of a program that calls several; the modules among them are its own children."""

    def __init__(self, callables: list[Target]) -> None:
        super().__init__()
        self.callables = list(callables)
        self.children_of_group = torch.nn.ModuleList([c for c in callables if isinstance(c, torch.nn.Module)])

    def each(self, make: Callable[[Target], Target]) -> CallableGroup:
        """The same with every part replaced by what `make` returns for it; one that stands twice is made once."""
        made = {key: make(part) for key, part in {id(part): part for part in self.callables}.items()}
        return CallableGroup([made[id(part)] for part in self.callables])

    def forward(self, index: int, *args: Any, **kwargs: Any) -> Any:
        return self.callables[index](*args, **kwargs)


def uncompile(target: Any) -> None:
    """Leave nothing compiled in the modules that `target` reaches; a bundle does the same where it is written."""
    for part in [part for module in reachable_modules(target) for part in module.modules()]:
        if runtime.compiled_in_place(part):
            runtime.drop_compiled_call(part)
        for name, child in part._modules.items():
            if child is not None and compiled_calls.is_compiled_module(child):
                part._modules[name] = compiled_calls.original_of(child)
        for name, value in list(vars(part).items()):
            if not compiled_calls.is_compiled_function(value):
                continue
            original = compiled_calls.original_of(value)
            if getattr(original, "__self__", None) is part and getattr(type(part), name, None) is original.__func__:
                delattr(part, name)  # A method of the class itself needs no attribute.
            else:
                vars(part)[name] = original
