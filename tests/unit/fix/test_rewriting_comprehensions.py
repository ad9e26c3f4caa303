"""Comprehensions made loops, on source text."""

from __future__ import annotations

import pytest

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site
from dynalyze.report import GraphBreak, Location

_LOOP = """def wrapped(function):
    def wrapper(self, **kwargs):
        wanted = {comprehension}
        return function(self, wanted)
    return wrapper
"""


def _proposed(text: str) -> dict[str, str]:
    line = next(number for number, each in enumerate(text.splitlines(), 1) if "wanted =" in each)
    place = Location("model.py", line, None, "f")
    site = Site(GraphBreak("b1", None, "Missing tp_iternext", "split", place, [place]), text, line)
    found = {each.rewrite: each.source for each in proposals(site)}
    for source in found.values():
        compile(source, "model.py", "exec")
    return found


def _loop(comprehension: str, program: str = _LOOP) -> str:
    text = program.replace("{comprehension}", comprehension)
    return _proposed(text).get("comprehension-as-loop", "")


def test_a_comprehension_is_a_loop_with_variables_of_its_own() -> None:
    assert _loop("{f'a_{k}': kwargs.get(k, self.k) for k in self.names if k}") == _LOOP.replace(
        "        wanted = {comprehension}\n",
        "        wanted = {}\n"
        "        for k_ in self.names:\n"
        "            if k_:\n"
        "                key_ = f'a_{k_}'\n"
        "                wanted[key_] = kwargs.get(k_, self.k)\n",
    ).replace("key_", "key")


@pytest.mark.parametrize(
    "comprehension",
    [
        "[k for a in self.names for k in a]",
        "[lambda: k for k in self.names]",
        "[k for k in wanted]",
        "[[j for j in k] for k in self.names]",
        "[(last := k) for k in self.names]",
    ],
)
def test_a_comprehension_that_a_loop_is_not_the_same_as_stays(comprehension: str) -> None:
    assert not _loop(comprehension)


def test_a_comprehension_stays_where_an_exception_would_show_half_of_it() -> None:
    program = _LOOP.replace("        wanted = {comprehension}\n", (
        "        wanted = None\n        try:\n            wanted = {comprehension}\n        except KeyError:\n"
        "            pass\n"
    ))  # fmt: skip
    text = program.replace("{comprehension}", "[self.k[k] for k in kwargs]").replace("wanted = None", "other = None")
    assert "comprehension-as-loop" not in _proposed(text)
