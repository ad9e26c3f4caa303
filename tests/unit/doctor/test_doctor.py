"""What the doctor.probes an interpreter, and what it says of each thing that can be wrong."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dynalyze.doctor.checks import diagnose, render
from dynalyze.doctor.packages import meets
from dynalyze.doctor.probe import Prober, _import_packages, _tried, folder, trials_of
from dynalyze.doctor.records import CompileTrial, Device, Facts, Folder, Line, Package
from dynalyze.launch import run as running
from dynalyze.text.errors import UsageError
from limits import WALL_SECONDS

CPU = Facts(
    interpreter="/env/bin/python", python="3.11.7", system="Linux", machine="x86_64", torch="2.13.0+cpu",
    disabled=False, devices=[], compiler="g++", include="/env/include", headers_error="", openmp_error="",
    folders=[Folder("Inductor", "/tmp/torchinductor_ada", True, True, 50 << 30)],
    packages=[Package("peft", "0.21.2", "peft", ["torch>=1.13.0"])],
    trials=[CompileTrial("eager", "cpu", 0.5), CompileTrial("inductor", "cpu", 9.0)],
)  # fmt: skip
GPU = replace(
    CPU, torch="2.13.0", cuda="12.8", triton="3.4.0", triton_wanted="triton==3.4.0",
    arches=["sm_80", "sm_90"], devices=[Device("H100", [9, 0])],
    trials=[*CPU.trials, CompileTrial("inductor", "cuda", 5.0)],
)  # fmt: skip
ANSWERS = """
import json, os, sys, time
what, file = sys.argv[1:]
request = json.load(open(file))
found = {}


def add(**more):
    found.update(more)
    with open(file + ".new", "w") as out:
        json.dump(found, out)
    os.replace(file + ".new", file)


"""
PACKAGES = """
for name, module in request["packages"]:
    add(at=name, doing="importing " + name)
    if name == "crashes":
        os.kill(os.getpid(), 11)
    if name == "hangs":
        time.sleep(60)
    found.setdefault("errors", {})[name] = "ImportError: no" if name == "fails" else ""
    add()
"""
TRIALS = """
for backend, device in request["trials"]:
    add(doing=device)
    if device == "crashes":
        print("noise")
        sys.exit("Fatal: no device")
    if device == "hangs":
        time.sleep(60)
    found.setdefault("trials", []).append({"backend": backend, "device": device, "seconds": 0.5})
    add()
"""


def line(facts: Facts, check: str) -> Line:
    return next(each for each in diagnose(facts).lines if each.check == check)


@pytest.mark.parametrize("facts", [CPU, GPU], ids=["cpu", "gpu"])
def test_all_well(facts: Facts) -> None:
    found = diagnose(facts)
    assert found.works
    assert found.summary == "torch.compile works here."
    assert {each.status for each in found.lines} == {"ok"}
    assert not any(each.mend for each in found.lines)


FATAL: dict[str, tuple[dict[str, Any], str, str]] = {
    "no torch": ({"torch": None}, "torch", '/env/bin/python -m pip install "torch>=2.8"'),
    "torch does not import": (
        {"torch_error": "OSError: libtorch.so"}, "torch",
        "/env/bin/python -m pip install --force-reinstall torch==2.13.0",
    ),
    "switched off": ({"variables": {"TORCHDYNAMO_DISABLE": "1"}}, "Dynamo", "unset TORCHDYNAMO_DISABLE"),
    "switched off too": ({"variables": {"TORCH_COMPILE_DISABLE": "1"}}, "Dynamo", "unset TORCH_COMPILE_DISABLE"),
    "no compiler": ({"compiler": None, "compiler_error": "none"}, "C++ compiler", "sudo apt-get install g++"),
    "a broken compiler": ({"compiler_error": "ld: no crt1.o"}, "C++ compiler", "sudo apt-get install g++"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "check", "mend"), FATAL.values(), ids=FATAL)
def test_what_makes_compile_impossible(changes: dict[str, Any], check: str, mend: str) -> None:
    facts = replace(CPU, **changes)
    found = diagnose(facts)
    assert not found.works
    assert found.summary.startswith("torch.compile cannot work here.")
    assert (line(facts, check).status, line(facts, check).fatal, line(facts, check).mend) == ("problem", True, mend)


def test_without_a_compiler_a_gpu_still_works() -> None:
    facts = replace(GPU, compiler=None, compiler_error="none", trials=[CPU.trials[0], GPU.trials[2]])
    assert diagnose(facts).works
    assert line(facts, "C++ compiler").status == "warning"


@pytest.mark.parametrize(
    ("trials", "works"),
    [
        ([CompileTrial("eager", "cpu", error="it compiled nothing")], False),
        ([CompileTrial("eager", "cpu"), CompileTrial("inductor", "cpu", error="CppCompileError")], False),
        (
            [
                CompileTrial("eager", "cpu"),
                CompileTrial("inductor", "cpu", error="x"),
                CompileTrial("inductor", "cuda", error="y"),
            ],
            False,
        ),
        (
            [
                CompileTrial("eager", "cpu"),
                CompileTrial("inductor", "cpu", error="x"),
                CompileTrial("inductor", "cuda"),
            ],
            True,
        ),
        ([CompileTrial("eager", "cpu"), CompileTrial("inductor", "cpu", error="too long", unfinished=True)], True),
    ],
)
def test_the_compile_itself_decides(trials: list[CompileTrial], works: bool) -> None:
    assert diagnose(replace(CPU, trials=trials)).works is works


@pytest.mark.parametrize(
    ("changes", "check", "status", "mend"),
    [
        ({"torch": "2.6.0"}, "torch", "warning", '/env/bin/python -m pip install --upgrade "torch>=2.8"'),
        (
            {"headers_error": "Python.h: no such file"},
            "Python headers",
            "problem",
            "sudo apt-get install python3.11-dev",
        ),
        ({"headers_error": None}, "Python headers", "unknown", ""),
        ({"openmp_error": "omp.h"}, "OpenMP", "warning", "sudo apt-get install libgomp1 g++"),
        ({"cuda": "12.8"}, "GPU", "warning", "nvidia-smi"),
        ({"cuda": "12.8", "devices": None}, "GPU", "unknown", ""),
    ],
)
def test_what_is_less_than_well(changes: dict[str, Any], check: str, status: str, mend: str) -> None:
    found = line(replace(CPU, **changes), check)
    assert (found.status, found.mend, found.fatal) == (status, mend, False)


@pytest.mark.parametrize(
    ("capability", "status"),
    [([9, 0], "ok"), ([8, 0], "ok"), ([7, 5], "warning"), ([7, 0], "warning"), ([6, 1], "problem")],
)
def test_the_capability_of_a_gpu(capability: list[int], status: str) -> None:
    assert line(replace(GPU, arches=[], devices=[Device("a GPU", capability)]), "GPU").status == status


@pytest.mark.parametrize(
    ("capability", "arches", "has_code"),
    [
        ([8, 6], ["sm_80", "sm_90"], True),  # Machine code for 8.0 runs on 8.6.
        ([12, 0], ["sm_80", "sm_90"], False),
        ([12, 0], ["sm_90", "compute_90"], True),  # PTX is compiled for later devices.
        ([7, 0], ["sm_75", "sm_80"], False),
        ([10, 0], ["sm_90a", "sm_100", "sm_120"], True),
    ],
)
def test_a_torch_without_code_for_the_device(capability: list[int], arches: list[str], has_code: bool) -> None:
    found = line(replace(GPU, devices=[Device("a GPU", capability)], arches=arches), "GPU")
    assert ("this torch has no code for it" in found.found) is not has_code
    if not has_code:
        assert (found.status, found.fatal) == ("problem", False)
        assert found.mend.endswith("https://pytorch.org/get-started/previous-versions")


def test_triton_goes_with_torch() -> None:
    assert line(replace(GPU, triton="3.2.0"), "Triton").status == "warning"
    missing = line(replace(GPU, triton=None), "Triton")
    assert (missing.status, missing.mend) == ("problem", '/env/bin/python -m pip install "triton==3.4.0"')


def test_a_cuda_build_of_torchvision_beside_a_torch_for_the_cpu() -> None:
    package = Package("torchvision", "0.28.0", error="RuntimeError: operator torchvision::nms does not exist")
    found = line(replace(CPU, packages=[package]), "torchvision")
    assert found.status == "problem"
    assert "--index-url https://download.pytorch.org/whl/cpu" in found.mend
    assert "whl/cpu" not in line(replace(GPU, packages=[package]), "torchvision").mend


def flash_attn(version: str, error: str = "") -> Package:
    return Package("flash-attn", version, "flash_attn", ["torch"], binary=True, imported=True, error=error)


REBUILD = "/env/bin/python -m pip install --force-reinstall --no-deps --no-build-isolation --no-binary :all: flash-attn"


@pytest.mark.parametrize(
    ("package", "status", "mend"),
    [
        (flash_attn("2.8.3+cu12torch2.13cxx11abiTRUE"), "ok", ""),
        (flash_attn("2.8.3+cu12torch2.7cxx11abiTRUE"), "warning", REBUILD),
        (flash_attn("2.8.3", "ImportError: undefined symbol: _ZN3c104cuda9SetDeviceEa"), "problem", REBUILD),
        (
            Package("torchvision", "0.27.0", requires=["torch==2.12.0"], binary=True, imported=True), "problem",
            '/env/bin/python -m pip install --force-reinstall --no-deps "torchvision==0.28.*"',
        ),
        (
            Package("peft", "0.99", requires=["torch>=2.14"]), "problem",
            '/env/bin/python -m pip install --upgrade "torch==2.13.0" peft',
        ),
        (Package("bitsandbytes", "0.50.2", requires=["torch<3,>=2.4"], binary=True, imported=True), "ok", ""),
    ],
)  # fmt: skip
def test_a_package_and_the_torch_that_it_was_made_for(package: Package, status: str, mend: str) -> None:
    found = line(replace(GPU, packages=[package]), package.name)
    assert (found.status, found.mend) == (status, mend)


def test_a_package_whose_import_ends_the_process() -> None:
    package = Package("flash-attn", "2.8.3", error="the process was ended by SIGSEGV", crashed=True)
    found = line(replace(CPU, packages=[package]), "flash-attn")
    assert (found.status, found.mend) == ("problem", "/env/bin/python -m pip uninstall flash-attn")


@pytest.mark.parametrize(("writable", "runs"), [(False, True), (True, False)], ids=["read-only", "noexec"])
@pytest.mark.parametrize("name", ["Inductor", "Triton"])
def test_a_cache_folder_that_cannot_hold_code(name: str, writable: bool, runs: bool) -> None:
    facts = replace(GPU, folders=[Folder(name, "/ro/cache", True, writable, 50 << 30, runs)])
    found = line(facts, f"{name} cache")
    variable = {"Inductor": "TORCHINDUCTOR_CACHE_DIR", "Triton": "TRITON_CACHE_DIR"}[name]
    assert (found.status, found.mend) == ("problem", f"export {variable}=/a/folder/with/room")
    # Without its cache Inductor compiles for no device; Triton's is for a GPU alone.
    assert diagnose(facts).works is (name == "Triton")


@pytest.mark.parametrize(
    ("facts", "trials"),
    [
        (CPU, [("eager", "cpu"), ("inductor", "cpu")]),
        (GPU, [("eager", "cpu"), ("inductor", "cpu"), ("inductor", "cuda")]),
        (replace(CPU, compiler_error="no crt1.o"), [("eager", "cpu")]),
        (replace(GPU, compiler_error="no crt1.o"), [("eager", "cpu"), ("inductor", "cuda")]),
    ],
)
def test_only_what_can_come_out_right_is_tried(facts: Facts, trials: list[tuple[str, str]]) -> None:
    assert trials_of(facts) == trials


def test_caches(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "file").write_text("")
    here = folder("Inductor", str(tmp_path / "cache"))
    assert (here.exists, here.writable) == (True, True)
    assert folder("Inductor", str(tmp_path / "a" / "b")).writable
    under_a_file = folder("Inductor", str(tmp_path / "file" / "cache"))
    assert not under_a_file.writable
    assert (
        line(replace(CPU, folders=[under_a_file]), "Inductor cache").mend
        == "export TORCHINDUCTOR_CACHE_DIR=/a/folder/with/room"
    )
    assert line(replace(CPU, folders=[replace(here, free=1 << 20)]), "Inductor cache").status == "warning"


def test_the_text_fits_eighty_columns_and_commands_stay_whole() -> None:
    package = Package("torchvision", "0.27.0", error="RuntimeError: operator torchvision::nms does not exist" * 3)
    variables = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    found = diagnose(replace(CPU, packages=[package], variables=variables, compiler_error="x" * 200))
    text = render(found, color=False, width=80)
    assert "\x1b" not in text
    lines = text.splitlines()
    assert all(len(each) <= 80 for each in lines if "→" not in each)
    assert {each.strip() for each in lines if "→" in each} == {f"→ {each.mend}" for each in found.lines if each.mend}


@pytest.fixture
def prober(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prober:
    monkeypatch.setattr(running, "START", tmp_path / "answers.py")
    return Prober(sys.executable, 3.0, lambda _step: None)


def answered_by(body: str, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(ANSWERS + body, encoding="utf-8")


def test_a_package_that_crashes_or_hangs_costs_only_itself(prober: Prober, tmp_path: Path) -> None:
    answered_by(PACKAGES, tmp_path)
    names = ("fine", "crashes", "fails", "hangs", "last", "pure")
    facts = Facts(packages=[Package(name, "1.0", name, binary=name != "pure") for name in names])
    _import_packages(facts, prober)
    found = {package.name: (package.imported, package.error, package.crashed) for package in facts.packages}
    assert found == {
        "fine": (True, "", False),
        "crashes": (True, "the process was ended by SIGSEGV", True),
        "fails": (True, "ImportError: no", False),
        "hangs": (True, "it took longer than 3 s (--timeout)", True),
        "last": (True, "", False),
        "pure": (False, "", False),
    }


def test_a_trial_that_crashes_or_hangs_costs_only_itself(prober: Prober, tmp_path: Path) -> None:
    answered_by(TRIALS, tmp_path)
    trials = [("eager", "cpu"), ("inductor", "crashes"), ("inductor", "hangs"), ("inductor", "last")]
    assert _tried(prober, trials) == [
        CompileTrial("eager", "cpu", 0.5),
        CompileTrial("inductor", "crashes", error="Fatal: no device"),
        CompileTrial("inductor", "hangs", error="it took longer than 3 s (--timeout)", unfinished=True),
        CompileTrial("inductor", "last", 0.5),
    ]


def test_the_limit_is_for_each_step_and_each_is_told(tmp_path: Path, prober: Prober) -> None:
    answered_by("for n in range(4):\n    add(doing=f'step {n}')\n    time.sleep(0.9)\nadd(doing='', n=4)", tmp_path)
    steps: list[str] = []
    patient = Prober(sys.executable, prober.timeout, steps.append)
    assert patient.probe("facts", {}) == {"doing": "", "n": 4}  # 3.6 seconds in all, and no step took 3.
    assert steps == [f"step {number}" for number in range(4)]


def test_what_it_started_ends_with_it(tmp_path: Path, prober: Prober) -> None:
    body = "import subprocess\nadd(pid=subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    answered_by(body, tmp_path)
    pid = prober.probe("facts", {})["pid"]
    deadline = time.monotonic() + WALL_SECONDS
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_no_such_interpreter() -> None:
    with pytest.raises(UsageError, match="/nowhere/python cannot be started"):
        Prober("/nowhere/python", 1.0, print).probe("facts", {})


@pytest.mark.parametrize(
    ("version", "requirement", "expected"),
    [
        ("2.8.0+cu128", "torch (>=2.4,<3)", True),
        ("2.8.0+cu128", "torch==2.8", True),
        ("2.8.0+cpu", "torch==2.8.0+cu128", False),
        ("2.9.0.dev20250801+cpu", "torch>=2.9", True),
        ("2.9.0", "torch~=2.8.1", False),
        ("2.9.0", "torch>=2.4.*", True),  # No requirement that anything can meet.
        ("a fork", "torch>=3", True),
    ],
)
def test_requirements(version: str, requirement: str, expected: bool) -> None:
    assert meets(version, requirement) is expected
