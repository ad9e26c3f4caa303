"""Custom operators that the calls of a workload reach, each held to `torch.library.opcheck`, on the inputs that it got.

A fake that does not say what the kernel gives (sizes, strides, dtype), or a kernel that writes where its schema does
not say so, makes compiled code wrong: eager never asks either.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree

from dynalyze.capture.bench.failures import kind_of, one_line
from dynalyze.capture.bench.workload import Workload, run_untimed
from dynalyze.capture.clone import CannotClone, Frozen, freeze
from dynalyze.capture.nested_values import Signature, sign
from dynalyze.capture.torch_private import numerics
from dynalyze.capture.torch_private.dynamo import calling_frames

_MOST_OPERATORS, _MOST_INPUTS = 32, 2
_MOST_BYTES = 256 << 20  # Of the copies of inputs, together: what is larger is not checked.


@dataclass
class Reached:
    """An operator, the line of the program that called it first, and copies of inputs of different forms.

    `problems` are the parts of opcheck that fail, with what it says; `reason` is why it was not checked.
    """

    operator: Any
    file: str
    line: int
    function: str
    inputs: dict[Signature, Frozen] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    checked: int = 0
    reason: str = ""

    def answer(self) -> dict[str, Any]:
        """The fields of report/audit.py `OperatorCheck`."""
        problems = [{"test": test, "message": message} for test, message in self.problems.items()]
        place = {"file": self.file, "line": self.line, "function": self.function} if self.file else None
        return {
            "name": self.operator.name(), "location": place, "checked": self.checked, "problems": problems,
            "reason": self.reason,
        }  # fmt: skip


def checked_operators(workload: Workload, seconds: float) -> list[dict[str, Any]]:
    """One pass in eager, then opcheck on each custom operator that it reached, as long as there is time."""
    end = time.monotonic() + seconds
    reached = _reached(workload)
    for each in reached:
        if time.monotonic() > end:
            each.reason = f"{seconds:g} s were over"
            continue
        _check(each)
    return [each.answer() for each in reached]


def _reached(workload: Workload) -> list[Reached]:
    found: dict[str, Reached] = {}
    trains = workload.phase == "train"
    left = _MOST_BYTES

    def note(operator: Any, args: Any, kwargs: Any) -> None:
        nonlocal left
        name = operator.name()
        if name not in found:
            if len(found) >= _MOST_OPERATORS:
                return
            frame = next(calling_frames(), None)
            place = ("", 0, "") if frame is None else (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
            found[name] = Reached(operator, *place)
        known = found[name]
        signature = sign((args, kwargs))
        if signature in known.inputs or len(known.inputs) >= _MOST_INPUTS:
            return
        try:
            # Inputs that belong to nobody; they want gradients only where the program goes backward.
            loose = lambda x: x.detach().requires_grad_(trains and x.requires_grad)  # noqa: E731
            copied = freeze(_pytree.tree_map_only(torch.Tensor, loose, (args, kwargs)), left)
        except CannotClone as error:
            known.reason = f"its inputs cannot be copied: {error}"
            return
        known.inputs[signature] = copied
        left -= copied.nbytes

    def run(operator: Any, args: Any, kwargs: Any) -> Any:
        if numerics.is_custom(operator):
            note(operator, args, kwargs)
        return operator(*args, **kwargs)

    with numerics.nothing_compiled(), numerics.watched_operations(run):
        run_untimed(workload.steps(workload.model))
    return list(found.values())


def _check(each: Reached) -> None:
    for inputs in each.inputs.values():
        args, kwargs = inputs.thaw()
        try:
            results = torch.library.opcheck(each.operator, args, kwargs, raise_exception=False)
        except Exception as error:
            if kind_of(error, "internal") == "out_of_memory":
                each.reason = one_line(error)
                return
            results = {"opcheck": error}
        each.checked += 1
        for test, result in results.items():
            if isinstance(result, Exception):
                each.problems.setdefault(test, one_line(result))
