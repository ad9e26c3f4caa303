"""Programs whose breaks cannot be ended as it looks at first: whatever the search verifies of them, the program does
what it did, as plain calls before and after show.
"""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from slow_siblings import mostly_slow
from trap_programs import WRONG

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="what breaks a graph differs before torch 2.13"
)

TRAPS = (
    "list-append", "private-counter", "object", "global", "dict-update", "print-in-a-branch",
    "tensor-in-a-plain-object",
    "buffer-in-a-branch", "input-list", "random-numbers-in-a-branch", "print-of-next", "print-of-a-counter",
    "print-of-a-write", "item-in-training", "item-returned", "item-stored", "item-as-a-key", "item-rounded",
    "item-truncated", "double-to-float", "integer-overflow", "input-returned", "view-in-place", "input-in-place",
    "sqrt-of-negatives", "division-by-zero-inference", "dropout-in-both-sides", "other-dtype", "other-shape",
    "other-strides", "never-taken-at-all", "never-taken-nan", "check-dropped",
    "rows-that-mix", "rows-that-are-counted", "experts-that-mix",
)  # fmt: skip
_CHANGES = (
    lambda x: x.abs(), lambda x: -x.abs(), lambda x: x * 0, lambda x: x * 1e4, lambda x: x * float("nan"),
    lambda x: torch.full_like(x, 12345 / x.numel()),
)  # fmt: skip


def calls_of(calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The program's own calls, and the same with inputs that take other sides, without and with gradients."""
    given = [copy.deepcopy(call) for call in calls]
    for change, grad in itertools.product(_CHANGES, (False, True)):
        given += [tuple(_changed(x, change, grad) for x in call) for call in calls]
    return given


def _changed(value: Any, change: Any, grad: bool) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return copy.deepcopy(value)
    return change(value.detach().clone()).requires_grad_(grad)


def run(source: str, file: Path) -> types.ModuleType:
    """A program anew. Nothing remembers its bytecode, which is taken for that of another text of the same length."""
    module = sys.modules["trap_program"] = types.ModuleType("trap_program")  # torch.cond asks for it by its name.
    module.__file__ = str(file)
    exec(compile(source, str(file), "exec"), module.__dict__)
    return module


def plain(value: Any) -> Any:
    """A value that compares by what it holds."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, repr(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if callable(value):
        return "something that can be called"
    return plain(vars(value)) if type(value).__module__ == "trap_program" else value


def behaviour(source: str, file: Path) -> list[Any]:
    """What a program gives, prints, raises and leaves behind in all of its calls, each on a model of its own."""
    log = Path(f"{file}.log")
    found = []
    for number in range(len(calls_of(run(source, file).calls))):
        module = run(source, file)
        call, printed = calls_of(module.calls)[number], io.StringIO()
        torch.manual_seed(0)
        with contextlib.redirect_stdout(printed):
            try:
                outputs = module.model(*call)
                shared = [x.data_ptr() == y.data_ptr() for x in _tensors(call) for y in _tensors(outputs)]
                outcome = plain(outputs), shared, _gradients(outputs, call)
            except Exception as error:
                outcome = type(error).__name__, str(error)
        state = {name: plain(held) for name, held in vars(module.model).items() if name != "_modules"}
        names = {name: plain(vars(module)[name]) for name in ("COUNT", "CACHE", "ITEMS") if name in vars(module)}
        names = {name: next(held) if hasattr(held, "__next__") else held for name, held in names.items()}
        logged = log.read_text() if log.exists() else ""
        log.unlink(missing_ok=True)
        found.append((outcome, plain(call), state, names, printed.getvalue(), logged, torch.rand(1).item()))
    return found


def _tensors(value: Any) -> list[Any]:
    return [x for x in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(x, torch.Tensor)]


def _gradients(outputs: Any, call: tuple[Any, ...]) -> Any:
    leaves = [x for x in _tensors(call) if x.requires_grad]
    made = [y.sum() for y in _tensors(outputs) if y.requires_grad]
    if not made or not leaves:
        return None
    gradients = torch.autograd.grad(sum(made), leaves, allow_unused=True)
    return [repr(each.tolist()) if each is not None else None for each in gradients]


@pytest.mark.parametrize("name", mostly_slow(TRAPS, every=26))
def test_what_is_proved_of_a_trap_does_what_it_did(name: str, tmp_path: Path) -> None:
    from fixing_in_process import search

    trap = WRONG[name]
    source = f"{trap.source}f = model\n"
    inputs = trap.source.rpartition("calls = ")[2].strip() + "[0]"
    found = search(source, inputs, tmp_path, training=trap.options.get("train", False), draws=3)
    assert not found.problem
    assert found.before.breaks > 0
    file = tmp_path / "program.py"
    before = behaviour(source, file)
    if found.text != source:
        assert behaviour(found.text, file) == before, found.text
    if not trap.loses:  # Where compiled code does otherwise, plain calls show nothing.
        assert behaviour(source.replace(trap.was, trap.becomes), file) != before
