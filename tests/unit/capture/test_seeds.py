"""Whether a program set a seed, and which values of its modules are compared, without a program."""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import pytest

from dynalyze.capture.inspecting.seeds import SeedWatch
from dynalyze.capture.inspecting.settings import names_of_modules

numpy = pytest.importorskip("numpy")
NUMPY_RANDOM = pytest.importorskip("numpy.random")


@pytest.fixture(autouse=True)
def as_it_was() -> object:
    ours, numpys = random.getstate(), NUMPY_RANDOM.get_state()
    random.seed()  # Another test may have set the seed that is set here.
    NUMPY_RANDOM.seed()
    yield
    random.setstate(ours)
    NUMPY_RANDOM.set_state(numpys)


def seeds_set(watch: SeedWatch) -> set[str]:
    return {name for name, is_set in watch.set_by_program(sys.modules).items() if is_set}


def test_drawing_sets_no_seed_however_much_is_drawn() -> None:
    watch, began = SeedWatch(), random.getstate()
    for _ in range(3):
        random.shuffle(list(range(1000)))
        random.gauss(0, 1)
        NUMPY_RANDOM.randn(1001)
        assert seeds_set(watch) == set()
    random.setstate(began)  # As a library does that draws without being noticed.
    assert seeds_set(watch) == set()


def test_a_seed_is_told_from_drawing() -> None:
    watch = SeedWatch()
    random.seed(0)
    random.random()
    assert seeds_set(watch) == {"random.seed"}
    NUMPY_RANDOM.seed(random.randrange(1000))
    assert seeds_set(watch) == {"random.seed", "numpy.random.seed"}


MODULE = """
RATE, LIMITS, KINDS = 2.5, {"rows": (1, None)}, {"half": int}
LOSSES, MADE, MANY = [0.5, 0.25], object(), list(range(200_000))
"""


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("module.RATE = 2.25", "RATE"),
        ("module.LIMITS['rows'] = (1, 8)", "LIMITS"),
        ("module.KINDS['half'] = float", "KINDS"),
        ("module.KINDS['twice'] = int", "KINDS"),
        ("module.LOSSES.append(0.125)", None),  # Results, which may be rounded otherwise.
        ("module.MADE = object()", None),
        ("module.MANY.append(0)", None),
    ],
)
def test_which_values_of_a_module_are_compared(
    line: str, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constants_of_a_program.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("constants_of_a_program")
    monkeypatch.setattr(sys, "modules", {"math": math, module.__name__: module})  # Not the tests that are collected.
    before = names_of_modules()
    exec(line, {"module": module})
    after = names_of_modules()
    monkeypatch.undo()
    del sys.modules[module.__name__]
    changed = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
    file = (tmp_path / "constants_of_a_program.py").resolve()
    assert changed == ({f"{name} of {file}"} if name else set())


def test_operators_that_were_asked_for_are_none_of_the_programs_names() -> None:
    torch = pytest.importorskip("torch")
    before = names_of_modules()
    assert torch.ops._c10d_functional is not None and torch.ops._dir
    assert "_c10d_functional" in torch.ops._dir and names_of_modules() == before
