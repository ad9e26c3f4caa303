"""A program run by dynalyze finds what Python itself would have given it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from limits import WALL_SECONDS

# Stands in for start.py without the listener: runs a program and prints how it ended.
DRIVER = """
import json, sys
sys.path[0] = {capture!r}
from dynalyze.capture import program
from dynalyze.capture.inputs import Misuse
try:
    ending, names = program.{call}
    told = {{**vars(ending), "names": sorted(n for n in names if not n.startswith("__"))}}
except Misuse as misuse:
    told = {{"misuse": str(misuse)}}
open({told!r}, "w").write(json.dumps(told))
"""
CAPTURE = str(Path(__file__).resolve().parents[3] / "analyzer" / "dynalyze" / "capture")

# What a program can see of itself.
MIRROR = """
import inspect, json, os, pickle, sys
class Thing: pass
def f(): return Thing
spec = __spec__
print(json.dumps({
    "name": __name__, "file": __file__, "package": __package__, "cached": __cached__, "doc": __doc__,
    "spec": spec and [spec.name, spec.origin], "argv": sys.argv, "path0": sys.path[0], "cwd": os.getcwd(),
    "main": sys.modules["__main__"].__dict__ is globals(), "builtins": __builtins__.__class__.__name__,
    "pickled": pickle.loads(pickle.dumps(Thing())).__class__ is Thing, "module": f().__module__,
    "source": inspect.getsource(f), "annotations": globals().get("__annotations__"), "orig": sys.orig_argv[1:],
    "ours": [p for p in sys.path if p.startswith({capture!r})], "flags": getattr(sys.flags, "safe_path", None),
}))
"""


def run(folder: Path, call: str, stdin: str = "") -> tuple[dict[str, Any], str, str]:
    """Ending, standard output and standard error of a call of run_script or run_module."""
    told = folder / "told.json"
    driver = DRIVER.format(capture=CAPTURE, call=call, told=str(told))
    done = subprocess.run(
        [sys.executable, "-c", driver],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=WALL_SECONDS,
        input=stdin,
    )
    assert told.exists(), done.stderr
    return json.loads(told.read_text()), done.stdout, done.stderr


def script(
    folder: Path, source: str | bytes, *arguments: str, name: str = "model.py"
) -> tuple[dict[str, Any], str, str]:
    (folder / name).write_bytes(source if isinstance(source, bytes) else source.encode())
    return run(folder, f"run_script({name!r}, {list(arguments)!r})")


def python(folder: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def mirror(folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(MIRROR.replace("{capture!r}", repr(CAPTURE)))


@pytest.mark.parametrize("given", ["model.py", "./model.py", "sub/model.py", "sub/../model.py", "link.py"])
def test_a_script_sees_what_python_would_show_it(tmp_path: Path, given: str) -> None:
    for name in ("model.py", "sub/model.py", "real/there.py"):
        mirror(tmp_path, name)
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "there.py")
    _, out, _ = run(tmp_path, f"run_script({given!r}, ['--lr', '0.1', ''])")
    seen, true = json.loads(out), python(tmp_path, given, "--lr", "0.1", "")
    assert seen == true


def test_a_module_sees_what_python_would_show_it(tmp_path: Path) -> None:
    for name in ("package/__init__.py", "package/sub.py", "package/inner/__init__.py", "package/inner/__main__.py"):
        mirror(tmp_path, name)
    for name in ("package/__init__.py", "package/inner/__init__.py"):
        (tmp_path / name).write_text("")
    for module in ("package.sub", "package.inner"):
        _, out, _ = run(tmp_path, f"run_module({module!r}, ['a', '-b'])")
        seen, true = json.loads(out), python(tmp_path, "-m", module, "a", "-b")
        assert seen == true


@pytest.mark.parametrize(
    ("leaving", "status"),
    [
        ("sys.exit()", 0),
        ("sys.exit(None)", 0),
        ("sys.exit(0)", 0),
        ("sys.exit(3)", 3),
        ("sys.exit(256)", 0),
        ("sys.exit(-1)", 255),
        ("sys.exit(True)", 1),
        ("sys.exit('no batch')", 1),
        ("raise SystemExit(4)", 4),
        ("raise ValueError('x')", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_the_exit_status_is_what_a_shell_would_see(tmp_path: Path, leaving: str, status: int) -> None:
    told, _, err = script(tmp_path, f"import sys\n{leaving}\n")
    assert told["exit_status"] == status
    assert ("no batch" in err) == ("no batch" in leaving)
    if "Interrupt" not in leaving:
        done = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == status


def test_an_exception_is_printed_as_python_does(tmp_path: Path) -> None:
    source = "def f():\n    raise ValueError('no batch')\n\n\nf()\n"
    told, _, err = script(tmp_path, source)
    done = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert err == done.stderr
    assert (told["exception"], told["message"]) == ("ValueError", "ValueError: no batch")
    assert (told["file"], told["line"]) == (str(tmp_path / "model.py"), 2)


def test_the_programs_own_excepthook_is_heeded(tmp_path: Path) -> None:
    source = "import sys\nsys.excepthook = lambda kind, e, trace: print('hooked', e)\nraise ValueError('x')\n"
    told, out, err = script(tmp_path, source)
    assert out == "hooked x\n"
    assert "Traceback" not in err
    assert told["exit_status"] == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def f(:\n", "model.py:1"),
        ("x = 1\nreturn\n", "model.py:2"),
        (b"x = 1\n\x00\n", "null"),
        (b"# coding: nonsense\nx = 1\n", "nonsense"),
        (b"x = '\xff'\n", "utf-8"),
        ("if x:\npass\n", "model.py:2"),
    ],
    ids=range(6),
)
def test_a_file_that_is_no_python_is_the_users_mistake(tmp_path: Path, source: str | bytes, says: str) -> None:
    told, _, err = script(tmp_path, source)
    assert says in told["misuse"].lower()
    assert "\n" not in told["misuse"]
    assert "Traceback" not in err


def test_a_broken_module_that_the_program_imports_is_its_own_failure(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    told, _, err = script(tmp_path, "import broken\n")
    assert (told["exit_status"], told["exception"]) == (1, "SyntaxError")
    assert "broken.py" in err


def test_no_future_of_ours_leaks_into_the_program(tmp_path: Path) -> None:
    """dynalyze's own modules postpone annotations; the program's are evaluated unless it asks otherwise."""
    _, out, _ = script(tmp_path, "def f(x: int): ...\nprint(f.__annotations__)\n")
    assert out == "{'x': <class 'int'>}\n"


@pytest.mark.parametrize("name", ["no_such_module", "package.none", "package"])
def test_modules_that_cannot_be_run_are_the_users_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    told, _, err = run(tmp_path, f"run_module({name!r}, [])")
    assert name in told["misuse"]
    assert "Traceback" not in err


def test_a_package_that_fails_on_import_is_the_programs_own_failure(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise ValueError('no config')\n")
    (tmp_path / "package" / "sub.py").write_text("print('never')\n")
    told, out, err = run(tmp_path, "run_module('package.sub', [])")
    assert (told["exit_status"], told["exception"], out) == (1, "ValueError", "")
    assert "no config" in err
    assert told["file"] == str(tmp_path / "package" / "__init__.py")
