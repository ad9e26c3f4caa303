"""How torch stands in this process: Dynamo's counters, its configuration, its caches and its C++ compiler.

Run on torch 2.13. Nothing here imports Dynamo by itself: an eager process stays free of it. What a version lacks is
not told: a count is 0 or None, a setting is left out, and the doctor's questions are answered from torch's documented
environment variables.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib
import operator
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from dynalyze.capture.hooks import after_import

GRAPH_PREFIX = "__compiled_fn"
_PHASES = {
    "total": "total_wall_time",
    "dynamo": "entire_frame_compile",
    "aot_autograd": "backend_compile",
    "inductor": "inductor_compile",
    "code_generation": "code_gen",
    "backward": "entire_backward_compile",
}
_CACHE_ENDS = ("_hit", "_miss", "_bypass")
_LIMIT = ("recompile limit exceeded", "cache_size_limit", "recompile_limit reached")
_DATA_PARALLEL = (
    ("torch.nn.parallel.distributed", "DistributedDataParallel"),
    ("torch.nn.parallel.data_parallel", "DataParallel"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel"),
)
_SHARDED = "FSDPModule"
_SHARDED_MODULES = ("torch.distributed.fsdp", "torch.distributed._composable.fsdp")
_OF_FUNCTIONS = ("reorderable_logging_functions", "ignore_logging_functions")
"""Settings that are sets of functions; their values are lists of names here."""
_DYNAMO, _COMPILER = "torch._dynamo.config.", "torch.compiler.config."


def counters(name: str) -> dict[str, int]:
    """One of Dynamo's counters; empty where Dynamo is not loaded.

    Read without making an entry: torch's own is a defaultdict that programs print.
    """
    found = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return {str(key): int(value) for key, value in found[name].items()} if found and name in found else {}


def recompile_limit_hit() -> bool:
    """Whether Dynamo gave up compiling a function because it had been compiled too often."""
    texts = (*counters("unimplemented"), *counters("graph_break"))
    return any(mark in text for text in texts for mark in _LIMIT)


def recompile_limit() -> int:
    """How many versions of one function Dynamo makes; 0 where it is not loaded."""
    config = sys.modules.get("torch._dynamo.config")
    limit = getattr(config, "recompile_limit", None) or getattr(config, "cache_size_limit", None)
    return limit if isinstance(limit, int) else 0


def can_use_cuda() -> bool:
    """Whether a forked process can: not where the one that it was forked from has used CUDA."""
    try:
        import torch

        return bool(torch.ones(1, device="cuda").item())
    except RuntimeError:
        return False


def know_the_cpu() -> None:
    """Have Inductor find out which vector instructions the CPU has: it asks other processes, seconds for each start."""
    with contextlib.suppress(Exception):
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        pick_vec_isa()


def know_torchs_files() -> None:
    """Have Inductor read the files of torch, whose hash is in the keys of its caches."""
    with contextlib.suppress(Exception):
        from torch._inductor.codecache import torch_key

        torch_key()


def know_functions(file: str) -> None:
    """Have Dynamo find out which function each line of a file is in: it asks for every operation that it traces."""
    with contextlib.suppress(Exception):
        from torch._dynamo.funcname_cache import get_funcname

        get_funcname(file, 1)


def files_of_functions() -> list[str]:
    """The files of which Dynamo found that out in this process."""
    return list(getattr(sys.modules.get("torch._dynamo.funcname_cache"), "cache", ()))


def knows_the_cpu() -> bool:
    """Whether this process had to find that out: what is compiled for a GPU alone never does."""
    module = sys.modules.get("torch._inductor.cpu_vec_isa")
    known = getattr(getattr(module, "valid_vec_isa_list", None), "cache_info", None)
    return known is not None and known().currsize > 0


def stay_eager() -> Callable[[], None]:
    """Let nothing compile in this process, whoever asks for it, until what is returned is called."""
    ended: list[bool] = []

    def set_stance(_: ModuleType) -> None:
        import torch

        if not ended:
            torch.compiler.set_stance("force_eager")

    def compile_again() -> None:
        ended.append(True)
        if "torch._dynamo" in sys.modules:
            import torch

            torch.compiler.set_stance("default")

    after_import("torch._dynamo", set_stance)
    return compile_again


def phases() -> dict[str, float]:
    """Torch's own sums of compile time in seconds, each with what it contains.

    "dynamo" contains "aot_autograd", that contains "inductor", that contains "code_generation". "backward" are
    backward graphs that were compiled when they were first needed.
    """
    times = getattr(sys.modules.get("torch._dynamo.utils"), "calculate_time_spent", dict)
    spent = dict(times())
    return {ours: float(spent[theirs]) for ours, theirs in _PHASES.items() if spent.get(theirs)}


def tracing_seconds() -> float:
    """What another process takes to trace what was compiled here, where torch's caches have all that they can have."""
    spent, counts = phases(), cache_counts()
    graphs = spent.get("aot_autograd", 0.0)
    again = spent.get("dynamo", 0.0) - graphs
    cached = any(name.startswith("autograd_cache_") for name in counts) and "autograd_cache_bypass" not in counts
    return again if cached else again + graphs - spent.get("inductor", 0.0)


def cache_counts() -> dict[str, int]:
    """Hits, misses and bypasses of torch's compile caches, by torch's own names."""
    counts = {**counters("inductor"), **counters("aot_autograd")}
    return {name: count for name, count in counts.items() if "_cache_" in name and name.endswith(_CACHE_ENDS)}


def watch_compiles(notice: Callable[[], None]) -> bool:
    """Call `notice` as often as a compile of a frame or of a backward, or the recording of a CUDA graph, begins."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._dynamo.callback import on_compile_start

        on_compile_start(lambda *_: notice())
        return True
    return False


def calls_a_graph(made: CodeType) -> bool:
    """Whether code made by Dynamo calls a compiled graph; where all was left in eager it calls none."""
    return any(name.startswith(GRAPH_PREFIX) for name in made.co_names)


@contextlib.contextmanager
def counted_replays() -> Iterator[list[int]]:
    """Count the replays of CUDA graphs in the block, in the only item of the list."""
    import torch

    count = [0]
    graph: Any = getattr(torch.cuda, "CUDAGraph", None)
    original = getattr(graph, "replay", None)
    if original is None:
        yield count
        return

    def replay(self: Any) -> Any:
        count[0] += 1
        return original(self)

    graph.replay = replay
    try:
        yield count
    finally:
        graph.replay = original


def cudagraphs_wanted(configuration_mode: str | None) -> bool:
    """Whether Inductor was asked for CUDA graphs, by the mode or by its own switch."""
    if configuration_mode in ("reduce-overhead", "max-autotune"):
        return True
    config = sys.modules.get("torch._inductor.config")
    return bool(getattr(getattr(config, "triton", None), "cudagraphs", False))


def compiled_in_place(module: Any) -> bool:
    """Whether `module.compile()` was called: its calls go through a compiled forward of its own."""
    return getattr(module, "__dict__", {}).get("_compiled_call_impl") is not None


def drop_compiled_call(module: Any) -> None:
    module._compiled_call_impl = None


def config_values(module: str, names: Iterable[str]) -> dict[str, Any]:
    """Settings of torch's config modules under their dotted names; empty where the module was never imported."""
    config = sys.modules.get(module)
    if config is None:
        return {}
    found = {}
    for name in names:
        with contextlib.suppress(Exception):  # A config module raises errors of its own for a name it lacks.
            found[f"{module}.{name}"] = operator.attrgetter(name)(config)
    return found


def run_settings(statements: str) -> None:
    """Run statements such as `torch._dynamo.config.capture_scalar_outputs = True`.

    They may name torch, warnings and builtins. A setting that this torch lacks raises an error of torch's own.
    """
    exec(statements, {"torch": sys.modules["torch"], "warnings": warnings})


def wrapper_classes() -> tuple[type, ...]:
    """The classes that wrap a module for distributed training, those that are imported."""
    found = (getattr(sys.modules.get(module), name, None) for module, name in _DATA_PARALLEL)
    sharded = (getattr(sys.modules.get(module), _SHARDED, None) for module in _SHARDED_MODULES)
    return tuple(dict.fromkeys(cls for cls in (*found, *sharded) if isinstance(cls, type)))


def is_sharded_in_place(cls: type) -> bool:
    """Whether `fully_shard` made this class: it puts one of its own between FSDPModule and the original."""
    return any(base.__name__ == _SHARDED for base in cls.__mro__[:2])


def plain_tensors() -> Any:
    """No torch function mode or tensor subclass of the program hears that we look at a tensor's dtype or device."""
    return getattr(getattr(sys.modules.get("torch"), "_C", None), "DisableTorchFunction", contextlib.nullcontext)()


def cpp_compiler() -> str:
    """The C++ compiler that Inductor would call. Raises Exception: torch finds none; its message says which it looked
    for.
    """
    try:
        from torch._inductor.cpp_builder import get_cpp_compiler
    except ImportError:
        return os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return str(get_cpp_compiler())


def cache_folders() -> dict[str, str]:
    """Where Inductor and Triton keep what they compiled. No folder is made, and torch is not imported for it."""
    inductor = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_folder()
    return {"Inductor": inductor, "Triton": os.environ.get("TRITON_CACHE_DIR") or str(Path(inductor) / "triton")}


def default_cache_folder() -> str:
    """Where Inductor keeps what it compiled where nobody says so, and its precompiled headers in any case."""
    try:
        return str(sys.modules["torch._inductor.runtime.cache_dir_utils"].default_cache_dir())
    except Exception:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # A container may run as somebody without a name.
            user = f"uid_{os.getuid()}"
        user = re.sub(r'[\\/:*?"<>|]', "_", user)  # As torch makes a name of it.
        return str(Path(tempfile.gettempdir()) / f"torchinductor_{user}")


def keep_default_cache_folder() -> None:
    """Have torch go on with the same one, whatever becomes of the folder for temporary files: it follows that."""
    folder = default_cache_folder()
    after_import(
        "torch._inductor.runtime.cache_dir_utils", lambda module: setattr(module, "default_cache_dir", lambda: folder)
    )


def file_writers(torch: Any) -> list[tuple[Any, str]]:
    """What opens files in C++, whose first argument names one: what torch.save writes with."""
    owner = getattr(torch, "_C", None)
    return [(owner, "PyTorchFileWriter")] if hasattr(owner, "PyTorchFileWriter") else []


def mode_names() -> list[str]:
    """What `torch.compile(mode=...)` may be; empty where Inductor does not tell."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._inductor import list_mode_options

        return list(list_mode_options())
    return []


def mark_dynamic(tensor: Any, dimension: int) -> None:
    """Mark a dimension as dynamic."""
    import torch._dynamo

    torch._dynamo.mark_dynamic(tensor, dimension)


class UnknownSetting(Exception):
    """This torch has no such setting, or there is no such function; the text says which."""


@contextlib.contextmanager
def settings_of_dynamo(values: Mapping[str, Any]) -> Iterator[None]:
    """Run what follows with these settings, as JSON has them: those of torch.compiler.config by their whole names, all
    others by their names in torch._dynamo.config. Raises UnknownSetting: torch lacks one, or a function for one.
    """
    if not values:
        yield
        return
    import torch._dynamo
    import torch.compiler

    patches: dict[str, dict[str, Any]] = {_DYNAMO: {}, _COMPILER: {}}
    for name, value in values.items():
        module = _COMPILER if name.startswith(_COMPILER) else _DYNAMO
        short = name.removeprefix(module)
        try:
            now = operator.attrgetter(f"{module}{short}".removeprefix("torch."))(torch)
        except AttributeError:
            raise UnknownSetting(f"torch {torch.__version__} has no {module}{short}") from None
        patches[module][short] = {*now, *map(_function, value)} if name in _OF_FUNCTIONS else value
    with contextlib.ExitStack() as stack:
        for module, patch in patches.items():
            if patch:
                config = operator.attrgetter(module.removeprefix("torch.").removesuffix("."))(torch)
                stack.enter_context(config.patch(patch))
        yield


def _function(name: str) -> Any:
    module, _, attribute = name.partition(".")
    try:
        if not attribute:
            return getattr(importlib.import_module("builtins"), module)
        return operator.attrgetter(attribute)(importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise UnknownSetting(f"there is no function {name}") from error
