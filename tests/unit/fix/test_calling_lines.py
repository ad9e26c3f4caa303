"""The lines of a program that call its model, which then give it numbers of Python."""

from __future__ import annotations

import pytest

from dynalyze.fix.callers import CallingLines

PROGRAM = 'größe = "ü"\n{call}\n'


def changed(
    call: str, *names: str, line: int = 2, arguments: tuple[str, ...] = ("images", "sizes", "grid")
) -> str | None:
    text = PROGRAM.format(call=call)
    found = CallingLines([("p.py", line)], arguments).with_numbers({"p.py": text}, {"p.py": text}, names)
    return None if found is None else found["p.py"].partition("\n")[2].rstrip("\n")


@pytest.mark.parametrize(
    ("call", "names", "expected"),
    [
        ("y = model(x, sizes=s)", ["sizes"], "y = model(x, sizes=s.tolist())"),
        ("y = model(x, s)", ["sizes"], "y = model(x, s.tolist())"),
        ('print(model(x, s + 1).sum(), sep="ä")', ["sizes"],
         'print(model(x, (s + 1).tolist()).sum(), sep="ä")'),
        ("y = model(x, sizes=t['ö'], grid=g())", ["sizes", "grid"],
         "y = model(x, sizes=t['ö'].tolist(), grid=g().tolist())"),
        ("y = model(**batch)", ["sizes"], 'y = model(**{**batch, "sizes": batch["sizes"].tolist()})'),
        ("y = model(x, **batch)", ["sizes", "numbers=grid"],
         'y = model(x, **{**batch, "sizes": batch["sizes"].tolist(), "numbers": batch["grid"].tolist()})'),
        ("y = model(**batch, sizes=t['%s'])", ["sizes", "numbers=grid"],
         """y = model(**{**batch, "numbers": batch["grid"].tolist()}, sizes=t['%s'].tolist())"""),
        ("y = 1\x0c; y = model(x, s)", ["sizes"], "y = 1\x0c; y = model(x, s.tolist())"),
        ("y = model(x, grid=g)", ["numbers=grid"], "y = model(x, grid=g, numbers=g.tolist())"),
        ("y = model(x, s, g)", ["numbers=grid"], "y = model(x, s, g, numbers=g.tolist())"),
        ("y = model(\n    x,\n    sizes=s,\n)", ["sizes"], "y = model(\n    x,\n    sizes=s.tolist(),\n)"),
    ],
)  # fmt: skip
def test_the_call_gives_the_numbers(call: str, names: list[str], expected: str) -> None:
    compile(expected, "p.py", "exec", dont_inherit=True)
    assert changed(call, *names) == expected


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("y = model(x)", ["sizes"]),  # It may stand in a call further out.
        ("y = model(*both)", ["sizes"]),
        ("y = model(**first, **second)", ["sizes"]),
        ("y = model(x, s) + other(x, s)", ["sizes"]),
        ("print(x, model(x, s))", ["sizes"]),
        ("y = model(x, grid=made())", ["numbers=grid"]),  # It would be made twice.
    ],
)
def test_what_a_line_does_not_show_is_left_alone(call: str, names: list[str]) -> None:
    assert changed(call, *names) is None


def test_every_line_that_calls_is_changed_or_none() -> None:
    text = "model(x, s)\nmodel(y, s)\nmodel(*z)\n"
    two = CallingLines([("p.py", 1), ("p.py", 2)], ["x", "sizes"])
    given = two.with_numbers({"p.py": text}, {"p.py": text}, ["sizes"])
    assert given == {"p.py": "model(x, s.tolist())\nmodel(y, s.tolist())\nmodel(*z)\n"}
    three = CallingLines([*two.places, ("p.py", 3)], ["x", "sizes"])
    assert three.with_numbers({"p.py": text}, {"p.py": text}, ["sizes"]) is None


def test_lines_are_those_of_the_file_before_other_changes() -> None:
    before, after = "model(x, s)\n", "import torch\n\nmodel(x, s)\n"
    given = CallingLines([("p.py", 1)], ["x", "sizes"]).with_numbers({"p.py": before}, {"p.py": after}, ["sizes"])
    assert given == {"p.py": "import torch\n\nmodel(x, s.tolist())\n"}
