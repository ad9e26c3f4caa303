"""A program in sections, each with one planted change between calls, and what is true of it.

`call` is the line of the program that a caller would change. Names in NAMES are other ones in the mutated copy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from textwrap import dedent, indent

Truth = tuple[str, str | None, str | None, str | None]
"""Cause, source, expected, actual of one recompile."""

HEADER = '''
import torch
from torch import nn
from torch._dynamo.utils import counters


def compiled(function=None, **options):
    if function is None:
        return lambda function: compiled(function, **options)
    return torch.compile(function, **{"backend": "eager", **options})


def tell(section):
    """The compiled graphs of a section, and a fresh start for the next one."""
    print(f"@ {section} {counters['stats']['unique_graphs']}", flush=True)
    counters.clear()
    torch._dynamo.reset()
'''


@dataclass(frozen=True)
class Section:
    """`graphs` is how many graphs the program compiles as it stands."""

    name: str
    code: str
    truths: tuple[Truth, ...]
    graphs: int
    call: str = ""
    changes: int | None = None

    @property
    def source(self) -> str:
        return f"{dedent(self.code).strip()}\n\ntell({self.name!r})\n"


def program(sections: list[Section]) -> str:
    return HEADER + "\n\n" + "\n\n".join(section.source for section in sections)


# `=== name, graphs, changes: call`, its truths, and the code: a function of the same name as its section. The first
# call compiles it, every truth is one more compile.
_SECTIONS = """
=== crop, 3 graphs: crop(batch)
! shape | batch.size()[1] | 4 | 5
! shape | batch.size()[1] | 5 | 6
@compiled(dynamic=False)
def crop(batch):
    return batch + 1

for batch in (torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 6)):
    crop(batch)
=== flatten, 2 graphs: flatten(grid)
! rank | grid | 2 | 1
@compiled
def flatten(grid):
    return grid.sum()

for grid in (torch.ones(2, 4), torch.ones(4)):
    flatten(grid)
=== turn, 2 graphs: turn(matrix)
! stride | matrix.stride()[0] | 6 | 1
@compiled
def turn(matrix):
    return matrix * 2

for matrix in (torch.ones(4, 6), torch.ones(6, 4).t()):
    turn(matrix)
=== mean, 2 graphs: mean(samples)
! dtype | samples | Float | Double
@compiled
def mean(samples):
    return samples.mean()

for samples in (torch.ones(4), torch.ones(4, dtype=torch.float64)):
    mean(samples)
=== shift, 2 graphs: shift(cloud)
! device | cloud | Meta | CPU
@compiled
def shift(cloud):
    return cloud + 1

for cloud in (torch.ones(4, device="meta"), torch.ones(4)):
    shift(cloud)
=== weigh, 2 graphs: weigh(weight)
! requires_grad | weight | 0 | 1
@compiled
def weigh(weight):
    return weight * 3

for weight in (torch.ones(4), torch.ones(4, requires_grad=True)):
    weigh(weight)
=== pay, 2 graphs: pay(amount)
! tensor_type | amount | a tensor | <class 'float'>
@compiled
def pay(amount):
    return torch.ones(2) * amount

for amount in (torch.tensor(1.5), 2.5):
    pay(amount)
=== repeat, 4 graphs: repeat(count)
! value | count | 3 | 4
! value | count | 4 | 5
! value | count | 5 | 6
@compiled(dynamic=False)
def repeat(count):
    return torch.ones(2) * count

for count in (3, 4, 5, 6):
    repeat(count)
=== fade, 2 graphs: fade(rate)
! value | rate | 0.5 | 0.25
@compiled(dynamic=False)
def fade(rate):
    return torch.ones(2) * rate

for rate in (0.5, 0.25):
    fade(rate)
=== greet, 4 graphs
! value | style | 'formal' | 'warm'
! value | loud | False | True
! value | mask | None | Tensor object
@compiled
def greet(x, style, loud=False, mask=None):
    return x * len(style) + loud if mask is None else x * mask

greet(torch.ones(2), "formal")
greet(torch.ones(2), "warm")
greet(torch.ones(2), "warm", True)
greet(torch.ones(2), "warm", True, torch.ones(2))
=== Power.forward, 4 graphs: self.power = 2
! module_attribute | self.power | 2 | 3
! module_attribute | self.power | 3 | 4
! module_attribute | self.power | 4 | 5
class Power(nn.Module):
    def __init__(self):
        super().__init__()
        self.power = 2

    def forward(self, x):
        return x * self.power

model = Power()
run = compiled(model)
for value in (2, 3, 4, 5):
    model.power = value
    run(torch.ones(3))
=== apply, 2 graphs
! identity | action | sin | cos
def halve(x):
    return x / 2

@compiled
def apply(action):
    return action(torch.ones(3))

for action in (torch.sin, torch.cos):
    apply(action)
=== pick, 3 graphs
! container | len(parts) | 1 | 2
! container | options | 'bias' in options | 'bias' not in options
@compiled
def pick(x, parts, options):
    return x * len(parts) + options.get("bias", 0)

pick(torch.ones(2), [1], {"bias": 1})
pick(torch.ones(2), [1, 2], {"bias": 1})
pick(torch.ones(2), [1, 2], {"scale": 1})
=== amplify, 3 graphs: amplify(signal)
! global_variable | GAIN | 1.5 | 2.5
! global_variable | GAIN | 2.5 | 3.5
GAIN = 1.5

@compiled(dynamic=False)
def amplify(signal):
    return signal * GAIN

signal = torch.ones(3)
for GAIN in (1.5, 2.5, 3.5):
    amplify(signal)
=== average, 4 graphs
! value | BOOK.total | missing | present
! global_variable | BOOK.seen | 1 | 2
! global_variable | BOOK.seen | 2 | 3
class Book:
    seen = 0

    def add(self, wave):
        if not hasattr(self, "total"):
            self.total = torch.zeros_like(wave)
        self.seen += 1
        self.total.add_(wave)
        return self.total / self.seen

BOOK = Book()

@compiled
def average(wave):
    return BOOK.add(wave)

for _ in range(4):
    average(torch.ones(3))
=== energy, 2 graphs
! global_state | grad_mode | True | False
@compiled
def energy(wave):
    return (wave * wave).sum()

wave = torch.ones(3)
energy(wave)
with torch.no_grad():
    energy(wave)
=== train, 2 graphs
! global_state | grad_mode, autocast(cpu)_enabled | True, True | False, False
@compiled
def train(wave):
    return (wave @ wave).sum()

wave = torch.ones(3, 3)
with torch.autocast("cpu"):
    train(wave)
with torch.no_grad():
    train(wave)
=== blend, 2 graphs: blend(wave)
! global_state | autocast(cpu)_enabled | False | True
@compiled
def blend(wave):
    return (wave @ wave).sum()

wave = torch.ones(3, 3)
blend(wave)
with torch.autocast("cpu"):
    blend(wave)
=== stack, 3 graphs
! shape | rows.size()[0] | 4 | 5
! symbolic | rows.size()[0] | 2 <= rows.size()[0] <= 10 | 20
@compiled
def stack(rows):
    return rows * 2 if rows.shape[0] <= 10 else rows

for rows in (torch.ones(4, 2), torch.ones(5, 2), torch.ones(20, 2)):
    stack(rows)
=== tail, 2 graphs: tail(items)
! symbolic | items.size()[0] | 2 <= items.size()[0] | 1
@compiled(dynamic=True)
def tail(items):
    return items * 2

for items in (torch.ones(4, 2), torch.ones(1, 2)):
    tail(items)
=== tile, 2 graphs: tile(board)
! symbolic | board.size()[1] | board.size()[0] | 7
@compiled(dynamic=True)
def tile(board):
    return board.relu() * 2

for board in (torch.ones(8, 8), torch.ones(9, 9), torch.ones(5, 7), torch.ones(6, 3)):
    tile(board)
=== mix, 2 graphs: mix(one, other)
! aliasing | one, other | different tensors | one tensor
@compiled
def mix(one, other):
    return one + other

one = torch.ones(3)
for other in (torch.zeros(3), one):
    mix(one, other)
=== scan, 2 graphs
! dynamic_marking | ~ | unmarked | marked dynamic
@compiled(dynamic=False)
def scan(sheet):
    return sheet + 1

sheet = torch.ones(4, 2)
scan(sheet)
torch._dynamo.mark_dynamic(sheet, 0)
scan(sheet)
=== twice, 2 graphs
! backend | backend | eager | aot_eager
def twice(x):
    return x * 2

for backend in ("eager", "aot_eager"):
    compiled(twice, backend=backend)(torch.ones(2))
=== encode, 9 graphs, 2 changes: encode(tokens)
! shape | tokens.size()[1] | 4 | 5
! shape | hidden.size()[1] | 4 | 5
! shape | hidden.size()[1] | 4 | 5
! shape | tokens.size()[1] | 5 | 6
! shape | hidden.size()[1] | 5 | 6
! shape | hidden.size()[1] | 5 | 6
@compiled(dynamic=False)
def encode(tokens):
    hidden = tokens + 1
    torch._dynamo.graph_break()
    hidden = hidden * 2
    torch._dynamo.graph_break()
    return hidden.sum()

for tokens in (torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 6)):
    encode(tokens)
=== paint, 3 graphs
! value | brush | 'oil' | 'ink'
! value | brush | 'ink' | 'chalk'
! limit | brush | 'chalk' | 'coal'
torch._dynamo.config.recompile_limit = 3

@compiled
def paint(canvas, brush):
    return canvas * len(brush)

for brush in ("oil", "ink", "chalk", "coal"):
    paint(torch.ones(2), brush)
torch._dynamo.config.recompile_limit = 8
"""


def _section(text: str) -> Section:
    head, *lines = text.strip().splitlines()
    numbers, _, call = head.partition(": ")
    name, graphs, *changes = numbers.split(", ")
    told = [line[2:].split(" | ") for line in lines if line.startswith("! ")]
    truths = tuple(tuple(None if word == "~" else word for word in words) for words in told)
    code = "\n".join(lines[len(told) :])
    number = int(changes[0].split()[0]) if changes else None
    return Section(name, code, truths, int(graphs.split()[0]), call, number)  # type: ignore[arg-type]


SECTIONS = [_section(text) for text in _SECTIONS.split("\n=== ")[1:]]

NAMES = {
    "batch": "frames", "grid": "plane", "matrix": "table", "samples": "ticks", "cloud": "points", "weight": "mass",
    "amount": "price", "count": "laps", "rate": "decay", "style": "tone", "loud": "shout", "mask": "keep",
    "power": "degree", "action": "step", "parts": "pieces", "options": "knobs", "GAIN": "VOLUME", "signal": "tape",
    "wave": "curve", "rows": "lines", "items": "things", "one": "left", "other": "right", "sheet": "page_of_text",
    "brush": "pen", "tokens": "words", "crop": "trim", "hidden": "inner", "model": "net",
}  # fmt: skip
_NAME = re.compile(r"(?<![.'\"\w])(?:" + "|".join(NAMES) + r")\b(?!\s*=\s*['\"]meta)")


def renamed(text: str) -> str:
    """`text` with other names. Attributes are renamed where they are the program's own."""
    text = _NAME.sub(lambda found: NAMES[found[0]], text)
    return re.sub(r"\b(self|net)\.power\b", r"\1.degree", text)


def mutated(section: Section, lines: int) -> Section:
    """The section under other names, further down, in a block of its own."""
    code = renamed(dedent(section.code).strip())
    moved = "".join(f"# {number}\n" for number in range(lines)) + f"if True:\n{indent(code, '    ')}\n"
    truths = tuple(
        (cause, source and _truth(source), expected and _truth(expected), actual and _truth(actual))
        for cause, source, expected, actual in section.truths
    )
    return replace(section, code=moved, truths=truths, call=renamed(section.call), name=renamed(section.name))


def _truth(text: str) -> str:
    """Values stay as they are; conditions and sources name variables."""
    return text if text in ("one tensor", "different tensors") else renamed(text)
