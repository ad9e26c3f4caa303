"""A module that gives the functions of an installed package other code."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from dynalyze.fix.overrides import module_name, override_of

BEFORE = '''\
from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nowhere import Number


def decorated(function):
    @functools.wraps(function)
    def around(*args):
        return ["around", function(*args)]
    return around


class Base:
    def size(self):
        return 1


class Model(Base):
    scale = 3

    @decorated
    def size(self):
        text = """
  as it stands
"""
        return super().size() + self.scale

    @staticmethod
    def twice(x: Number) -> Number:
        return x + x


def plain(x):
    return x
'''
AFTER = (
    BEFORE.replace("super().size() + self.scale", "super().size() + math.floor(self.scale) + len(text.split())")
    .replace("return x + x", "return 2 * x + 1")
    .replace("    return x\n", "    return helper(x)\n")
    .replace("import functools\n", "import functools\nimport math\n\n\ndef helper(x: Number):\n    return -x\n")
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages" / "planted_package"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "models.py").write_text(BEFORE)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    yield folder / "models.py"  # type: ignore[misc]
    for name in [name for name in sys.modules if name.startswith("planted_package")]:
        del sys.modules[name]


def _imported(source: str) -> None:
    """As a module of its own, which knows nothing of the futures that this one is under."""
    exec(compile(source, "made.py", "exec", dont_inherit=True), {})


def test_functions_get_their_new_code(installed: Path) -> None:
    from planted_package.models import Model, plain  # type: ignore[import-not-found]

    made = Model()
    assert (made.size(), Model.twice(2), plain(2)) == (["around", 4], 4, 2)
    _imported(override_of({str(installed): BEFORE}, {str(installed): AFTER}))
    assert (made.size(), Model.twice(2), plain(2)) == (["around", 7], 5, -2), "what exists already has it too"
    assert installed.read_text() == BEFORE


def test_another_version_stays_as_it_is(installed: Path) -> None:
    made = override_of({str(installed): BEFORE}, {str(installed): AFTER})
    installed.write_text(BEFORE + "\n# newer\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _imported(made)
    from planted_package.models import plain  # type: ignore[import-not-found]

    assert plain(2) == 2 and "left as it is" in str(caught[0].message)


def test_names_of_modules() -> None:
    assert module_name("/v/lib/python3.12/site-packages/a/b/c.py") == "a.b.c"
    assert module_name("/v/site-packages/a/__init__.py") == "a"
    assert override_of({"/work/model.py": "a = 1\n"}, {"/work/model.py": "a = 2\n"}) == ""
