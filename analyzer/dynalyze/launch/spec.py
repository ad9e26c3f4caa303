"""Reads TARGET: which file or module to run, and which object in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dynalyze.capture.libraries import is_pattern, library_facts, prefix_of
from dynalyze.capture.overlay import NOTEBOOK
from dynalyze.capture.settings import ModelOptions
from dynalyze.report import Target, TargetKind, printable
from dynalyze.text.errors import UsageError

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")

Mode = Literal["script", "module", "object", "library"]
_QUOTED = 200
_LONGEST_STEM = 200  # bytes; a file name may have 255, and there is a suffix to come.
_KINDS: dict[Mode, TargetKind] = {"script": "script", "module": "script", "object": "object", "library": "library"}


@dataclass(frozen=True)
class TargetSpec:
    """What to run. `spec` is as the user wrote it; `asked` is set for models of a `library` alone.

    `chosen` are expressions for what to compile of a program that compiles nothing, by default its outermost modules.
    `attention` is the attention implementation that the model of an object is switched to, None for its own.
    """

    mode: Mode
    spec: str
    path: str | None = None
    module: str | None = None
    name: str | None = None
    arguments: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    library: str = ""
    asked: ModelOptions | None = None
    attention: str | None = None
    chosen: tuple[str, ...] = ()

    @property
    def rebuilt(self) -> bool:
        """Whether each process that measures builds the model and its inputs anew, so that no call is recorded."""
        return self.mode in ("object", "library")

    @property
    def folder(self) -> Path:
        """Where the search for its project begins: the folder of its file, else the working directory."""
        return Path(self.path).resolve().parent if self.path else Path.cwd()

    @property
    def stem(self) -> str:
        """A file name for outputs: `model` of `dir/model.py`, `model.Net` of `model.py:Net`, `org_name` of a hub id."""
        name = self.name or ""
        if self.mode == "library":  # The last folder of a path that exists, or a hub id.
            return _as_stem(Path(name).resolve().name if Path(name).is_dir() else name).lstrip(".") or "model"
        base = Path(self.path).stem if self.path else (self.module or "target")
        return _as_stem(f"{base}.{name}" if name else base)

    def with_attention(self, name: str) -> TargetSpec:
        """The same target with another attention implementation."""
        if self.asked is not None:
            return replace(self, asked=replace(self.asked, attn_implementation=name))
        return replace(self, attention=name)

    def described(self) -> Target:
        # The oldest of the libraries has a kind of its own.
        kind = "transformers" if self.library == "hf" else _KINDS[self.mode]
        return Target(kind, printable(self.spec), [printable(argument) for argument in self.arguments])


def read_target(
    text: str | None,
    module: str | None,
    arguments: tuple[str, ...],
    inputs: tuple[str, ...] = (),
    chosen: tuple[str, ...] = (),
) -> TargetSpec:
    """The target of TARGET, `-m`, `--input` and `--compile` (`chosen`). Raises UsageError where there is none."""
    if module is not None:
        if text is not None and prefix_of(text):
            raise UsageError(f"-m {module} and {text} exclude each other: each names what to run")
        if text is not None:
            arguments = (text, *arguments)
        if _MODULE_NAME.fullmatch(module) is None:
            raise UsageError(f"-m {module}: not the name of a module")
        spec = TargetSpec("module", module, module=module, arguments=arguments)
    elif text is None:
        raise UsageError("which program? Name a script (model.py), an object (model.py:NAME) or a module (-m package)")
    else:
        spec = _from_text(text, arguments, inputs)
    _check_inputs(inputs, spec)
    _check_chosen(chosen, spec)
    return replace(spec, chosen=chosen)


def _from_text(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> TargetSpec:
    if prefix_of(text):
        return _model(text, arguments, inputs)
    if not text:
        raise UsageError('no such file: ""')
    path = Path(text)
    if path.is_file():
        if path.suffix == NOTEBOOK:
            _check_notebook(path)
        return TargetSpec("script", text, path=text, arguments=arguments)
    if path.is_dir():
        main = path / "__main__.py"
        hint = f"run {main}" if main.is_file() else "name a Python file in it"
        if main.is_file() and (path / "__init__.py").is_file() and path.name == text:
            hint = f"run the package with -m {text}"
        raise UsageError(f"{text} is a directory; {hint}")
    place, colon, name = text.rpartition(":")
    if not (colon and place):
        module = Path(*text.split("."))
        is_module = _MODULE_NAME.fullmatch(text) and (module.with_suffix(".py").is_file() or module.is_dir())
        raise UsageError(f"no such file: {text}{f'; to run the module: -m {text}' if is_module else ''}")
    if _MODULE_NAME.fullmatch(name) is None:
        raise UsageError(f"{text}: after the colon comes the name of a module, a class or a function")
    if Path(place).is_file():
        return TargetSpec("object", text, path=place, name=name, arguments=arguments, inputs=inputs)
    if _MODULE_NAME.fullmatch(place) and not place.endswith(".py"):
        return TargetSpec("object", text, module=place, name=name, arguments=arguments, inputs=inputs)
    raise UsageError(f"no such file: {place}")


def _check_notebook(path: Path) -> None:
    """Raises UsageError for a notebook that cannot be run cell by cell."""
    try:
        import nbformat
    except ImportError:
        raise UsageError(f"{path}: a notebook needs nbformat: pip install 'dynalyze[notebook]'") from None
    try:
        nbformat.validate(nbformat.reads(path.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT), version=4)
    except Exception as error:  # Of several libraries: each says what is wrong in its first line.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{path} is no notebook of format 4, which Jupyter writes: {reason}") from None


def _model(text: str, arguments: tuple[str, ...], inputs: tuple[str, ...]) -> TargetSpec:
    prefix = prefix_of(text)
    library, name = library_facts(prefix), text.removeprefix(f"{prefix}:").strip()
    if not name:
        raise UsageError(f"{prefix}: needs a name: {library.models}")
    if is_pattern(name):
        raise UsageError(f"{text} names many models; this command takes one, e.g. {library.example}")
    if inputs:
        sizes = " and ".join(f"--{size}" for size in ("batch", "sequence", "size") if size in library.options)
        raise UsageError(f"--input is not for {text}: its inputs are made for it; {sizes} size them")
    if arguments:
        raise UsageError(f"{text} takes no arguments of its own: {arguments[0]}")
    return TargetSpec("library", text, name=name, library=prefix, asked=ModelOptions())


def _as_stem(text: str) -> str:
    return re.sub(r"[^\w.-]", "_", text).encode()[:_LONGEST_STEM].decode(errors="ignore")


def _check_inputs(inputs: tuple[str, ...], spec: TargetSpec) -> None:
    if inputs and spec.mode != "object":
        raise UsageError("--input is for an object (model.py:NAME); a script makes its own inputs")
    for expression in inputs:
        if not expression.strip():
            raise UsageError('--input is empty; give an expression, e.g. --input "torch.randn(2, 3)"')
        if reason := _against(expression.strip()):
            raise UsageError(f"--input {_quoted(expression)}: {reason}")


def _check_chosen(chosen: tuple[str, ...], spec: TargetSpec) -> None:
    if chosen and spec.mode not in ("script", "module"):
        raise UsageError(f"--compile is for a program; of {spec.spec} name the part itself as the target")
    for text in chosen:
        if _against(text.rpartition(":")[2] if text.count(":") == 1 else text):
            raise UsageError(
                f"--compile {_quoted(text)} is no expression; give a name, e.g. model.backbone or main:model"
            )


def _against(expression: str) -> str:
    """Why Python refuses an expression; "" where it does not."""
    try:
        compile(expression, "<expression>", "eval")
    except (RecursionError, MemoryError):  # The parser says by either that its stack is full.
        return "it is nested too deeply"
    except (SyntaxError, ValueError) as error:
        return getattr(error, "msg", None) or str(error)
    return ""


def _quoted(text: str) -> str:
    """A value of the user's as a message quotes it."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}..."
