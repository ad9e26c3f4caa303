"""The values behind a failed guard, read from the call that failed it."""

from __future__ import annotations

import enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynalyze.capture import guards
from dynalyze.capture.guards import guard_values
from dynalyze.capture.torch_private import dynamo


class Layer:
    def __init__(self) -> None:
        self.power = 3
        self.parts = [1, 2]
        self.act = sorted

    def __repr__(self) -> str:
        raise RuntimeError("a repr of the user's own must never be called")


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparing")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no reading")

    __hash__ = None  # type: ignore[assignment]


class Sized:
    """Stands for a tensor: this project's parent never imports torch."""

    def size(self) -> tuple[int, ...]:
        return (5, 3)


LOCALS: dict[str, Any] = {
    "n": 4, "mode": "down", "rate": 0.5, "flag": False, "mask": Sized(), "nothing": None, "parts": [1, 2],
    "options": {"scale": 1}, "x": Sized(), "self": Layer(), "hostile": Hostile(), "function": len,
    "helper": guard_values, "text": "a  # b", "kind": int,
}  # fmt: skip


@pytest.fixture(autouse=True)
def scope(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the adapter finds in the frame that is about to recompile."""
    names = {**LOCALS, "L": LOCALS, "G": {"GAIN": 2.5}}
    monkeypatch.setattr(dynamo, "recompile_scope", lambda: names)
    return names


@pytest.mark.parametrize(
    ("guard", "expected", "actual"),
    [
        ("n == 3", "3", "4"),
        ("L['n'] == 3", "3", "4"),
        ("mode == 'up'", "'up'", "'down'"),
        ("rate == 1.5", "1.5", "0.5"),
        ("flag == True", "True", "False"),
        ("mask is None", "None", "Sized object"),
        ("nothing is None", "None", "None"),
        ("len(parts) == 1", "1", "2"),
        ("len(L['self'].parts) == 1", "1", "2"),
        ("self.power == 2", "2", "3"),
        ("L['self'].power == 2", "2", "3"),
        ("G['GAIN'] == 1.5", "1.5", "2.5"),
        ("2 <= x.size()[0] <= 4", "2 <= x.size()[0] <= 4", "5"),
        ("(x.size()[0] % 2) == 0", "0", "1"),
        ("x.size()[0] == mask.size()[1]", "mask.size()[1]", "5"),
        ("not options", "False", None),
        ("list(dict.keys(options))[0] == 'bias'", "'bias'", "'scale'"),
        ("___check_obj_id(function, 139968063593728)", None, "len"),
        ("___check_obj_id(L['helper'], 139968063593728)", None, "guard_values"),
        ("___check_obj_id(function, 1399), type=<class 'builtin_function_or_method'>", None, "len"),
        ("___check_type_id(x, 94863)", None, "Sized object"),
        ("___check_obj_id(self.act, 7)", None, "sorted"),
    ],
)
def test_expected_and_actual(guard: str, expected: str | None, actual: str | None) -> None:
    found = guard_values(guard)
    assert found[0] == expected
    if actual is not None:
        assert found[1] == actual


ORIGIN = '                                  # return x + n  # model.py:49 in f\nUser stack trace:\n  File "m", line 49'
HINT = " (HINT: torch.compile considers integer attributes of the nn.Module to be static.)"


@pytest.mark.parametrize("tail", ["", ORIGIN, HINT, ORIGIN.splitlines()[0] + HINT])
@pytest.mark.parametrize("prefix", ["", "0/0: ", "12/3: ", "!2/0/1: "])
def test_whatever_torch_puts_around_a_guard(prefix: str, tail: str) -> None:
    assert guard_values(f"{prefix}n == 3{tail}") == ("3", "4")


def test_objects_of_the_user_are_named_by_their_class_and_not_shown(scope: dict[str, Any]) -> None:
    scope["n"] = Layer()
    assert guard_values("n == 3") == ("3", "Layer object")


@pytest.mark.parametrize(
    "guard",
    [
        "hostile.power == 3", "missing == 3", "n == ", "n ==== 3", "", "KeyError on options['bias']",
        "tensor 'x' size mismatch at index 0. expected 4, actual 5", 'Duplicate tensors found: ["a", "b"]',
        "BACKEND_MATCH failure", "self.missing == 3", "x.size()[9] == 3", "parts[10] == 3",
        "(" * 300 + "n" + ")" * 300 + " == 3", "\x00", "n == 3 \ud800", "lambda: n", "[", "[]", "null", "3",
        '"n == 3', "True", "n", "_has_dynamo_dim_marking is present on runtime tensor",
    ],
    ids=range(24),
)  # fmt: skip
def test_what_cannot_be_told_is_not(guard: str) -> None:
    expected, actual = guard_values(guard)
    assert expected is None or isinstance(expected, str)
    assert actual is None or isinstance(actual, str)


@pytest.mark.parametrize(
    "guard",
    [
        "n == __import__('os').system('touch hit')", "open('hit', 'w').write('x') == n", "eval('1') == n",
        "exec('n = 1') == n", "globals()['guard_values'] == n", "n == 3 or open('hit', 'w')",
    ],
    ids=range(6),
)  # fmt: skip
def test_a_guard_runs_nothing_but_the_programs_own_names(
    guard: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guard_values(guard)
    assert list(tmp_path.iterdir()) == []


def test_reading_does_not_change_the_programs_values(scope: dict[str, Any]) -> None:
    before = dict(scope)
    guard_values("(n := 9) == 3")
    assert scope == before
    assert LOCALS["n"] == 4


@pytest.mark.parametrize(
    ("state", "present", "expected", "actual"),
    [
        ("grad_mode", False, "True", "False"),
        ("grad_mode ", True, "False", "True"),
        ("autocast(cpu)_enabled", True, "False", "True"),
        ("default_dtype", "torch.float64", None, "torch.float64"),
        ("num_threads,", 4, None, "4"),
        ("weather", None, None, None),
        ("grad_mode autocast(cpu)_enabled ", False, "True, True", "False, False"),
        ("allow_tf32 weather", None, None, None),
    ],
)
def test_global_states(
    state: str, present: Any, expected: str | None, actual: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def global_state(name: str) -> Any:
        asked.append(name)
        return present

    monkeypatch.setattr(dynamo, "global_state", global_state)
    assert guard_values(f"0/0: GLOBAL_STATE changed: {state}") == (expected, actual)
    assert asked == state.replace(",", "").split()


PARTS = st.sampled_from(
    ["n", " == ", "x", ".size()", "[0]", "(", ")", "'", "L['n']", "not ", "len", " is ", "1", " <= ", "  # ",
     "___check_obj_id(", "self", ".power", "hostile", "\n", "0/0: ", '["']
)  # fmt: skip


@given(st.lists(st.one_of(st.text(max_size=6), PARTS), max_size=10).map("".join))
def test_no_text_is_too_strange(text: str) -> None:
    for value in guards.guard_values(text):
        assert value is None or isinstance(value, str)


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


def doubled(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    ("guard", "expected", "actual"),
    [
        (f"___check_obj_id(function, {id(max)})", "max", "len"),
        (f"___check_obj_id(mode, {id(Mode.FAST)})", "Mode.FAST", "Mode.EXACT"),
        (f"___check_obj_id(helper.__code__, {id(doubled.__code__)})", "doubled", "guard_values"),
        (f"___check_type_id(function, {id(max)})", None, "len"),
    ],
    ids=["builtin", "enum", "code", "type"],
)
def test_the_object_that_a_guard_on_an_id_wants(
    scope: dict[str, Any], guard: str, expected: str | None, actual: str
) -> None:
    """It is found where the program or torch has a name for it."""
    scope["G"] = {"largest": max, "doubled": doubled}
    scope["mode"] = Mode.EXACT
    assert guard_values(f"0/0: {guard}") == (expected, actual)
