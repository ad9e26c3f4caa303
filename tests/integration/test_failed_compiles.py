"""A compile that fails: the line of the program, whether eager raises it too, and what helps when it is followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import explain, plain_python

# The second batch is a slice along the last dimension: `view` has no answer for it, compiled or not.
OF_THE_PROGRAM = """
import torch

def flat(table):
    return table.view(-1)

@torch.compile(backend="eager")
def total(table):
    return flat(table).sum()

total(torch.ones(3, 8))
total(torch.ones(3, 8)[:, :5])
"""
# An operator without a fake runs in eager alone; it is called under autocast and in inference mode.
OF_DYNAMO = """
import torch

@torch.library.custom_op("tests::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x / 2

def scaled(x):
    y = halved(x)
    return y + 1

net = torch.nn.Linear(4, 4)
run = torch.compile(lambda x: scaled(net(x)), backend="eager")
with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
    run(torch.ones(2, 4, dtype=torch.bfloat16))
"""
# A write into a view of strides that AOTAutograd does not write back through.
OF_BACKEND = """
import torch

def split(x, mask):
    v = (x @ x.mT).view(1, 8, 4, 2).permute(0, 2, 1, 3)
    v, _ = v[:, :4], v[:, 4:]
    v.masked_fill_(~mask[:, None, :, None], 0.0)
    return v

net = torch.nn.Linear(8, 8)
run = torch.compile(lambda x, mask: split(net(x), mask), backend="aot_eager")
run(torch.randn(1, 8, 8), torch.ones(1, 8).bool()).sum().backward()
"""


@pytest.mark.parametrize(
    ("program", "line", "function", "eager"),
    [
        (OF_BACKEND, "    v.masked_fill_(~mask[:, None, :, None], 0.0)", "split", ""),
        (OF_THE_PROGRAM, "    return table.view(-1)", "flat", "RuntimeError: view size is not compatible"),
        (OF_DYNAMO, "    y = halved(x)", "scaled", ""),
    ],
)
def test_the_line_that_fails_and_how_eager_ended(
    tmp_path: Path, program: str, line: str, function: str, eager: str
) -> None:
    (tmp_path / "net.py").write_text(program, encoding="utf-8")
    ended, report = explain("net.py", cwd=tmp_path)
    assert ended.status == 3
    (failed,) = [each for each in report["compilations"] if each["status"] == "failed"]
    failure, (finding,) = failed["failure"], [each for each in report["findings"] if each["rule"] == "compile-failed"]
    at = program.splitlines().index(line) + 1
    for place in (failure["location"], finding["location"], report["outcome"]["raised_at"]):
        assert (Path(place["file"]).name, place["line"]) == ("net.py", at)
    assert failure["location"]["function"] == function
    assert failure["eager"] is not None and failure["eager"].startswith(eager) and bool(failure["eager"]) == bool(eager)


def test_a_call_with_effects_is_not_made_again(tmp_path: Path) -> None:
    write = 'def flat(table):\n    open("log", "a", 1).write("called\\n")'
    (tmp_path / "net.py").write_text(OF_THE_PROGRAM.replace("def flat(table):", write), encoding="utf-8")
    log = tmp_path / "log"
    plain_python("net.py", cwd=tmp_path, check=False)
    plain = log.read_text()
    log.unlink()
    _, report = explain("net.py", cwd=tmp_path)
    failures = [each["failure"] for each in report["compilations"] if each["failure"]]
    assert [each["eager"] for each in failures] == [None] * len(failures)
    assert failures and log.read_text() == plain


def test_what_the_end_of_the_program_makes_fail_is_no_error_of_eager(tmp_path: Path) -> None:
    """The call is made again when its loop is over: another error than that of the compile says nothing about eager."""
    over = """
def halved_in_loop(x, loop=[True]):
    if not loop:
        raise LookupError("the loop is over")
    return halved(x)
"""
    program = OF_DYNAMO.replace("def scaled", f"{over}\ndef scaled").replace("y = halved(x)", "y = halved_in_loop(x)")
    ended = program.replace("    run(torch", "    try:\n        run(torch") + (
        "    finally:\n        halved_in_loop.__defaults__[0].clear()\n"
    )
    (tmp_path / "net.py").write_text(ended, encoding="utf-8")
    _, report = explain("net.py", cwd=tmp_path)
    failures = [each["failure"] for each in report["compilations"] if each["failure"]]
    assert failures and [each["eager"] for each in failures] == [None] * len(failures)


def test_a_write_that_a_backend_fails_at_is_named_and_its_result_as_a_new_tensor_helps(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OF_BACKEND, encoding="utf-8")
    _, report = explain("net.py", cwd=tmp_path)
    (finding,) = [each for each in report["findings"] if each["rule"] == "compile-failed"]
    assert "`masked_fill`" in finding["advice"] and "aot_eager" in finding["title"]
    (tmp_path / "net.py").write_text(OF_BACKEND.replace("v.masked_fill_(", "v = v.masked_fill("), encoding="utf-8")
    ended, report = explain("net.py", cwd=tmp_path)
    assert ended.status == 0 and [each["status"] for each in report["compilations"]] == ["compiled"]


def test_leaving_the_function_out_helps(tmp_path: Path) -> None:
    followed = OF_DYNAMO.replace("def scaled", "@torch.compiler.disable\ndef scaled")
    (tmp_path / "net.py").write_text(followed, encoding="utf-8")
    ended, report = explain("net.py", cwd=tmp_path)
    assert ended.status == 0
    assert {each["status"] for each in report["compilations"]} <= {"compiled", "broken"}


# One request is refused, and those after it are new sizes.
RAISES_ONCE = """
import torch
from torch._dynamo.utils import counters

@torch.compile(backend="eager", dynamic=False)
def serve(batch):
    if batch.shape[0] > 3:
        raise ValueError("too many")
    return batch * 2

for rows in (1, 5, 2, 3):
    try:
        serve(torch.ones(rows, 4))
    except ValueError:
        print("refused", rows)
print("GRAPHS", counters["stats"]["unique_graphs"])
"""
_CHECK = '    if batch.shape[0] > 3:\n        raise ValueError("too many")\n'
CHECKED_BEFORE = RAISES_ONCE.replace(_CHECK, "").replace("        serve(", "        check(rows)\n        serve(")
CHECKED_BEFORE = CHECKED_BEFORE.replace(
    "for rows", f"def check(rows):\n{_CHECK}\nfor rows".replace("batch.shape[0]", "rows")
)


def test_a_function_that_raised_is_compiled_no_more_and_the_advice_helps(tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    graphs = {}
    for text in (RAISES_ONCE, CHECKED_BEFORE):
        program.write_text(text)
        _, report = explain("serve.py", "--no-bench", cwd=tmp_path)
        found = [each for each in report["findings"] if each["rule"] == "raised-while-traced"]
        graphs[len(found)] = int(plain_python("serve.py", cwd=tmp_path).stdout.rpartition("GRAPHS")[2])
        line = text.splitlines().index('        raise ValueError("too many")') + 1 if found else 0
        assert [each["location"]["line"] for each in found] == [line] * len(found)
        assert not report["graph_breaks"]
    assert graphs == {1: 1, 0: 3}


# A backend for fixed sizes, as those that make an engine of a graph are.
OF_SIZES = """
import torch

def engine(graph, inputs):
    if any(isinstance(each, torch.SymInt) for each in inputs):
        raise TypeError("an engine has fixed sizes")
    return graph

@torch.compile(backend=engine)
def doubled(x):
    return (x * 2).sum()

for length in (8, 9, 10):
    print(doubled(torch.ones(length)))
"""


def test_a_size_that_cannot_be_dynamic_is_compiled_by_itself_and_not_marked(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OF_SIZES, encoding="utf-8")
    ended, report = explain("net.py", cwd=tmp_path)
    assert ended.status == 3
    told = {each["rule"]: each for each in report["findings"]}
    assert "recompile" not in told and [each["id"] for each in report["recompiles"]] == ["r1"]
    failed = told["compile-failed"]
    assert "r1" in failed["evidence"] and "8 to 9" in failed["advice"] and "dynamic=False" in failed["advice"]
    followed = OF_SIZES.replace("backend=engine", "backend=engine, dynamic=False")
    (tmp_path / "net.py").write_text(followed, encoding="utf-8")
    assert len(plain_python("net.py", cwd=tmp_path).stdout.split()) == 3


# Dynamo asks an object of the program for its length, to guard it.
OF_AN_OBJECT = """
import torch

class Parts(tuple):
    def __len__(self):
        raise TypeError("no length")  # here

parts = Parts([1, 2])

def total(given):
    return sum(each for each in given)

@torch.compile(backend="eager")
def scaled(x):
    return x * (total(parts) if isinstance(parts, Parts) else 0)

print(scaled(torch.ones(3)))
"""


def test_a_line_that_dynamo_ran_itself_and_that_raised_is_told(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(OF_AN_OBJECT, encoding="utf-8")
    _, report = explain("net.py", "--no-bench", cwd=tmp_path)
    (failed,) = [each for each in report["findings"] if each["rule"] == "compile-failed"]
    line = next(number for number, text in enumerate(OF_AN_OBJECT.splitlines(), 1) if text.endswith("# here"))
    assert failed["location"]["line"] == line and f"net.py:{line}" in failed["advice"]
    followed = OF_AN_OBJECT.replace("total(parts) if isinstance(parts, Parts) else 0", "FACTOR")
    (tmp_path / "net.py").write_text(followed.replace("@torch.compile", "FACTOR = total(parts)\n\n@torch.compile"))
    assert "3." in plain_python("net.py", cwd=tmp_path).stdout
