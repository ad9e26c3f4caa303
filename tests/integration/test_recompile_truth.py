"""Every cause of a recompile on real torch, and that the advice against it helps.

The truth stands in the planted program. The advice is read from the report of a mutated copy (other names, other
lines), put into that copy as it is printed, and judged by the graphs that plain torch then compiles.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from many_programs import graphs as graphs_of
from many_programs import of, together
from program import explain, plain_python
from recompile_sections import SECTIONS, Section, mutated, program
from shared_runs import made_once

from dynalyze.report import Cause

Json = dict[str, Any]
MUTATED = [mutated(section, lines=number % 4) for number, section in enumerate(SECTIONS)]
BY_NAME = {section.name: copy for section, copy in zip(SECTIONS, MUTATED, strict=True)}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Json:
    """What `explain` says about the mutated copy."""
    return made_once(tmp_path_factory, "recompile-truth", explained)


def explained(folder: Path) -> Json:
    (folder / "serve.py").write_text(program(MUTATED), encoding="utf-8")
    ended, found = explain("serve.py", "--no-bench", cwd=folder)
    assert ended.status == 0, ended.stderr[-2000:]
    return found


def recompiles_of(report: Json, section: Section) -> list[Json]:
    return [each for each in report["recompiles"] if each["location"]["function"] == section.name]


def findings_of(report: Json, section: Section) -> list[Json]:
    ids = {each["id"] for each in recompiles_of(report, section)}
    return [each for each in report["findings"] if ids & set(each["evidence"]) and each["rule"].startswith("recompile")]


def advice_for(report: Json, name: str) -> Json:
    """The only finding's advice about a section of the mutated copy."""
    (finding,) = findings_of(report, BY_NAME[name])
    detail: Json = finding["detail"]
    return detail


@pytest.mark.parametrize("section", MUTATED, ids=lambda section: section.name)
def test_each_recompile_and_the_finding_that_names_what_changed(report: Json, section: Section) -> None:
    again, found = recompiles_of(report, section), findings_of(report, section)
    told = [(each["cause"], each["source"], each["expected"], each["actual"]) for each in again]
    assert told == list(section.truths)
    # One change is one change however many frames it recompiled, and one finding for each variable.
    assert len({each["change"] for each in again}) == (section.changes or len(section.truths))
    leads = {truth[:2] for truth in section.truths if truth[0] != "limit"}
    limited = "limit" in {truth[0] for truth in section.truths}
    assert len(found) == (1 if section.changes or limited else len(leads))
    assert sorted(each for finding in found for each in finding["evidence"]) == sorted(each["id"] for each in again)
    assert all(each["impact"]["compile_seconds"] > 0 for each in found)


def test_every_cause_of_the_contract_is_planted() -> None:
    planted = {truth[0] for section in SECTIONS for truth in section.truths}
    assert planted == set(get_args(Cause)) - {"other"}


def test_nothing_else_recompiled(report: Json) -> None:
    assert len(report["recompiles"]) == sum(len(section.truths) for section in MUTATED)


def test_the_frames_around_breaks_are_one_finding(report: Json) -> None:
    section = BY_NAME["encode"]
    (finding,) = findings_of(report, section)
    assert finding["title"].startswith(
        "`words.size(1)` changed 2 times (4, 5, 6): encode was compiled again 6 times, in 3 parts"
    )


def test_the_limit_says_what_runs_in_eager(report: Json) -> None:
    (finding,) = findings_of(report, BY_NAME["paint"])
    assert (finding["rule"], finding["severity"]) == ("recompile-limit", "error")
    assert "3 compiled versions" in finding["detail"]["why"]
    assert "`pen` changed 3 times ('oil', 'ink', 'chalk', ...)" in finding["advice"]


def test_findings_are_ranked_by_measured_seconds(report: Json) -> None:
    warned = [each for each in report["findings"] if (each["rule"], each["severity"]) == ("recompile", "warning")]
    seconds = [each["impact"]["compile_seconds"] for each in warned]
    assert [round(each, 3) for each in seconds] == sorted((round(each, 3) for each in seconds), reverse=True)


# The advice, put into the program.


def graphs(sections: list[Section], folder: Path, **environment: str) -> dict[str, int]:
    """How many graphs plain torch compiles for each section."""
    file = folder / "serve.py"
    file.write_text(program(sections), encoding="utf-8")
    ended = plain_python(file.name, cwd=folder, env=environment)
    return {name: int(count) for name, count in re.findall(r"^@ (\S+) (\d+)$", ended.stdout, re.MULTILINE)}


def with_code(section: Section, old: str, new: str, name: str) -> Section:
    """The section with the line `old` replaced by the lines of `new`."""
    code = re.sub(
        rf"(?m)^([ ]*){re.escape(old)}$",
        lambda at: "\n".join(at[1] + line for line in new.splitlines()),
        section.code,
    )
    assert code != section.code, f"no line {old!r} in {section.code}"
    return Section(name, code, (), 0)


def with_example(report: Json, name: str) -> Section:
    """The section with the example's change. What it shows as before must stand in the program, word for word."""
    section, example = BY_NAME[name], advice_for(report, name)["example"]
    assert example["before"] == section.call
    return with_code(section, example["before"], example["after"], f"example-{name}")


EXAMPLES = {
    # Section: graphs that are left with the advice in place.
    "crop": 1, "turn": 1, "mean": 1, "shift": 1, "weigh": 1, "pay": 1, "fade": 1, "tile": 1, "mix": 1,
}  # fmt: skip


def dynamic_true(section: Section) -> Section:
    return Section(f"dynamic-{section.name}", section.code.replace("dynamic=False", "dynamic=True"), (), 0)


def same_mode(report: Json) -> Section:
    section, example = BY_NAME["blend"], advice_for(report, "blend")["example"]
    before, after = (example[key].replace("...", "curve") for key in ("before", "after"))
    calls = "\n".join("    " + line for line in before.splitlines())
    assert calls in section.code
    return Section("same-mode", section.code.replace(calls, "\n".join("    " + li for li in after.splitlines())), (), 0)


def global_as_argument(report: Json) -> Section:
    """The call as printed; the function takes the argument under the name that the call gives it."""
    section, example = BY_NAME["amplify"], advice_for(report, "amplify")["example"]
    call = example["after"].replace("...", "tape")
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    keyword = node.keywords[0].arg
    changed = with_code(section, section.call, call, "global-as-argument")
    code = changed.code.replace("def amplify(tape)", f"def amplify(tape, {keyword})")
    return Section("global-as-argument", code.replace("return tape * VOLUME", f"return tape * {keyword}"), (), 0)


def attribute_as_buffer(report: Json) -> Section:
    section, example = BY_NAME["Power.forward"], advice_for(report, "Power.forward")["example"]
    changed = with_code(section, example["before"], example["after"], "attribute-as-buffer")
    return with_code(changed, "net.degree = value", "net.degree.fill_(value)", "attribute-as-buffer")


def created_once() -> Section:
    """One callable for all calls, in place of another one each time."""
    code = BY_NAME["apply"].code
    return Section("created-once", code.replace("(torch.sin, torch.cos)", "(torch.sin, torch.sin)"), (), 0)


def with_setting(section: Section, setting: str, undo: str) -> Section:
    code = f"{setting}\n{section.code}\n{undo}"
    return Section(f"setting-{section.name}", code, (), 0)


@pytest.fixture(scope="module")
def compiled_graphs(report: Json, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The mutated copy as it stands, and each section with its advice in place, in one run of plain torch."""
    attribute = advice_for(report, "Power.forward")
    changed = [
        *MUTATED,
        *(with_example(report, name) for name in EXAMPLES),
        dynamic_true(BY_NAME["crop"]),
        dynamic_true(BY_NAME["encode"]),
        dynamic_true(BY_NAME["repeat"]),
        same_mode(report),
        global_as_argument(report),
        attribute_as_buffer(report),
        created_once(),
        with_setting(BY_NAME["Power.forward"], attribute["config"], attribute["config"].replace("True", "False")),
        *(
            with_setting(
                BY_NAME[name], advice_for(report, name)["config"], 'torch.compiler.config.dynamic_sources = ""'
            )
            for name in ("crop", "encode")
        ),
    ]
    return made_once(tmp_path_factory, "recompile-truth-advised", lambda folder: graphs(changed, folder))


def test_without_the_advice_it_compiles_again(compiled_graphs: dict[str, int]) -> None:
    assert {each.name: compiled_graphs[each.name] for each in MUTATED} == {each.name: each.graphs for each in MUTATED}


def test_with_the_advice_it_does_not(compiled_graphs: dict[str, int]) -> None:
    assert {name: compiled_graphs[f"example-{name}"] for name in EXAMPLES} == EXAMPLES
    others = (
        "dynamic-trim",
        "dynamic-repeat",
        "same-mode",
        "global-as-argument",
        "attribute-as-buffer",
        "created-once",
    )
    assert {name: compiled_graphs[name] for name in others} == dict.fromkeys(others, 1)


def test_with_the_setting_for_integers_of_modules_the_second_compile_fits_all(compiled_graphs: dict[str, int]) -> None:
    assert compiled_graphs["setting-Power.forward"] == 2


def test_dynamic_sources_as_a_setting(compiled_graphs: dict[str, int]) -> None:
    assert compiled_graphs["setting-trim"] == 1


def test_around_breaks_each_part_compiles_once(report: Json, compiled_graphs: dict[str, int]) -> None:
    """Marking the input would not do: the caller cannot mark what the first part makes for the second."""
    assert "dynamic=True" in advice_for(report, "encode")["example"]["after"]
    assert compiled_graphs["dynamic-encode"] == 3
    assert compiled_graphs["setting-encode"] == 3


@pytest.mark.slow
def test_dynamic_sources_in_the_environment(report: Json, tmp_path: Path) -> None:
    """The list exactly as printed, through a shell, for a size and for an integer."""
    told = [advice_for(report, name)["config"] for name in ("crop", "repeat")]
    names = [re.search(r'dynamic_sources = "([^"]+)"', config) for config in told]
    assert all(names)
    value = ",".join(found[1] for found in names if found)
    assert value == "L['frames'],L['laps']"
    counted = graphs([BY_NAME["crop"], BY_NAME["repeat"]], tmp_path, TORCH_COMPILE_DYNAMIC_SOURCES=value)
    assert counted == {"trim": 1, "repeat": 1}


@pytest.mark.parametrize("name", ["energy", "train"])
def test_training_and_validation_are_no_mistake(report: Json, name: str) -> None:
    (finding,) = findings_of(report, BY_NAME[name])
    assert finding["severity"] == "info"
    assert "The gradient mode changed from True to False" in finding["title"]
    assert ('autocast for "cpu" from True to False' in finding["title"]) == (name == "train")
    assert "no_grad" not in finding["advice"] and finding["detail"]["example"] is None


@pytest.mark.slow
def test_the_stance_for_production_refuses_a_recompile(report: Json, tmp_path: Path) -> None:
    setting = advice_for(report, "mean")["config"]
    code = f"{BY_NAME['mean'].code}\n".replace(
        "    for ticks", f"    mean(torch.ones(4))\n    {setting}\n    for ticks"
    )
    section = Section("mean", code, (), 0)
    (tmp_path / "serve.py").write_text(program([section]), encoding="utf-8")
    ended = plain_python("serve.py", cwd=tmp_path, check=False)
    assert ended.status != 0
    assert "tensor 'ticks' dtype mismatch" in ended.stderr


OTHERS: dict[str, str] = {}
"""What needs more than a section, each in a file of one program."""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Json:
    return dict(made_once(tmp_path_factory, "recompile-truth-others", lambda folder: together(folder, OTHERS)))


OTHERS["marked"] = """
import torch

@torch.compile(backend="eager")
def halves(plates):
    return plates * 2 if plates.shape[1] == 6 else plates

plates = torch.ones(4, 6)
torch._dynamo.mark_dynamic(plates, 1)
try:
    halves(plates)
except Exception:
    torch._dynamo.reset()
torch._dynamo.maybe_mark_dynamic(fresh := torch.ones(4, 6), 1)
halves(fresh)
"""


def test_a_marked_dimension_that_the_code_made_constant(others: Json) -> None:
    """What is advised, maybe_mark_dynamic, compiles."""
    (found,) = of(others, "marked")
    assert found["title"].endswith("marked dynamic: `plates.size(1)`")
    assert "maybe_mark_dynamic(plates, 1)" in found["advice"]
    assert [each["status"] for each in of(others, "marked", "compilations")] == ["failed", "compiled"]


OTHERS["modules"] = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size + 1)

    def forward(self, x):
        return self.linear(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(5)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

encode = torch.compile(nn.Sequential(nn.Linear(4, 3)), backend="eager")
decode = torch.compile(nn.Sequential(nn.Linear(3, 4)), backend="eager")
decode(encode(torch.rand(2, 4)))

net = Net()
for block in net.blocks:
    block.compile(backend="eager")
net(torch.rand(2, 4))
encode(torch.rand(2, 5)[:, :4])  # Other strides: a recompile of `encode`, although `decode` was compiled last.
"""


def test_different_modules_that_share_code_are_named_and_nothing_is_marked(others: Json) -> None:
    found = [each for each in of(others, "modules") if each["rule"] == "recompile"]
    (apart,) = (each for each in found if each["severity"] == "warning")
    around, inside = sorted((each for each in found if each["severity"] == "info"), key=lambda each: each["title"])
    assert around["title"].startswith("`encode` and `decode` are different modules that run one code: Sequential.")
    assert around["location"]["code"] == "decode(encode(torch.rand(2, 4)))"
    assert inside["title"].startswith("`self.blocks[0]` and `self.blocks[1]` are different modules that run one code")
    for finding in (around, inside):
        assert "mark_dynamic" not in finding["advice"] and finding["detail"]["example"] is None
    assert apart["title"].startswith("`torch.rand(2, 5)[:, :4].stride(0)` changed from 4 to 5")


OTHERS["calls"] = CALLS = """
import torch

net = torch.compile(torch.nn.Linear(4, 4), backend="eager")
x = torch.rand(2, 4)
net(x)
net(input=x)
"""


def test_an_argument_by_position_and_by_keyword_is_to_come_in_one_way(others: Json, tmp_path: Path) -> None:
    (finding,) = of(others, "calls")
    assert finding["advice"].startswith("Pass the same arguments")
    for old, new in (("net(x)", "net(input=x)"), ("net(input=x)", "net(x)")):
        assert graphs_of(CALLS.replace(old, new), tmp_path) == 1


OTHERS["batches"] = BATCHES = """
import torch
from torch.utils.data import DataLoader, TensorDataset

net = torch.compile(torch.nn.Linear(8, 8), backend="eager")
samples = TensorDataset(torch.randn(50, 8))
for epoch in range(2):
    for (x,) in DataLoader(samples, batch_size=16):
        net(x).sum().backward()
"""


def test_a_smaller_last_batch_may_be_dropped(others: Json, tmp_path: Path) -> None:
    (finding,) = of(others, "batches")
    assert "The last batch of `TensorDataset` is smaller, 2 of 16" in finding["advice"]
    example = finding["detail"]["example"]
    old, new = (example[key].replace("dataset", "samples") for key in ("before", "after"))
    marked = re.search(r"`(torch\._dynamo\.maybe_mark_dynamic\(x, 0\))`", finding["advice"])
    assert old in BATCHES and marked is not None
    for changed in (BATCHES.replace(old, new), BATCHES.replace("net(x)", f"{marked[1]}; net(x)")):
        assert graphs_of(changed, tmp_path) == 1


OTHERS["smaller"] = BATCHES.replace("net(x).sum()", "net(x[:5] if epoch else x).sum()").replace("randn(50", "randn(48")


def test_another_smaller_size_is_no_last_batch(others: Json) -> None:
    (finding,) = of(others, "smaller")
    assert "dynamic=True" in finding["advice"] and "drop_last" not in finding["advice"]
