"""Branches on tensors as torch.where and torch.cond, on source text."""

from __future__ import annotations

import pytest
from rewriting_cases import BRANCH, changed, lines


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            """
            if x.sum() > 0:  # here
                x = x * 2
            else:
                x = x - 1
            return x
            """,
            "x = torch.where((x.sum() > 0), x * 2, x - 1)\nreturn x",
        ),
        (
            """
            if x.dtype == torch.float16 and not torch.isfinite(x).all():  # here
                top = torch.finfo(x.dtype).max - 1000
                x = torch.clamp(x, min=-top, max=top)
            return x
            """,
            """
            if x.dtype == torch.float16:
                top = torch.finfo(x.dtype).max - 1000
                x = torch.where(torch.logical_not(torch.isfinite(x).all()), torch.clamp(x, min=-top, max=top), x)
            return x
            """,
        ),
        (
            """
            if maybe is None or x.any():  # here
                x = x + 1
            return x
            """,
            "x = torch.where((torch.tensor(True) if maybe is None else x.any()), x + 1, x)\nreturn x",
        ),
        (
            """
            if (maybe is not None and maybe.any()) or (y.dim() > 1 and y.all()):  # here
                x = x + 1
            return x
            """,
            "x = torch.where(torch.logical_or((maybe.any() if maybe is not None else torch.tensor(False)), "
            "(y.all() if y.dim() > 1 else torch.tensor(False))), x + 1, x)\nreturn x",
        ),
        (
            """
            if flag:
                x = x + 1
            elif (x == 2).any():  # here
                x = x * 2
            return x
            """,
            """
            if flag:
                x = x + 1
            else:
                x = torch.where((x == 2).any(), x * 2, x)
            return x
            """,
        ),
        (
            """
            if n.item() > 3 and flag:  # here
                return x * 2
            y = y - 1
            return y
            """,
            """
            if flag:
                y = y - 1
                return torch.where((n > 3), x * 2, y)
            y = y - 1
            return y
            """,
        ),
        (
            """
            if 0 < n.item() < 5:  # here
                x, y = x * 2, y - 1
            return x + y
            """,
            """
            x = torch.where(torch.logical_and((0 < n), (n < 5)), x * 2, x)
            y = torch.where(torch.logical_and((0 < n), (n < 5)), y - 1, y)
            return x + y
            """,
        ),
    ],
    ids=["two-sides", "clamp", "or", "or-of-ands", "elif", "early-return", "chain"],
)
def test_sides_that_are_safe_to_compute_are_chosen_from(body: str, expected: str) -> None:
    assert changed(BRANCH, body)["where"] == lines(expected)


def test_other_sides_become_functions_those_in_them_too() -> None:
    found = changed(
        BRANCH,
        """
        if x.sum() > 0:  # here
            x = self.deep(x)
        elif x.sum() < -9:
            half_of = x / size
            x = half_of
        return x
        """,
    )
    assert "where" not in found
    assert found["cond"] == lines(
        """
        def x_if_true(x):
            x = self.deep(x)
            return x
        def x_if_false(x):
            def x_if_true_(x):
                half_of = x / size
                x = half_of
                return x.clone()
            def x_if_false_(x):
                return x.clone()
            x = torch.cond((x.sum() < -9), x_if_true_, x_if_false_, (x,))
            return x.clone()
        x = torch.cond((x.sum() > 0), x_if_true, x_if_false, (x,))
        return x
        """
    )


def test_what_both_sides_return_is_returned_with_all_that_stands_after_it() -> None:
    found = changed(
        BRANCH,
        """
        if x.sum() > 0:  # here
            return x.sqrt()
        z = x * 2
        if flag:
            z = z + 1
        return z
        """,
    )
    assert found["cond"] == lines(
        """
        def result_if_true(x):
            return x.sqrt()
        def result_if_false(x):
            z = x * 2
            if flag:
                z = z + 1
            return z.clone()
        return torch.cond((x.sum() > 0), result_if_true, result_if_false, (x,))
        """
    )


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:  # here\n    y = x.sqrt()\nelse:\n    y = x\nreturn y",  # NaN of the side that is not taken.
        "if x.sum() > 0:  # here\n    y = x / n\nelse:\n    y = x\nreturn y",
        "if x.sum() > 0:  # here\n    y = x.sum()\nelse:\n    y = x\nreturn y",  # Another shape.
        "if x.sum() > 0:  # here\n    y = 0.1\nelse:\n    y = 0.3\nreturn y",  # float32 holds neither.
        "if x.sum() > 0:  # here\n    y = x[3]\nelse:\n    y = x\nreturn y",  # May not be there.
        "if x.sum() > 0:  # here\n    y = vector\nelse:\n    y = x\nreturn y",
        "if x.sum() > 0:  # here\n    t = x * 2\n    y = t\nelse:\n    y = t\nreturn y",
    ],
)
def test_sides_that_are_not_safe_are_not_both_computed(body: str) -> None:
    assert "where" not in changed(BRANCH, body)


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0:  # here\n    x.add_(1)\nreturn x",
        "if x.sum() > 0:  # here\n    y = print(x)\nelse:\n    y = x\nreturn y",
        "if x.sum() > 0:  # here\n    seen.append(x)\nreturn x",
        "if x.sum() > 0:  # here\n    self.last = x\nreturn x",
        "if x.sum() > 0:  # here\n    x[0] = 1\nreturn x",
        "if x.sum() > 0:  # here\n    return x\nseen.append(y)\nreturn y",
        "if x.sum() > 0:  # here\n    y = F.dropout(x)\nelse:\n    y = torch.rand_like(x)\nreturn y",
    ],
)
def test_sides_that_do_more_than_compute_are_left_alone(body: str) -> None:
    assert changed(BRANCH, body) == {}


def test_the_rest_of_a_turn_is_a_side_of_what_skips_it() -> None:
    loop = "for k in range(3):\n    if n > k:  # here\n        continue\n    part = x * k\n    y = y + part\nreturn y"
    assert changed(BRANCH, loop)["where"] == lines(
        """
        for k in range(3):
            part = x * k
            y = torch.where((n > k), y, y + part)
        return y
        """
    )
    found = changed(BRANCH, loop.replace("n > k", "flag and n > k"))["where"]
    assert found == lines(
        """
        for k in range(3):
            if flag:
                part = x * k
                y = torch.where((n > k), y, y + part)
            else:
                part = x * k
                y = y + part
        return y
        """
    )
    assert changed(BRANCH, loop.replace("y = y + part", "seen.append(part)")) == {}


def test_an_update_in_place_stays_one() -> None:
    found = changed(BRANCH, "if (x < 0).any():  # here\n    x += limit\nreturn x")
    assert found == {"where-in-place": "x.copy_(torch.where((x < 0).any(), x + (limit), x))\nreturn x"}
    assert changed(BRANCH, "if (x < 0).any():  # here\n    n += 0.5\nreturn n") == {}  # Raises for integers.


def test_an_update_of_what_was_computed_here_need_not_be_in_place() -> None:
    body = "z = x * 2\nif n > 0:  # here\n    z += 1\nelse:\n    z -= x\nreturn z"
    assert changed(BRANCH, body)["where"] == "z = x * 2\nz = torch.where((n > 0), z + 1, z - x)\nreturn z"
    shared = "z = x * 2\nself.z = z\nif n > 0:  # here\n    z += 1\nelse:\n    z -= x\nreturn z"
    assert changed(BRANCH, shared) == {}


def test_expressions_choose_a_value() -> None:
    found = changed(BRANCH, "return g(x * 2 if x.sum() > 0 else x - 1)  # here")
    assert found["where-expression"] == "return g(torch.where((x.sum() > 0), x * 2, x - 1))"
    assert found["cond-expression"] == "return g(torch.cond((x.sum() > 0), lambda: x * 2, lambda: x - 1))"
    found = changed(BRANCH, "return x.log() if x.min() > 0 else x  # here")
    assert found == {"cond-expression": "return torch.cond((x.min() > 0), lambda: x.log(), lambda: x.clone())"}


def test_loops_go_round_in_the_graph() -> None:
    found = changed(BRANCH, "while x.abs().max() > 1:  # here\n    x = x / 2\nreturn x")
    assert found["while-loop"] == lines(
        """
        def goes_on(x):
            return (x.abs().max() > 1)
        def step(x):
            x = x / 2
            return x.clone(),
        started = goes_on(x)
        x_turned, = torch.while_loop(goes_on, step, (x,))
        x = torch.where(started, x_turned, x)
        return x
        """
    )
    assert changed(BRANCH, "while x.sum() > 1:  # here\n    x = x / 2\n    seen.append(x)\nreturn x") == {}
    found = changed(BRANCH, "while x.sum() > 1 and size < 9:  # here\n    x = x / 2\n    size += 1\nreturn x")
    assert found["while-loop"] == lines(
        """
        def goes_on(size, x):
            return torch.logical_and((x.sum() > 1), torch.as_tensor(size < 9))
        def step(size, x):
            x = x / 2
            size = size + 1
            return size.clone(), x.clone()
        started = goes_on(torch.tensor(size), x)
        size_turned, x_turned = torch.while_loop(goes_on, step, (torch.tensor(size), x))
        size = torch.where(started, size_turned, size)
        x = torch.where(started, x_turned, x)
        return x
        """
    )
