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


def test_a_class_of_constants_goes_to_the_top() -> None:
    text = rewritten("""
        import torch


        def f(x):
            class Settings:  # here
                scale = 2.0

            return x * Settings.scale
        """, "class-at-top", MADE)  # fmt: skip
    assert text.startswith("import torch\n\n\nclass Settings:\n    scale = 2.0\n\n\ndef f(x):\n")
    assert text.endswith("    return x * Settings.scale\n")


@pytest.mark.parametrize(
    ("inside", "use"),
    [
        ("scale = x", "x * S.scale"),
        ("scale = []", "x * len(S.scale)"),
        ("scale = 1.0", "S"),
        ("scale = 1.0", "setattr(S, 'scale', 2)"),
        ("def m(self): return 1", "x * S().m()"),
    ],
    ids=["a variable of the function", "a list", "returned", "handed on", "a method"],
)
def test_a_class_that_may_differ_from_call_to_call_stays(inside: str, use: str) -> None:
    source = f"def f(x):\n    class S:  # here\n        {inside}\n    return {use}\n"
    assert rewritten(source, "class-at-top", MADE) == ""


def kernel(body: str, **values: Value) -> str:
    source = f"import ctypes\nimport torch\n\n\ndef g(x, n):\n{body}\n\n\ndef f(x):\n    return g(x, 1)\n"
    known = {"x": TENSOR, "n": Value("int"), "ctypes__memmove": function("ctypes.CFUNCTYPE.<locals>.CFunctionType"),
             "lib__fill": function("ctypes.CDLL.__init__.<locals>._FuncPtr"), **values}  # fmt: skip
    return rewritten(source, "custom-op", "Unsupported method call", **known)


def test_a_kernel_that_fills_what_was_made_for_it_is_an_operator_of_torch() -> None:
    text = kernel("""    out = torch.empty(x.shape[0], n)
    ctypes.memmove(out.data_ptr(), x.data_ptr(), n)  # here
    return out""")
    assert text == lines("""
        import ctypes
        import torch


        @torch.library.custom_op("program::g", mutates_args=())
        def _g_op(x: torch.Tensor, n: int) -> torch.Tensor:
            out = torch.empty(x.shape[0], n)
            ctypes.memmove(out.data_ptr(), x.data_ptr(), n)
            return out


        @_g_op.register_fake
        def _g_op_fake(x: torch.Tensor, n: int) -> torch.Tensor:
            out = torch.empty(x.shape[0], n)
            return out


        def g(x, n):
            return _g_op(x.detach(), n)


        def f(x):
            return g(x, 1)
        """)


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


@pytest.mark.parametrize("body", KERNELS.values(), ids=list(KERNELS))
def test_a_kernel_whose_fake_nobody_knows_stays(body: str) -> None:
    assert kernel(body, fill=function("program.fill")) == ""


def test_a_function_that_asks_for_its_own_name_has_it() -> None:
    source = "import inspect\ndef part(x):\n    name = inspect.currentframe().f_code.co_name  # here\n    return name\n"
    assert "    name = 'part'\n" in rewritten(source, "own-name")
    caller = source.replace(".f_code", ".f_back.f_code")
    assert rewritten(caller, "own-name") == ""


def test_a_file_is_read_when_it_is_compiled() -> None:
    opened = {"open": function("_io.open"), "path": STR}
    body = "    with open(path{mode}) as file:  # here\n        n = {value}\n    return x + n\n"
    source = f"import torch\ndef f(x, path):\n{body}"
    text = rewritten(source.format(mode="", value="int(file.read())"), "file-when-compiled", **opened)
    assert "def _read_now(path):\n    with open(path) as file:\n        return int(file.read())\n" in text
    assert "    n = _read_now(path)\n    return x + n\n" in text
    for mode, value in (', "w"', "file.write('x')"), ("", "int(file.read()) + x"), ("", "next(file)"):
        assert rewritten(source.format(mode=mode, value=value), "file-when-compiled", **opened) == ""
