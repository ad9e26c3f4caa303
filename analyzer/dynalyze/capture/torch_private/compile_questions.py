"""The functions of torch by which code asks whether it is compiled, and other answers to them.

Run on torch 2.8, 2.11, 2.13 and 2.15. A function that this torch lacks, or whose code cannot be replaced, is left out.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dynalyze.capture.installed import is_torchs
from dynalyze.capture.torch_private import dynamo

Question = Callable[[], Any]
_PUBLIC = ("is_compiling", "is_dynamo_compiling", "is_exporting")
# A function that hands the question on, as `is_tracing` and `is_torchdynamo_compiling` of transformers.
_HANDS_ON = re.compile(r"_?is_\w*(compiling|exporting|tracing|compiled)$")
# Layers are Python like a program's own. Elsewhere in torch the code of "compiled" needs that Dynamo is really there.
_LAYERS = str(Path(torch.__file__).parent / "nn" / "modules")
_OURS = str(Path(__file__).parents[2])


class AskingLine(NamedTuple):
    """The line that asks."""

    file: str
    line: int
    function: str


def questions() -> dict[Question, Any]:
    """The functions that Dynamo answers otherwise than eager, with its answers: it is asked itself, once for each.

    Dynamo forgets what it has compiled.
    """
    known: dict[Any, None] = dict.fromkeys(
        found for name in _PUBLIC if (found := getattr(torch.compiler, name, None)) is not None
    )
    with contextlib.suppress(Exception):
        from torch._dynamo.variables.torch import tracing_state_functions

        known |= dict.fromkeys(each for each, answer in tracing_state_functions().items() if answer)
    answers: dict[Question, Any] = {}
    for question in known:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eager, compiled = question(), _under_dynamo(question)
            if compiled != eager and _can_be_replaced(question):
                answers[question] = compiled
    return answers


def _under_dynamo(question: Question) -> Any:
    def asked(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return x + 1, question()

    try:
        return torch.compile(asked, backend="eager")(torch.zeros(1))[1]
    finally:
        dynamo.forget_compiled()


def _can_be_replaced(question: Question) -> bool:
    return isinstance(question, types.FunctionType) and not question.__code__.co_freevars


@contextlib.contextmanager
def answering(answers: dict[Question, Any], wanted: Callable[[AskingLine], bool]) -> Iterator[list[AskingLine]]:
    """Answer these questions so where they are asked at a wanted place; yields the places that ask, in their order.

    Only for what runs in eager. The functions stay who they are, wherever they were imported; their code is another.
    """
    places: dict[AskingLine, None] = {}
    found: list[AskingLine] = []
    taken: list[tuple[types.FunctionType, types.CodeType]] = []

    def answer(question: types.FunctionType, otherwise: types.FunctionType) -> Any:
        place = _asking(sys._getframe(2))
        if place is None:
            return otherwise()
        if place not in places:
            places[place] = None
            found.append(place)
        return answers[question] if wanted(place) else otherwise()

    try:
        for question in answers:
            assert isinstance(question, types.FunctionType)
            number = len(_current)
            own = types.FunctionType(question.__code__, question.__globals__, question.__name__)
            _current.append(functools.partial(answer, question, own))
            names: dict[str, Any] = {}
            exec(f"def asked():\n from {__name__} import _current\n return _current[{number}]()", names)
            taken.append((question, question.__code__))
            question.__code__ = names["asked"].__code__
        yield found
    finally:
        for question, code in taken:
            question.__code__ = code
        del _current[len(_current) - len(taken) :]


_current: list[Callable[[], Any]] = []


def _asking(frame: types.FrameType | None) -> AskingLine | None:
    """The place that a question comes from, whoever handed it on; None where that is torch or we."""
    for each in dynamo.frames_from(frame):
        code = each.f_code
        file = code.co_filename
        if _HANDS_ON.match(code.co_name) is None and not file.endswith("typing_extensions.py"):
            is_torch = is_torchs(file) and not file.startswith(_LAYERS)
            return None if is_torch or file.startswith(_OURS) else AskingLine(file, each.f_lineno, code.co_name)
    return None
