"""The calls of a program, made again in a fresh process, give bit for bit what the program saw."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from bundles import EACH_CALL, assert_same, read, record

TRAINING = """
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.shift = lambda x: helper(x) + 1
    def forward(self, x):
        return torch.nn.functional.dropout(self.shift(self.norm(self.first(x))), 0.5, self.training)
def helper(x):
    return x * FACTOR
FACTOR = 3.0
net = Block()
opt = torch.optim.SGD(net.parameters(), lr=0.0)
for _ in range(3):
    opt.zero_grad()
    out = seen(net(torch.randn(6, 4)))
    out.square().mean().backward()
    opt.step()
net.eval()
with torch.no_grad():
    seen(net(torch.randn(5, 4)))
sys.exit(1)
"""


TRAINING_STEP = """
from dynalyze.capture.bench.call_workload import TrainWorkload
workload = TrainWorkload(workload)
"""


def test_a_training_loop_that_ends_badly(tmp_path: Path) -> None:
    recorded = record(TRAINING, tmp_path)
    assert recorded.status == 1
    bundle = recorded.bundle
    assert (bundle["calls"], bundle["backwards"], bundle["names"]) == (4, 3, ["Block"])
    assert not bundle["written"] and bundle["seconds"] > 0
    found = read(recorded, EACH_CALL + "found['grad'] = target.first.weight.grad\n")
    assert_same(found, recorded.seen)
    assert found["phase"] == "forward" and found["items"] == 6 * 3 + 5 and found["grad"] is None
    trained = read(recorded, TRAINING_STEP + EACH_CALL + "found['grad'] = target.first.weight.grad.clone()\n"
                   "step.prepare(); found['cleared'] = target.first.weight.grad is None\n", phase="train")  # fmt: skip
    assert trained["phase"] == "train" and trained["items"] == 6 * 3
    assert trained["grad"].abs().sum() > 0 and trained["cleared"]


def test_a_training_step_names_the_parts_that_it_calls(tmp_path: Path) -> None:
    program = """
class Teacher(torch.nn.Linear): pass
class Student(torch.nn.Linear): pass
teacher, student = torch.compile(Teacher(3, 3), backend="eager"), torch.compile(Student(3, 3), backend="eager")
for _ in range(2):
    with torch.no_grad():
        wanted = teacher(torch.ones(2, 3))
    (student(torch.ones(2, 3)) - wanted).square().mean().backward()
"""
    recorded = record(program, tmp_path)
    code = "found['notes'], found['calls'] = workload.notes, len(workload.calls)\n"
    forward, train = (read(recorded, code, phase=phase) for phase in ("forward", "train"))
    assert forward == {"notes": ["A pass calls several parts of the program: Teacher, Student."], "calls": 4}
    assert train == {"notes": ["Calls of Teacher have no backward, and are not in a training step."], "calls": 2}


SET_BETWEEN_CALLS = """
class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.grow(4)
    def grow(self, long):
        self.long = long
        self.register_buffer("rows", torch.randn(long, 3))
    def forward(self, x):
        if len(x) > self.long:
            self.grow(len(x))
        return x + self.rows[:len(x)]
class Options:
    gain = 1.0
    def __init__(self):
        self.name = "plain"
class Net(torch.nn.Module):
    shift = 0.0
    def __init__(self):
        super().__init__()
        self.table, self.norm = Table(), torch.nn.BatchNorm1d(3)
        self.scale, self.made, self.options = 1.0, 0, Options()
    def forward(self, x):
        self.made += 1
        return self.norm(self.table(x)) * self.scale * self.options.gain + self.shift
"""


def test_what_a_program_sets_between_its_calls_is_set_again(tmp_path: Path) -> None:
    program = """
net = Net()
seen(net(torch.ones(3, 3)))
seen(net(torch.ones(6, 3)))
net.scale, net.shift, net.options.gain = 2.0, 1.0, 3.0
seen(net(torch.ones(5, 3)))
"""
    recorded = record(SET_BETWEEN_CALLS + program, tmp_path)
    found = read(recorded, EACH_CALL + "found['left'] = target.made, target.scale\n")
    assert_same(found, recorded.seen)
    assert found["left"] == (3 + 2 * 3, 2.0)  # What the calls themselves count goes on.


EXCHANGED = """
import enum
Mode = enum.Enum("Mode", "PLAIN TWICE")
class Folded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.folded, self.mode = False, Mode.PLAIN
        self.one, self.two = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    def fold(self):
        self.whole, self.folded = torch.nn.Linear(3, 3), True
        del self.one, self.two
    def forward(self, x):
        x = self.whole(x) if self.folded else self.one(x) + self.two(x)
        return x * 2 if self.mode is Mode.TWICE else x
net = Folded()
seen(net(torch.rand(4, 3)))
net.fold()
seen(net(torch.rand(4, 3)))
net.mode = Mode.TWICE
seen(net(torch.rand(4, 3)))
net.mode = Mode.PLAIN
"""


def test_what_was_set_as_parts_were_exchanged_stays_with_the_parts(tmp_path: Path) -> None:
    """Nobody puts the old parts back, so the first call is made with the new ones."""
    recorded = record(EXCHANGED, tmp_path)
    found = read(recorded, EACH_CALL + "found['left'] = target.folded, target.mode.name\n")
    assert found["left"] == (True, "TWICE")
    assert not torch.equal(found["pass0"].pop(0), recorded.seen[0])
    assert not torch.equal(found["pass1"].pop(0), recorded.seen[0])
    assert_same(found, recorded.seen[1:])


LIBRARY = """
import functools
import torch
import types
COUNT, USE_FAST, LOADED = 0, False, None
GAINS = {}
OPTIONS, SIZES, TABLE = types.SimpleNamespace(gain=1.0), {"shift": 0.0, "steps": (1.0, 1.0)}, torch.ones(3)
HELD = OPTIONS
def use_fast():
    global USE_FAST
    USE_FAST = True
def made(by):
    def moved(x):
        return x + by
    return moved
act = made(2)
class Kinds:
    def __init__(self):
        self.made = {"plain": lambda x: x}
KINDS = Kinds()
import helpers
def register(name, gain):
    GAINS[name] = gain
def load():
    global LOADED
    LOADED = "here"
def rotate(x):
    return x + 1
def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call
class Layer(torch.nn.Module):
    limit = 1.0
    def forward(self, x):
        assert LOADED, "not loaded"
        x = rotate(x) * 2 if USE_FAST else rotate(x)
        return self.mix(x).clamp(max=self.limit)
    @decorated
    def mix(self, x):
        return x * 0.5
    def quick(self, x):
        return x - 3
    def mix_fast(self, x):
        return x - 4
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.line = Layer(), torch.nn.Linear(3, 3)
    def forward(self, x):
        load()
        x = KINDS.made["plain"](act(helpers.turned(x)))
        x = self.line(self.layer(x)) * HELD.gain * TABLE + SIZES["shift"] + SIZES["steps"][0]
        x = torch.nn.functional.relu(x)
        return GAINS["twice"](x) if "twice" in GAINS else x
"""

OTHERS, HELPERS = "def turned(x):\n    return x - 7\n", "def turned(x):\n    return x\n"
# What no process can be given is left out.
HELPERS += "import threading\nclass Nested(threading.local):\n    depth = 0\nNESTED = Nested()\nNESTED.depth = 1\n"

PATCHES = {
    "a method of the program": "def new(self, x):\n    return x * 5\nlibrary.Layer.mix = new",
    "a method around the old one": (
        "import functools\nold = library.Layer.mix\n@functools.wraps(old)\n"
        "def new(self, x):\n    return old(self, x) * 5\nlibrary.Layer.mix = new"
    ),
    "a method without gradients": "@torch.no_grad()\ndef new(self, x):\n    return x * 5\nlibrary.Layer.mix = new",
    "another method of the class": "library.Layer.mix = library.Layer.quick",
    "one that begins with its name": "library.Layer.mix = library.Layer.mix_fast",
    "a static method": "library.Layer.mix = staticmethod(lambda x: x * 4)",
    "a function of another module": "import others\nlibrary.rotate = others.turned",
    "a closure": "def made(by):\n    return lambda x: x + by\nlibrary.rotate = made(9)",
    "a function of torch": "torch.nn.functional.relu = lambda x: x.abs() + 1",
    "a method of a class of torch": "torch.nn.Linear.forward = lambda self, x: x @ self.weight",
    "a registry": "library.register('twice', lambda x: x * 2)",
    "a registry with other keys": "library.GAINS[7] = library.GAINS['twice'] = lambda x: x * 3",
    "a partial of the library's": (
        "import functools\nlibrary.rotate = functools.partial(torch.add, alpha=2.0, other=1.5)"
    ),
    "a function of torch in C": "library.rotate = torch.relu",
    "a method of tensors": "library.rotate = torch.Tensor.abs",
    "the same function around another number": "library.act = library.made(5)",
    "another module": "import others\nlibrary.helpers = others",
    "a registry in an object": "library.KINDS.made['plain'] = lambda x: x * 11",
    "a setter of the module's own": "library.use_fast()",
    "an object that is called, in a module of the program's": (
        "class Own:\n    def __call__(self, x):\n        return x.abs() + 7\nlibrary.rotate = Own()"
    ),
    "hooks of all modules": "torch.nn.modules.module.register_module_forward_hook(lambda module, x, out: out * 2)",
    "the call of all modules": (
        "old = torch.nn.Module.__call__\ndef new(self, *args):\n    return old(self, *args) * 2\n"
        "torch.nn.Module.__call__ = new"
    ),
    "an autograd.Function": (
        "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 6\n"
        "library.rotate = Own.apply"
    ),
    "an object that is called": (
        "class Own:\n    def __call__(self, x):\n        return x.abs() + 7\ntorch.nn.functional.relu = Own()"
    ),
    "a configuration": "library.OPTIONS.gain = 3.0",
    "a table of settings": "library.SIZES['shift'] = 4.0",
    "a tuple in a table": "library.SIZES = {'shift': 0.0, 'steps': (9.0, 1.0)}",
    "a tensor": "library.TABLE = torch.tensor([1.0, 2.0, 3.0])",
    "a tensor in place": "library.TABLE[1] = 5",
    "a flag of a module": "library.USE_FAST = True",
    "a value of a class": "library.Layer.limit = 0.25",
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_what_a_program_put_into_modules_of_others_is_there_again(patch: str, tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "others.py").write_text(OTHERS)
    (tmp_path / "helpers.py").write_text(HELPERS)
    calls = "net = library.Net()\nx = torch.randn(4, 3)\nplain = net(x).detach()\n{}\nseen(net(x))\nseen(plain)\n"
    recorded = record(f"import library\n{calls.format(patch)}", tmp_path)
    assert not torch.equal(recorded.seen[0], recorded.seen[1]), "the patch changes nothing"
    # Both calls are made as the last one was; what the library sets by itself, it does.
    found = read(recorded)
    assert_same(found, [recorded.seen[0]] * 2)


BREAKING = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        print("between")
        return x + 1
"""


def test_what_torch_puts_into_a_module_of_the_program_is_left_to_torch(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(BREAKING)
    recorded = record(
        "import parts\nnet = torch.compile(parts.Net(), backend='eager')\nseen(net(torch.randn(4, 3)))\n", tmp_path
    )
    # The rest of a function after a graph break is a global of its module, with a number that another process has too.
    there = "import sys\nfound['there'] = [name for name in vars(sys.modules['parts']) if 'resume' in name]\n"
    found = read(recorded, f"{there}{EACH_CALL}")
    assert found["there"] == []
    assert_same(found, recorded.seen)


# With a stand-in for another object, as web frameworks have them: it answers no question outside of a request; and a
# module that imports another one when it is asked for anything.
TRACKING = """
import sys, types
class Lazy(types.ModuleType):
    def __getattr__(self, name):
        raise ImportError("what it needs is not installed")
lazy = sys.modules["tracking.lazy"] = Lazy("tracking.lazy")
class Proxy:
    @property
    def __class__(self):
        raise RuntimeError("outside of a request")
    def __getattr__(self, name):
        raise RuntimeError("outside of a request")
request = Proxy()
def log(x): pass
RUN = None
"""


def test_a_module_that_calls_do_not_need_is_not_imported_for_a_patch(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "tracking.py").write_text(TRACKING)
    program = "import library, tracking\ntracking.log, tracking.RUN = print, 'first'\nlibrary.USE_FAST = True\n"
    recorded = record(f"{program}seen(library.Net()(torch.randn(4, 3)))\n", tmp_path)
    late = "import sys\nfound['imported'] = 'tracking' in sys.modules\nimport tracking\nfound['run'] = tracking.RUN\n"
    found = read(recorded, f"{late}{EACH_CALL}")
    assert_same(found, recorded.seen)
    assert (found["imported"], found["run"]) == (False, "first")


COUNTING = """
COUNT, READY, KERNEL = 0, False, {}
def counted(x):
    global COUNT, READY
    if not READY:  # As a library of kernels is loaded: elsewhere it is not there because a flag says so.
        READY = True
        KERNEL["scale"] = make()
    COUNT = COUNT + 1
    return KERNEL["scale"](x) * COUNT
def make():
    return lambda x: x + 1
"""


def test_what_a_module_of_the_program_counts_or_makes_once_is_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    program = """
import counting
class Net(torch.nn.Linear):
    def forward(self, x):
        return counting.counted(super().forward(x))
net = Net(3, 3)
for _ in range(3):
    seen(net(torch.ones(2, 3)))
"""
    recorded = record(program, tmp_path)
    found = read(recorded)
    assert_same({"pass0": found["pass0"], "pass1": found["pass0"]}, recorded.seen)


def test_what_cannot_travel_costs_no_call_that_does_without_it(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "helpers.py").write_text(HELPERS)
    program = """
import library
rest = (each for each in [0.0] * 9)
def closed(x):
    return x + next(rest)
library.done = library.rotate = closed
seen(library.Net()(torch.randn(4, 3)))
"""
    recorded = record(program.replace("library.rotate = ", ""), tmp_path)
    assert_same(read(recorded), recorded.seen)
    (used := tmp_path / "used").mkdir()
    for name in ("library.py", "helpers.py"):
        (used / name).write_text((tmp_path / name).read_text())
    code = "try:\n    workload.model(torch.ones(4, 3))\nexcept RuntimeError as error:\n    found['said'] = str(error)\n"
    said = read(record(program, used), code)["said"]
    assert said.startswith("library.rotate, which the program put there, cannot travel") and "generator" in said


TOOLS = """
import collections
class Tagged(type):
    def __new__(kind, name, bases, space, tag=None):
        if tag is None:
            raise TypeError("a tag is needed")
        return super().__new__(kind, name, bases, space)
    def __init__(self, name, bases, space, tag=None):
        super().__init__(name, bases, space)
def made():
    class Row(metaclass=Tagged, tag="row"):
        pass
    return Row
Row = made()  # It cannot be made again from its parts, as a TypedDict cannot.
Point = collections.namedtuple("Point", "x y")
def listed(view):
    return list(view)
VIEWS = {type({}.keys()): listed, type({}.values()): listed}  # Classes without a name that leads to them.
def scaled(x):
    return x * Point(2.0, 3.0).y
"""


def test_what_is_there_by_itself_need_not_be_made_again(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    program = """
import tools
class Net(torch.nn.Linear):
    def forward(self, x):
        return tools.scaled(super().forward(x))
seen(Net(3, 3)(torch.ones(2, 3)))
"""
    recorded = record(program, tmp_path)
    assert_same(read(recorded), recorded.seen)


WRAPPING = """
import functools, shapes
def scaled(function, by):
    @functools.wraps(function)  # It says that it is the one in whose place it stands.
    def run(x):
        return function(x) * by
    return run
for number in range(8):
    setattr(shapes, f"f{number}", scaled(getattr(shapes, f"f{number}"), 10.0 ** number))
shapes.one = shapes.other = lambda x: x + 1
class Net(torch.nn.Linear):
    def forward(self, x):
        x = super().forward(x)
        return sum(getattr(shapes, f"f{number}")(x) for number in range(8)) + shapes.one(x) + shapes.other(x)
seen(Net(3, 3)(torch.ones(2, 3)))
"""


def test_each_of_many_patches_is_itself_and_one_in_two_places_is_one(tmp_path: Path) -> None:
    plain = "".join(f"def f{number}(x): return x + {number}\n" for number in range(8))
    (tmp_path / "shapes.py").write_text(f"{plain}def one(x): return x\ndef other(x): return x\n")
    recorded = record(WRAPPING, tmp_path)
    found = read(recorded, f"import shapes\nfound['one'] = shapes.one is shapes.other\n{EACH_CALL}")
    assert found["one"]
    assert_same(found, recorded.seen)


def test_a_class_that_cannot_be_made_again_costs_no_call_that_does_without_it(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "tools.py").write_text(TOOLS)
    program = "import library, tools\nlibrary.done = tools.made()\nseen(library.Net()(torch.randn(4, 3)))\n"
    recorded = record(program, tmp_path)
    assert_same(read(recorded), recorded.seen)


KERNELS = """
import torch
class Layer(torch.nn.Linear):
    @classmethod
    def choose(cls, name):
        cls.forward = getattr(cls, f"forward_{name}")
    def forward_plain(self, x):
        return x @ self.weight
    @torch.compile(backend="eager")
    def forward_fast(self, x):
        return x @ self.weight * 3
Layer.choose("plain")
"""


def test_a_method_of_a_package_that_a_decorator_compiles_is_chosen_again(tmp_path: Path) -> None:
    """As the backends of hqq are."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "kernels.py").write_text(KERNELS)
    program = "import kernels\nkernels.Layer.choose('fast')\nnet = torch.nn.Sequential(kernels.Layer(3, 3))\n"
    call = "seen(torch.compile(net, backend='eager')(torch.ones(2, 3)))\n"
    recorded = record(f"sys.path.insert(0, {str(packages)!r})\n{program}{call}", tmp_path)
    assert_same(read(recorded), recorded.seen)


def test_what_a_package_has_by_itself_is_left_to_it(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "library.py").write_text(LIBRARY)
    (packages / "helpers.py").write_text(HELPERS)
    recorded = record(
        f"sys.path.insert(0, {str(packages)!r})\nimport library\nseen(library.Net()(torch.randn(4, 3)))\n", tmp_path
    )
    found = read(
        recorded, "import library\nfound['loaded'] = library.LOADED\nfound['mix'] = library.Layer.mix.__module__\n"
    )
    assert found == {"loaded": None, "mix": "library"}


def test_the_step_of_an_optimizer_is_made_again_with_gradients(tmp_path: Path) -> None:
    """It does nothing without, and was timed so."""
    program = """
net = torch.nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
@torch.compile(backend="eager")
def step():
    opt.step()
    return net.weight
for _ in range(2):
    net(torch.ones(2, 3)).sum().backward()
    seen(step())
    opt.zero_grad()
"""
    twice = """
found["moved"], found["norms"] = [], []
for step in workload.steps(workload.model):
    step.prepare()
    weight = step.run()
    before = weight.detach().clone()
    found["norms"].append(round(weight.grad.norm().item(), 3))
    step.prepare()
    found["moved"].append(bool((step.run() != before).all()))
"""
    found = read(record(program, tmp_path), twice)
    assert found["moved"] == [True, True]
    assert found["norms"] == [6.0, 6.0]  # Nine entries of 2, as in the program: what a clipping looks at.


def test_modules_that_the_program_compiled_get_their_state_and_not_their_wrappers(tmp_path: Path) -> None:
    program = """
one, two = Net(), Net()
two.compile(backend="eager")
first, second = torch.compile(one, backend="eager"), two
seen(second(torch.rand(4, 3)))
seen(first(torch.rand(4, 3)))
seen(second(torch.rand(4, 3)))
one.eval()
two.scale = 3.0
seen(first(torch.rand(4, 3)))
seen(second(torch.rand(4, 3)))
"""
    recorded = record(SET_BETWEEN_CALLS + program, tmp_path)
    as_written = EACH_CALL.replace("target = workload.model", "target = workload.as_written()")
    assert_same(read(recorded, as_written), recorded.seen)


def test_the_file_is_private_and_checked(tmp_path: Path) -> None:
    recorded = record("seen(torch.nn.Linear(4, 4)(torch.randn(2, 4)))\n", tmp_path)
    file = recorded.folder / recorded.bundle["file"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    written = file.read_bytes()
    file.write_bytes(written + b" ")
    found = read(recorded)
    assert found["kind"] == "not_replayable" and "not the one that was written" in found["message"]
    assert written.count(b"in_features") == 1
    file.write_bytes(written.replace(b"in_features", b"on_features"))  # Of the same size.
    assert read(recorded)["kind"] == "not_replayable"


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux says what a process maps")
def test_large_tensors_are_mapped_and_their_changes_are_private(tmp_path: Path) -> None:
    recorded = record("model = torch.nn.Linear(1024, 1024)\nseen(model(torch.zeros(1, 1024)))\n", tmp_path)
    file = recorded.folder / recorded.bundle["file"]
    before = file.read_bytes()
    found = read(
        recorded,
        "found['mapped'] = 'bundle.pt' in open('/proc/self/maps').read()\n"
        "with torch.no_grad(): workload.model.weight.fill_(3.0)\n"
        "found['sum'] = float(workload.model.weight.sum())\n",
    )
    assert found["mapped"] and found["sum"] == 3.0 * 1024 * 1024
    assert file.read_bytes() == before


COMPILED = """
import os
FACTOR = 2.0
def scaled(x):
    return x * FACTOR
def make():
    class Local(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)
            self.drop = torch.nn.Dropout(0.3)
        def forward(self, x):
            print("a break")
            return scaled(self.drop(self.lin(x)))
    return Local()
net = make()
comp = torch.compile(torch.nn.Sequential(net, torch.nn.ReLU()), backend="eager")
inner = torch.compile(lambda x: x + 1, backend="eager")
@torch.compile(backend="eager", dynamic=False)
def step(x, y):
    return torch.relu(net.lin(x)) + inner(y)
base = torch.randn(40)
for n in (2, 3):
    x = base[: n * 4].view(n, 4)
    y = base[4 : 4 + n * 4].view(n, 4)
    seen(step(x, y))
    seen(comp(x)).sum().backward()
net.compile(backend="eager")
seen(net(base[:8].view(2, 4)))
"""


def test_a_program_that_compiles_by_itself(tmp_path: Path) -> None:
    recorded = record(COMPILED, tmp_path)
    bundle = recorded.bundle
    assert (bundle["names"], bundle["calls"]) == (["step", "Sequential", "Local"], 5)
    assert bundle["backwards"] == 2 and bundle["written"]
    found = read(recorded, """
import torch._dynamo.utils as utils
frames = lambda: sum(utils.counters["frames"].values())
""" + EACH_CALL + """
found["eager"] = frames()
args, _ = workload.calls[0].kept.inputs.thaw()
found["views"] = args[0].untyped_storage()._cdata == args[1].untyped_storage()._cdata
compiled = workload.as_written()
found["compiled"] = []
for step in workload.steps(compiled):
    step.prepare()
    found["compiled"].append(step.run().detach().clone())
found["frames"] = frames()
""")  # fmt: skip
    assert_same(found, recorded.seen)
    assert found["views"] and found["eager"] == 0 and found["frames"] > 0
    assert all(torch.equal(a, b) for a, b in zip(found["compiled"], recorded.seen, strict=True))


def test_example_inputs(tmp_path: Path) -> None:
    source = """
model = torch.nn.Linear(4, 4)
example_inputs = [(torch.randn(2, 4),), {"input": torch.randn(3, 4)}]
with open("seen.pickle", "wb") as file:
    weight, bias = model.weight.data, model.bias.data
    given = example_inputs[0][0], example_inputs[1]["input"]
    pickle.dump([torch.nn.functional.linear(x, weight, bias) for x in given], file)
"""
    recorded = record(source, tmp_path)
    found = read(recorded)
    assert_same(found, recorded.seen)
    assert found["phase"] == "forward" and recorded.kinds()[-2:] == ["bundle", "target_end"]


def test_what_cannot_travel_is_named(tmp_path: Path) -> None:
    recorded = record("""
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.steps = [(n for n in range(9))]
    def forward(self, x):
        return self.lin(x) + next(self.steps[0])
seen(torch.nn.Sequential(Net())(torch.randn(3, 4)))
""", tmp_path)  # fmt: skip
    bundle = recorded.bundle
    assert not bundle["file"] and not (recorded.folder / "bundle.pt").exists()
    assert bundle["error"].startswith("generator in 0.steps of Sequential cannot be pickled")
    assert recorded.status == 0


def test_nothing_to_make_again(tmp_path: Path) -> None:
    assert "no call of a module" in record("print(torch.ones(1))\n", tmp_path).bundle["error"]


def test_a_program_that_leaves_at_once_tells_of_no_bundle(tmp_path: Path) -> None:
    recorded = record("import os\nseen(torch.nn.Linear(4, 4)(torch.randn(2, 4)))\nos._exit(3)\n", tmp_path)
    assert recorded.status == 3 and "bundle" not in recorded.kinds()


NESTED = """
import functools
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
opt = torch.compile(net, backend="eager")
@torch.compile(backend="eager")
def inner(x):
    print("inner")
    return torch.sin(x)
def passing(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)
    return call
@passing
@torch.compile(backend="eager")
def wrapped(x):
    return x.cos()
@torch.compile(backend="eager")
def outer(x, n):
    y = inner(x) + opt(x)
    print("outer")
    return inner(wrapped(y)) * n + opt(y)
class Decorated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
    @torch.compile(backend="eager")
    def forward(self, x):
        return self.lin(x) if x.sum() > 0 else x
decorated = Decorated()
lazy = torch.compile(torch.nn.Sequential(torch.nn.LazyLinear(3)), backend="eager")
for n in (2, 3):
    x = torch.randn(n, 4, requires_grad=True)
    (seen(outer(x, n)).sum() + seen(decorated(x)).sum() + seen(lazy(x)).sum()).backward()
"""
TORCH = str(Path(torch.__file__).parent)
TOLD = {
    "compile_call",
    "compile_start",
    "break",
    "error",
    "recompile",
    "traced",
    "skipped",
    "specialized",
    "nothing_compiled",
}


def own_frames(value: Any) -> Any:
    """An event without the frames of torch, among which the recording's own is; no report shows them."""
    if isinstance(value, dict):
        return {name: own_frames(item) for name, item in value.items()}
    if isinstance(value, list):
        is_frame = [isinstance(item, dict) and str(item.get("file", "")).startswith(TORCH) for item in value]
        return [own_frames(item) for item, skip in zip(value, is_frame, strict=True) if not skip]
    return value


@pytest.mark.slow
def test_recording_changes_nothing_that_is_told_of_the_compiles(tmp_path: Path) -> None:
    facts, calls = [], []
    # The names are as long as each other, for torch cuts paths.
    for name, bundle in (("on", True), ("no", False)):
        work = tmp_path / name
        work.mkdir()
        recorded = record(NESTED, work, bundle=bundle)
        assert recorded.status == 0, recorded.stderr
        told = [own_frames({**event, "at": 0}) for event in recorded.events if event["event"] in TOLD]
        numbers: dict[Any, int] = {}
        for event in told:  # The same number means the same call or module, whatever it is.
            for name_of in ("call", "module"):
                if event.get(name_of):
                    event[name_of] = numbers.setdefault(event[name_of], len(numbers) + 1)
        facts.append(json.loads(json.dumps(told).replace(f"/{name}/program.py", "/program.py")))
        calls.append(recorded)
    assert len(facts[0]) > 20 and facts[0] == facts[1]
    assert all(torch.equal(a, b) for a, b in zip(calls[0].seen, calls[1].seen, strict=True))
    assert calls[0].bundle["names"] == ["outer", "Decorated.forward", "Sequential"]
    assert_same(read(calls[0]), calls[0].seen)
