"""What was one stays one, what was compiled is its original, and what cannot travel is named."""

from __future__ import annotations

import enum
import functools
import importlib
import queue
import re
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from program import plain_python

from dynalyze.capture.bench import pickling
from dynalyze.capture.clone import freeze
from dynalyze.capture.torch_private.compiled_calls import is_compiled_function, is_compiled_module, is_disabled

CLOUDPICKLE = pickling.load_cloudpickle("")
ROOMY = 1 << 30


@pytest.fixture
def travelled(tmp_path: Path) -> Callable[[Any], Any]:
    def there_and_back(value: Any, budget: int = ROOMY) -> Any:
        pickling.save(value, tmp_path / "value.pt", CLOUDPICKLE, budget)
        return pickling.load(tmp_path / "value.pt")

    return there_and_back


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("row", self.table.weight.detach()[1])
        self.last = self.head.weight * 2  # Not a leaf.


def test_tied_weights_views_and_tensors_that_are_no_leaves(travelled: Callable[[Any], Any]) -> None:
    model = Tied()
    other = torch.nn.Sequential(model.head)
    made, second = travelled((model, other))
    assert made.head.weight is made.table.weight is second[0].weight
    assert storage(made.row) == storage(made.head.weight)
    assert torch.equal(made.last, model.last) and made.last.requires_grad


class Halves(torch.Tensor):
    """A tensor that holds two others, as quantised ones do; the memory it seems to have is not there."""

    first: torch.Tensor
    second: torch.Tensor

    @staticmethod
    def __new__(cls, first: torch.Tensor, second: torch.Tensor) -> Halves:
        made = torch.Tensor._make_wrapper_subclass(cls, (len(first) + len(second),))  # type: ignore[attr-defined]
        made.first, made.second = first, second
        assert isinstance(made, Halves)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Halves, (self.first, self.second)

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["first", "second"], None

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, torch.Tensor], *_: Any) -> Halves:
        return Halves(inner["first"], inner["second"])

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{function} was called")


def test_a_tensor_of_tensors_counts_what_it_holds_once(tmp_path: Path) -> None:
    value = Halves(torch.randn(1000), torch.randn(500))
    assert pickling.save(value, tmp_path / "value.pt", CLOUDPICKLE, 6000) == 4 * 1500
    made = pickling.load(tmp_path / "value.pt")
    assert torch.equal(made.first, value.first) and torch.equal(made.second, value.second)
    with pytest.raises(pickling.PickleTooLarge):
        pickling.save(value, tmp_path / "again.pt", CLOUDPICKLE, 5999)


class Marked(torch.Tensor):
    pass


def test_inputs_keep_storage_strides_type_and_gradient(travelled: Callable[[Any], Any]) -> None:
    base = torch.arange(12.0).view(3, 4)
    asked = torch.randn(3, requires_grad=True)
    with torch.inference_mode():
        inference = torch.ones(2)
    frozen = freeze((base.t(), base[1], asked * 1, inference, torch.ones(2).as_subclass(Marked)), ROOMY)
    turned, row, grown, quiet, marked = travelled(frozen).thaw()
    assert turned.stride() == (1, 4) and torch.equal(turned, base.t())
    assert turned.untyped_storage()._cdata == row.untyped_storage()._cdata
    assert grown.requires_grad and quiet.is_inference() and type(marked) is Marked


def test_a_function_travels_with_the_modules_it_closes_over(travelled: Callable[[Any], Any]) -> None:
    net = torch.nn.Linear(3, 3)
    made, module = travelled((lambda x: net(x) + 1, net))
    assert torch.equal(made(torch.ones(3)), net(torch.ones(3)) + 1)
    assert made.__closure__[0].cell_contents is module


def test_a_function_keeps_the_place_of_its_code(travelled: Callable[[Any], Any]) -> None:
    source = "def make(k):\n    def f(x):\n        return (lambda y: y + k)(x)\n    return f\n"
    exec(compile(source, "/a/program.py", "exec"), space := {"__name__": "__main__"})
    function = travelled(space["make"](2))
    inner = next(each for each in function.__code__.co_consts if hasattr(each, "co_filename"))
    assert function(3) == 5
    assert [(each.co_filename, each.co_firstlineno) for each in (function.__code__, inner)] == [
        ("/a/program.py", 2), ("/a/program.py", 3)
    ]  # fmt: skip


def test_what_was_compiled_is_its_original(travelled: Callable[[Any], Any]) -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = torch.compile(double, backend="eager")

    @functools.wraps(compiled)
    def around(x: torch.Tensor) -> torch.Tensor:
        return compiled(x) + 1

    module = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    off = torch.compiler.disable(lambda x: x - 1)
    function, wrapped, net, disabled = travelled((compiled, around, module, off))
    assert not is_compiled_function(function) and not is_compiled_module(net) and is_disabled(disabled)
    assert torch.equal(wrapped(torch.ones(2)), torch.full((2,), 3.0))
    assert "_torchdynamo_orig_callable" not in vars(wrapped)
    assert torch.equal(net(torch.ones(2)), module._orig_mod(torch.ones(2)))


class Guarded(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)
        self.inner.rows = {"one": iter(sqlite3.connect(":memory:").execute("select 1"))}


def test_what_cannot_travel_is_named_with_its_place(travelled: Callable[[Any], Any]) -> None:
    with pytest.raises(pickling.CannotPickle, match=r"sqlite3\.Cursor in inner\.rows of Guarded cannot be pickled"):
        travelled([Guarded()])


def test_too_many_bytes_are_refused_before_any_is_written(travelled: Callable[..., Any], tmp_path: Path) -> None:
    weight = torch.zeros(1000)
    assert torch.equal(travelled([weight, weight[:10]], budget=4000)[1], weight[:10])  # One storage counts once.
    (tmp_path / "value.pt").unlink()
    with pytest.raises(pickling.PickleTooLarge, match="limit"):
        travelled([weight, torch.zeros(1)], budget=4000)
    assert (tmp_path / "value.pt").stat().st_size < 4000


def test_cloudpickle_comes_from_a_folder_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:

    folder = str(Path(CLOUDPICKLE.__file__ or "").parent)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cloudpickle"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "path_importer_cache", {})
    found = pickling.load_cloudpickle(folder)
    assert found is not CLOUDPICKLE and found.Pickler.__module__ == "cloudpickle.cloudpickle"
    monkeypatch.delitem(sys.modules, "cloudpickle")
    with pytest.raises(ImportError):
        pickling.load_cloudpickle("")


MODULE = """
from contextvars import ContextVar

collected = ContextVar("collected")
calls = []


def hook_for(name):
    def again(value):
        return value if value <= 0 else again(value - 1)

    def hook(module, given, made):
        calls.append(name)
        collected.get(again(3))

    return hook
"""


def test_hooks_that_a_module_made_know_what_it_has_now(
    travelled: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those with which transformers records outputs; a ContextVar cannot be written."""
    (tmp_path / "makes_hooks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("makes_hooks")
    model = torch.nn.Linear(2, 2)
    model.register_forward_hook(module.hook_for("linear"))
    made = travelled(model)
    made(torch.ones(1, 2))
    (hook,) = made._forward_hooks.values()
    assert module.calls == ["linear"] and hook.__globals__ is vars(module)


READS_BACK = """
import sys

import cloudpickle
import torch

from dynalyze.capture.bench import pickling

model = pickling.load(sys.argv[1])
pickling.note_recordable_outputs([model])
print(len(model(torch.ones(1, 3, dtype=torch.long), output_hidden_states=True).hidden_states))
"""


@pytest.mark.slow
def test_a_model_of_transformers_records_its_hidden_states_in_another_process(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, vocab_size=8)
    model = LlamaModel(config)
    model(torch.ones(1, 3, dtype=torch.long), output_hidden_states=True)  # It installs its hooks.
    pickling.save(model, tmp_path / "model.pt", CLOUDPICKLE, ROOMY)
    (tmp_path / "reads_back.py").write_text(READS_BACK)
    assert plain_python("reads_back.py", str(tmp_path / "model.pt"), cwd=tmp_path).stdout.strip() == "3"


REGISTERS = """
import sys
from pathlib import Path

import cloudpickle
import torch

from dynalyze.capture.bench import pickling


@torch.library.custom_op("dynalyze_travels::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@double.register_fake
def _(x):
    return torch.empty_like(x)


@double.register_kernel("cpu")
def _(x):
    return x * 3


double.register_autograd(lambda ctx, gradient: gradient * 5)


@torch.library.custom_op("dynalyze_travels::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(1)


class Net(torch.nn.Module):
    def forward(self, x):
        y = double(x)
        torch.ops.dynalyze_travels.bump(y.detach())
        return y


pickling.save(Net(), Path(sys.argv[1]), cloudpickle, 1 << 30)
"""

MEETS = """
import sys
import types

import cloudpickle
import torch

from dynalyze.capture.bench import pickling

own = sys.modules["__main__"]  # A module that nobody holds takes its globals with it.
sys.modules["__main__"] = types.ModuleType("__main__")
model = pickling.load(sys.argv[1])
x = torch.ones(2, requires_grad=True)
y = model(x)
y.sum().backward()
print(y.tolist(), x.grad.tolist(), torch.ops.dynalyze_travels.bump.default._schema.is_mutable)
print(torch.library.opcheck(torch.ops.dynalyze_travels.double.default, (torch.ones(2),))["test_faketensor"])
"""


def test_an_operator_of_the_program_s_own_file_is_registered_in_another_process(tmp_path: Path) -> None:
    """With its kernel for the CPU, its fake and its backward; also one that is called by torch.ops alone."""
    (tmp_path / "net.py").write_text(REGISTERS)
    file = str(tmp_path / "model.pt")
    (tmp_path / "meets.py").write_text(MEETS)
    plain_python("net.py", file, cwd=tmp_path)
    said = plain_python("meets.py", file, cwd=tmp_path).stdout
    assert said.splitlines() == ["[4.0, 4.0] [5.0, 5.0] True", "SUCCESS"]


HOLDS = """
import contextvars
import functools
import sys
import threading
import weakref
from pathlib import Path

import torch
from torch.nn.utils.parametrizations import weight_norm

from dynalyze.capture.bench import pickling

package = pickling.load_cloudpickle("")
lock, scale = threading.RLock(), contextvars.ContextVar("scale", default=3)
smallest, add, local = torch.finfo(torch.float32).tiny, torch.ops.aten.add.Tensor, threading.local()
LIMITS = torch.finfo(torch.float16)


class Owner:
    gain = 2


owner = Owner()
back, owners = weakref.ref(owner), weakref.WeakKeyDictionary({owner: 5})


@functools.lru_cache(maxsize=3)
def doubled(n):
    return 2 * n


@functools.singledispatch
def named(value):
    return 7


@torch.jit.script
def halved(x: torch.Tensor):
    return x / 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = weight_norm(torch.nn.Linear(2, 2))

    @functools.cached_property
    def offset(self):
        return 11

    def forward(self, x):
        with lock:
            size = doubled(4) + scale.get() + back().gain + len(owners) + named("a") + self.offset
        return halved(add(self.layer(x), size)).clamp(max=LIMITS.max)


net = Net()
torch.nn.init.ones_(net.layer.parametrizations.weight.original0)
torch.nn.init.ones_(net.layer.parametrizations.weight.original1)
torch.nn.init.zeros_(net.layer.bias)
optimizer = torch.optim.SGD(net.parameters(), 1.0)
pickling.save((net, optimizer), Path(sys.argv[1]), package, 1 << 30)
print(net(torch.ones(1, 2)).tolist(), doubled.cache_info().maxsize)
"""

READS = """
import sys

import torch

from dynalyze.capture.bench import pickling

pickling.load_cloudpickle("")
net, optimizer = pickling.load(sys.argv[1])
print(net(torch.ones(1, 2)).tolist(), sys.modules["__main__"].doubled.cache_info().maxsize)
net(torch.ones(1, 2)).sum().backward()
before = net.layer.weight.clone()
optimizer.step()
print(torch.equal(before, net.layer.weight), type(net.layer).__name__)
"""


def test_what_pickle_refuses_is_the_same_in_another_process(tmp_path: Path) -> None:
    """A parametrized layer, whose parameters are the optimizer's; a lock, weak references, caches, an operator."""
    (tmp_path / "holds.py").write_text(HOLDS)
    (tmp_path / "reads.py").write_text(READS)
    file = str(tmp_path / "model.pt")
    before = plain_python("holds.py", file, cwd=tmp_path).stdout.splitlines()
    assert plain_python("reads.py", file, cwd=tmp_path).stdout.splitlines() == [*before, "False ParametrizedLinear"]


@pytest.mark.parametrize("value", [threading.Thread(), queue.Queue(), ThreadPoolExecutor(1)])
def test_what_works_by_itself_does_not_travel(value: Any, travelled: Callable[[Any], Any]) -> None:
    with pytest.raises(pickling.CannotPickle, match=type(value).__name__):
        travelled(value)


class Finished:
    def __del__(self) -> None:
        raise AssertionError("a copy has gone")


def test_what_has_a_finalizer_does_not_travel(travelled: Callable[[Any], Any]) -> None:
    held = Finished()
    try:
        with pytest.raises(pickling.CannotPickle, match="__del__"):
            travelled([held])
    finally:
        del Finished.__del__


def test_a_class_that_its_module_has_under_another_name_travels_by_that(travelled: Callable[[Any], Any]) -> None:
    backend = torch.nn.attention.SDPBackend
    made = travelled(lambda: (backend, backend.MATH))
    assert made() == (backend, backend.MATH) and made()[0] is backend


class Weights(enum.Enum):
    """Members as torchvision's `VGG16_Weights` has them: what they hold is not equal to its copy."""

    FEATURES = {"accuracy": float("nan")}  # noqa: RUF012
    SMALL = 1


def test_a_member_of_an_enumeration_travels_by_its_name(travelled: Callable[[Any], Any]) -> None:
    made = travelled([Weights.FEATURES, Weights.SMALL, re.I | re.M, re.I])
    assert made == [Weights.FEATURES, Weights.SMALL, re.I | re.M, re.I] and made[0] is Weights.FEATURES


class Warming(torch.optim.SGD):
    """An optimizer with an attribute of its own, which torch leaves out of what it pickles."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.warm_steps, self.log = 3, sys.stderr


def test_an_optimizer_travels_with_what_its_class_keeps(travelled: Callable[[Any], Any]) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = Warming([weight], 0.5)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)  # It puts its own `step` into the optimizer.
    held, its_weight = travelled([optimizer, weight])
    assert schedule.optimizer is optimizer and held.warm_steps == 3
    its_weight.grad = torch.ones(2)
    held.step()
    assert its_weight.tolist() == [0.75, 0.75] and weight.tolist() == [1.0, 1.0]
