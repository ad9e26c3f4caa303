"""Programs that end because they are compiled: the line, and the advice, which is followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import explain, plain_python

TWICE = """
import torch

net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4))
run = torch.compile(net, backend="inductor")
run(torch.ones(2, 4)).sum().backward()
out = run(torch.ones(2, 4))
torch.autograd.grad(out.sum(), net[0].weight, retain_graph=True)
out.sum().backward()
"""
OF_A_GRADIENT = """
import torch

critic = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
run = torch.compile(critic, backend="aot_eager")
x = torch.ones(2, 4, requires_grad=True)
run(x.detach()).sum().backward()
grad = torch.autograd.grad(run(x).sum(), x, create_graph=True)[0]
grad.norm().backward()
"""
OF_TWO_NETS = """
import torch

make, judge = torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def train(x):
    fake = torch.tanh(make(x))
    judge(fake.detach()).mean().backward()
    judge(fake).mean().backward()


torch.compile(train, backend="aot_eager")(torch.ones(3, 2))
"""
LOADED = """
import torch

net, fresh = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
run = torch.compile(net, backend="eager")
run(torch.ones(1, 2))
fresh.load_state_dict(run.state_dict())
"""


@pytest.mark.parametrize(
    ("program", "rule", "line", "changes"),
    [
        (OF_A_GRADIENT, "compiled-backward", "grad.norm().backward()", {"grad(run(x)": "grad(critic(x)"}),
        (
            OF_TWO_NETS, "compiled-backward", "    judge(fake).mean().backward()",
            {
                'torch.compile(train, backend="aot_eager")': "train",
                "\n\n\ndef": '\nmake.compile(backend="aot_eager")\njudge.compile(backend="aot_eager")\n\n\ndef',
            },
        ),
        (
            LOADED, "compiled-state-dict", "fresh.load_state_dict(run.state_dict())",
            {'run = torch.compile(net, backend="eager")': 'net.compile(backend="eager")\nrun = net'},
        ),
    ],
)  # fmt: skip
def test_the_line_of_the_program_and_what_helps(
    tmp_path: Path, program: str, rule: str, line: str, changes: dict[str, str]
) -> None:
    file = tmp_path / "net.py"
    file.write_text(program, encoding="utf-8")
    ended, report = explain("net.py", cwd=tmp_path)
    assert ended.status == 3
    (finding,) = [each for each in report["findings"] if each["rule"] == rule]
    at = program.splitlines().index(line) + 1
    for place in (finding["location"], report["outcome"]["raised_at"]):
        assert (Path(place["file"]).name, place["line"]) == ("net.py", at)
    for before, after in changes.items():
        assert before in program
        program = program.replace(before, after)
    file.write_text(program, encoding="utf-8")
    plain_python("net.py", cwd=tmp_path)


def test_a_backward_that_runs_twice(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(TWICE, encoding="utf-8")
    _, report = explain("net.py", cwd=tmp_path)
    (finding,) = [each for each in report["findings"] if each["rule"] == "compiled-backward"]
    assert finding["location"]["line"] == TWICE.splitlines().index(
        "torch.autograd.grad(out.sum(), net[0].weight, retain_graph=True)"
    ) + 1  # fmt: skip
    mended = TWICE.replace("import torch\n", f"import torch\n{finding['detail']['config']}\n", 1)
    (tmp_path / "net.py").write_text(mended, encoding="utf-8")
    plain_python("net.py", cwd=tmp_path)


COMPARES = """
import torch


def doubled(x):
    if x.shape[0] == 7:
        return x * 2
    return x + 1


run = torch.compile(doubled, backend="eager")
for length in (7, 5, 9):
    x = torch.ones(length, 3)
    run(x)
"""


def test_a_size_that_is_compared_with_a_number_is_not_told_to_be_marked(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(COMPARES, encoding="utf-8")
    _, report = explain("net.py", cwd=tmp_path)
    (finding,) = [each for each in report["findings"] if each["rule"] == "recompile"]
    assert finding["location"]["line"] == COMPARES.splitlines().index("    if x.shape[0] == 7:") + 1
    assert "`torch._dynamo.maybe_mark_dynamic(x, 0)`" in finding["advice"]
    for mark, ends in (("mark_dynamic", False), ("maybe_mark_dynamic", True)):
        file.write_text(COMPARES.replace("    run(x)", f"    torch._dynamo.{mark}(x, 0)\n    run(x)"), encoding="utf-8")
        assert (plain_python("net.py", cwd=tmp_path, check=False).status == 0) is ends
