"""`fix` on recompiles: settings that the advice names are tried on the calls and on the whole program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from program import dynalyze, plain_python

SIZES = """
import torch
{setting}

@torch.compile(backend="eager")
def scaled(x, mask):
    return (x * mask).sum()

for n in (5, 6, 7):
    scaled(torch.ones(n, 8), torch.ones(n, 8))
print("done{more}")
"""
QUICK = ("--no-bench", "--quiet-target", "--sandbox", "off")
HOW_MANY = "', torch._dynamo.utils.counters['stats']['unique_graphs'], '"


def fixed(code: str, folder: Path) -> dict[str, Any]:
    (folder / "serve.py").write_text(code, encoding="utf-8")
    ended = dynalyze("fix", "serve.py", *QUICK, "--json", "fix.json", cwd=folder, bench=True)
    assert ended.status == 0, ended.stderr
    return dict(json.loads((folder / "fix.json").read_text()))


def test_a_setting_that_ends_recompiles_is_verified_and_holds_for_torch(tmp_path: Path) -> None:
    report = fixed(SIZES.format(setting="", more=""), tmp_path)
    (kept,) = report["fixes"]
    assert (kept["status"], kept["kind"], kept["recompiles"]) == ("verified", "setting", ["r1"])
    assert (report["fixed"]["before"]["recompiles"], report["fixed"]["after"]["recompiles"]) == (1, 0)
    counting = f"print('GRAPHS{HOW_MANY}')"
    for setting, graphs in (("", 2), (report["fixed"]["setting"], 1)):
        (tmp_path / "changed.py").write_text(SIZES.format(setting=setting, more="") + counting, encoding="utf-8")
        ended = plain_python("changed.py", cwd=tmp_path)
        assert re.findall(r"GRAPHS +(\d+)", ended.stdout) == [str(graphs)]


def test_a_setting_that_changes_what_the_program_prints_is_rejected(tmp_path: Path) -> None:
    code = SIZES.format(setting="", more="").replace('"done"', f"'done{HOW_MANY}'")
    report = fixed(code, tmp_path)
    assert {each["status"] for each in report["fixes"]} == {"rejected"}
    assert (report["fixed"]["kept"], report["fixed"].get("setting", "")) == ([], "")


def test_where_the_size_is_one_of_the_program_all_sizes_are_tried_dynamic(tmp_path: Path) -> None:
    code = SIZES.format(setting="", more="").replace("def scaled(x, mask):", "def scaled(x, mask):\n    x = rows()")
    code = code.replace("@torch.compile", "MADE = []\n\n@torch.compiler.disable\ndef rows():\n    MADE.append(0)\n"
                        "    return torch.ones(4 + len(MADE), 99)\n\n@torch.compile")  # fmt: skip
    # Dynamo passes a float that is dynamic too as a tensor, which is no operator of eager code.
    code = code.replace("scaled(torch.ones(n, 8), torch.ones(n, 8))", "scaled(None, 0.5)")
    report = fixed(code, tmp_path)
    (kept,) = [each for each in report["fixes"] if each["kind"] == "setting" and each["status"] == "verified"]
    assert "dynamic=True" in kept["title"]
    before, after = (report["fixed"][when]["recompiles"] for when in ("before", "after"))
    counting = f"print('GRAPHS{HOW_MANY}')"
    found = []
    for setting in ("", report["fixed"]["setting"]):
        (tmp_path / "changed.py").write_text(code.replace("import torch", f"import torch\n{setting}") + counting)
        found += re.findall(r"GRAPHS +(\d+)", plain_python("changed.py", cwd=tmp_path).stdout)
    assert int(found[0]) - int(found[1]) == before - after > 0
