"""Asking an interpreter: steps, limits, what a crash or a hang leaves. What it runs is a script of the test's."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from dynalyze.doctor import ask as asking
from dynalyze.doctor.ask import Asker, _import_packages, _tried
from dynalyze.doctor.packages import exactly, meets, named
from dynalyze.doctor.records import Facts, Package, Trial
from dynalyze.text.errors import UsageError
from limits import WALL_SECONDS

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


@pytest.fixture
def asker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setattr(asking, "_START", tmp_path / "answers.py")
    return Asker(sys.executable, 3.0, lambda _step: None)


def answered_by(body: str, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(ANSWERS + body, encoding="utf-8")


def test_a_package_that_crashes_or_hangs_costs_only_itself(asker: Asker, tmp_path: Path) -> None:
    answered_by(PACKAGES, tmp_path)
    names = ("fine", "crashes", "fails", "hangs", "last", "pure")
    facts = Facts(packages=[Package(name, "1.0", name, binary=name != "pure") for name in names])
    _import_packages(facts, asker)
    found = {package.name: (package.imported, package.error, package.crashed) for package in facts.packages}
    assert found == {
        "fine": (True, "", False),
        "crashes": (True, "the process was ended by SIGSEGV", True),
        "fails": (True, "ImportError: no", False),
        "hangs": (True, "it took longer than 3 s (--timeout)", True),
        "last": (True, "", False),
        "pure": (False, "", False),
    }


def test_without_a_compiler_no_package_is_imported(asker: Asker, tmp_path: Path) -> None:
    answered_by(PACKAGES, tmp_path)
    facts = Facts(packages=[Package("fine", "1.0", "fine", binary=True)], compiler_error="no g++")
    _import_packages(facts, asker)
    assert not facts.packages[0].imported


def test_a_trial_that_crashes_or_hangs_costs_only_itself(asker: Asker, tmp_path: Path) -> None:
    answered_by(TRIALS, tmp_path)
    trials = [("eager", "cpu"), ("inductor", "crashes"), ("inductor", "hangs"), ("inductor", "last")]
    assert _tried(asker, trials) == [
        Trial("eager", "cpu", 0.5),
        Trial("inductor", "crashes", error="Fatal: no device"),
        Trial("inductor", "hangs", error="it took longer than 3 s (--timeout)", unfinished=True),
        Trial("inductor", "last", 0.5),
    ]


def test_where_dynamo_fails_nothing_else_is_tried(asker: Asker, tmp_path: Path) -> None:
    answered_by(TRIALS, tmp_path)
    assert len(_tried(asker, [("eager", "crashes"), ("inductor", "cpu")])) == 1


def test_a_process_that_says_nothing_at_all(asker: Asker, tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text("", encoding="utf-8")
    assert _tried(asker, [("eager", "cpu")]) == [Trial("eager", "cpu", error="it gave no answer")]


def test_the_limit_is_for_each_step_and_each_is_told(tmp_path: Path, asker: Asker) -> None:
    answered_by("for n in range(4):\n    add(doing=f'step {n}')\n    time.sleep(0.9)\nadd(doing='', n=4)", tmp_path)
    told: list[str] = []
    patient = Asker(sys.executable, asker.timeout, told.append)
    assert patient.ask("facts", {}) == {"doing": "", "n": 4}  # 3.6 seconds in all, and no step took 3.
    assert told == [f"step {number}" for number in range(4)]


def test_what_it_started_ends_with_it(tmp_path: Path, asker: Asker) -> None:
    body = "import subprocess\nadd(pid=subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    answered_by(body, tmp_path)
    pid = asker.ask("facts", {})["pid"]
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
        Asker("/nowhere/python", 1.0, print).ask("facts", {})


# Requirements.

_versions = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))
_clauses = st.one_of(
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), _versions).map("".join),
    st.tuples(st.sampled_from(["==", "!="]), _versions, st.just(".*")).map("".join),
    st.tuples(st.just("~="), st.integers(0, 4), st.integers(0, 9)).map(lambda parts: "~={}.{}".format(*parts[1:])),
)


@given(_versions, st.lists(_clauses, max_size=3))
def test_requirements_mean_what_packaging_says(version: str, clauses: list[str]) -> None:
    expected = Version(version) in SpecifierSet(",".join(clauses))
    assert meets(version, f"torch{','.join(clauses)}") is expected
    assert meets(f"{version}+cu128", f"torch ({','.join(clauses)})") is expected


@pytest.mark.parametrize(
    ("requirement", "name", "only"),
    [
        ("triton==3.4.0", "triton", "3.4.0"),
        ("pytorch-triton-rocm==3.4.0", "pytorch-triton-rocm", "3.4.0"),
        ("torch<3,>=2.4", "torch", None),
        ("torch (==2.12.0)", "torch", "2.12.0"),
        ("torch[opt]==2.12.*", "torch", None),
        ("torch", "torch", None),
    ],
)
def test_what_a_requirement_names(requirement: str, name: str, only: str | None) -> None:
    assert (named(requirement), exactly(requirement)) == (name, only)
