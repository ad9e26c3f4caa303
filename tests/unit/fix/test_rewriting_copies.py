"""Copies: keyword arguments that functions change."""

from __future__ import annotations

from dynalyze.fix.rewriting import proposals
from dynalyze.fix.sites import Site
from dynalyze.report import GraphBreak, Location

_PROGRAM = '''
def outer(function):
    def wrapper(*args, **kwargs):
        """All of it."""
        kwargs["twice"] = True
        return function(*args, **kwargs)
    return wrapper


def inner(*args, **kwargs):
    kwargs.pop("twice", None)
    return bind(*args, **kwargs)


def reads(*args, **kwargs):
    return inner(*args, **{**kwargs, "more": kwargs.get("more")})


inner(1)
'''


def _proposed(*marks: str) -> list[str]:
    lines = [next(n for n, text in enumerate(_PROGRAM.splitlines(), 1) if mark in text) for mark in marks]
    names = ["<module>" if mark == "inner(1)" else "f" for mark in marks]
    places = [Location("model.py", line, None, name) for line, name in zip(lines, names, strict=True)]
    broken = GraphBreak("b1", None, "mapping proxy affected by dictionary mutation", "split", places[-1], places)
    return [each.source for each in proposals(Site(broken, _PROGRAM, lines[-1]), outer=True)]


def test_every_function_that_led_to_the_break_changes_a_copy_of_its_keywords() -> None:
    (changed,) = _proposed("inner(1)", "return function", "return inner", "return bind")
    assert changed == _PROGRAM.replace(
        '        kwargs["twice"] = ', '        kwargs = {**kwargs}\n        kwargs["twice"] = '
    ).replace('    kwargs.pop("twice"', '    kwargs = {**kwargs}\n    kwargs.pop("twice"')


def test_what_only_reads_its_keywords_is_left_alone() -> None:
    assert not _proposed("return inner")
