"""Which version a recompile is held against on real torch, and advice that was followed to the letter.

The truth is torch's own: its list of failed guards, and the graphs that it compiles once the advice is in place.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from many_programs import MAIN, graphs, of, together
from shared_runs import made_once

Json = dict[str, Any]
PROGRAMS: dict[str, str] = {}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What is told of all of them, in one run."""
    return dict(made_once(tmp_path_factory, "advice", lambda folder: together(folder, PROGRAMS, MADE_BY_OTHERS)))


PROGRAMS["turns"] = """
import torch

torch.set_num_threads(2)

@torch.compile(backend="eager", dynamic=False)
def shifted(values, negate):
    return values * 2 if negate else values + 1

shifted(torch.ones(8), False)
shifted(torch.ones(1), True)
shifted(torch.ones(8), True)

@torch.compile(backend="eager")
def loss(kind, found):
    return found.abs().mean() if kind == "boxes" else found.square().mean()

for n in (3, 4):
    for kind in ("labels", "boxes"):
        loss(kind, torch.randn(n))

@torch.compile(backend="eager")
def scaled(values, factor):
    return values * factor

scaled(torch.ones(4), 2.5)
torch.set_num_threads(1)
scaled(torch.ones(4), 2.5)
with torch.no_grad():
    scaled(torch.ones(5), 2.5)

class Rotary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, values):
        if self.table is None:
            self.table = torch.arange(4.0)
        return values * self.table

rotary = torch.compile(Rotary(), backend="eager")
rotary(torch.ones(4))
rotary(torch.ones(4))
"""


def test_a_recompile_is_held_against_the_version_that_the_call_is_nearest_to(report: Json) -> None:
    recompiles = of(report, "turns", "recompiles")
    found = [(each["previous"], each["cause"], each["source"]) for each in recompiles]
    assert found == [
        ("0/0", "shape", "values.size()[0]"),
        ("0/0", "value", "negate"),
        ("1/0", "value", "kind"),
        ("1/0", "shape", "found.size()[0]"),
        ("1/1", "shape", "found.size()[0]"),
        ("2/0", "global_state", "num_threads"),
        ("2/1", "global_state", "grad_mode"),
        ("3/0", "module_attribute", "self.table"),
    ]
    first, threads = recompiles[0], recompiles[5]
    assert [each["source"] for each in first["also"]] == ["negate"]
    assert (threads["expected"], threads["actual"]) == ("2", "1")


# By name of the function: its parameters and what it gives, what a call of it needs, and the call.
SHARED = {
    "two": ("ids, mask", "(ids * mask).sum()", "ids, mask = torch.ones(2, n), torch.ones(2, n)", "two(ids, mask)"),
    "square": ("score", "score @ score", "score = torch.ones(n, n)", "square(score)"),
    "derived": ("x, y", "x + y.view(2, -1).sum(0)", "x, y = torch.ones(n), torch.ones(2 * n)", "derived(x, y)"),
    "mapped": (
        "batch", "batch['ids'] * batch['mask']", "batch = {'ids': torch.ones(2, n), 'mask': torch.ones(2, n)}",
        "mapped(batch)",
    ),
    "parted": ("parts", "parts[0] * parts[1]", "parts = [torch.ones(n), torch.ones(n)]", "parted(parts)"),
    "named": (
        "x, **options", "x.T @ options['mask']", "x, mask = torch.ones(n, 3), torch.ones(n, 2)", "named(x, mask=mask)",
    ),
}  # fmt: skip


def shared(*, marks: dict[str, str] | None = None, settings: dict[str, str] | None = None) -> str:
    """The program, with what was advised for each function; one after the other, none counts for the next."""
    code = ["import torch", "from torch._dynamo.utils import counters", "seen = 0"]
    for name, (parameters, result, needs, call) in SHARED.items():
        code += [
            (settings or {}).get(name, ""), "@torch.compile(backend='eager')", f"def {name}({parameters}):",
            f"    return {result}", "for n in (5, 5, 4, 6):", f"    {needs}", f"    {(marks or {}).get(name, 'pass')}",
            f"    {call}", "torch.compiler.config.dynamic_sources = ''",
            f"print('{name}', counters['stats']['unique_graphs'] - seen)", "seen = counters['stats']['unique_graphs']",
        ]  # fmt: skip
    return "\n".join(code)


PROGRAMS["shared"] = shared()


def test_all_sizes_that_change_together_are_marked_together(report: Json, tmp_path: Path) -> None:
    found = {each["location"]["function"]: each for each in of(report, "shared")}
    marks = {
        name: "; ".join(re.findall(r"`(torch\._dynamo\.maybe_mark_dynamic\(.+?\))`", found[name]["advice"]))
        for name in SHARED
    }
    settings = {name: found[name]["detail"]["config"] for name in SHARED}
    assert graphs(shared(), tmp_path) == 2 * len(SHARED)
    assert graphs(shared(marks=marks), tmp_path) == len(SHARED)
    assert graphs(shared(settings=settings), tmp_path) == len(SHARED)


PROGRAMS["number"] = NUMBER = """
import torch

def rows(x, n):
    return x.view(2, n) + 1

net = torch.compile(rows, backend="eager")
for n in (5, 4, 6):
    net(torch.ones(2 * n), n)
"""


def test_a_number_that_a_size_follows_has_no_mark(report: Json, tmp_path: Path) -> None:
    (finding,) = of(report, "number")
    assert "mark_dynamic" not in finding["advice"]
    example = finding["detail"]["example"]
    assert example["after"] == "torch.compile(rows, dynamic=True)"
    asked = NUMBER.replace("torch.compile(rows", example["after"].removesuffix(")"))
    setting = NUMBER.replace("import torch\n", f"import torch\n{finding['detail']['config']}\n")
    assert [graphs(each, tmp_path) for each in (NUMBER, asked, setting)] == [2, 1, 1]


PROGRAMS["loop"] = LOOP = """
import torch

class Scan(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(4, 4)

    def step(self, part, state):
        return self.cell(part + state)

    def forward(self, parts):
        state = parts[:, 0] * 0
        for at in range(parts.shape[1]):
            state = self.step(parts[:, at], state)
        return state

scan = Scan()
scan.compile(backend="eager")
for n in (5, 5, 4, 6):
    with torch.no_grad():
        scan(torch.randn(2, n, 4))
"""


def test_a_loop_over_a_size_is_named_and_nothing_is_marked(report: Json, tmp_path: Path) -> None:
    (finding,) = of(report, "loop")
    assert finding["location"]["line"] == LOOP[: LOOP.index("for at")].count("\n") + 1
    assert "mark_dynamic" not in finding["advice"] + finding["detail"]["config"]
    stepwise = LOOP.replace("scan.compile(", "scan.step = torch.compile(scan.step, ").replace(
        "parts[:, at]", "parts[:, at].contiguous()"
    )
    assert [graphs(each, tmp_path) for each in (LOOP, stepwise)] == [3, 1]


PROGRAMS["held"] = HELD = """
import torch

class Scale(torch.nn.Module):
    def __init__(self, gain, weights=1):
        super().__init__()
        self.gain = gain
        self.weight = torch.nn.Parameter(torch.ones(weights))

    def forward(self, x):
        return x * self.gain * self.weight

for layer in [Scale(gain) for gain in (1.0, 0.5, 0.25)]:
    layer.compile(backend="eager")
    layer(torch.ones(3))
"""


def test_modules_with_other_values_are_told_by_the_value(report: Json, tmp_path: Path) -> None:
    (finding,) = of(report, "held")
    assert finding["title"].startswith("`self.gain` differs between modules")
    example = finding["detail"]["example"]
    assert [graphs(each, tmp_path) for each in (HELD, HELD.replace(example["before"], example["after"]))] == [2, 1]


PROGRAMS["made_otherwise"] = HELD.replace("Scale(gain)", "Scale(gain, 3 if gain == 0.5 else 1)")


def test_modules_that_are_made_otherwise_are_different_modules(report: Json) -> None:
    (finding,) = (each for each in of(report, "made_otherwise") if each["severity"] == "info")
    assert "different modules" in finding["title"]


PROGRAMS["optimizers"] = OPTIMIZERS = """
import torch
from torch.optim.lr_scheduler import ExponentialLR, OneCycleLR

def trained(optimizer, schedule):
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(4):
        net(torch.ones(2, 8)).square().mean().backward()
        step()
        schedule.step()

net = torch.nn.Linear(8, 4)
decayed = torch.optim.SGD(net.parameters(), lr=0.1)
trained(decayed, ExponentialLR(decayed, 0.5))
cycled = torch.optim.AdamW(net.parameters(), lr=torch.tensor(0.01))
trained(cycled, OneCycleLR(cycled, max_lr=0.1, total_steps=9))
"""


def test_the_values_of_optimizers_are_changed_as_optimizers_allow(report: Json, tmp_path: Path) -> None:
    # Their code is torch's; the program's line is where they are called.
    again = [each for each in report["recompiles"] if each["library"] == "optimizer"]
    found = [each for each in report["findings"] if set(each["evidence"]) & {one["id"] for one in again}]
    changed = [each["library"] for each in again if each["cause"] != "identity"]
    assert changed == ["optimizer", "optimizer"]
    (rate,) = (each["detail"]["example"] for each in found if each["detail"]["example"])
    (old, new) = (
        rate[side].replace("parameters", "net.parameters()").replace("lr)", "0.1)").replace("lr=lr", "lr=0.1")
        for side in ("before", "after")
    )
    assert old == "SGD(net.parameters(), lr=0.1)" and old in OPTIMIZERS
    assert any("`cycle_momentum=False`" in each["advice"] for each in found)
    followed = OPTIMIZERS.replace(old, new).replace("total_steps=9", "total_steps=9, cycle_momentum=False")
    assert graphs(OPTIMIZERS, tmp_path) - graphs(followed, tmp_path) == 2


PROGRAMS["numbers"] = """
import torch

def peak(values):
    top = values.max().item()
    return top

@torch.compile(backend="eager")
def scaled(values):
    values = values + 1
    highest = peak(values)
    return values * highest

@torch.compile(backend="eager")
def cropped(values, lengths):
    longest = int(lengths.max())
    return values[:, :longest] * 2

for n in (4, 5, 6):
    scaled(torch.ones(3) * n)
    cropped(torch.ones(2, 8), torch.tensor([1, n]))
"""


def test_a_number_after_a_break_is_named_by_its_expression(report: Json) -> None:
    found = {each["source"]: each["result_of"]["code"] for each in of(report, "numbers", "recompiles")}
    assert found == {
        "peak(values)": "top = values.max().item()",
        "int(lengths.max())": "longest = int(lengths.max())",
    }
    told = [each for each in of(report, "numbers") if each["rule"] == "recompile"]
    assert len(told) == 2 and "___stack" not in str(told) and "torch.tensor" not in str(told)


PROGRAMS["table"] = TABLE = """
import torch

class Head(torch.nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.mask = torch.ones(rows, rows).tril()

    def forward(self, score):
        n = score.shape[-1]
        if n != self.mask.shape[0]:
            self.mask = torch.ones(n, n).tril()
        return score * self.mask

head = torch.compile(Head(8), backend="eager")
for n in (8, 6, 5, 7):
    head(torch.randn(2, n, n))
"""


def test_a_table_that_follows_the_input_is_made_once(report: Json, tmp_path: Path) -> None:
    found = of(report, "table")
    assert found and all("`self.mask` once" in each["advice"] for each in found)
    assert "mark_dynamic" not in str([each["advice"] for each in found])
    sliced = TABLE.replace("self.mask\n\nhead", "self.mask[:n, :n]\n\nhead")
    once = re.sub(r"\n        if n != .+\n.+", "", sliced)
    assert [graphs(each, tmp_path) for each in (TABLE, once)] == [3, 2]


PARTS = """
import torch
SETTING
def shown(boxes, kept, size):
    height, width = size
    found = boxes[kept]
    return torch.stack((found[:, 0].clamp(max=width), found[:, 1].clamp(max=height)))

model = torch.compile(shown, backend="eager")
for size in ((64, 64), (64, 80), (70, 64)):
    boxes = torch.arange(12.0).view(6, 2) * 20
    print(model(boxes, boxes[:, 0] > 100, size).sum().item())
"""


PROGRAMS["parts"] = PARTS.replace("SETTING", "")


def test_sizes_in_a_tuple_and_rows_of_a_mask_keep_their_answers(report: Json, tmp_path: Path) -> None:
    """A graph for each part around the break and for each size; the first advice of both leaves one."""
    told = {each["rule"]: each for each in of(report, "parts") if each["rule"] in ("graph-break", "recompile")}
    setting = told["graph-break"]["detail"]["config"]
    assert told["graph-break"]["detail"]["recipe"] == "dynamic-shape"
    assert told["graph-break"]["advice"].startswith("Allow")
    assert "dynamic=True" in told["recompile"]["advice"]
    changed = PARTS.replace("SETTING", setting).replace('"eager")', '"eager", dynamic=True)')
    assert graphs(PROGRAMS["parts"], tmp_path) > 2
    assert graphs(changed, tmp_path) == 1


MADE_BY_OTHERS = """
import random
import torch
from torch import nn

def checked(function):
    code = "def forward(self, x):\\n    at = random.getrandbits(32)\\n    return function(self, x + at % 1)"
    made = {"function": function, "random": random}
    exec(compile(code, "<@checked(serve.Net.forward) at 0x7f>", "exec"), made)
    made["forward"].__wrapped__ = function
    return made["forward"]

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    @checked
    def forward(self, x):
        return x * self.weight

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight

plain = Plain()
# CHECK
net = torch.compile(Net(), backend="eager")
for _ in range(3):
    net(torch.ones(2, 4))

@torch.compile(backend="eager")
def loss(model, x):
    return model(x).sum()

for number in range(3):
    patched = type("Patched", (Plain,), {})()
    loss(patched, torch.ones(2, 4))  # LOSS
"""


def test_what_a_decorator_and_a_patched_class_do_is_told_and_can_be_followed(report: Json, tmp_path: Path) -> None:
    by_place = {(each["rule"], each["evidence"][0]): each["advice"] for each in report["findings"]}
    (found,) = of(report, MAIN, "graph_breaks")
    of_stack = [each for each in report["recompiles"] if each["location"]["file"].startswith("<@checked")]
    of_class = [each for each in of(report, MAIN, "recompiles") if each["source"] == "model"]
    assert (len(of_stack), len(of_class)) == (1, 2)  # The number drawn is dynamic from the second on.
    assert all(each["result_of"] == found["location"] for each in of_stack)
    assert "`Net.forward = Net.forward.__wrapped__`" in by_place["graph-break", found["id"]]
    assert "torch.func.functional_call" in by_place["recompile", of_class[0]["id"]]
    assert not any("___" in advice for advice in by_place.values())

    followed = MADE_BY_OTHERS.replace("# CHECK", "Net.forward = Net.forward.__wrapped__")
    followed = followed.replace("def loss(model, x):", "def loss(weights, x):").replace(
        "model(x).sum()", "torch.func.functional_call(plain, weights, (x,)).sum()"
    )
    followed = followed.replace("loss(patched, torch", "loss(dict(patched.named_parameters()), torch")
    assert graphs(followed, tmp_path) == 2  # One of the checked module, one of the loss.


ALONE = """
import torch

@torch.compile(backend="eager"MORE)
def model(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

for n in SIZES:
    x = torch.ones(n, 3)
    model(x)
"""


PROGRAMS["alone"] = ALONE.replace("MORE", "").replace("SIZES", "(1, 2, 2)")


def test_a_batch_of_one_before_a_break_is_padded_away(report: Json, tmp_path: Path) -> None:
    plain = PROGRAMS["alone"]
    (finding,) = (each for each in of(report, "alone") if each["rule"] == "recompile")
    assert "size 1" in finding["advice"] and "dynamic=True" not in finding["advice"]
    dynamic = plain.replace('"eager"', '"eager", dynamic=True')
    assert [graphs(each, tmp_path) for each in (plain, dynamic, plain.replace("(1,", "(2,"))] == [4, 4, 2]


PROGRAMS["depth"] = """
import torch

@torch.compile(backend="eager")
def scaled(x, depth):
    return x * depth

for depth in (0, 1, 2):
    scaled(torch.ones(3), depth)
"""


def test_an_integer_varies_between_0_and_1_too(report: Json, tmp_path: Path) -> None:
    plain = PROGRAMS["depth"]
    (finding,) = (each for each in of(report, "depth") if each["rule"] == "recompile")
    assert "dynamic=True" in finding["advice"] and " 2 " not in finding["advice"]
    assert [graphs(each, tmp_path) for each in (plain, plain.replace('"eager"', '"eager", dynamic=True'))] == [2, 1]


PROGRAMS["lazy"] = """
import torch

TABLES = {}

def table(n):
    if n not in TABLES:
        TABLES[n] = torch.arange(float(n))
    return TABLES[n]

class Lazy(torch.nn.Module):
    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = torch.full((3,), 2.0)
        return x * self.scale

class Kept:
    pass

def counted(x, kept):
    if not hasattr(kept, "shift"):
        kept.shift = torch.ones(3)
    return x + kept.shift

def shifted(x):
    return x + table(x.shape[-1])

x, kept, lazy = torch.ones(2, 3), Kept(), Lazy()
# BEFORE
for function, arguments in ((lazy, (x,)), (counted, (x, kept)), (shifted, (x,))):
    compiled = torch.compile(function, backend="eager")
    compiled(*arguments)
    compiled(*arguments)
"""


def test_what_the_first_call_makes_is_made_before_it(report: Json, tmp_path: Path) -> None:
    recompiles = of(report, "lazy", "recompiles")
    assert [(each["source"], each["expected"]) for each in recompiles] == [
        ("self.scale", "missing"), ("kept.shift", "missing"), ("TABLES", "3 not in TABLES"),
    ]  # fmt: skip
    lines = PROGRAMS["lazy"].splitlines()
    asked = [each["forced_by"] for each in recompiles]
    assert ["hasattr" in lines[each["line"] - 1] if each else None for each in asked] == [True, True, None]
    by_source = {each["evidence"][0]: each["advice"] for each in of(report, "lazy")}
    own, *others = (by_source[each["id"]] for each in recompiles)
    assert own.startswith("Make `self.scale` in the constructor")
    assert all("call once in eager" in each for each in others)
    constructor = "    def __init__(self):\n        super().__init__()\n        self.scale = torch.full((3,), 2.0)\n\n"
    made = PROGRAMS["lazy"].replace("    def forward", f"{constructor}    def forward")
    eager = made.replace("# BEFORE", "counted(x, kept), shifted(x)")
    assert [graphs(each, tmp_path) for each in (PROGRAMS["lazy"], made, eager)] == [6, 5, 3]


PROGRAMS["counters"] = """
import torch
from types import SimpleNamespace

calls, rounds, gain, settings = 0, 2, 0.5, SimpleNamespace(step=1)

@torch.compile(backend="eager")
def counted(x):
    global calls
    x = x + 1
    calls += 1
    return x

@torch.compile(backend="eager")
def stepped(x):
    return x * settings.step

@torch.compile(backend="eager")
def repeated(x):
    for _ in range(rounds):
        x = x * 2
    return x

@torch.compile(backend="eager")
def gained(x):
    return x * gain

@torch.compile(backend="eager")
def scaled(x, given):
    return x * given.step

for number in range(4):
    counted(torch.ones(3)), stepped(torch.ones(3)), repeated(torch.ones(3)), gained(torch.ones(3))
    scaled(torch.ones(3), SimpleNamespace(step=number))
    settings.step, rounds, gain = settings.step + 2, rounds + 1, gain * 1.5
"""


def test_a_global_that_changes_is_read_at_a_line_and_may_vary(report: Json, tmp_path: Path) -> None:
    """Four graphs each of three integers; a float is dynamic from its second on, a number of an argument too."""
    plain = PROGRAMS["counters"]
    lines = plain.splitlines()
    found = {each["title"].partition("`")[2].partition("`")[0]: each for each in of(report, "counters")}
    read = {name: lines[each["location"]["line"] - 1].strip() for name, each in found.items()}
    assert read["calls"] == "calls += 1"
    assert read["rounds"] == "for _ in range(rounds):"
    assert read["gain"] == "return x * gain"
    settings = {name: each["detail"]["config"] for name, each in found.items()}
    assert settings["gain"] == settings["rounds"] == ""
    sources = ",".join(settings[name].split('"')[1] for name in ("calls", "settings.step"))
    setting = f'torch.compiler.config.dynamic_sources = "{sources}"'
    followed = plain.replace("import torch\n", f"import torch\n{setting}\n", 1)
    assert [graphs(each, tmp_path) for each in (plain, followed)] == [4 + 4 + 4 + 2 + 2, 1 + 1 + 4 + 2 + 2]


PROGRAMS["grown"] = """
import torch

class Rotary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.longest = 0

    def forward(self, x):
        if x.shape[1] > self.longest:
            self.longest = x.shape[1]
            self.table = torch.arange(float(self.longest))
        return x * self.table[: x.shape[1]]

rotary = Rotary()
compiled = torch.compile(rotary, backend="eager")
# BEFORE
for n in (4, 6, 5, 9, 12):
    compiled(torch.ones(2, n))
"""


def test_a_table_that_grows_is_made_by_one_call_in_eager(report: Json, tmp_path: Path) -> None:
    """Each call finds another length than the one before it left, and is compiled; afterwards two sizes are."""
    plain = PROGRAMS["grown"]
    (finding,) = (each for each in of(report, "grown") if "`self.longest` changed" in each["title"])
    assert "call once in eager" in finding["advice"] and "largest input" in finding["advice"]
    eager = plain.replace("# BEFORE", "rotary(torch.ones(2, 12))")
    assert [graphs(each, tmp_path) for each in (plain, eager)] == [5, 2]


PROGRAMS["calibrated"] = """
import torch

class Quantised(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.largest = 0.0
        self.register_buffer("weights", torch.ones(rows, columns))

    def forward(self, x):
        largest = x.abs().max().item()
        if largest > self.largest:
            self.largest = largest
        return x @ self.weights / self.largest

net = torch.compile(torch.nn.Sequential(Quantised(4, 6), Quantised(6, 2)), backend="eager")
with torch.no_grad():
    for scale in (1.0, 2.0, 1.5, 3.0):
        net(scale * torch.ones(2, 4))
"""

PROGRAMS["calibrated_alone"] = PROGRAMS["calibrated"].replace(
    "torch.nn.Sequential(Quantised(4, 6), Quantised(6, 2))", "Quantised(4, 6)"
)


def test_other_modules_behind_a_break_and_a_question_about_what_it_leaves_are_told(report: Json) -> None:
    """Nothing about the sizes changes between calls; `largest > self.largest` has another answer than before."""
    found = of(report, "calibrated")
    modules = [each for each in found if "different modules" in each["title"]]
    assert [each["severity"] for each in modules] == ["info"]
    assert not any("size" in each["title"] for each in found)
    alone = of(report, "calibrated_alone")
    left = [each for each in alone if "End the graph break" in each["advice"]]
    assert any(" > self.largest`" in each["title"] for each in left)
    assert not any("___stack" in str(each) or "Something changed" in each["title"] for each in (*found, *alone))


PROGRAMS["made_in_forward"] = """
import torch

class Spline(torch.nn.Module):
    def __init__(self, values):
        super().__init__()
        self.register_buffer("table", values[..., :3])

    def at(self, number):
        print(end="")
        return self.table[:, number]

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, values):
        spline = Spline(values)
        return self.linear(spline.at(0)).sum() + self.linear(spline.at(1)).sum()

net = torch.compile(Net(), backend="eager")
for rows in (8, 8, 5, 6, 7):
    net(torch.ones(rows, 4, 6))
"""


def test_of_a_module_that_each_call_makes_the_break_is_ended_first(report: Json, tmp_path: Path) -> None:
    """Without the break it is a part of the one graph: what is made anew needs no place in a constructor."""
    (table,) = (each for each in of(report, "made_in_forward") if "`self.table.size(0)`" in each["title"])
    assert table["advice"].startswith("End the break at net_made_in_forward.py:20 ")
    assert not any("different modules" in each["title"] for each in of(report, "made_in_forward"))
    plain = PROGRAMS["made_in_forward"]
    assert [graphs(each, tmp_path) for each in (plain, plain.replace('        print(end="")\n', ""))] == [10, 2]


PROGRAMS["numpy_of_sizes"] = """
import math
import numpy as np
import torch

def pieces(x):
    count = int(np.ceil(x.shape[0] / 64))
    return x * count

def whole(x):
    count = int(np.floor(x.shape[0] / 64))
    return x * count

def side(x):
    count = int(np.sqrt(x.shape[0]))
    return x * count

def levels(x):
    count = int(np.log2(x.shape[0]))
    return x * count

def nearest(x):
    count = int(np.round(x.shape[0] / 64))
    return x * count

for function in (pieces, whole, side, levels, nearest):
    compiled = torch.compile(function, backend="eager")
    for n in (100, 110, 90, 130):
        compiled(torch.ones(n, 2))
"""


def test_numpy_functions_of_sizes_are_named_with_those_that_keep_them_dynamic(report: Json, tmp_path: Path) -> None:
    """Marked, or compiled with `dynamic=True`, each size is compiled all the same."""
    plain = followed = PROGRAMS["numpy_of_sizes"]
    advice = " ".join(each["advice"] for each in of(report, "numpy_of_sizes"))
    assert "mark_dynamic" not in advice and "dynamic=True" not in advice
    for python, numpy in set(re.findall(r"Take `([\w.]+)` in the place of `([\w.]+)`", advice)):
        followed = followed.replace(f"{numpy}(", f"{python}(")
    assert "np." not in followed
    dynamic = plain.replace('backend="eager"', 'backend="eager", dynamic=True')
    assert [graphs(each, tmp_path) for each in (plain, dynamic, followed)] == [20, 20, 10]
