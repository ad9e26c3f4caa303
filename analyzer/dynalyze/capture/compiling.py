"""How dynalyze compiles what it compiles itself: the options of the command line, applied to a callable."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.settings import CompileArguments, CompileOptions, Placement
from dynalyze.capture.torch_private import dynamo, runtime


def check(options: CompileOptions) -> None:
    """Refuse what torch does not know, before the program runs. Raises Misuse, with the known ones, for an unknown
    backend, mode, device or dtype.
    """
    backend_of(options.backend)
    check_placement(options)
    if options.mode is not None and (modes := runtime.mode_names()) and options.mode not in modes:
        raise Misuse(f"unknown --mode {options.mode!r}; this torch has {', '.join(modes)}")


def check_placement(placement: Placement) -> None:
    """Refuse a device or a dtype that there is not. Raises Misuse with the reason."""
    import torch

    if placement.dtype is not None and not isinstance(getattr(torch, placement.dtype, None), torch.dtype):
        raise Misuse(f"unknown --dtype {placement.dtype!r}; for example float32, bfloat16, float16")
    if placement.device is not None:
        try:
            torch.empty(0, device=placement.device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise Misuse(f"--device {placement.device} cannot be used here: {reason}") from error


def compile_arguments(how: CompileArguments) -> dict[str, Any]:
    """The keyword arguments for torch.compile. Raises Misuse for an unknown backend."""
    arguments: dict[str, Any] = {"backend": backend_of(how.backend), "fullgraph": how.fullgraph}
    if how.mode is not None:
        arguments["mode"] = how.mode
    if how.dynamic in ("on", "off"):
        arguments["dynamic"] = how.dynamic == "on"
    return arguments


def compiled(target: Callable[..., Any], options: CompileOptions) -> Callable[..., Any]:
    """torch.compile of `target`, moved and cast as asked; the result moves and casts its inputs likewise."""
    import torch

    if isinstance(target, torch.nn.Module):
        place(target, options)
    result = torch.compile(target, **compile_arguments(options))

    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = moved((args, kwargs), options)
        if options.dynamic == "mark":
            mark_dynamic_inputs(args, kwargs)
        return result(*args, **kwargs)

    return call


def mark_dynamic_inputs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Tell Dynamo that the first dimension of every tensor among the inputs varies, where it is larger than 1."""
    import torch

    from dynalyze.capture.nested_values import leaves

    for value in leaves((args, kwargs), objects=True):
        is_input = isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter)
        if is_input and value.dim() and value.shape[0] > 1:
            runtime.mark_dynamic(value, 0)


def backward(outputs: Any) -> None:
    """Run backward on the sum of all floating outputs that have a gradient."""
    import torch
    from torch.utils import _pytree

    leaves = [x for x in _pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor) and x.requires_grad]
    if leaves:
        sum(x.float().sum() for x in leaves).backward()


def backend_of(name: str) -> Any:
    if ":" in name:
        module, _, function = name.partition(":")
        try:
            found = getattr(_imported(module), function)
        except (ImportError, AttributeError) as error:
            raise Misuse(f"--backend {name}: {error}") from error
        if not callable(found):
            raise Misuse(f"--backend {name} is not a function")
        return found
    if name != "inductor" and name not in dynamo.backend_names():
        known = ", ".join(sorted(set(dynamo.backend_names()) | {"inductor"}))
        raise Misuse(f"unknown backend {name!r}; this torch has {known}, or give module:function")
    return name


def _imported(module: str) -> Any:
    """The module of a backend, which may lie in the current folder: the target's own is not on the path yet."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] or getattr(sys.flags, "safe_path", False):
            raise
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        return importlib.import_module(module)
    finally:
        sys.path.remove(here)


def place(module: Any, placement: Placement) -> None:
    if placement.device is not None:
        module.to(device=placement.device)
    if placement.dtype is not None:
        module.to(dtype=getattr(sys.modules["torch"], placement.dtype))
    if placement.train is not None:
        module.train(placement.train)


def moved(values: Any, placement: Placement) -> Any:
    if placement.device is None and placement.dtype is None:
        return values
    import torch
    from torch.utils import _pytree

    dtype = getattr(torch, placement.dtype) if placement.dtype else None

    def move(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.to(device=placement.device, dtype=dtype if value.is_floating_point() else None)

    return _pytree.tree_map(move, values)


def compile_parts(module: Any, regions: Mapping[str, Sequence[str]], compile_call: Callable[[Any], Any]) -> bool:
    """Compile the regions of a module, those that are not compiled yet; False where it has none.

    `regions` are paths of submodules by the qualified name of the module's class. `compile_call` is given the method
    that a call of a submodule runs, as `Module.compile` gives it to torch.compile.
    """
    parts = [module.get_submodule(path) for path in regions.get(type(module).__qualname__, ())]
    for part in parts:
        if not runtime.compiled_in_place(part):
            part._compiled_call_impl = compile_call(part._call_impl)
    return bool(parts)
