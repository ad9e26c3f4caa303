"""The compile in progress, as the frames of Dynamo on the stack and its contexts show it, and what Dynamo holds.

Run on torch 2.8, 2.13 and 2.15. Where the live object cannot be found a function returns None or an empty list.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import os
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dynalyze.capture.events import Frame, Metrics

_RESUME_NAME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_\d+$")
_TRACED = re.compile(r'^ *File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)
_FUNCTIONS = (types.FunctionType, type(functools.lru_cache(len)))
COMPILE_BOUNDARY = ("torch/_dynamo/convert_frame.py", "torch\\_dynamo\\convert_frame.py")
CALL_BOUNDARY = ("torch/_dynamo/eval_frame.py", "torch\\_dynamo\\eval_frame.py")


def compile_seconds(metrics: Metrics) -> float:
    """What one compile of a frame took, from its metrics."""
    microseconds = metrics.get("duration_us")
    return float(microseconds) / 1e6 if microseconds else float(metrics.get("entire_frame_compile_time_s") or 0.0)


def interned_files() -> dict[int, str]:
    """The file names that torch has numbered so far: it tells each number once, to whoever listens then."""
    table = getattr(sys.modules.get("torch._logging.structured"), "INTERN_TABLE", None)
    return {number: file for file, number in list(table.items())} if isinstance(table, dict) else {}


def compiled_functions() -> int:
    """How many functions of this process have compiled code now; 0 where torch does not tell."""
    with contextlib.suppress(Exception):
        from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list

        return sum(bool(_debug_get_cache_entry_list(code)) for code in tried_codes())
    return 0


def tried_codes() -> list[types.CodeType]:
    """The code of every function that Dynamo has tried to compile, the first one first."""
    tracker = getattr(sys.modules.get("torch._dynamo.convert_frame"), "input_codes", None)
    return [code for reference in list(getattr(tracker, "seen", ())) if (code := reference()) is not None]


def frame_entry(file: str, line: int | None, name: str, column: int | None = None, end: int | None = None) -> Frame:
    """One frame of a stack as events carry it."""
    return Frame(_real_file(file), line or 0, name, column, end)


def definition_of(code: types.CodeType) -> Frame:
    """Where a function begins."""
    return frame_entry(code.co_filename, code.co_firstlineno, code.co_name)


def _real_file(file: str) -> str:
    """The absolute path of a code object's file, also behind `<frozen os>`; names of no file stay."""
    if not file.startswith("<frozen "):
        return file if not file or file.startswith("<") else os.path.abspath(file)  # noqa: PTH100 - keeps links
    module = sys.modules.get(file[len("<frozen ") : -1])
    return getattr(module, "__file__", None) or file


def original_name(name: str) -> str:
    """The user's function name behind the name of a resume function."""
    found = _RESUME_NAME.match(name)
    return found["name"] if found else name


def summary_entries(summary: Any) -> list[Frame]:
    """A traceback.StackSummary as event frames."""
    return [frame_entry(f.filename, f.lineno, f.name, getattr(f, "colno", None), _end(f)) for f in summary or ()]


def _end(frame: traceback.FrameSummary) -> int | None:
    """The column where the expression ends; None where it is known to be one of another line. torch drops the line."""
    same = getattr(frame, "end_lineno", None) in (None, frame.lineno)
    return getattr(frame, "end_colno", None) if same else None


def stack_above() -> list[Frame]:
    """The frames that led to the frame being compiled, outermost first, without the compiler's own."""
    entries: list[Frame] = []
    for frame in reversed(list(frames_from(sys._getframe(1)))):
        if frame.f_code.co_filename.endswith(COMPILE_BOUNDARY):
            break
        entries.append(entry(frame))
    return entries


def live_break() -> BaseException | None:
    """The exception behind the graph break that is being logged right now.

    `log_graph_break` has it as an argument, since torch 2.9; the data-dependent branch logs outside any except block.
    """
    for frame in frames_from(sys._getframe(1)):
        if frame.f_code.co_name == "log_graph_break" and "exc" in frame.f_locals:
            found = frame.f_locals.get("exc")
            return found if isinstance(found, BaseException) else None
    return sys.exc_info()[1]


def live_error() -> BaseException | None:
    """The exception that ends the compile in progress, seen from within torch's own except block."""
    return sys.exc_info()[1]


def break_behind(error: BaseException | None) -> BaseException | None:
    """The Unsupported that an error of the compiler stands for; a fake-tensor error carries it as its cause."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None or getattr(seen, "gb_type", None):
            return seen
        seen = seen.__cause__
    return None


def inner_stack(error: BaseException | None) -> list[Frame]:
    """The frames inside the compiled frame, outermost first; the last one is where it broke."""
    stack = getattr(error, "real_stack", None)
    if stack is None:  # Where the tracer is now.
        with contextlib.suppress(Exception):
            import torch._guards

            stack = torch._guards.TracingContext.extract_stack()
    entries = summary_entries(stack)
    tested = _tested_operand(error)
    return [*entries[:-1], tested] if entries and tested is not None and tested.file == entries[-1].file else entries


# Between what computes a condition and the jump: the value is copied, or made a bool.
_PASSES_ON = ("COPY", "TO_BOOL", "SWAP", "NOP", "CACHE", "EXTENDED_ARG", "DUP_TOP")


def _tested_operand(error: BaseException | None) -> Frame | None:
    """The operand whose value a jump asks for, where a break is a jump: `mask.all()` of `mask is not None and
    mask.all()`.

    Python up to 3.11 gives the jump the place of another operand, or of the statement; the instruction that computes
    the value has its own.
    """
    with contextlib.suppress(Exception):
        frames = [*_raising_frames(error), *frames_from(sys._getframe(1))]
        names = next(each.f_locals for each in frames if {"inst", "self"} <= each.f_locals.keys())
        jump, tracer = names["inst"], names["self"]
        if "JUMP" not in jump.opname or "_IF_" not in jump.opname:
            return None
        at = next(number for number, each in enumerate(tracer.instructions) if each is jump)
        computed = next(each for each in reversed(tracer.instructions[:at]) if each.opname not in _PASSES_ON)
        place = computed.positions
        if "JUMP" in computed.opname or None in (place.lineno, place.col_offset, place.end_col_offset):
            return None  # A value that two ways lead to.
        end = place.end_col_offset if place.end_lineno == place.lineno else None
        return frame_entry(tracer.f_code.co_filename, place.lineno, tracer.f_code.co_name, place.col_offset, end)
    return None


def _raising_frames(error: BaseException | None) -> list[types.FrameType]:
    """The frames that an error came through, the innermost first, and before them those of the error behind it."""
    found: list[types.FrameType] = []
    for _ in range(8):
        if error is None:
            break
        found = [*reversed([frame for frame, _ in traceback.walk_tb(error.__traceback__)]), *found]
        error = error.__cause__ or error.__context__
    return found


def is_refusal(error: BaseException) -> bool:
    """Whether torch raised `error` because fullgraph was asked for and cannot be had."""
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"Unsupported", "UserError", "UncapturedHigherOrderOpError", "FailOnRecompileLimitHit"}:
        return True
    return isinstance(error, RuntimeError) and "fullgraph=True found no compiled frames" in str(error)


def is_compile_error(error: BaseException) -> bool:
    """Whether the compiler raised `error`, because it refused or because it failed; not what the program raised."""
    raised = getattr(sys.modules.get("torch._dynamo.exc"), "TorchDynamoException", None)
    return is_refusal(error) or (isinstance(raised, type) and isinstance(error, raised))


def _compile_in_progress(*names: str) -> dict[str, Any] | None:
    """The local variables of Dynamo's `_compile` on the stack, which must have these; None where there is none."""
    for frame in frames_from(sys._getframe(2)):
        if frame.f_code.co_name == "_compile" and all(name in frame.f_locals for name in names):
            return frame.f_locals
    return None


def compiled_module() -> Any:
    """The module whose method is being compiled; None for a plain function, or where it is out of reach."""
    torch, compiling = sys.modules.get("torch"), _compile_in_progress("code", "locals")
    if torch is None or compiling is None:
        return None
    # Not everyone calls it self; around a module of torch's own stands a function of the compiler's that calls `fn`.
    named = (*compiling["code"].co_varnames[:1], "fn")
    values = (compiling["locals"].get(name) for name in named)
    return next((value for value in values if isinstance(value, torch.nn.Module)), None)


def modules_of_compile() -> list[Any]:
    """The modules that the frame being compiled has in its local variables, or by a global name; none out of reach."""
    torch, compiling = sys.modules.get("torch"), _compile_in_progress("code", "locals", "globals")
    if torch is None or compiling is None:
        return []
    held, names = compiling["globals"], compiling["code"].co_names
    values = [*compiling["locals"].values(), *(held[name] for name in names if name in held)]
    return [value for value in values if isinstance(value, torch.nn.Module)]


def hooks_go_unguarded() -> bool:
    """Whether compiled code does not ask for hooks that a module gets later; False where torch has no such setting."""
    return bool(getattr(sys.modules.get("torch._dynamo.config"), "skip_nnmodule_hook_guards", False))


def calling_frames() -> Iterator[types.FrameType]:
    """The frames of the program that led to the compile in progress, or to the call of ours, the innermost first."""
    left_out = _folders_left_out()
    for frame in frames_from(sys._getframe(1)):
        if not frame.f_code.co_filename.startswith(left_out):
            yield frame


@functools.cache
def _folders_left_out() -> tuple[str, ...]:
    """The folders of dynalyze and of torch."""
    torch = str(getattr(sys.modules.get("torch"), "__file__", "?"))
    return tuple(str(folder) + os.sep for folder in (Path(__file__).parents[2], Path(torch).parent))


def refuses_breaks(error: BaseException | None = None) -> bool | None:
    """Whether the compile in progress raises at a graph break (fullgraph or error_on_graph_break).

    `error_on_graph_break` may hold for a part of the compile: what held where `error` came up counts.
    """
    compiling = _compile_in_progress("one_graph")
    if compiling is None:
        return None
    if compiling["one_graph"]:
        return True
    held = getattr(getattr(error, "_torch_dynamo_tracer_output", None), "error_on_graph_break", None)
    if held is None:
        with contextlib.suppress(Exception):
            import torch._dynamo.symbolic_convert as symbolic_convert

            held = symbolic_convert._get_error_on_graph_break()
    return bool(held)


def raises_at_limit(error: BaseException | None) -> bool | None:
    """Whether `error`, with which torch refuses one more recompile, reaches the program; None where it is unknown.

    Where error_on_graph_break alone asks for it, torch goes by what held in the compile before this one.
    """
    if type(error).__name__ == "FailOnRecompileLimitHit":
        return True
    compiling = _compile_in_progress("one_graph")
    if compiling is None:
        return None
    return bool(getattr(compiling.get("convert_frame_box"), "error_on_graph_break", False))


def recompile_scope() -> dict[str, Any] | None:
    """Names in which a failed guard can be evaluated: the locals of the call that is about to recompile, and
    `L` and `G`, as torch's older wording has them. None where no recompile is looked at or refused.
    """
    for frame in frames_from(sys._getframe(1)):
        if frame.f_code.co_name in ("get_and_maybe_log_recompilation_reasons", "_compile"):
            called = frame.f_locals.get("frame")
            names = getattr(called, "f_locals", None)
            return None if names is None else {**names, "L": names, "G": getattr(called, "f_globals", {})}
    return None


def outermost_call() -> int:
    """A token of the outermost compiled call in progress, from its frame and the place it is called from.

    Calls from one place that follow each other may get the same one; 0 where no compiled call is in progress.
    """
    frames = [frame for frame in frames_from(sys._getframe(1)) if frame.f_code.co_filename.endswith(CALL_BOUNDARY)]
    if not frames:
        return 0
    callers = ((id(frame), frame.f_lasti) for frame in frames_from(frames[-1].f_back))
    return hash((id(frames[-1]), *callers)) or 1


def global_state(name: str) -> Any:
    """The present value of a state that GLOBAL_STATE guards; None for one that is not known here."""
    import torch

    readers: dict[str, Callable[[], Any]] = {
        "grad_mode": torch.is_grad_enabled,
        "default_dtype": torch.get_default_dtype,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
        "num_threads": torch.get_num_threads,
        "autocast_enabled": torch.is_autocast_enabled,
        "autocast_cache_enabled": torch.is_autocast_cache_enabled,
        "torch_function": torch._C._is_torch_function_enabled,
    }
    found = re.match(r"autocast\((\w+)\)_(enabled|dtype)", name)
    if found:
        read = torch.is_autocast_enabled if found[2] == "enabled" else torch.get_autocast_dtype
        return read(found[1])
    return readers[name]() if name in readers else None


def traced_functions() -> list[tuple[str, str, int]]:
    """File, qualified name and first line of each function that the trace in progress has read."""
    codes: list[types.CodeType] = []
    with contextlib.suppress(Exception):
        import torch._guards

        codes = list(torch._guards.TracingContext.get_traced_code() or ())
    return [
        (_real_file(c.co_filename), original_name(getattr(c, "co_qualname", c.co_name)), c.co_firstlineno)
        for c in codes
    ]


def stance() -> str | None:
    """The stance of torch.compiler.set_stance; None where it cannot be read or Dynamo was never imported."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    found = getattr(getattr(module, "_stance", None), "stance", None)
    return found if isinstance(found, str) else None


def dynamo_disabled(*, load: bool = False) -> bool | None:
    """Whether torch._dynamo.config.disable is set, as TORCH_COMPILE_DISABLE does; None where there is no such switch.

    `load`: import Dynamo for it, where the program has not.
    """
    if load:
        with contextlib.suppress(Exception):
            importlib.import_module("torch._dynamo.config")
    found = getattr(sys.modules.get("torch._dynamo.config"), "disable", None)
    return None if found is None else bool(found)


def forget_compiled() -> None:
    """Drop everything that Dynamo has compiled in this process, and what it knows of the arguments that functions take:
    they may have other code by now.
    """
    if (module := sys.modules.get("torch._dynamo")) is not None:
        module.reset()
    with contextlib.suppress(Exception):
        sys.modules["torch._dynamo.variables.functions"]._spec_cache.clear()


def constant_functions() -> frozenset[str]:
    """The names of functions of loaded modules whose result Dynamo takes for a constant."""
    return _constant_functions(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _constant_functions(modules: int) -> frozenset[str]:
    spaces = [vars(module) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    return frozenset(
        name for space in spaces for name, value in list(space.items())
        if type(value) in _FUNCTIONS and "_dynamo_marked_constant" in vars(value)
    )  # fmt: skip


def watch_bytecode(notice: Callable[[types.CodeType, types.CodeType], None]) -> bool:
    """Call `notice(original, made)` for each code object that Dynamo makes; False where none can be heard."""
    register = getattr(sys.modules.get("torch._dynamo.convert_frame"), "register_bytecode_hook", None)
    if register is None:
        return False
    register(lambda original, made: notice(original, made))
    return True


def compile_id() -> str:
    """The id of the compile in progress, "0/1"; "" where it is not known."""
    with contextlib.suppress(Exception):
        import torch._guards

        return str(torch._guards.CompileContext.current_compile_id() or "")
    return ""


def backend_names() -> list[str]:
    """Every registered backend, debugging ones included."""
    import torch._dynamo

    return list(torch._dynamo.list_backends(exclude_tags=None))


def wrapped_by_compile(value: Any) -> Any | None:
    """What a result of torch.compile wraps; None for anything else."""
    original = getattr(value, "_orig_mod", None)
    if original is not None and type(value).__name__ == "OptimizedModule":
        return original
    return getattr(value, "_torchdynamo_orig_callable", None)


def traced_frames(stack_trace: object) -> list[tuple[str, int, str]]:
    """File, line and function of each frame in the text of a stack, as nodes of graphs carry it, outermost first."""
    return [(file, int(line), name) for file, line, name in _TRACED.findall(str(stack_trace or ""))]


def frames_from(frame: types.FrameType | None) -> Iterator[types.FrameType]:
    """A frame and those that led to it, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def entry(frame: types.FrameType) -> Frame:
    """The place that a frame is at, with columns where Python has them."""
    code = frame.f_code
    line, column, end = frame.f_lineno or code.co_firstlineno, None, None
    if hasattr(code, "co_positions") and frame.f_lasti >= 0:  # Python 3.11 and later.
        position = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None), None)
        if position is not None and position[0] == line:
            column, end = position[2], position[3] if position[1] == line else None
    return frame_entry(code.co_filename, line, code.co_name, column, end)
