"""What is disabled, imported or defined beside the code that is compiled, on source text."""

from __future__ import annotations

from breaks_in_text import TENSOR, function, rewritten
from dynalyze.fix.sites import Value

TORCH = {"torch": Value("module", "torch"), "x": TENSOR}
SKIPPED = "Attempted to call function marked as skipped"


def test_what_is_disabled_where_it_is_called_is_called_as_it_is() -> None:
    known = {**TORCH, "torch__compiler__disable": function("torch.compiler.disable")}
    source = "import torch\ndef f(x):\n    plain = torch.compiler.disable(scale, reason='slow')  # here\n"
    changed = rewritten(source, "not-disabled-here", SKIPPED, **known)
    assert changed.endswith("    plain = scale\n")
    recursive = source.replace("reason='slow'", "recursive=False")
    assert not rewritten(recursive, "not-disabled-here", SKIPPED, **known)


IMPORTS = "def f(x):\n    try:\n        {}  # here\n    except {}:\n        return x\n    return kernels.run(x)\n"


def imported(line: str, error: str = "ImportError") -> str:
    return rewritten(IMPORTS.format(line, error), "imported-at-top", "Import failure", **TORCH)


def test_a_package_that_may_be_missing_is_looked_for_once() -> None:
    text = imported("import kernels")
    assert 'kernels = _imported("kernels")\n' in text
    assert text.endswith("def f(x):\n    if kernels is None:\n        return x\n    return kernels.run(x)\n")
    assert 'kernels = _imported("fast.kernels")' in imported("import fast.kernels as kernels")
    assert 'kernels = getattr(_imported("fast"), "run", None)' in imported("from fast import run as kernels")


def test_imports_that_do_more_stay_where_they_are() -> None:
    assert not imported("import fast.kernels")
    assert not imported("from . import kernels")
    assert not imported("from fast import *")
    assert not imported("import kernels", "Exception")
    assert not imported("import kernels", "ImportError as error")
    assert not imported("import kernels", "ImportError:\n        import slow as kernels\n    if x is None")


FUNCTION = """import torch


class Square(torch.autograd.Function):
    pass


def f(x):
    return Square.apply(x)  # here
"""


def test_a_function_with_a_jvp_is_applied_without_it_in_compiled_code() -> None:
    text = rewritten(FUNCTION, "without-jvp", "Unsupported custom jvp", **TORCH)
    assert "class _SquareWithoutJvp(Square):\n    jvp = torch.autograd.Function.jvp\n" in text
    assert "(_SquareWithoutJvp if torch.compiler.is_compiling() else Square).apply(x)" in text
    elsewhere = FUNCTION.replace("class Square", "class Cube")
    assert not rewritten(elsewhere, "without-jvp", "Unsupported custom jvp", **TORCH)


def test_an_operator_without_a_fake_is_called_by_one_that_has_one() -> None:
    gb_type = "Operator does not support running with fake tensors"
    source = "import torch\n\n\ndef f(x):\n    return torch.ops.mine.shift(2, x)  # here\n"
    text = rewritten(source, "operator-with-fake", gb_type, **TORCH)
    assert "def _shift_op(int_0: int, tensor_1: torch.Tensor) -> torch.Tensor:\n" in text
    assert "    return torch.empty_like(tensor_1)\n" in text and "    return _shift_op(2, x)\n" in text
    for given in ("(2)", "(unknown, x)", "(x, *x)", "(x, by=2)"):
        assert not rewritten(source.replace("(2, x)", given), "operator-with-fake", gb_type, **TORCH)


def test_data_goes_into_a_tensor_of_the_function_alone() -> None:
    gb_type = "Failed to mutate tensor data attribute"
    known = {**TORCH, "state": TENSOR, "other": Value("tensor", "Tensor", "float16", 2)}
    source = "import torch\ndef f(x):\n    state = x * 2\n    state.data = x  # here\n"
    text = rewritten(source, "copy-into", gb_type, **known)
    assert text.endswith("    with torch.no_grad():\n        state.copy_(x)\n")
    for change in (("x * 2", "x.view(-1)"), ("= x  #", "= other  #"), ("    state = x * 2\n", "")):
        assert not rewritten(source.replace(*change), "copy-into", gb_type, **known)


def test_a_check_says_what_failed_without_its_values_in_compiled_code() -> None:
    gb_type = "Can't convert torch._check*() message closure"
    source = 'import torch\ndef f(x):\n    torch._check(x.dim() > 1, lambda: f"rows: {x}")  # here\n'
    text = rewritten(source, "constant-message", gb_type, **TORCH)
    assert "torch._check(x.dim() > 1, lambda: 'rows:')" in text and 'lambda: f"rows: {x}")' in text
    assert not rewritten(source.replace('f"rows: {x}"', "told"), "constant-message", gb_type, **TORCH)


def test_constant_objects_are_computed_with_when_it_is_compiled() -> None:
    gb_type = "vectorcall_maybe on C method descriptor"
    known = {**TORCH, "STEP": Value("timedelta"), "other": Value("Thing")}
    source = "import torch\nSTEP = seconds(2)\ndef f(x):\n    return x * (STEP + STEP).total_seconds()  # here\n"
    text = rewritten(source, "constant-expression", gb_type, **known)
    assert "return x * _step_now()" in text and "    return (STEP + STEP).total_seconds()\n" in text
    for change in (("STEP + STEP", "STEP + x"), ("import torch", "import torch\nSTEP = 1"), ("STEP +", "other +")):
        assert not rewritten(source.replace(*change), "constant-expression", gb_type, **known)
