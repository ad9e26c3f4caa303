"""The pytest plugin, by a real pytest on a real file: what passes, what fails, and what a failure shows."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from in_your_code import example
from program import Outcome, plain_python
from shared_runs import made_once

from limits import WALL_SECONDS

MODEL = '''
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        nn.init.constant_(self.layer.bias, 5.0)  # Twice nothing is nothing: relu must leave something.

    def forward(self, x, scale=1.0):
        return torch.relu(self.layer(x)) * scale


class Talking(Net):
    def forward(self, x):
        print("shape", x.shape)
        return torch.relu(self.layer(x))


def refuses(graph, inputs):
    raise RuntimeError("no kernel for relu")


def doubles(graph, inputs):
    return lambda *given: tuple(2 * each for each in graph.forward(*given))


def turns(graph, inputs):
    return lambda *given: tuple(each.t().contiguous().t() for each in graph.forward(*given))


class Hears(list):
    """A backend that notes how often it was asked: torch's own word on what was compiled."""

    def __call__(self, graph, inputs):
        self.append(graph)
        return graph.forward
'''

# Names begin with what has to become of the test.
TESTS = '''
import pytest
import torch
from torch._dynamo.utils import counters

from model import Hears, Net, Talking, doubles, refuses, turns

X = torch.ones(2, 4)
SIZES = [torch.ones(size, 4) for size in (2, 3, 5, 7)]


def test_passes_without_breaks(dynalyze):
    hears = Hears()
    seen = dynalyze.compiled_with(backend=hears).assert_no_graph_breaks(Net(), X, scale=2.0)
    assert len(hears) == len(seen.report.graphs) == 1 and not seen.graph_breaks


def test_fails_with_a_break(dynalyze):
    dynalyze.assert_no_graph_breaks(Talking(), X)


def test_passes_after_warmup(dynalyze):
    hears = Hears()
    dynalyze.compiled_with(backend=hears).assert_no_recompiles(Net(), SIZES, warmup=2)
    assert len(hears) == 2  # The first size, then any size.


def test_fails_for_a_second_size(dynalyze):
    dynalyze.assert_no_recompiles(Net(), *SIZES)


def test_fails_for_another_value(dynalyze):
    dynalyze.assert_no_recompiles(Net(), {"x": X, "scale": 2.0}, (X, 3.0))


def test_passes_with_dynamic_sizes(dynalyze):
    dynalyze.compiled_with(dynamic=True).assert_no_recompiles(Net(), *SIZES)


def test_fails_under_fullgraph(dynalyze):
    dynalyze.compiled_with(backend="eager").assert_compiles(Talking(), X)


def test_passes_where_breaks_are_allowed(dynalyze):
    dynalyze.compiled_with(backend="eager").assert_compiles(Talking(), X, fullgraph=False)


def test_fails_for_the_backend(dynalyze):
    dynalyze.compiled_with(backend=refuses).assert_compiles(Net(), X)


def test_fails_where_nothing_compiles(dynalyze):
    with torch.compiler.set_stance("force_eager"):
        dynalyze.assert_no_recompiles(Net(), X)


def test_passes_with_the_answers_of_eager(dynalyze):
    checks = dynalyze.compiled_with(backend="aot_eager")
    checks.assert_same_answers(Net(), X, scale=2.0, gradients=True)
    in_place = Net()
    in_place.compile(backend="aot_eager")
    dynalyze.assert_same_answers(in_place, X)
    checks.assert_same_answers(lambda x: x.relu(), X)


def test_fails_with_other_values(dynalyze):
    dynalyze.compiled_with(backend=doubles).assert_same_answers(Net(), X)


def test_fails_with_other_values_of_a_compiled_module(dynalyze):
    dynalyze.assert_same_answers(torch.compile(Net(), backend=doubles), X)


def test_fails_with_other_strides(dynalyze):
    dynalyze.compiled_with(backend=turns).assert_same_answers(Net(), X)


def test_fails_where_no_answers_are_compared(dynalyze):
    dynalyze.compiled_with(backend=refuses).assert_same_answers(Net(), X)


def test_fails_around_a_block_without_compiling(dynalyze):
    with dynalyze.assert_no_graph_breaks():
        Net()(X)


def test_fails_around_a_block_that_recompiles(dynalyze):
    model = torch.compile(Net(), backend="eager")
    model(X)
    with dynalyze.assert_no_recompiles():
        model(X)
    with dynalyze.assert_no_recompiles():
        model(SIZES[1])


def test_passes_around_a_block(dynalyze):
    with dynalyze.assert_compiles(fullgraph=True) as seen:
        torch.compile(Net(), backend="eager")(X)
    assert len(seen.report.compilations) == 1


def test_passes_with_the_errors_of_the_test_itself(dynalyze):
    def wrong(x):
        raise KeyError("theirs")

    with pytest.raises(KeyError, match="theirs"), dynalyze.assert_no_recompiles():
        wrong(X)
    with pytest.raises(TypeError, match="needs the inputs"):
        dynalyze.assert_no_recompiles(Net(), warmup=1)
    with pytest.raises(TypeError, match="name the function first"):
        dynalyze.assert_no_graph_breaks(scale=2.0)


def test_passes_with_a_function_of_another_test(dynalyze):
    """What is compiled elsewhere hides nothing here, and nothing of ours is met there."""
    hears = Hears()
    kept = torch.compile(Talking(), backend=hears)
    before = kept(X)
    with pytest.raises(AssertionError, match="1 graph break"):
        dynalyze.assert_no_graph_breaks(kept._orig_mod, X)
    counters.clear()
    torch.testing.assert_close(kept(X), before)
    assert len(hears) == 2 and not counters["recompiles"]  # As after any torch.compiler.reset(): once more, from anew.


def test_passes_with_a_function_that_is_compiled_already(dynalyze):
    hears = Hears()
    dynalyze.assert_no_graph_breaks(torch.compile(Net(), backend=hears), X)
    in_place = Net()
    in_place.compile(backend=hears)
    dynalyze.assert_no_graph_breaks(in_place, X)
    assert len(hears) == 2
'''


def plugin_arguments() -> list[str]:
    """None where the installed metadata names the plugin; an editable install of before does not."""
    entries = importlib.metadata.entry_points(group="pytest11")
    return [] if any(entry.value == "dynalyze.pytest_plugin" for entry in entries) else ["-p", "dynalyze.pytest_plugin"]


def run_pytest_forked(folder: Path, *arguments: str) -> Outcome:
    """With torch imported already; test_a_suite_that_does_not_use_it_imports_no_torch has what that cannot show."""
    script = "import sys, pytest\nsys.exit(pytest.main(sys.argv[1:]))\n"
    (folder / "run.py").write_text(script)
    ours = ("-W", "ignore:Module already imported", "-W", "ignore:unclosed <socket:ResourceWarning")
    given = ("-p", "no:cacheprovider", "-p", "no:xdist", *plugin_arguments(), *arguments, *ours)
    return plain_python("run.py", *given, cwd=folder, check=False)


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *plugin_arguments(), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=WALL_SECONDS,
    )  # fmt: skip


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made_once(tmp_path_factory, "suite", output_of_the_suite)


def output_of_the_suite(folder: Path) -> str:
    (folder / "model.py").write_text(MODEL)
    (folder / "test_net.py").write_text(TESTS)
    (folder / "test_documented.py").write_text(example("pytest"))
    # Importing Inductor warns on this torch.
    warns = ("-W", "error", "-W", "ignore:`torch.jit:DeprecationWarning")
    done = run_pytest_forked(folder, "-rA", *warns, "test_net.py", "test_documented.py")
    assert done.status == 1, done.stdout + done.stderr
    return done.stdout


def section(output: str, test: str) -> str:
    """What pytest shows of one failure."""
    found = re.search(rf"^_+ {test} _+$(.*?)^(?:_{{8,}}|={{8,}})", output, re.DOTALL | re.MULTILINE)
    assert found is not None, output
    return found[1]


def error_lines(text: str) -> str:
    return "\n".join(line[1:].strip() for line in text.splitlines() if line.startswith("E "))


def test_each_test_ends_as_its_name_says(output: str) -> None:
    ended = dict(reversed(pair) for pair in re.findall(r"^(PASSED|FAILED) test_net\.py::(\w+)", output, re.MULTILINE))
    assert set(ended) == set(re.findall(r"def (test_\w+)", TESTS))
    assert {name for name, result in ended.items() if name.startswith("test_passes") != (result == "PASSED")} == set()


def test_the_documented_example_passes(output: str) -> None:
    names = re.findall(r"def (test_\w+)", example("pytest"))
    passed = re.findall(r"^PASSED test_documented\.py::(\w+)", output, re.MULTILINE)
    assert len(names) == 5 and sorted(passed) == sorted(names)


@pytest.mark.parametrize(
    ("test", "parts"),
    [
        ("test_fails_with_a_break",
         ["1 graph break, expected none (model.py:18 in forward)", "GB0059", 'print("shape", x.shape)',
          "Splits the graph here.", "→ Return the value"]),
        ("test_fails_for_a_second_size",
         ["1 recompile, expected none", "`x.size(0)` changed from 2 to 3", "mark_dynamic(x, 0)"]),
        ("test_fails_for_another_value", ["`scale` changed from 2.0 to 3.0", "torch.tensor(scale)"]),
        ("test_fails_under_fullgraph", ["Compilation fails under fullgraph.", 'print("shape", x.shape)']),
        ("test_fails_for_the_backend", ["it does not compile", "RuntimeError: no kernel for relu"]),
        ("test_fails_with_other_values", ["compiled answers otherwise than eager", "its error against fp64 is"]),
        ("test_fails_with_other_values_of_a_compiled_module", ["its error against fp64 is"]),
        ("test_fails_with_other_strides", ["has stride (1, 2) in compiled, has stride (4, 1) in eager"]),
        ("test_fails_where_no_answers_are_compared", ["not comparable: Compiled fails", "no kernel for relu"]),
        ("test_fails_where_nothing_compiles", ["nothing was checked", "force_eager"]),
        ("test_fails_around_a_block_without_compiling", ["nothing was checked", "No compiled function was called"]),
        ("test_fails_around_a_block_that_recompiles", ["1 recompile, expected none", "changed from 2 to 3"]),
    ],
)  # fmt: skip
def test_a_failure_shows_line_cause_and_fix(output: str, test: str, parts: list[str]) -> None:
    said = error_lines(section(output, test))
    assert said.startswith("AssertionError: ")
    assert [part for part in parts if part not in said] == []


def test_a_failure_shows_no_line_of_ours_and_no_trace_of_torchs(output: str) -> None:
    for test in re.findall(r"^FAILED test_net\.py::(\w+)", output, re.MULTILINE):
        shown = section(output, test)
        assert "dynalyze/testing" not in shown
        # pytest 9.2 itself puts the trace of a compile outside of our assertions there.
        assert "torch.__trace" not in shown or test == "test_fails_around_a_block_that_recompiles"
        places = re.findall(r"^(\S+\.py):\d+: ", shown, re.MULTILINE)
        assert places == ["test_net.py"], shown


def test_a_suite_that_does_not_use_it_imports_no_torch(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text(
        "import sys\n\n\ndef test_plain():\n"
        "    assert 'dynalyze.pytest_plugin' in sys.modules\n"
        "    assert not {'torch', 'msgspec', 'jinja2', 'dynalyze.recording'} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path, "-q", "test_plain.py")
    assert done.returncode == 0, done.stdout + done.stderr
    listed = run_pytest(tmp_path, "--fixtures", "-q", "test_plain.py").stdout
    assert "Assertions about torch.compile" in listed
