"""`dynalyze cache` on the real program, held against what torch counts in each of its processes."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from program import dynalyze, in_process

# One product of matrices: no C++ kernel has to be built for it. Each start leaves torch's own counts.
PROGRAM = """
import os, pathlib, torch
import torch._inductor.codecache  # It imports Dynamo midway: artifacts have to wait until all of it is there.

starts = pathlib.Path(os.environ["STARTS"])
number = len(list(starts.iterdir()))
SHIFT = number if os.environ.get("DRIFTS") else 0

def f(x):
    return torch.mm(x, x[:, SHIFT:SHIFT + 4])

with torch.no_grad():
    torch.compile(f)(torch.ones(8, 8))
counters = torch._dynamo.utils.counters
(starts / str(number)).write_text(repr({name: dict(counters[name]) for name in ("inductor", "aot_autograd")}))
"""


def counted(starts: Path) -> list[tuple[int, int]]:
    """Hits and misses of torch's two caches in each start, by its own counters."""
    found = []
    for file in sorted(starts.iterdir()):
        counts = ast.literal_eval(file.read_text())
        inductor, autograd = counts["inductor"], counts["aot_autograd"]
        ends = ("hit", "miss")
        both = [inductor.get(f"fxgraph_cache_{e}", 0) + autograd.get(f"autograd_cache_{e}", 0) for e in ends]
        found.append((both[0], both[1]))
    return found


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "model.py").write_text(PROGRAM)
    (tmp_path / "starts").mkdir()
    return tmp_path / "starts"


@pytest.mark.slow
def test_a_filled_cache_survives_every_move_and_torch_counts_the_same(tmp_path: Path, starts: Path) -> None:
    ended = dynalyze(
        "cache",
        tmp_path / "place" / "model.py",
        "--portable",
        "--allow-effects",
        "--json",
        "-",
        cwd=tmp_path,
        env={"STARTS": str(starts)},
    )
    assert ended.status == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout)
    assert found["verdict"].startswith("A second start finds every graph in the caches")
    assert [move["way"] for move in found["portability"]] == [
        "again", "home", "working_folder", "program", "cache_folder", "container", "artifacts"
    ]  # fmt: skip
    told = []
    for start in (found["before"], *(move["start"] for move in found["portability"])):
        graphs = [use for use in start["uses"] if use["cache"] in ("autograd", "fx_graph")]
        told.append((sum(use["hits"] for use in graphs), sum(use["misses"] for use in graphs)))
    assert told == counted(starts)
    assert told[0] == (0, 2)
    assert [move["survives"] for move in found["portability"]] == [misses == 0 for _, misses in told[1:]] == [True] * 7
    assert found["differences"] == []


def test_a_constant_that_each_start_draws_anew_is_named_with_its_line(tmp_path: Path, starts: Path) -> None:
    own = tmp_path / "own"
    variables = {"STARTS": str(starts), "DRIFTS": "1", "TORCHINDUCTOR_CACHE_DIR": str(own)}
    ended = dynalyze("cache", "place/model.py", "--fail-on", "cold", "--allow-effects", cwd=tmp_path, env=variables)
    assert ended.status == 1, ended.stderr[-3000:]
    assert [misses for _, misses in counted(starts)] == [2, 2]
    assert re.search(r"constant +gm", ended.stdout)
    assert "place/model.py:10 in f" in ended.stdout
    # The user's own cache folder is left alone.
    assert not (own / "fxgraph").exists() and not (own / "aotautograd").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["report.json"], "is one of two"),
        (["report.json", "report.json", "--portable"], "takes no report"),
        (["report.json", "nosuch.py"], "no such file: nosuch.py"),
        (["nosuch.json", "report.json"], "nosuch.json: No such file or directory"),
        (["report.json", "report.json", "--json", "report.json"], "would overwrite what is read"),
        ([], "which program?"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, given: list[str], says: str) -> None:
    (tmp_path / "report.json").write_text("[]")
    ended = in_process("cache", *given, cwd=tmp_path)
    assert ended.status == 2 and says in ended.stderr and ended.stderr.count("\n") == 1


def test_two_folders_of_vllm(tmp_path: Path) -> None:
    for name, home in (("old", "/root"), ("new", "/home/u")):
        folder = tmp_path / name / "rank_0_0" / "backbone"
        folder.mkdir(parents=True)
        factors = {"env": {"VLLM_CONFIG_ROOT": f"{home}/.config/vllm"}, "code_hash": "1", "config_hash": "2"}
        (folder / "cache_key_factors.json").write_text(json.dumps(factors))
    ended = in_process("cache", "old", "new", "--json", "-", cwd=tmp_path)
    assert ended.status == 0
    assert [(each["component"], each["kind"]) for each in json.loads(ended.stdout)["differences"]] == [
        ("env.VLLM_CONFIG_ROOT", "path")
    ]
