"""Words and settings that several pieces of advice share."""

from __future__ import annotations

from pathlib import Path

from dynalyze.report import Location

RECOMPILATION_PAGE = (
    "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html"
)
DYNAMIC_PAGE = "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html"

PRODUCTION = 'torch.compiler.set_stance("fail_on_recompile")'
PRODUCTION_NOTE = (
    "This mends nothing, it makes the change visible: set it in production after the warm-up, and a call that would "
    "compile again raises and names its guard."
)

_SOURCES_NOTE = 'The same without a change of the code: TORCH_COMPILE_DYNAMIC_SOURCES="{name}" in the environment.'


def named_place(location: Location) -> str:
    """`model.py:12`, for a sentence."""
    return f"{Path(location.file).name}:{location.line}"


def callee(location: Location) -> str:
    """A name for what the user calls: the function's own, or `model` for a module's forward."""
    name = location.function.rpartition(".")[2]
    if name in ("forward", "__call__"):
        return "model"
    return name if name.isidentifier() else "function"


def dynamic_sources(name: str) -> tuple[str, str]:
    """The setting that makes a source dynamic, and the same for the environment; empty without a name."""
    if not name:
        return "", ""
    return f'torch.compiler.config.dynamic_sources = "{name}"', _SOURCES_NOTE.format(name=name)
