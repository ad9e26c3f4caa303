"""A script tells whenever it has given a value to a name that was chosen, and is the same program otherwise."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import pytest

from dynalyze.capture.compile_selection import HOOK, compiled_with_hooks

PROGRAM = '''"""What it is."""
from __future__ import annotations
import math as net
from os import path as other
net = 1
def net(x: Missing) -> None: pass
class net: pass
net: int = 2
net += 1
other, (net, *rest) = 3, (4, 5)
(net := 6)
if other:
    net = 7
else:
    net = 8
for number in range(2):
    net = number
try:
    net = 9
    raise KeyError
except KeyError:
    net = 10
finally:
    net = 11
with open("/dev/null"):
    net = 12
def inner():
    net = 13
    return net
inner()
'''


def told_by(source: str, *names: str) -> tuple[list[Any], dict[str, Any]]:
    told: list[Any] = []

    def bound() -> None:
        frame = sys._getframe(1)
        told.append(frame.f_locals.get("net", frame.f_globals.get("net")))

    space: dict[str, Any] = {"__name__": "__main__", HOOK: bound}
    exec(compiled_with_hooks(source, "program.py", names), space)
    return told, space


def test_the_hook_runs_after_each_statement_that_binds_the_name() -> None:
    told, space = told_by(PROGRAM, "net")
    values = [each for each in told if isinstance(each, int)]
    assert values == [1, 2, 3, 4, 6, 7, 0, 1, 9, 10, 11, 12, 13]
    assert len(told) == len(values) + 3  # a module, a function and a class
    assert space["__doc__"] == "What it is." and space["net"] == 12


def test_an_error_has_the_line_that_it_had() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        told_by("net = 1\nnet = 2\n\nnet = net / 0\n", "net")
    assert traceback.extract_tb(raised.value.__traceback__)[-1].lineno == 4
    with pytest.raises(SyntaxError):
        compiled_with_hooks("net = \n", "program.py", ["net"])
