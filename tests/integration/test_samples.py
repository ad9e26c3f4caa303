"""Every sample shows what it says it shows.

The truth stands in the samples: `# break: GB0059 split` on a line that breaks its graph, `# recompiles: CAUSE ...` on
the `def` of a function that compiles again for these causes, in this order.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from program import TRACEBACK, dynalyze, explain
from shared_runs import made_once

from dynalyze.render import brief
from dynalyze.report.document import from_json

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
MARKED_BREAK = re.compile(r"# break: (GB\d{4}) (split|partly_eager|eager|error)\b")
MARKED_RECOMPILES = re.compile(r"# recompiles: (.+)")
COMMAND = re.compile(r"^    dynalyze explain (.+)$", re.MULTILINE)

Report = dict[str, Any]


class Break(NamedTuple):
    file: str
    line: int
    gb_id: str
    effect: str


def marked_breaks(*names: str) -> Counter[Break]:
    """The breaks that the comments of these samples promise."""
    return Counter(_marked_breaks(names))


def _marked_breaks(names: tuple[str, ...]) -> Iterator[Break]:
    for name in names:
        for number, line in enumerate((SAMPLES / name).read_text(encoding="utf-8").splitlines(), 1):
            if marked := MARKED_BREAK.search(line):
                yield Break(name, number, *marked.groups())


def found_breaks(report: Report) -> Counter[Break]:
    places = [(entry, entry["location"]) for entry in report["graph_breaks"]]
    return Counter(Break(sample_name(at["file"]), at["line"], e["gb_id"], e["effect"]) for e, at in places)


def marked_recompiles(name: str) -> dict[str, list[str]]:
    """The causes that the comments promise, by qualified name of the function whose `def` they stand on."""
    text = (SAMPLES / name).read_text(encoding="utf-8")
    lines = text.splitlines()
    marks = {name: MARKED_RECOMPILES.search(lines[line - 1]) for name, line in functions(ast.parse(text))}
    return {name: mark[1].split() for name, mark in marks.items() if mark}


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """The qualified name of each function and the line of its `def`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node.lineno


def found_recompiles(report: Report) -> dict[str, list[str]]:
    causes: dict[str, list[str]] = {}
    for entry in report["recompiles"]:
        causes.setdefault(entry["location"]["function"], []).append(entry["cause"])
    return causes


def sample_name(file: str) -> str:
    path = Path(file)
    return str(path.relative_to(SAMPLES)) if path.is_relative_to(SAMPLES) else file


def run_sample(*arguments: str, cwd: Path) -> Report:
    """Explain a sample in an empty folder: it has to work from anywhere, and ends with exit status 0."""
    where = [str(SAMPLES / each) if each.endswith(".py") else each for each in arguments]
    ended, report = explain(*where, cwd=cwd)
    assert ended.status == 0, ended.stderr[-3000:]
    assert TRACEBACK not in ended.stderr
    assert report["capture"]["unreadable_lines"] == 0
    assert report["capture"]["listener_errors"] == []
    return report


@pytest.fixture(scope="module")
def breaks(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return made_once(tmp_path_factory, "breaks", lambda folder: run_sample("breaks.py", cwd=folder))


@pytest.fixture(scope="module")
def recompiles(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return made_once(tmp_path_factory, "recompiles", lambda folder: run_sample("recompiles.py", cwd=folder))


def test_every_kind_of_break_with_its_effect(breaks: Report) -> None:
    marked = marked_breaks("breaks.py")
    assert found_breaks(breaks) == marked
    assert {effect for *_, effect in marked} == {"split", "partly_eager", "eager", "error"}
    assert breaks["outcome"]["status"] == "complete"


def test_each_break_has_its_finding_on_its_line(breaks: Report) -> None:
    findings = [entry for entry in breaks["findings"] if entry["rule"] == "graph-break"]
    places = {(sample_name(entry["location"]["file"]), entry["location"]["line"]) for entry in findings}
    assert places == {(place.file, place.line) for place in marked_breaks("breaks.py")}
    assert all(entry["advice"].strip() for entry in findings)
    refused = [entry for entry in findings if entry["severity"] == "error"]
    assert [MARKED_BREAK.search(entry["location"]["code"])[2] for entry in refused] == ["error"]  # type: ignore[index]


def test_the_read_number_makes_it_compile_again(breaks: Report) -> None:
    marked = [
        number
        for number, line in enumerate((SAMPLES / "breaks.py").read_text().splitlines(), 1)
        if "# recompile: value" in line
    ]
    assert [(each["cause"], each["location"]["line"]) for each in breaks["recompiles"]] == [("value", marked[0])]


def test_what_agents_read_of_them_is_a_few_kilobytes(breaks: Report, recompiles: Report) -> None:
    for report, command in ((breaks, "breaks.py"), (recompiles, "")):
        text = brief.render(from_json(json.dumps(report)))
        assert len(text.encode()) <= 8_000
        told = json.loads(text)
        assert len(told["findings"]) == len(report["findings"]) and "left_out" not in told
        assert command in told.get("next", "")


def test_a_clean_block_is_one_graph_and_no_finding(tmp_path: Path) -> None:
    report = run_sample("clean.py", cwd=tmp_path)
    assert [each["status"] for each in report["compilations"]] == ["compiled"]
    assert len(report["graphs"]) == 1
    assert report["graphs"][0]["ops"] > 10
    assert report["graph_breaks"] == report["recompiles"] == report["skipped_frames"] == report["findings"] == []
    assert sample_name(report["traced_files"][0]["path"]) == "clean.py"


def test_recompiles_by_cause_and_the_limit(recompiles: Report) -> None:
    marked = marked_recompiles("recompiles.py")
    assert found_recompiles(recompiles) == marked
    assert sum(causes.count("limit") for causes in marked.values()) == 1
    assert recompiles["graph_breaks"] == []
    rules = Counter(entry["rule"] for entry in recompiles["findings"])
    assert rules == {"recompile-limit": 1, "recompile": len(marked) - 1}


def test_recompiles_name_the_values_that_changed(recompiles: Report) -> None:
    values = {
        (each["location"]["function"], each["source"], each["expected"], each["actual"])
        for each in recompiles["recompiles"]
    }
    assert ("running_mean", "signal.size()[0]", "4", "7") in values
    assert ("smooth", "window", "3", "4") in values
    assert ("Sampler.forward", "self.keep", "1", "2") in values
    assert ("greet", "name", "'Ada'", "'Alan'") in values


def test_an_eager_program_is_compiled_in_place(tmp_path: Path) -> None:
    report = run_sample("eager_only.py", "--backend", "eager", cwd=tmp_path)
    assert report["capture"]["mode"] == "in_place"
    assert [(row["calls"], row["compiled"]) for row in report["candidates"] if row["kind"] == "module"] == [(3, True)]
    assert found_breaks(report) == marked_breaks("eager_only.py")
    # Two batches of two reviews and a last one of one, each as long as its longest review.
    assert {each["cause"] for each in report["recompiles"]} == {"shape"}


def test_a_training_run_has_one_break(tmp_path: Path) -> None:
    report = run_sample("training.py", cwd=tmp_path)
    assert found_breaks(report) == marked_breaks("training.py")
    assert report["outcome"] == {**report["outcome"], "status": "complete", "exit_status": 0}
    assert report["recompiles"] == []


def test_training_stops_once_nothing_new_compiles(tmp_path: Path) -> None:
    """The sample with a pause after each epoch: what trains while nothing compiles is of no interest here."""
    text = (SAMPLES / "training.py").read_text(encoding="utf-8")
    paused = text.replace("schedule.step()", "schedule.step(), __import__('time').sleep(0.1)")
    assert paused.count("sleep") == 1
    (tmp_path / "training.py").write_text(paused, encoding="utf-8")
    arguments = ("--stop-after", "6", "--timeout", "100", "--", "--epochs", "1000000")
    ended, report = explain("training.py", *arguments, cwd=tmp_path)
    assert ended.status == 0, ended.stderr[-3000:]
    assert report["outcome"]["status"] == "complete"
    assert "early" in report["outcome"]["message"].lower()
    here = str(tmp_path / "training.py")
    assert list(found_breaks(report)) == [each._replace(file=here) for each in marked_breaks("training.py")]


def test_definitions_alone_are_compiled(tmp_path: Path) -> None:
    report = run_sample("definitions.py", "--backend", "eager", cwd=tmp_path)
    assert report["capture"]["mode"] == "examples"
    assert found_breaks(report) == marked_breaks("definitions.py")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        pytest.param(["-m", "package"], "script", marks=pytest.mark.slow),
        (["package.model:build", "--backend", "eager"], "object"),
    ],
    ids=["run with -m", "an object of it"],
)
def test_a_package_with_relative_imports(tmp_path: Path, arguments: list[str], kind: str) -> None:
    file = tmp_path / "r.json"
    ended = dynalyze("explain", *arguments, "--json", file, cwd=SAMPLES)
    assert ended.status == 0, ended.stderr
    report = json.loads(file.read_text())
    assert found_breaks(report) == marked_breaks("package/layers.py")
    assert report["target"]["kind"] == kind
    traced = {sample_name(each["path"]) for each in report["traced_files"]}
    assert {"package/model.py", "package/layers.py"} <= traced


def test_llama_compiles_for_forward_and_for_generate(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    report = run_sample("llama.py", "--", "--backend", "eager", cwd=tmp_path)
    assert report["graph_breaks"] == []
    # The prompt alone, the prompt with a cache, one token with a cache, and one with a longer cache.
    assert [each["status"] for each in report["compilations"]] == ["compiled"] * 4
    modelled = [each for each in report["traced_files"] if each["path"].endswith("modeling_llama.py")]
    assert len(modelled) == 1
    assert "LlamaAttention.forward" in {function["name"] for function in modelled[0]["functions"]}


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_each_sample_says_the_command_to_try(sample: Path) -> None:
    docstring = ast.get_docstring(ast.parse(sample.read_text(encoding="utf-8")), clean=False) or ""
    commands = COMMAND.findall(docstring)
    assert commands, "no command to try"
    assert all(command.split()[0] == f"samples/{sample.name}" for command in commands)


def test_arguments_reach_the_program(tmp_path: Path) -> None:
    arguments = ["--batch", "2", "--width", "6", "--steps", "1"]
    ended, report = explain(str(SAMPLES / "arguments.py"), "--", *arguments, cwd=tmp_path)
    assert ended.status == 0
    assert "smoothed (2, 6) in 1 steps" in ended.stderr
    assert report["target"]["arguments"] == arguments
    assert report["recompiles"] == []


def test_a_backend_of_ones_own_by_its_registered_name(tmp_path: Path) -> None:
    ended, report = explain(str(SAMPLES / "custom_backend.py"), cwd=tmp_path)
    assert ended.status == 0
    assert "folded gate * sigmoid(gate) -> silu(gate)" in ended.stderr
    assert [each["status"] for each in report["compilations"]] == ["compiled"]
    assert report["graph_breaks"] == []
