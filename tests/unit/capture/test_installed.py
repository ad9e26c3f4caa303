"""Which files are libraries' and which the user's, in layered environments and below the interpreter's own prefix."""

import json
import sys

import pytest
import torch

from dynalyze.capture.installed import is_installed


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
