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


# A function of the same name as its section; the first call compiles it, every truth is one more compile.

SECTIONS = [
    Section(
        "crop",
        """
        @compiled(dynamic=False)
        def crop(batch):
            return batch + 1

        for batch in (torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 6)):
            crop(batch)
        """,
        (("shape", "batch.size()[1]", "4", "5"), ("shape", "batch.size()[1]", "5", "6")),
        3,
        "crop(batch)",
    ),
    Section(
        "flatten",
        """
        @compiled
        def flatten(grid):
            return grid.sum()

        for grid in (torch.ones(2, 4), torch.ones(4)):
            flatten(grid)
        """,
        (("rank", "grid", "2", "1"),),
        2,
        "flatten(grid)",
    ),
    Section(
        "turn",
        """
        @compiled
        def turn(matrix):
            return matrix * 2

        for matrix in (torch.ones(4, 6), torch.ones(6, 4).t()):
            turn(matrix)
        """,
        (("stride", "matrix.stride()[0]", "6", "1"),),
        2,
        "turn(matrix)",
    ),
    Section(
        "mean",
        """
        @compiled
        def mean(samples):
            return samples.mean()

        for samples in (torch.ones(4), torch.ones(4, dtype=torch.float64)):
            mean(samples)
        """,
        (("dtype", "samples", "Float", "Double"),),
        2,
        "mean(samples)",
    ),
    Section(
        "shift",
        """
        @compiled
        def shift(cloud):
            return cloud + 1

        for cloud in (torch.ones(4, device="meta"), torch.ones(4)):
            shift(cloud)
        """,
        (("device", "cloud", "Meta", "CPU"),),
        2,
        "shift(cloud)",
    ),
    Section(
        "weigh",
        """
        @compiled
        def weigh(weight):
            return weight * 3

        for weight in (torch.ones(4), torch.ones(4, requires_grad=True)):
            weigh(weight)
        """,
        (("requires_grad", "weight", "0", "1"),),
        2,
        "weigh(weight)",
    ),
    Section(
        "pay",
        """
        @compiled
        def pay(amount):
            return torch.ones(2) * amount

        for amount in (torch.tensor(1.5), 2.5):
            pay(amount)
        """,
        (("tensor_type", "amount", "a tensor", "<class 'float'>"),),
        2,
        "pay(amount)",
    ),
    Section(
        "repeat",
        """
        @compiled(dynamic=False)
        def repeat(count):
            return torch.ones(2) * count

        for count in (3, 4, 5, 6):
            repeat(count)
        """,
        (("value", "count", "3", "4"), ("value", "count", "4", "5"), ("value", "count", "5", "6")),
        4,
        "repeat(count)",
    ),
    Section(
        "fade",
        """
        @compiled(dynamic=False)
        def fade(rate):
            return torch.ones(2) * rate

        for rate in (0.5, 0.25):
            fade(rate)
        """,
        (("value", "rate", "0.5", "0.25"),),
        2,
        "fade(rate)",
    ),
    Section(
        "greet",
        """
        @compiled
        def greet(x, style, loud=False, mask=None):
            return x * len(style) + loud if mask is None else x * mask

        greet(torch.ones(2), "formal")
        greet(torch.ones(2), "warm")
        greet(torch.ones(2), "warm", True)
        greet(torch.ones(2), "warm", True, torch.ones(2))
        """,
        (
            ("value", "style", "'formal'", "'warm'"),
            ("value", "loud", "False", "True"),
            ("value", "mask", "None", "Tensor object"),
        ),
        4,
    ),
    Section(
        "Power.forward",
        """
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
        """,
        tuple(("module_attribute", "self.power", str(n), str(n + 1)) for n in (2, 3, 4)),
        4,
        "self.power = 2",
    ),
    Section(
        "apply",
        """
        def halve(x):
            return x / 2

        @compiled
        def apply(action):
            return action(torch.ones(3))

        for action in (torch.sin, torch.cos):
            apply(action)
        """,
        (("identity", "action", "sin", "cos"),),
        2,
    ),
    Section(
        "pick",
        """
        @compiled
        def pick(x, parts, options):
            return x * len(parts) + options.get("bias", 0)

        pick(torch.ones(2), [1], {"bias": 1})
        pick(torch.ones(2), [1, 2], {"bias": 1})
        pick(torch.ones(2), [1, 2], {"scale": 1})
        """,
        (
            ("container", "len(parts)", "1", "2"),
            ("container", "options", "'bias' in options", "'bias' not in options"),
        ),
        3,
    ),
    Section(
        "amplify",
        """
        GAIN = 1.5

        @compiled(dynamic=False)
        def amplify(signal):
            return signal * GAIN

        signal = torch.ones(3)
        for GAIN in (1.5, 2.5, 3.5):
            amplify(signal)
        """,
        (("global_variable", "GAIN", "1.5", "2.5"), ("global_variable", "GAIN", "2.5", "3.5")),
        3,
        "amplify(signal)",
    ),
    Section(
        "energy",
        """
        @compiled
        def energy(wave):
            return (wave * wave).sum()

        wave = torch.ones(3)
        energy(wave)
        with torch.no_grad():
            energy(wave)
        """,
        (("global_state", "grad_mode", "True", "False"),),
        2,
    ),
    Section(
        "train",
        """
        @compiled
        def train(wave):
            return (wave @ wave).sum()

        wave = torch.ones(3, 3)
        with torch.autocast("cpu"):
            train(wave)
        with torch.no_grad():
            train(wave)
        """,
        (("global_state", "grad_mode, autocast(cpu)_enabled", "True, True", "False, False"),),
        2,
    ),
    Section(
        "blend",
        """
        @compiled
        def blend(wave):
            return (wave @ wave).sum()

        wave = torch.ones(3, 3)
        blend(wave)
        with torch.autocast("cpu"):
            blend(wave)
        """,
        (("global_state", "autocast(cpu)_enabled", "False", "True"),),
        2,
        "blend(wave)",
    ),
    Section(
        "stack",
        """
        @compiled
        def stack(rows):
            return rows * 2 if rows.shape[0] <= 10 else rows

        for rows in (torch.ones(4, 2), torch.ones(5, 2), torch.ones(20, 2)):
            stack(rows)
        """,
        (
            ("shape", "rows.size()[0]", "4", "5"),
            ("symbolic", "rows.size()[0]", "2 <= rows.size()[0] <= 10", "20"),
        ),
        3,
    ),
    Section(
        "tail",
        """
        @compiled(dynamic=True)
        def tail(items):
            return items * 2

        for items in (torch.ones(4, 2), torch.ones(1, 2)):
            tail(items)
        """,
        (("symbolic", "items.size()[0]", "2 <= items.size()[0]", "1"),),
        2,
        "tail(items)",
    ),
    Section(
        "mix",
        """
        @compiled
        def mix(one, other):
            return one + other

        one = torch.ones(3)
        for other in (torch.zeros(3), one):
            mix(one, other)
        """,
        (("aliasing", "one, other", "different tensors", "one tensor"),),
        2,
        "mix(one, other)",
    ),
    Section(
        "scan",
        """
        @compiled(dynamic=False)
        def scan(sheet):
            return sheet + 1

        sheet = torch.ones(4, 2)
        scan(sheet)
        torch._dynamo.mark_dynamic(sheet, 0)
        scan(sheet)
        """,
        (("dynamic_marking", None, "unmarked", "marked dynamic"),),
        2,
    ),
    Section(
        "twice",
        """
        def twice(x):
            return x * 2

        for backend in ("eager", "aot_eager"):
            compiled(twice, backend=backend)(torch.ones(2))
        """,
        (("backend", "backend", "eager", "aot_eager"),),
        2,
    ),
    Section(
        "encode",
        """
        @compiled(dynamic=False)
        def encode(tokens):
            hidden = tokens + 1
            torch._dynamo.graph_break()
            hidden = hidden * 2
            torch._dynamo.graph_break()
            return hidden.sum()

        for tokens in (torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 6)):
            encode(tokens)
        """,
        tuple(
            ("shape", f"{name}.size()[1]", str(n), str(n + 1))
            for n in (4, 5)
            for name in ("tokens", "hidden", "hidden")
        ),
        9,
        "encode(tokens)",
        changes=2,
    ),
    Section(
        "paint",
        """
        torch._dynamo.config.recompile_limit = 3

        @compiled
        def paint(canvas, brush):
            return canvas * len(brush)

        for brush in ("oil", "ink", "chalk", "coal"):
            paint(torch.ones(2), brush)
        torch._dynamo.config.recompile_limit = 8
        """,
        (
            ("value", "brush", "'oil'", "'ink'"),
            ("value", "brush", "'ink'", "'chalk'"),
            ("limit", "brush", "'chalk'", "'coal'"),
        ),
        3,
    ),
]  # fmt: skip

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
