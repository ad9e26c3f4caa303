"""Calls that a graph cannot hold, rewritten so that it need not: constants, copies, definitions."""

from __future__ import annotations

import pytest

from breaks_in_text import TENSOR, function, lines, rewritten
from dynalyze.fix.sites import Value

STR = Value("str")
CRC = {"zlib": Value("module", "zlib"), "zlib__crc32": function("zlib.crc32"), "name__encode": function("str.encode")}
COPY = {"copy__deepcopy": function("copy.deepcopy")}
DISABLED = "Skip calling `torch.compiler.disable()`d function"
MADE = "Invalid call to __build_class__"


def asked_once(source: str, **values: Value) -> str:
    return rewritten(source, "constant-result", **values)


def test_a_function_of_constants_is_asked_when_it_is_compiled() -> None:
    text = asked_once("""
        import zlib

        import torch


        def f(x, name):
            return x * (zlib.crc32(name.encode()) % 4)  # here
        """, **CRC, name=STR)  # fmt: skip
    assert text == lines("""
        import zlib

        import torch


        @torch.compiler.assume_constant_result
        def _crc32_of(name):
            return (zlib.crc32(name.encode()) % 4)


        def f(x, name):
            return x * _crc32_of(name)
        """)


def test_an_attribute_is_handed_to_the_helper() -> None:
    line = "return x if os.path.exists(self.path) else -x"
    source = f"import torch, os\nclass M:\n    def f(self, x):\n        {line}  # here\n"
    known = {"os": Value("module", "os"), "os__path": Value("module", "posixpath"), "self__path": STR,
             "os__path__exists": function("genericpath.exists"), "self": Value("nn.Module")}  # fmt: skip
    text = asked_once(source, **known)
    assert "def _exists_now(path):\n    return os.path.exists(path)\n" in text
    assert "return x if _exists_now(self.path) else -x\n" in text


@pytest.mark.parametrize(
    ("line", "more"),
    [
        ("x * zlib.crc32(bytes(x))", {"x": TENSOR}),
        ("x * zlib.crc32(next(names))", {"names": Value("list_iterator"), "next": function("builtins.next")}),
        ("x * zlib.crc32(read())", {"read": function("program.read")}),
        ("x * zlib.crc32(TABLE[0])", {"TABLE": Value("list")}),
        ("x * random.random()", {"random__random": function("random.Random.random")}),
        ("x * time.time()", {"time__time": function("time.time")}),
    ],
    ids=["a tensor", "an effect", "the user's own", "a list", "random numbers", "the time"],
)
def test_what_is_no_constant_is_asked_each_time(line: str, more: dict[str, Value]) -> None:
    source = f"import torch, zlib, time, random\nTABLE = [b'']\ndef f(x, names):\n    return {line}  # here\n"
    assert asked_once(source, **CRC, **more) == ""


def test_a_tensor_is_cloned_where_it_needs_no_gradient() -> None:
    source = "import copy\ndef f(x):\n    y = copy.deepcopy(x)  # here\n    return y\n"
    text = rewritten(source, "clone", "Attempted to copy.deepcopy a tensor", x=TENSOR, **COPY)
    assert "y = (x.detach().clone() if not x.requires_grad else copy.deepcopy(x))\n" in text

    others = [Value("tensor", "Tensor", requires_grad=True), Value("tensor", "Parameter"), Value("dict")]
    for other in others:
        assert rewritten(source, "clone", "copy.deepcopy()", x=other, **COPY) == ""


def test_a_function_of_the_file_is_no_longer_disabled() -> None:
    text = rewritten("""
        import torch

        class M(torch.nn.Module):
            @torch.compiler.disable(recursive=False)
            @torch.no_grad()
            def part(self, x):
                return x + 1

            def forward(self, x):
                return self.part(x)  # here
        """, "not-disabled", DISABLED)  # fmt: skip
    assert "    @torch.no_grad()\n    def part(self, x):" in text
    assert "disable" not in text
    one = "def g(x):\n    return x\n"
    twice = f"{one}@torch.compiler.disable\n{one}def f(x):\n    return g(x)  # here\n"
    assert rewritten(twice, "not-disabled", DISABLED) == ""


def kernel(body: str, **values: Value) -> str:
    source = f"import ctypes\nimport torch\n\n\ndef g(x, n):\n{body}\n\n\ndef f(x):\n    return g(x, 1)\n"
    known = {"x": TENSOR, "n": Value("int"), "ctypes__memmove": function("ctypes.CFUNCTYPE.<locals>.CFunctionType"),
             "lib__fill": function("ctypes.CDLL.__init__.<locals>._FuncPtr"), **values}  # fmt: skip
    return rewritten(source, "custom-op", "Unsupported method call", **known)


KERNELS = {
    "what it was given is returned": "    lib.fill(x.data_ptr())  # here\n    return x",
    "it computes with torch too": (
        "    out = torch.empty_like(x)\n    lib.fill(out.data_ptr())  # here\n    return out + x"
    ),
    "a gradient may go through": (
        "    out = torch.empty_like(x)\n    y = x * 2\n    lib.fill(out.data_ptr(), y.data_ptr())  # here\n    return y"
    ),
    "its answer is used": "    out = torch.empty_like(x)\n    n = lib.fill(out.data_ptr())  # here\n    return out",
    "it prints": "    out = torch.empty_like(x)\n    print(x)\n    lib.fill(out.data_ptr())  # here\n    return out",
    "it is one of the user's own": "    out = torch.empty_like(x)\n    fill(out.data_ptr())  # here\n    return out",
    "it branches": (
        "    out = torch.empty_like(x)\n    if n:\n        lib.fill(out.data_ptr())  # here\n    return out"
    ),
}
