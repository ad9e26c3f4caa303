"""`--provenance` on real Inductor code. The truth is the planted program, and torch's own record of its kernels."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest
from program import explain

pytestmark = pytest.mark.slow

# Two lines that become one kernel, and one line that becomes two; the backward of each likewise.
PLANTED = textwrap.dedent(
    """
    import torch

    @torch.compile
    def step(x, w):
        first = x.sin()  # canary_comment
        canary_name = first * 2 + x.cos()
        return torch.mm(canary_name, w).tanh()

    def run(rows):
        x = torch.randn(rows, 16, requires_grad=True)
        step(x, torch.randn(16, 16, requires_grad=True)).sum().backward()

    run(8)
    """
)
SIN, MULTIPLIED, PRODUCT = (
    next(n for n, line in enumerate(PLANTED.splitlines(), 1) if mark in line)
    for mark in ("x.sin()", "x.cos()", "torch.mm")
)
FRAME = re.compile(r'File "[^"]*model\.py", line (\d+), in')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the report, the page, the artifacts and a log of torch's own, all of one run."""
    folder = tmp_path_factory.mktemp("provenance")
    (folder / "model.py").write_text(PLANTED)
    explain(
        folder / "model.py", "--provenance", "--html", folder / "page.html", "--artifacts", folder / "artifacts",
        cwd=folder, env={"TORCH_TRACE": str(folder / "log"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip
    return folder


def report_of(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "explained.json").read_text())
    return report


def lines(kernel: dict[str, Any]) -> dict[int, int]:
    """The lines of a kernel, each with the number of its calls."""
    return dict(zip([place["line"] for place in kernel["places"]], kernel["place_calls"], strict=True))


def test_two_lines_fuse_and_one_becomes_two_kernels(folder: Path) -> None:
    found = [kernel for kernel in report_of(folder)["kernels"] if kernel["direction"] == "forward"]
    assert [(kernel["kind"], lines(kernel)) for kernel in found] == [
        ("cpp", {SIN: 1, MULTIPLIED: 1}),
        ("extern", {PRODUCT: 1}),
        ("cpp", {PRODUCT: 1}),
    ]
    assert {kernel["provenance"] for kernel in found} == {"inductor"}
    assert [place["code"] for place in found[1]["places"]] == ["return torch.mm(canary_name, w).tanh()"]


def test_it_is_what_torch_recorded(folder: Path) -> None:
    """torch's record names each call of a kernel; ours adds up the calls of one kernel."""
    (artifacts,) = (path for path in (folder / "artifacts").iterdir() if path.is_dir())
    kernels = report_of(folder)["kernels"]
    for direction, suffix in (("forward", ""), ("backward", "_backward")):
        recorded: dict[str, set[int]] = {}
        for handle, stacks in json.loads((artifacts / f"kernel_stacks{suffix}.json").read_text()).items():
            name = handle.rpartition(":")[0].removeprefix("extern_kernels.")
            recorded.setdefault(name, set()).update(int(FRAME.findall(stack)[-1]) for stack in stacks)
        ours = {each["name"]: set(lines(each)) for each in kernels if each["direction"] == direction}
        assert ours == recorded
    nodes = json.loads((artifacts / "kernel_nodes.json").read_text())
    for kernel in (each for each in kernels if each["direction"] == "forward"):
        (recorded_nodes,) = (n for handle, n in nodes["cppCodeToPost"].items() if f"{kernel['name']}:" in handle)
        assert kernel["post_grad_nodes"] == recorded_nodes
        assert set(kernel["source_nodes"]) == {pre for node in recorded_nodes for pre in nodes["postToPre"][node]}


def test_without_source_no_code_is_left(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    _, report = explain(
        folder / "model.py", "--provenance", "--no-source", "--redact", "--html", page, cwd=tmp_path,
        env={"HOME": str(folder), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip
    assert {lines(kernel)[PRODUCT] for kernel in report["kernels"] if PRODUCT in lines(kernel)} == {1, 2}
    for text in ((tmp_path / "explained.json").read_text(), page.read_text()):
        assert "canary" not in text
        assert str(folder) not in text
        assert "~/model.py" in text
