"""Which files are libraries' and which the user's, in layered environments and below the interpreter's own prefix."""

import json
import sys
import types

import pytest
import torch

from dynalyze.capture.installed import file_of, is_installed


@pytest.mark.parametrize(
    ("file", "installed"),
    [
        ("/other/venv/lib/python3.11/site-packages/torch/nn/modules/rnn.py", True),
        ("/usr/lib/python3/dist-packages/numpy/core.py", True),
        ("C:\\env\\Lib\\site-packages\\numpy\\core.py", True),
        (json.__file__, True),
        (torch.__file__, True),
        (f"{sys.prefix}/src/app/model.py", False),
        ("/home/me/site-packages-of-mine/model.py", False),
        ("model.py", False),
        ("<string>", False),
    ],
)
def test_installed(file: str, installed: bool) -> None:
    assert is_installed(file) is installed


def test_a_module_that_loads_lazily_is_not_asked_for_its_file() -> None:
    class Lazy(types.ModuleType):
        def __getattr__(self, name: str) -> object:
            raise ImportError(f"{name}: what it needs is not installed")

    assert file_of(Lazy("lazy")) == file_of(None) == ""
    assert file_of(json) == json.__file__
