"""Other code for functions that exist: what is exchanged, what is put back, and what is refused."""

from __future__ import annotations

import contextlib
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynalyze.capture.fixing.additions import CannotSwap
from dynalyze.capture.fixing.records import SourceChange
from dynalyze.capture.fixing.swap import Swap
from dynalyze.capture.fixing.watching import instructions_run
from proving import module_of

PROGRAM = """
import math
STEP = 1

def outer(k):
    def inner(x):
        return x + k
    return inner

class Model:
    factor = 2

    def run(self, x, scale=1):
        y = x * self.factor
        return y * scale

twice = lambda x: x * 2
add = outer(10)
"""


_NEW_METHOD = """\
        return self._more(y) * self.one() * scale

    def _more(self, y):
        return y + 3 if super().__hash__() else y

    @staticmethod
    def one():
        return STEP
"""


def changed(file: Path, old: str, new: str) -> tuple[Any, SourceChange]:
    module = module_of(PROGRAM, file)
    assert old in PROGRAM
    return module, SourceChange(str(file), PROGRAM, PROGRAM.replace(old, new))


@pytest.mark.parametrize(
    "old, new, call, before, after",
    [
        ("y = x * self.factor", "y = x + self.factor", lambda m: m.Model().run(5), 10, 7),
        ("return x + k", "return x - k", lambda m: m.add(1), 11, -9),
        ("lambda x: x * 2", "lambda x: x * 3", lambda m: m.twice(4), 8, 12),
        ("import math\n", "import math\nimport operator\n", lambda m: m.twice(4), 8, 8),
        ("        return y * scale", "        return math.floor(y * scale + 0.5)", lambda m: m.Model().run(5), 10, 10),
        ("STEP = 1\n", "STEP = 1\n\ndef more(x):\n    return x + STEP\n", lambda m: m.twice(4), 8, 8),
        ("        return y * scale\n", _NEW_METHOD, lambda m: m.Model().run(5), 10, 13),
        (
            "    factor = 2\n\n    def run(self, x, scale=1):\n        y = x * self.factor\n",
            "    factor = 2\n    term = 7\n\n    def run(self, x, scale=1):\n        y = x + self.term\n",
            lambda m: m.Model().run(5),
            10,
            12,
        ),
    ],
)
def test_functions_have_the_new_code_inside_and_the_old_after_it(
    tmp_path: Path, old: str, new: str, call: Any, before: Any, after: Any
) -> None:
    module, change = changed(tmp_path / "program.py", old, new)
    names = set(vars(module))
    swap = Swap([change])
    with swap.applied():
        assert call(module) == after
    assert call(module) == before
    assert set(vars(module)) == names


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("scale=1)", "scale=1, *, size=None)", "more is changed than the bodies"),
        ("scale=1", "scale=2", "more is changed than the bodies"),
        ("factor = 2", "factor = 3", "more is changed than the bodies"),
        ("class Model:", "class Model(dict):", "more is changed than the bodies"),
        ("add = outer(10)", "add = outer(11)", "more is changed than the bodies"),
        ("STEP = 1", "STEP = 2", "more is changed than the bodies"),
        ("add = outer(10)\n", "", "more is changed than the bodies"),
        ("import math\nSTEP = 1\n", "STEP = 1\nimport math\n", "more is changed than the bodies"),
        ("def run(self, x, scale=1)", "def run(self, x, other=1)", "more is changed than the bodies"),
        ("    def run", "    @staticmethod\n    def run", "more is changed than the bodies"),
        ("add = outer(10)\n", "add = outer(10)\nprint(add)\n", "more is changed than the bodies"),
        ("add = outer(10)\n", "add = outer(10)\nSTEP += 1\n", "more is changed than the bodies"),
        ("STEP = 1\n", "STEP = 1\nimport operator as twice\n", "the name twice is something else already"),
        ("return x + k", "return x", "closes over other variables"),
        ("def run", "def walk", "more is changed than the bodies"),
        ("return x + k", "return x +", "no Python"),
        ("    factor = 2\n", "    factor = 2\n    __slots__ = ('a',)\n", "more is changed than the bodies"),
        (
            "    factor = 2\n",
            "    factor = 2\n    def __hash__(self):\n        return 1\n",
            "has another __hash__ already",
        ),
        ("STEP = 1\n", "STEP = 1\nmath.tau = 6\n", "more is changed than the bodies"),
    ],
)
def test_a_change_of_more_than_code_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    module, change = changed(tmp_path / "program.py", old, new)
    with pytest.raises(CannotSwap, match=said), Swap([change]).applied():
        pass
    assert (module.add(1), module.twice(4), module.Model().run(5)) == (11, 8, 10)


def test_functions_of_one_name_are_told_apart_by_their_code(tmp_path: Path) -> None:
    source = "def make():\n    a = lambda x: x + 1\n    b = lambda x: x + 2\n    return a, b\na, b = make()\n"
    module = module_of(source, tmp_path / "program.py")
    new = source.replace("    a =", "    c = lambda x: x + 3\n    a =")
    with Swap([SourceChange(str(tmp_path / "program.py"), source, new)]).applied():
        assert (module.a(0), module.b(0)) == (1, 2)


@pytest.mark.parametrize("kept, refused", [("list(map(key, xs))", False), ("KEPT.append(key) or xs", True)])
def test_a_function_that_the_change_takes_away_may_go_where_nothing_holds_it(
    tmp_path: Path, kept: str, refused: bool
) -> None:
    source = f"KEPT = []\n\n\ndef first(xs):\n    key = lambda x: -x\n    return {kept}\n"
    path = tmp_path / "program.py"
    module = module_of(source, path)
    module.first([1])
    new = source[: source.index("    key")] + "    return [-x for x in xs]\n"
    refusal = pytest.raises(CannotSwap, match="is gone") if refused else contextlib.nullcontext()
    with refusal, Swap([SourceChange(str(path), source, new)]).applied():
        assert module.first([1, 2]) == [-1, -2]


def test_what_no_call_has_run_is_named(tmp_path: Path) -> None:
    _, change = changed(tmp_path / "program.py", "y = x * self.factor", "y = x + self.factor")
    line = PROGRAM.splitlines().index("        y = x * self.factor") + 1
    swap = Swap([change])
    assert swap.unreached(set()) == f"program.py:{line}"
    assert swap.unreached({(change.path, line)}) == ""


names = st.sampled_from(["x", "k", "2", "3"])
expressions = st.recursive(names, lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner))


@settings(max_examples=8)  # Each looks through all objects of the process.
@given(one=expressions, other=expressions)
def test_a_closure_computes_what_its_source_says(
    one: str, other: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Both use k, so that both close over it.
    program = "def make(k):\n    def f(x):\n        return k * 0 + {}\n    return f\nf = make(5)\n"
    file = tmp_path_factory.mktemp("swap") / "program.py"
    module = module_of(program.format(one), file)
    with Swap([SourceChange(str(file), program.format(one), program.format(other))]).applied():
        assert module.f(7) == eval(other, {"x": 7, "k": 5})
    assert module.f(7) == eval(one, {"x": 7, "k": 5})
    assert textwrap.dedent(program)


@pytest.mark.parametrize("between", ["", "\n", "    # why\n"])
def test_what_is_put_below_a_docstring_runs_with_the_statement_that_follows(tmp_path: Path, between: str) -> None:
    source = f'def f(x):\n    """Text\n    of two lines."""\n{between}    return x\n'
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace(f'lines."""\n{between}', f'lines."""\n    if x is None:\n        return 0\n{between}')
    swap = Swap([SourceChange(str(path), source, new)])
    last = len(source.splitlines())
    assert module.f(1) == 1 and swap.unreached(set()) and not swap.unreached({(str(path), last)})


def test_a_new_function_at_the_top_is_no_place_that_calls_must_run(tmp_path: Path) -> None:
    source = 'X = 1\n\n\ndef f(x):\n    """Text."""\n\n    return x\n'
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace("X = 1\n", "X = 1\n\n\ndef g():\n    pass\n").replace(
        "    return x", "    x = g()\n    return x"
    )
    swap = Swap([SourceChange(str(path), source, new)])
    assert swap.unreached(set()) and not swap.unreached({(str(path), len(source.splitlines()))})
    behind = Swap([SourceChange(str(path), source, f"{source}\n\ndef g():\n    pass\n")])
    assert behind.unreached(set()) == ""
    longer = Swap([SourceChange(str(path), source, f"{source}    print(x)\n")])
    assert longer.unreached(set()) == "program.py:7"
    assert module  # While it is there, so are its functions.


@pytest.mark.parametrize(
    "source",
    ["post = lambda t: (\n    t\n    * 2\n)\n", "def post(t):\n    return (t\n* 2\n)\n"],
    ids=["lambda", "brackets"],
)
def test_what_is_put_between_the_lines_of_an_expression_has_to_run(tmp_path: Path, source: str) -> None:
    """However little it is indented there."""
    path = tmp_path / "program.py"
    module = module_of(source, path)
    swap = Swap([SourceChange(str(path), source, source.replace("* 2\n", "* 2\n+ 1\n"))])
    assert swap.unreached(set()) and not swap.unreached({(str(path), 2), (str(path), 3)})
    assert module


def test_what_a_file_gets_at_its_top_goes_to_no_other_file(tmp_path: Path) -> None:
    modules, changes = [], []
    for name in ("one", "two"):
        source = f"OWN = {name!r}\n\n\ndef run():\n    return OWN\n"
        modules.append(module_of(source, tmp_path / f"{name}.py"))
        new = source.replace("return OWN", f"return more_{name}()") + f"\n\ndef more_{name}():\n    return [OWN]\n"
        changes.append(SourceChange(str(tmp_path / f"{name}.py"), source, new))
    for some in (changes, changes[::-1]):
        with Swap(some).applied():
            assert [each.run() for each in modules] == [["one"], ["two"]]
            assert not hasattr(modules[0], "more_two") and not hasattr(modules[1], "more_one")


@pytest.mark.parametrize("indent, runs", [("    ", True), ("        ", False)])
def test_what_is_put_below_a_block_runs_with_what_follows_the_block(tmp_path: Path, indent: str, runs: bool) -> None:
    source = "def f(x):\n    if x is None:\n        x = 3\n\n    return x\n"
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace("x = 3\n", f"x = 3\n{indent}if x == 7:\n{indent}    x = 7\n")
    swap = Swap([SourceChange(str(path), source, new)])
    assert (swap.unreached({(str(path), 5)}) == "") is runs and module


@pytest.mark.parametrize(
    "head, said",
    [
        ("@dataclasses.dataclass\nclass Rates:\n", "has a decorator"),
        ("class Rates(typing.NamedTuple):\n", "no class Rates|looked at when it is made"),
        ("class Rates(Base):\n", "looked at when it is made"),
        ("class Rates(enum.Enum):\n", "looked at when it is made"),
    ],
)
def test_what_looks_at_the_members_of_a_class_gets_none_later(tmp_path: Path, head: str, said: str) -> None:
    source = (
        "import dataclasses, enum, typing\n\n\nclass Base:\n    def __init_subclass__(cls):\n        pass\n\n\n"
        f"{head}    one: int = 1\n\n    def total(self):\n        return 1\n"
    )
    path = tmp_path / "program.py"
    module = module_of(source, path)
    change = SourceChange(str(path), source, source.replace("= 1\n", "= 1\n    two: int = 2\n", 1))
    with pytest.raises(CannotSwap, match=said), Swap([change]).applied():
        pass
    assert not hasattr(module.Rates, "two")


def test_what_an_added_function_does_has_to_run(tmp_path: Path) -> None:
    source = "class Model:\n    def run(self, x):\n        return x\n"
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace("return x", "return self.more(x)") + "\n    def more(self, x):\n        return x if x else 7\n"
    swap, ran = Swap([SourceChange(str(path), source, new)]), set[Any]()
    for value, missing in ((1, [(str(path), 6)]), (0, [])):
        with swap.applied(), instructions_run(swap.new_codes, ran):
            assert module.Model().run(value) == (value or 7)
        assert swap.unrun(ran) == missing
    unused = Swap(
        [SourceChange(str(path), source, f"{source}\n\nKEYS = [x for x in 'ab']\n\ndef other():\n    return 1\n")]
    )
    assert unused.unrun(set()) == []


def test_a_constructor_that_makes_more_is_told_from_code_that_calls_run(tmp_path: Path) -> None:
    source = (
        "class Model:\n    def __init__(self):\n        self.one = 1\n\n    def run(self):\n        return self.one\n"
    )
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace("self.one = 1", "self.one = 1\n        self.two = 2").replace(
        "return self.one", "return self.two"
    )
    swap = Swap([SourceChange(str(path), source, new)])
    assert swap.maker_of("two", {(str(path), 6)}) == "__init__"
    assert swap.maker_of("two", {(str(path), 3), (str(path), 6)}) == swap.maker_of("one", set()) == ""
    assert module.Model().run() == 1


def test_a_class_that_is_refused_keeps_what_it_has(tmp_path: Path) -> None:
    source = "class Model:\n    def run(self):\n        return self.more()\n\n\nModel.more = lambda self: 5\n"
    path = tmp_path / "program.py"
    module = module_of(source, path)
    new = source.replace("self.more()\n", "self.more()\n\n    def more(self):\n        return 6\n")
    with pytest.raises(CannotSwap, match="has another more"), Swap([SourceChange(str(path), source, new)]).applied():
        pass
    assert module.Model().run() == 5


@pytest.mark.parametrize(
    "use", ["TABLE = {'more': more}", "@KEPT.append\ndef other():\n    return more()", "class Other:\n    more = 1"]
)
def test_a_function_that_something_names_has_to_run(tmp_path: Path, use: str) -> None:
    source = "KEPT = []\n\n\ndef run():\n    return 1\n"
    path = tmp_path / "program.py"
    module = module_of(source, path)
    swap = Swap([SourceChange(str(path), source, f"{source}\n\ndef more():\n    return 7\n\n\n{use}\n")])
    assert (str(path), source.count("\n") + 4) in swap.unrun(set()) and module.run() == 1
