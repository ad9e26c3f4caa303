"""Methods of a compiled model that ran in eager: which are told, and that the advice compiles them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from many_programs import graphs, of, together

_NET = """
import torch
from torch import nn


def in_eval(method):
    def inner(self, *given):
        self.eval()
        return method(self, *given)

    return inner


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4)
        self.loss = 0.0

    def forward(self, x):
        return self.last(self.first(x))

    @torch.no_grad()
    def generate(self, x, steps):
        for _ in range(steps):
            x = self(x)
        return x

    def encode(self, x):
        return self.first(x) * 2

    def training_step(self, batch):
        loss = self(batch).square().mean()
        self.loss = float(loss)
        return loss

    def in_pieces(self, x):
        return torch.cat([self.last(piece) for piece in x.split(1)])

    @in_eval
    def sample(self, x):
        return self.first(x) + 1

    def size(self):
        return sum(each.numel() for each in self.parameters())

    def call_other(self, x):
        return OTHER(x)


x = torch.ones(2, 4)
"""

TOLD = {
    "generate": (
        "model = Net()\nmodel = torch.compile(model, backend='eager')\nmodel(x)\nmodel.generate(x, steps=5)  # here\n",
        {"": 5},
    ),
    "nothing_else": (
        "class Speaker(Net):\n    pass\n\n\n"
        "model = torch.compile(Speaker(), backend='eager', dynamic=False)\n"
        "model.generate(\n    x,  # here\n    steps=5,\n)\n",
        {"": 5},
    ),
    "encode": (
        "net = Net()\ncompiled = torch.compile(net, backend='eager')\ncompiled(x)\ncompiled.encode(x)  # here\n",
        {"first": 1},
    ),
    "training": (
        "net = Net()\n"
        "class Trainer:\n"
        "    def fit(self, batches):\n"
        "        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "        for batch in batches:\n"
        "            self.model.training_step(batch).backward()  # here\n"
        "            optimizer.step()\n"
        "trainer = Trainer()\n"
        "trainer.model = torch.compile(net, backend='eager')\n"
        "trainer.fit([x, x, x])\n",
        {"": 1},
    ),
    "decorated": (
        "model = torch.compile(Net(), backend='eager')\nmodel(x)\nmodel.sample(x)  # here\n",
        {"first": 1},
    ),
    "in_pieces": (
        "model = torch.compile(Net(), backend='eager')\nmodel(x)\nmodel.in_pieces(x)  # here\n",
        {"last": 2},
    ),
}

QUIET = {
    "no_module_is_called": (
        "net = Net()\nmodel = torch.compile(net, backend='eager')\nmodel(x)\n"
        "assert model.size() == 40 and model.size == net.size\n"
        "model.state_dict(), model.parameters(), model.to('cpu'), model.train(), model.eval()\n"
    ),
    "the_compiled_forward_runs": (
        "model = OTHER = torch.compile(Net(), backend='eager')\nmodel(x)\nmodel.call_other(x)\n"
    ),
    "compiled_in_place": (
        "net = Net()\nmodel = torch.compile(net, backend='eager')\nmodel(x)\nnet.compile(backend='eager')\n"
        "model.generate(x, 2)\n"
    ),
    "a_compiled_method": (
        "model = torch.compile(Net(), backend='eager')\n"
        "model.encode = torch.compile(model.encode, backend='eager')\nmodel.encode(x)\n"
    ),
    "inside_of_what_is_compiled": (
        "model = torch.compile(Net(), backend='eager')\n"
        "step = torch.compile(lambda x: model.encode(x) + 1, backend='eager', fullgraph=True)\nstep(x)\n"
    ),
    "on_the_original": (
        "net = Net()\nmodel = torch.compile(net, backend='eager')\nmodel(x)\n"
        "if hasattr(model, 'generate'):\n    net.generate(x, 2)\n"
    ),
    "eager_is_asked_for": (
        "model = torch.compile(Net(), backend='eager')\nmodel(x)\n"
        "with torch.compiler.set_stance('force_eager'):\n    model.generate(x, 2)\n"
    ),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    programs = {**{name: code for name, (code, _) in TOLD.items()}, **QUIET}
    return together(tmp_path_factory.mktemp("methods"), {name: _NET + code for name, code in programs.items()})


@pytest.mark.parametrize("name", TOLD)
def test_told_with_its_line_and_what_it_called(name: str, report: dict[str, Any]) -> None:
    code, parts = TOLD[name]
    [method] = of(report, name, "uncompiled_methods")
    [here] = [number for number, line in enumerate((_NET + code).splitlines(), 1) if "# here" in line]
    assert method["location"]["line"] == here - (name == "nothing_else")
    assert f".{method['method']}(" in (_NET + code).splitlines()[method["location"]["line"] - 1]
    assert {part["path"]: part["calls"] for part in method["parts"]} == parts
    assert [each["rule"] for each in of(report, name)] == ["uncompiled-method"]


@pytest.mark.parametrize("name", TOLD)
def test_the_advice_compiles_it(name: str, report: dict[str, Any], tmp_path: Path) -> None:
    code = _NET + TOLD[name][0].replace("(\n    x,  # here\n    steps=5,\n)", "(x, steps=5)")
    [finding] = of(report, name)
    example = finding["detail"]["example"]
    assert code.count(example["before"]) == 1
    changed = code.replace(example["before"], example["after"])
    (tmp_path / "followed").mkdir()
    assert graphs(changed, tmp_path) > graphs(code, tmp_path)
    again = together(tmp_path / "followed", {"changed": changed})
    assert again["uncompiled_methods"] == [] and again["compilations"]


@pytest.mark.parametrize("name", QUIET)
def test_not_told(name: str, report: dict[str, Any]) -> None:
    assert of(report, name, "uncompiled_methods") == []
