"""Which functions of a script are compiled in the place of a model that they call through torch.func."""

from __future__ import annotations

from textwrap import dedent

import pytest

from dynalyze.capture.transforms import names_in

HEAD = "import torch\nimport torch.func as F\nfrom torch.func import functional_call, grad as gradient, vmap\n"
LOSS = "def loss(p, x):\n    return functional_call(net, p, x)"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def score(p, x):\n    return vmap(lambda row: functional_call(net, p, (row,)))(x)", ["score"]),
        ("def score(p, x):\n    return F.jacrev(net)(x)", ["score"]),
        ("def score(p, x):\n    return torch.vmap(net)(x)", ["score"]),
        ("def score(p, x):\n    return torch.func.hessian(net)(x)", ["score"]),
        (f"{LOSS}\neach = vmap(gradient(loss))", ["each"]),
        (f"{LOSS}\ndef adapt(p, x):\n    return gradient(loss)(p, x)", ["adapt"]),
        ("class Meta:\n    def adapt(self, x):\n        return vmap(self.one)(x)", ["Meta.adapt"]),
        ("if __name__ == '__main__':\n    each = vmap(net)", ["each"]),
        ("def adapt(p):\n    for _ in range(5):\n        p = gradient(loss)(p)\n    return p", ["adapt"]),
        # A transform is not what it is called, an output is no function, a module is compiled as a whole.
        ("def score(x):\n    return torch.autograd.grad(net(x), x)", []),
        ("def score(x):\n    return x.grad", []),
        ("y = functional_call(net, p, x)", []),
        ("class Net(torch.nn.Module):\n    def forward(self, x):\n        return vmap(self.one)(x)", []),
        # The loop of a program is no step of it.
        ("def train(p, x):\n    loss = functional_call(net, p, x)\n    loss.backward()", []),
        ("def train(p, loader):\n    for x in loader:\n        p = gradient(loss)(p, x)", []),
        ("def train(p, x):\n    for _ in range(1000):\n        p = gradient(loss)(p, x)", []),
        ("def train(p, x):\n    while True:\n        p = gradient(loss)(p, x)", []),
        # It compiles by itself, or is no Python.
        ("def score(p, x):\n    return vmap(net)(x)\nfast = torch.compile(score)", []),
        ("def score(:", []),
    ],
)  # fmt: skip
def test_the_outermost_functions_that_transform(source: str, names: list[str]) -> None:
    assert names_in(HEAD + dedent(source)) == names
