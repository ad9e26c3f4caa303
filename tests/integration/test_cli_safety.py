"""What a report may show: no source where none is wanted, no secrets ever, long values only where asked for."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import NamedTuple

import pytest
from program import dynalyze
from shared_runs import made_once

CANARY = re.compile(r"canary_?\w*")
LEAKY = '''\
"""canary_module_docstring"""
import os
import torch
from torch import nn


def refuse(graph, inputs):
    raise RuntimeError("canary_backend_error")


class Model(nn.Module):
    """canary_class_docstring"""

    def __init__(self, label="canary_default"):
        super().__init__()
        self.label = label

    def forward(self, x, name="canary_argument"):
        """canary_method_docstring"""
        canary_variable = x.sin()  # canary_comment
        print("canary_literal")
        limit = canary_variable.mean().item()
        torch._dynamo.graph_break(msg="canary_graph_break_message")
        y = x.clamp(max=limit) + len(name)
        if y.max() > len("canary_condition"):
            y = y + 1
        return y


def strict(x):
    print("canary_refused")
    return x


def checked(x):
    if x.shape[0] > 1:
        raise ValueError("canary_exception_in_compiled_code")
    return x


def unfit(x, canary_weight):
    return x @ canary_weight


def attempt(function, *inputs, **options):
    try:
        torch.compile(function, **options)(*inputs)
    except Exception as error:
        os.environ["LAST_ERROR"] = str(error)


if __name__ == "__main__":
    model = torch.compile(Model(), backend="eager")
    for name in ("canary_guard", "canary_other_guard", "canary_long_guard" * 10):
        model(torch.randn(4), name)
    attempt(strict, torch.ones(2), backend="eager", fullgraph=True)
    attempt(checked, torch.ones(2), backend="eager")
    attempt(unfit, torch.ones(2, 3), torch.ones(2, 3), backend="eager")
    attempt(checked, torch.ones(1) * 2, backend=refuse)
    attempt(torch.sin, torch.ones(1), backend=refuse)
    attempt(lambda x: x.sin() + len("canary_lambda"), torch.ones(1), backend=refuse)
    raise ValueError("canary_last_exception")
'''
EAGER = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.canary_part = nn.Linear(3, 3)

    def forward(self, x, name):
        print("canary_print")
        if name == "canary_bad":
            raise ValueError("canary_own_exception")
        return self.canary_part(x).cos()

class Worse(Net):
    def forward(self, x, name):
        return self.canary_part(x).sin()

canary_net, canary_worse = Net(), Worse()
for name in ("canary_one", "canary_two", "canary_bad"):
    try:
        canary_net(torch.ones(3), name)
        canary_worse(torch.ones(3), name)
    except ValueError:
        pass
"""
POOR_BACKEND = """\
def refusing(graph, inputs):
    if "sin" in graph.code:
        raise RuntimeError("canary_backend")
    return graph.forward
"""


class Written(NamedTuple):
    """Everything that one command gave out."""

    terminal: str
    json: str
    html: str

    def holding(self, pattern: re.Pattern[str]) -> dict[str, set[str]]:
        """What of the pattern stands in which output."""
        return {name: set(pattern.findall(text)) for name, text in self._asdict().items() if pattern.search(text)}


def write(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Written:
    """Run a command with both files, and read back all that it wrote."""
    files = ["--json", "out.json", "--html", "out.html"]
    options = [*arguments, *files] if "--" not in arguments else None
    if options is None:
        at = arguments.index("--")
        options = [*arguments[:at], *files, *arguments[at:]]
    ended = dynalyze(*options, cwd=cwd, env=env)
    assert (cwd / "out.json").exists(), ended.stderr[-3000:]
    return Written(ended.stdout, (cwd / "out.json").read_text(), (cwd / "out.html").read_text())


# ---- --no-source ------------------------------------------------------------------------------------------


def full_report(factory: pytest.TempPathFactory) -> str:
    """The report of the program, with everything in it."""

    def explained(folder: Path) -> str:
        (folder / "model.py").write_text(LEAKY)
        ended = dynalyze("explain", "model.py", "--json", "full.json", "--show-values", cwd=folder)
        assert ended.status == 3, ended.stderr
        return (folder / "full.json").read_text()

    return made_once(factory, "leaky", explained)


@pytest.fixture
def leaky(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A folder with `full.json`."""
    (tmp_path / "full.json").write_text(full_report(tmp_path_factory))
    return tmp_path


@pytest.fixture(scope="module")
def without_source(tmp_path_factory: pytest.TempPathFactory) -> Written:
    def explained(folder: Path) -> Written:
        (folder / "model.py").write_text(LEAKY)
        return write("explain", "model.py", "--no-source", cwd=folder)

    return made_once(tmp_path_factory, "leaky-without-source", explained)


def test_the_canaries_are_planted_well(leaky: Path) -> None:
    """Without the option they are there: in code, guards, messages. Else their absence would say nothing."""
    text = (leaky / "full.json").read_text()
    planted = "literal comment variable condition refused guard long_guard graph_break_message last_exception"
    assert [name for name in planted.split() if f"canary_{name}" not in text] == []


def test_no_source_in_any_output(without_source: Written) -> None:
    assert without_source.holding(CANARY) == {}
    report = json.loads(without_source.json)
    assert len(report["graph_breaks"]) >= 5
    assert any(each["cause"] == "value" for each in report["recompiles"])


def test_no_source_from_a_report_that_has_it(leaky: Path) -> None:
    written = write("report", "full.json", "--no-source", cwd=leaky)
    assert written.holding(CANARY) == {}
    assert json.loads(written.json)["graph_breaks"]


def test_places_stay_without_source(without_source: Written) -> None:
    line = next(n for n, text in enumerate(LEAKY.splitlines(), 1) if "canary_literal" in text)
    found = [each for each in json.loads(without_source.json)["graph_breaks"] if each["location"]["line"] == line]
    assert [each["gb_id"] for each in found] == ["GB0059"]
    assert f"model.py:{line}" in without_source.terminal
    assert f"model.py:{line}" in without_source.html


@pytest.mark.slow
def test_no_source_of_a_program_that_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "eager.py").write_text(EAGER)
    (tmp_path / "poor.py").write_text(POOR_BACKEND)
    arguments = ("explain", "eager.py", "--backend", "poor:refusing")
    assert write(*arguments, cwd=tmp_path).holding(CANARY)
    assert write(*arguments, "--no-source", cwd=tmp_path).holding(CANARY) == {}


# ---- secrets ----------------------------------------------------------------------------------------------


def test_the_environment_is_an_allowlist(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n")
    env = {"MY_CANARY": "canary_environment", "HF_TOKEN": "canary_hf"}
    assert write("explain", "model.py", cwd=tmp_path, env=env).holding(CANARY) == {}


# ---- values and names -------------------------------------------------------------------------------------

PROMPTS = """\
import torch

@torch.compile(backend="eager")
def encode(x, prompt):
    return x * len(prompt)

for word in ("very", "most"):
    encode(torch.ones(2), " ".join(["a", word, "private"] * 20) + " prompt")
"""


@pytest.mark.slow
def test_long_values_are_hidden_unless_asked_for(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(PROMPTS)
    private = re.compile(r"very private")
    hidden = write("explain", "model.py", cwd=tmp_path)
    assert hidden.holding(private) == {}
    assert "characters, sha256 " in hidden.json
    assert write("explain", "model.py", "--show-values", cwd=tmp_path).holding(private)


class AtHome(NamedTuple):
    """What ada's program told in her home, and what is redacted away."""

    env: dict[str, str]
    written: Written
    names = re.compile(rf"home-of-ada|ada-the-user|(?<![\w.-]){re.escape(socket.gethostname())}(?![\w.-])")


def at_home(factory: pytest.TempPathFactory) -> AtHome:
    def explained(folder: Path) -> AtHome:
        home = folder / "home-of-ada"
        home.mkdir()
        (home / "model.py").write_text(PROMPTS + "raise ValueError('/data/ada-the-user/weights')\n")
        env = {"HOME": str(home), "USER": "ada-the-user", "LOGNAME": "ada-the-user"}
        return AtHome(env, write("explain", "model.py", cwd=home, env=env))

    return made_once(factory, "home-of-ada", explained)
