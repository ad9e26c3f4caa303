"""Are the causes of a cold start named? Causes are planted, one a run, and the keys compared with those of a plain run.

    .venv/bin/python benchmarks/cold_starts.py                 every plant, each against the same first start
    .venv/bin/python benchmarks/cold_starts.py --only threads,tag
    .venv/bin/python benchmarks/cold_starts.py --moves         `--portable` against the same moves made by hand

Each plant changes one thing that torch's own key has a component for. Right is: the first difference is of the kind and
the component that were planted, and one with nothing planted has no difference. A move is told truly where hits, misses
and kernels are those of a plain process moved by hand, and it survives exactly if that misses and builds none.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAM = """
import sys

import torch
import torch._functorch.config
import torch._inductor.config
import torch._inductor.codecache as codecache
from torch._inductor.custom_graph_pass import CustomGraphPass

plant = sys.argv[1]


class Pass(CustomGraphPass):
    def __call__(self, graph):
        pass

    def uuid(self):
        return "two" if plant == "pass" else "one"


def scaled(factor):
    def apply(h):
        return h * factor
    return apply


scale = scaled(4.5 if plant == "closure" else 2.5)
table = [1.0, 2.0, 7.0 if plant == "tensor" else 3.0, 4.0]


def f(x, y):
    h = x.sigmoid() if plant == "operation" else x.relu()
    return scale(h) + y @ torch.tensor(table)[:, None]


if plant == "name":
    def f(z, y):
        return scale(z.relu()) + y @ torch.tensor(table)[:, None]


torch._inductor.config.post_grad_custom_post_pass = Pass()
passes = ("normalization_pass", "merge_splits_pass")
torch._inductor.config.pre_grad_fusion_options = {name: {} for name in (passes[::-1] if plant == "order" else passes)}
if plant == "setting":
    torch._inductor.config.epilogue_fusion = False
elif plant == "autograd_setting":
    torch._functorch.config.activation_memory_budget = 0.5
elif plant == "path":
    torch._inductor.config.aot_inductor.output_path = "/srv/models/ranker"
elif plant == "default_dtype":
    torch.set_default_dtype(torch.float64)
elif plant == "deterministic":
    torch.use_deterministic_algorithms(True)
elif plant == "threads":
    torch.set_num_threads(1 if torch.get_num_threads() > 1 else 2)
elif plant == "tag":
    torch.compiler.config.cache_key_tag = "release 2"
elif plant == "matmul":
    torch.set_float32_matmul_precision("high")
elif plant == "torch":
    codecache.torch_key = lambda: b"another build of torch"
elif plant == "device":
    codecache.CacheBase.get_system = staticmethod(
        lambda: {"device": {"name": "NVIDIA H200"}, "version": {"triton": "x"}, "hash": "0"}
    )

x = torch.randn(8 if plant == "shape" else 6, 4, dtype=torch.float32)
y = torch.randn(6, 4, dtype=torch.float32)
if plant == "shape":
    y = torch.randn(8, 4, dtype=torch.float32)
elif plant == "stride":
    x = torch.randn(4, 6, dtype=torch.float32).t()
elif plant == "requires_grad":
    x.requires_grad_(True)
elif plant == "marked":
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
function = torch.compile(f)
with torch.set_grad_enabled(plant != "grad"), torch.autocast("cpu", enabled=plant == "autocast"):
    out = function(x, y.double() if plant == "default_dtype" else y)
if out.requires_grad:
    out.sum().backward()
print("COUNTS", {k: dict(torch._dynamo.utils.counters[k]) for k in ("inductor", "aot_autograd")})
"""


@dataclass(frozen=True)
class Plant:
    """What is changed, and the difference that must be told first."""

    name: str
    kinds: tuple[str, ...]
    component: str
    says: str = ""
    variables: dict[str, str] = field(default_factory=dict)


PLANTS = (
    Plant("closure", ("constant",), "gm", "2.5"),
    Plant("tensor", ("constant",), "gm", "7.0"),
    Plant("operation", ("graph",), "gm", "sigmoid"),
    Plant("variable", ("variable",), "inductor_config[max_autotune]", "TORCHINDUCTOR_MAX_AUTOTUNE=1",
          {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}),
    Plant("setting", ("setting",), "inductor_config[epilogue_fusion]"),
    Plant("autograd_setting", ("setting",), "autograd_config[activation_memory_budget]"),
    Plant("path", ("path",), "inductor_config[aot_inductor.output_path]"),
    Plant("order", ("order",), "inductor_config[pre_grad_fusion_options]"),
    Plant("pass", ("pass",), "post_grad_custom_post_pass"),
    Plant("tag", ("tag",), "cache_key_tag"),
    Plant("threads", ("threads",), "cpp_runtime_thread_count"),
    Plant("default_dtype", ("state",), "default_dtype"),
    Plant("deterministic", ("state",), "deterministic_algorithms"),
    Plant("matmul", ("state",), "cuda_matmul_settings"),
    Plant("autocast", ("state",), "autocast_state"),
    Plant("grad", ("state",), "grad_enabled"),
    Plant("torch", ("torch",), "torch_version"),
    Plant("device", ("device",), "system_info"),
    Plant("shape", ("inputs",), "example_inputs", "shape [6, 4]"),
    Plant("stride", ("inputs",), "example_inputs", "stride"),
    Plant("requires_grad", ("inputs",), "example_inputs", "requires_grad"),
    Plant("marked", ("inputs",), "", "dynamic"),
    Plant("name", ("names",), "aot_config"),
)  # fmt: skip


def explain(program: Path, plant: str, cache: Path, variables: dict[str, str]) -> Path:
    report = program.with_name(f"{plant}.json")
    environment = {**os.environ, **variables, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "dynalyze", "explain", str(program), "--no-bench", "--quiet-target"]
    subprocess.run([*command, "--json", str(report), "--", plant], env=environment, check=True, capture_output=True)
    return report


def compared(before: Path, after: Path) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "dynalyze", "cache", str(before), str(after), "--json", "-", "--show-values"]
    said = subprocess.run(command, check=True, capture_output=True, text=True)
    return list(json.loads(said.stdout)["differences"])


def plants(folder: Path, only: list[str]) -> int:
    program = folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    first = explain(program, "first", folder / "cache", {})
    again = compared(first, explain(program, "nothing", folder / "cache", {}))
    print(f"nothing planted: {len(again)} differences")
    right, chosen = 0, [each for each in PLANTS if not only or each.name in only]
    for plant in chosen:
        found = compared(first, explain(program, plant.name, folder / "cache", plant.variables))
        head = found[0] if found else {"kind": "", "component": "", "says": ""}
        good = (
            head["kind"] in plant.kinds
            and str(head["component"]).startswith(plant.component)
            and plant.says in str(head["says"])
        )
        right += good
        others = ", ".join(f"{each['kind']} {each['component']}" for each in found[1:])
        told = " ".join(str(head["says"]).split())[:110]
        print(f"{'right' if good else 'WRONG'}  {plant.name:17} {head['component']}: {told}  [{others}]", flush=True)
    print(f"{right} of {len(chosen)} named rightly")
    return int(right < len(chosen) or bool(again))


WRAPPER = """
import atexit, runpy, sys, torch
how, file = sys.argv[1:3]
if how == "save":
    atexit.register(lambda: open(file, "wb").write(torch.compiler.save_cache_artifacts()[0]))
elif how == "load":
    torch.compiler.load_cache_artifacts(open(file, "rb").read())
sys.argv = sys.argv[3:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
Counted = tuple[int, int, int]
"""Hits and misses by torch's counters, and C++ kernels that were built."""


def plain_starts(program: Path, folder: Path) -> dict[str, Counted]:
    """The same moves by hand, without dynalyze: what torch counts in a plain process."""
    cache, kept, elsewhere, empty = (folder / name for name in ("cache", "kept", "elsewhere", "empty"))
    home, work, copy, artifacts = folder / "home", folder / "work", folder / "copy", folder / "artifacts.bin"
    for each in (home, work, copy):
        each.mkdir()
    shutil.copy(program, copy)

    def start(how: str = "", where: Path = cache, what: Path = program, **options: Any) -> Counted:
        variables = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(where), **options.pop("variables", {})}
        command = [sys.executable, "-c", WRAPPER, how, str(artifacts), str(what), "moves"]
        before = len(list(where.glob("*/*.main.so")))
        ran = subprocess.run(command, env=variables, check=True, capture_output=True, text=True, **options)
        return (*counts_of(ran.stdout)[0], len(list(where.glob("*/*.main.so"))) - before)

    def filled(where: Path = cache) -> None:
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(kept, where)

    found = {"first": start("save")}
    cache.rename(kept)
    variables = {"HF_HOME": str(Path.home()), "PYTHONUSERBASE": str(Path.home() / ".local"), "HOME": str(home)}
    for way, options in (
        ("again", {}), ("home", {"variables": variables}), ("working_folder", {"cwd": work}),
        ("program", {"what": copy / program.name}),
    ):  # fmt: skip
        filled()
        found[way] = start(**options)
    filled(elsewhere)
    found["cache_folder"] = start(where=elsewhere)
    root = folder / "root"
    (root / "app").mkdir(parents=True)
    (root / "tmp").mkdir()
    shutil.copy(program, root / "app")
    filled(root / "cache")
    variables |= {"USER": "app", "LOGNAME": "app", "TMPDIR": str(root / "tmp")}
    inside = {"where": root / "cache", "what": root / "app" / program.name}
    found["container"] = start(**inside, cwd=root / "app", variables=variables)
    found["artifacts"] = start("load", where=empty)
    return found


def counts_of(said: str) -> list[tuple[int, int]]:
    """Hits and misses of both caches, of each process that printed its counters."""
    found = []
    for line in re.findall(r"COUNTS (.*)", said):
        counts = ast.literal_eval(line)
        told = [
            counts["aot_autograd"].get(f"autograd_cache_{end}", 0) + counts["inductor"].get(f"fxgraph_cache_{end}", 0)
            for end in ("hit", "miss")
        ]
        found.append((told[0], told[1]))
    return found


def moves(folder: Path) -> int:
    """The table against plain processes that were moved by hand."""
    program = folder / "place" / "program.py"
    program.parent.mkdir()
    program.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "dynalyze", "cache", str(program), "--portable", "--json", "-", "--", "moves"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
    by_hand, wrong = plain_starts(program, folder), 0
    for move, counted in zip(json.loads(ran.stdout)["portability"], counts_of(ran.stderr)[1:], strict=True):
        uses = {use["cache"]: use for use in move["start"]["uses"]}
        hits, misses = (sum(uses[name][what] or 0 for name in ("autograd", "fx_graph")) for what in ("hits", "misses"))
        told, plain = (hits, misses, uses["kernels"]["made"]), by_hand[move["way"]]
        true = told == plain and told[:2] == counted and move["survives"] == (plain[1:] == (0, 0))
        wrong += not true
        head = f"{'true' if true else 'FALSE'}  {move['way']:15} survives {move['survives']!s:5}"
        seconds = f"{move['start']['compile_seconds']:.1f} s"
        print(
            f"{head} told {told}, torch {plain} (hits, misses, kernels built); {seconds}; {move['advice']}", flush=True
        )
    return int(wrong > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of plants, with commas")
    parser.add_argument("--moves", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return moves(Path(folder)) if given.moves else plants(Path(folder), [n for n in given.only.split(",") if n])


if __name__ == "__main__":
    sys.exit(main())
