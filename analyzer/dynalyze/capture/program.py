"""Runs an unmodified program as `__main__`, as `python script.py` and `python -m module` would."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import runpy
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynalyze.capture import environment, overlay, shadows
from dynalyze.capture.compile_selection import HOOK, compiled_with_hooks
from dynalyze.capture.events import Ending
from dynalyze.capture.inputs import Misuse
from dynalyze.capture.installed import is_torchs

_OURS = str(Path(__file__).resolve().parents[1]) + os.sep


compiler_raised: BaseException | None = None
"""What the program ended with, where the compiler raised it. It holds the frames of the program: take it away soon."""


class SoftStop(BaseException):
    """Raised in the main thread when dynalyze ends the program early; not an Exception, so few programs catch it."""


SOFT_STOP_SIGNAL = getattr(signal, "SIGURG", None)


def stop_softly(number: int = 0, frame: types.FrameType | None = None) -> None:
    """The handler of that signal."""
    raise SoftStop


def run_script(
    given: str, arguments: list[str], names: Sequence[str] = (), bound: Callable[[], None] | None = None
) -> tuple[Ending, dict[str, Any]]:
    """Run a script file; returns how it ended and its global names.

    `bound` is called whenever a statement of the script has given a value to one of `names`.
    """
    sys.argv = [given, *arguments]
    sys.orig_argv = [sys.executable, given, *arguments]
    path = os.path.join(os.getcwd(), given)  # noqa: PTH118, PTH109 - as Python's own __file__: nothing resolved.
    set_first_path(str(Path(path).resolve().parent))
    module = _fresh_main(path)
    if bound is not None and names:
        module.__dict__[HOOK] = bound
    parts = overlay.put_cells(path) if path.endswith(overlay.NOTEBOOK) else [path]
    if parts != [path]:
        module.__dict__["display"] = print
    codes = [_compiled(part, names) for part in parts]

    def run() -> None:
        for code in codes:
            exec(code, module.__dict__)

    ending = end_of(run)[0]
    if "attempted relative import with no known parent package" in ending.message and ending.file == os.path.normpath(
        path
    ):
        root, name = module_of(Path(path).resolve())
        if "." not in name:  # A package without an __init__.py.
            root, name = root.parent, f"{root.name}.{name}"
        where = "" if root == Path.cwd() else f", from {root}"
        ending.message += f" (run it as a module of its package: -m {name}{where})"
    return ending, module.__dict__


def module_of(path: Path) -> tuple[Path, str]:
    """The folder that a file is imported from, and its name from there: `pkg.sub.mod` where it is part of packages."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def run_module(
    name: str, arguments: list[str], names: Sequence[str] = (), bound: Callable[[], None] | None = None
) -> tuple[Ending, dict[str, Any]]:
    """Run a module as `python -m name` would; returns how it ended and its global names. `bound` is as for a script."""
    sys.argv = ["-m", *arguments]
    sys.orig_argv = [sys.executable, "-m", name, *arguments]
    set_first_path(str(Path.cwd()))
    module = _fresh_main(None)
    # Importing the packages above the module runs code of the target already.
    ending, found = end_of(lambda: _find_module(name))
    if found is None:
        return ending, module.__dict__
    spec, code = found
    source = spec.loader.get_source(spec.name) if names and hasattr(spec.loader, "get_source") else None
    if bound is not None and source is not None:
        module.__dict__[HOOK] = bound
        code = compiled_with_hooks(source, code.co_filename, names)
    sys.argv[0] = spec.origin or name
    module.__dict__.update(
        __file__=spec.origin, __spec__=spec, __package__=spec.parent, __loader__=spec.loader, __cached__=spec.cached
    )
    return end_of(lambda: exec(code, module.__dict__))[0], module.__dict__


def set_first_path(folder: str) -> None:
    """Put `folder` where Python puts the script's own folder, in place of ours, and look there first as Python does."""
    if sys.path and Path(sys.path[0] or os.curdir).resolve() == Path(__file__).resolve().parent:
        del sys.path[0]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)
        shadows.leave_out(Path(folder))


REFUSALS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's compiler raises for a source: of null bytes the second (before 3.12), of deep nesting the last two."""


def misuse_of_source(error: BaseException, path: str | None) -> Misuse | None:
    """A target that is no Python is the caller's mistake; a broken module that it imports is its own failure."""
    if path is None or not isinstance(error, REFUSALS):
        return None
    if isinstance(error, SyntaxError) and error.filename:
        is_target = Path(error.filename).resolve() == Path(path).resolve()
        return _misuse_at(path, error) if is_target else None
    try:  # The error names no file: was it this one?
        _compiled(path, ())
    except Misuse as misuse:
        return misuse
    return None


def origin_of(module: str) -> str | None:
    """The file of a module that could not be imported; None where it is unknown."""
    try:
        found = importlib.util.find_spec(module)
    except Exception:  # The packages above it run their own code.
        return None
    return found.origin if found else None


def end_of(action: Any) -> tuple[Ending, Any]:
    """Call `action` and turn whatever leaves it into an Ending; a traceback is printed as Python would. Raises Misuse
    where the action did, or ended because there is no torch that can be used.
    """
    try:
        return Ending(exit_status=0), action()
    except Misuse:
        raise
    except SoftStop:
        return Ending(stopped=True), None
    except SystemExit as leaving:
        if leaving.code is not None and not isinstance(leaving.code, int):
            print(leaving.code, file=sys.stderr)
            return Ending(exit_status=1), None
        return Ending(exit_status=(leaving.code or 0) & 0xFF), None
    except BaseException as error:
        if reason := environment.torch_refusal(error):
            raise Misuse(reason) from None
        return _failed(error), None


def join_threads() -> None:
    """Python waits for a program's threads before it ends; what they call and compile still counts.

    Idle workers of a pool are left alone: they end only when the interpreter tells them to.
    """
    pools = sys.modules.get("concurrent.futures.thread")
    workers = set(getattr(pools, "_threads_queues", ()))
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon and thread not in workers:
            thread.join()


def _find_module(name: str) -> Any:
    """Spec and code of a module. Raises Misuse where there is none, or it is no Python."""
    try:
        # runpy knows packages, zip files and namespace packages; there is no public way to the same.
        _, spec, code = runpy._get_module_details(name, _NoModule)  # type: ignore[attr-defined]
    except _NoModule as error:
        raise Misuse(f"-m {name}: {error}") from None
    except REFUSALS as error:
        misuse = misuse_of_source(error, origin_of(name)) or misuse_of_source(error, origin_of(f"{name}.__main__"))
        if misuse is None:
            raise
        raise misuse from None
    return spec, code


class _NoModule(Exception):
    """What runpy raises for a name it cannot run."""


def _failed(error: BaseException) -> Ending:
    global compiler_raised
    if type(error).__module__.startswith("torch."):
        compiler_raised = error
    error.__traceback__ = shown = _without_our_frames(error.__traceback__)
    try:  # Through the program's own hook; where that fails, as Python tells both errors.
        sys.excepthook(type(error), error, shown)
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)
        own = _without_our_frames(failure.__traceback__)
        traceback.print_exception(type(failure), failure.with_traceback(own), own)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, shown)
    frames = traceback.extract_tb(shown)
    # Of what torch raises, or code that it made, the program's line tells.
    its = [each for each in frames if not (is_torchs(each.filename) or each.filename.startswith("<eval_with_key>"))]
    last = its[-1:] or frames[-1:]
    message = traceback.format_exception_only(type(error), error)[-1].strip()
    status = 130 if isinstance(error, KeyboardInterrupt) else 1
    file, line = (last[0].filename, last[0].lineno or 0) if last else ("", 0)
    return Ending(exit_status=status, exception=type(error).__qualname__, message=message[:2000], file=file, line=line)


def _without_our_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    kept: list[types.TracebackType] = []
    while trace is not None:
        if not is_plumbing(trace.tb_frame.f_code.co_filename):
            kept.append(trace)
        trace = trace.tb_next
    for each, following in zip(kept, [*kept[1:], None], strict=False):
        each.tb_next = following
    return kept[0] if kept else None


def is_plumbing(file: str) -> bool:
    """Whether a file is one of those that run the program, not of the program itself."""
    return file.startswith(_OURS) or file in ("<frozen runpy>", runpy.__file__)


def _misuse_at(path: str, error: SyntaxError) -> Misuse:
    place = f":{error.lineno}" if error.lineno else ""
    return Misuse(f"{Path(path).name}{place}: {error.msg}")


def _compiled(path: str, names: Sequence[str]) -> types.CodeType:
    # Of `/work/../train.py` torch would name the lines by that path, and Dynamo's frames by another.
    file = os.path.normpath(path)
    try:
        source = overlay.read(path)
        if names:
            return compiled_with_hooks(source, file, names)
        return compile(source, file, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise _misuse_at(path, error) from None
    except (RecursionError, MemoryError):
        raise Misuse(f"{Path(path).name}: it is nested too deeply for Python's compiler") from None
    except (OSError, ValueError) as error:
        raise Misuse(f"{path}: {error}") from None


def _fresh_main(path: str | None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    if path is not None:
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        module.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    return module
