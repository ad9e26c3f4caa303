"""What calls change is seen by name, wherever it is held, and put back."""

from __future__ import annotations

import collections
import itertools
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from dynalyze.capture.fixing.object_state import HeldState
from dynalyze.capture.fixing.watching import Effect, effects, effects_that_differ
from proving import module_of

PROGRAM = """
import collections
import torch

COUNT = 0
ITEMS = collections.OrderedDict(a=1)
GENERATOR = torch.Generator()

class Box:
    shared = []
    def __init__(self):
        self.n = 0

def note(text, seen=[]):
    seen.append(text)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.register_buffer("steps", torch.zeros(2))
        self.box = Box()
        self.deep = [{"a": (collections.deque([1]), {1, 2})}]
        self._private = None

    def forward(self, x):
        global COUNT
        note
        return COUNT, ITEMS, GENERATOR, Box
"""


def everything(module: Any) -> dict[str, Any]:
    """Ways to change what the model holds, and the name that each is to have."""
    model = module.model
    return {
        "._private": lambda: setattr(model, "_private", 3),
        ".new": lambda: setattr(model, "new", torch.ones(2)),
        "box.n": lambda: setattr(model.box, "n", 4),
        "box.more": lambda: setattr(model.box, "more", []),
        "class Box.shared": lambda: module.Box.shared.append(1),
        "class Box.count": lambda: setattr(module.Box, "count", 1),
        "deep[0].a[0]": lambda: model.deep[0]["a"][0].append(2),
        "deep[0].a[1]": lambda: model.deep[0]["a"][1].add(3),
        "deep": lambda: model.deep.clear(),
        "_buffers.steps": lambda: model.steps.add_(1),
        "linear._parameters.weight": lambda: model.linear.weight.data.mul_(2),
        "linear.training": lambda: model.linear.train(),
        "COUNT": lambda: vars(module).update(COUNT=5),
        "ITEMS": lambda: module.ITEMS.move_to_end("a") or module.ITEMS.update(b=2),
        "NEW": lambda: vars(module).update(NEW=5),
        "GENERATOR": lambda: torch.rand(1, generator=module.GENERATOR),
        "global.note default 0": lambda: module.note("a"),
        "global.note.calls": lambda: setattr(module.note, "calls", 1),
    }


def test_every_change_is_told_by_name_and_put_back(tmp_path: Path) -> None:
    module = module_of(PROGRAM + "\nmodel = Model().eval()\n", tmp_path / "program.py")
    held = HeldState()
    held.add("", module.model, own=True)
    before = held.changes()
    assert not before.values and not before.tensors
    for name, change in everything(module).items():
        change()
        assert any(name in path for path in held.changes().values), name
        held.restore()
        assert not held.changes().values, name
    assert (module.COUNT, list(module.ITEMS), module.model.box.n, module.Box.shared) == (0, ["a"], 0, [])
    assert module.model.deep == [{"a": (collections.deque([1]), {1, 2})}]
    assert not hasattr(module.model, "new") and not hasattr(module.Box, "count") and "NEW" not in vars(module)


def test_what_dynamo_puts_among_globals_is_none_of_the_programs_state(tmp_path: Path) -> None:
    module = module_of(PROGRAM + "\nmodel = Model().eval()\ndef _read(): ...\n", tmp_path / "program.py")
    held = HeldState()
    held.add("", module.model, own=True)
    # As torch._dynamo.output_graph install_global_by_id names them, whose prefix may be empty, and module_key_name.
    vars(module).update(
        {"sub_read": 2, "sub_read_1": 3}
        | {"__compiled_fn_1_abc": 1, "_140539909402480_c5": torch, "__import_torch_140539909402480_c0": torch}
    )
    assert not held.changes().values
    vars(module).update(sub_total=1)
    assert [path.rpartition(".")[2] for path in held.changes().values] == ["sub_total"], "a global of the program's own"


def test_what_a_constant_function_of_another_module_gave_is_none_of_the_programs_state(tmp_path: Path) -> None:
    """As functions of transformers that ask what is installed: not of the module whose code is compiled."""
    asking = types.ModuleType("planted_asking")
    exec(_ASKING, vars(asking))
    sys.modules["planted_asking"] = asking
    try:
        module = module_of(_ASKED, tmp_path / "program.py")
        held = HeldState()
        held.add("", module.f, own=True)
        assert torch.compile(module.f, backend="eager", fullgraph=True)(torch.ones(2)).tolist() == [3.0, 3.0]
        known = set(vars(module))
        assert {"is_planted", "is_planted_1"} & known, "Dynamo has put them among the globals"
        assert not held.changes().values
        vars(module).update(is_planned_1=True)
        assert [path.rpartition(".")[2] for path in held.changes().values] == ["is_planned_1"]
    finally:
        del sys.modules["planted_asking"]


_ASKING = """
import torch

@torch.compiler.assume_constant_result
def is_planted():
    return True

def more():
    return is_planted() + is_planted()
"""
_ASKED = """
import planted_asking

def f(x):
    return x + planted_asking.more()
"""


def test_a_library_of_an_environment_below_ours_is_not_entered(tmp_path: Path) -> None:
    """A virtual environment can be layered over another one, where torch is."""
    folder = tmp_path / "lib" / "site-packages"
    folder.mkdir(parents=True)
    library = module_of(PROGRAM, folder / "library.py")
    held = HeldState()
    held.add("", {"call": library.note})
    vars(library).update(COUNT=1)
    assert not held.changes().values


def test_an_iterator_that_goes_on_is_told() -> None:
    for iterator in (iter([1, 2, 3]), itertools.count(), (n for n in range(3))):
        held = HeldState()
        held.add("", {"it": iterator})
        next(iterator)
        assert list(held.changes().values) == ["it"]


def test_masked_arrays_are_put_back_with_their_masks_and_constants_of_numpy_are_left_alone() -> None:
    numpy = pytest.importorskip("numpy")
    array = numpy.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    held = HeldState()
    held.add("", {"constant": numpy.ma.masked, "array": array})
    array[0], array[2] = 5.0, numpy.ma.masked
    assert list(held.changes().values) == ["array"]
    held.restore()
    assert array.tolist() == [1.0, None, 3.0]
    assert not held.changes().values


def test_an_operator_that_torch_looks_up_is_no_state_of_the_program() -> None:
    held = HeldState()
    held.add("", {"operators": torch.ops, "of_aten": torch.ops.aten})
    vars(torch.ops.aten).pop("sgn", None)
    assert torch.ops.aten.sgn is not None
    assert not held.changes().values


@pytest.mark.parametrize(
    "one, other, told",
    [
        ([("printed", "a\n")], [("printed", "a\n")], []),
        ([("printed", "a\n"), ("printed", "b\n")], [("printed", "b\n")], ["not printed any more: 'a'"]),
        ([], [("logged", "INFO a")], ["logged in addition: 'INFO a'"]),
        ([("printed", "a\n"), ("printed", "b\n")], [("printed", "b\n"), ("printed", "a\n")],
         ["the same side effects, in another order"]),
    ],
)  # fmt: skip
def test_side_effects_that_differ_are_told(one: list[Effect], other: list[Effect], told: list[str]) -> None:
    assert effects_that_differ(one, other) == told


def test_one_print_is_one_effect_however_it_is_written() -> None:
    seen: list[Effect] = []
    with effects(seen):
        print("one", end=" ")
        print("two")
    assert seen == [("printed", "one two\n")]


def test_a_buffer_that_got_a_gradient_is_put_back_without_it() -> None:
    held, model = HeldState(), torch.nn.BatchNorm1d(2)
    held.add("", model)
    model.running_mean += torch.ones(2, requires_grad=True)
    assert "_buffers.running_mean" in held.changes().values
    held.restore()
    assert not model.running_mean.requires_grad and not held.changes().values


def test_variables_of_the_process_are_told_and_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEP", "1")
    held = HeldState()
    held.add_environment()
    os.environ["STEP"] = "2"
    os.environ["TORCH_LOGS"] = ""
    assert held.changes().values == {"environment.STEP": ("str", "'2'")}
    held.restore()
    assert os.environ["STEP"] == "1"
    del os.environ["TORCH_LOGS"]


def test_state_that_is_too_large_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynalyze.capture.fixing.object_state._MOST", 10)
    held = HeldState()
    held.add("", [[number] for number in range(20)])
    assert held.cut
