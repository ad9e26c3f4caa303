"""A library of models is one folder: torch_geometric's models, in a copy of the package."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from limits import WALL_SECONDS

REPOSITORY = Path(__file__).resolve().parents[2]
FACTS = """
from dynalyze.capture.libraries import LibraryFacts

FACTS = LibraryFacts("torch_geometric", "a model of torch_geometric", "pyg:GCN", frozenset({"phase", "cold"}))
"""
LIBRARY = """
import fnmatch
import torch
from torch_geometric.nn import models
from dynalyze.capture.inputs import Inputs, Misuse
from dynalyze.capture.libraries.building import built, place, random_weights, stage

def listed(pattern):
    return sorted(fnmatch.filter(("GAT", "GCN", "GIN", "GraphSAGE"), "*" if pattern == "all" else pattern))

def resolve(name):
    if name not in listed("all"):
        raise Misuse(f"no model {name!r} in torch_geometric")

def build(request):
    resolve(request.name)
    with stage("model"), random_weights(request):
        model = getattr(models, request.name)(in_channels=8, hidden_channels=16, num_layers=2, out_channels=4)
    place(model, request)
    return built(model, make_calls(model, request), "basic_gnn")

def make_calls(model, request):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    return [Inputs((torch.randn(4, 8), edges), {})]

def preload():
    pass
"""


@pytest.mark.skipif(importlib.util.find_spec("torch_geometric") is None, reason="needs torch_geometric")
def test_a_fourth_library_is_one_folder(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "analyzer" / "dynalyze", tmp_path / "analyzer" / "dynalyze")
    (tmp_path / "reports").symlink_to(REPOSITORY / "reports")
    folder = tmp_path / "analyzer" / "dynalyze" / "capture" / "libraries" / "pyg"
    folder.mkdir()
    (folder / "__init__.py").write_text(FACTS, encoding="utf-8")
    (folder / "library.py").write_text(LIBRARY, encoding="utf-8")
    command = [sys.executable, "-m", "dynalyze", "sweep", "pyg:all", "--out", str(tmp_path / "sweep"), "--json", "-"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "analyzer")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=WALL_SECONDS, env=env, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    rows = {row["target"]: row for row in json.loads(run.stdout)["items"]}
    assert set(rows) == {"pyg:GAT", "pyg:GCN", "pyg:GIN", "pyg:GraphSAGE"}
    assert all(row["status"] in ("full_graph", "graph_break") and row["parameters"] for row in rows.values()), rows
