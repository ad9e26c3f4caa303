"""What a program leaves set for its whole process, without what compilers set for themselves."""

from __future__ import annotations

import os
import sysconfig
import warnings
from pathlib import Path

import pytest

from dynalyze.capture.inspecting.settings import left_behind


class OfSomePackage(UserWarning):
    """As sympy has one, which Dynamo imports."""


def test_what_compilers_bring_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = left_behind()
    # As a build of Inductor does: it imports setuptools, unless the code is in its cache.
    monkeypatch.syspath_prepend(str(Path(sysconfig.get_path("purelib"), "setuptools", "_vendor")))
    monkeypatch.setenv("_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR", "140")
    with warnings.catch_warnings():
        warnings.simplefilter("once", OfSomePackage)
        assert left_behind() == before


def test_what_the_program_sets_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = left_behind()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("LAST_ROWS", "4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        mask = os.umask(0o007)
        after = left_behind()
        os.umask(mask)
    assert {name for name in {**before, **after} if before.get(name) != after.get(name)} == {
        "sys.path", "os.environ['LAST_ROWS']", "warnings.filters", "os.umask"
    }  # fmt: skip
    assert "4" not in after.values()
