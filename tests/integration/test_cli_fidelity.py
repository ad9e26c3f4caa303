"""A target sees what it would see under plain Python, and none of what it prints gets into our output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from program import dynalyze, explain

from limits import WALL_SECONDS

PROBE = '''\
"""What a program can see of the world around it."""
import gc, inspect, json, locale, logging, os, pathlib, signal, sys, threading, warnings

def spec():
    found = __spec__
    return found and [found.name, found.origin, found.parent]

main = sys.modules["__main__"]
seen = {
    "argv": sys.argv,
    "sys.path": sys.path,
    "__name__": __name__,
    "__file__": __file__,
    "__package__": __package__,
    "__spec__": spec(),
    "__doc__": __doc__,
    "__cached__": globals().get("__cached__"),
    "__builtins__": type(__builtins__).__name__,
    "annotations": globals().get("__annotations__"),
    "is __main__": main.__dict__ is globals(),
    "source": inspect.getsource(spec),
    "globals": sorted(set(globals()) - {"__cached__"}),
    "orig_argv": sys.orig_argv,
    "executable": sys.executable,
    "prefix": sys.prefix,
    "flags": list(sys.flags),
    "cwd": os.getcwd(),
    "stdin": sys.stdin.read(),
    "stdin name": sys.stdin.name,
    "encodings": [sys.stdin.encoding, sys.stdout.encoding, sys.stderr.encoding, locale.getpreferredencoding(False)],
    "tty": [sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty()],
    "TORCH_LOGS": os.environ.get("TORCH_LOGS"),
    "warnings": repr(warnings.filters),
    "showwarning": warnings.showwarning.__module__,
    "logging": [repr(handler) for handler in logging.getLogger().handlers] + [logging.getLogger().level],
    "trace": [repr(sys.gettrace()), repr(sys.getprofile()), repr(threading.gettrace())],
    "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
    "SIGINT": repr(signal.getsignal(signal.SIGINT)),
    "SIGTERM": repr(signal.getsignal(signal.SIGTERM)),
    "SIGPIPE": repr(signal.getsignal(signal.SIGPIPE)),
    "thread": [threading.current_thread().name, threading.active_count()],
    "recursion": sys.getrecursionlimit(),
    "gc": [gc.isenabled(), gc.get_threshold()],
    "umask": os.umask(0o022),
    "torch": [name for name in ("torch", "numpy", "msgspec", "click", "rich") if name in sys.modules],
}
pathlib.Path(os.environ["SEEN"]).write_text(json.dumps(seen, default=repr))
'''
FORMS = {
    "script": (["./folder/probe.py"], ["--size", "3", "a b", "--", "-m", ""]),
    "linked": (["linked.py"], ["x"]),
    "module": (["-m", "folder.probe"], ["--size", "3", "-m"]),
    "package": (["-m", "folder"], []),
}
STDIN = "first line\nsecond line: ä\n"

Seen = dict[str, Any]


def seen_by_both(target: list[str], arguments: list[str], cwd: Path) -> tuple[Seen, Seen]:
    """What the probe saw under plain Python, and under dynalyze."""
    (cwd / "folder").mkdir()
    (cwd / "folder/probe.py").write_text(PROBE)
    (cwd / "folder/__main__.py").write_text(PROBE)
    (cwd / "linked.py").symlink_to("folder/probe.py")
    env = {**os.environ, "TORCH_LOGS": "recompiles", "PYTHONWARNINGS": "ignore::ImportWarning", "PYTHONHASHSEED": "7"}
    plain = {**env, "SEEN": str(cwd / "plain.json")}
    subprocess.run(
        [sys.executable, *target, *arguments],
        cwd=cwd,
        env=plain,
        input=STDIN,
        text=True,
        capture_output=True,
        check=True,
    )
    watched = {**env, "SEEN": str(cwd / "watched.json")}
    ended = dynalyze("explain", *target, "--json", "-", "--", *arguments, cwd=cwd, env=watched, stdin=STDIN, real=True)
    assert ended.status == 0, ended.stderr
    return json.loads((cwd / "plain.json").read_text()), json.loads((cwd / "watched.json").read_text())


@pytest.mark.parametrize("form", FORMS)
def test_target_sees_the_same(form: str, tmp_path: Path) -> None:
    plain, watched = seen_by_both(*FORMS[form], tmp_path)
    assert len(plain) > 30 and watched == plain


SPAWNS = """\
import multiprocessing, pickle

class Row:
    def __init__(self, value):
        self.value = value

def doubled(row):
    return Row(row.value * 2)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print("spawned", [row.value for row in pool.map(doubled, [Row(2), Row(3)])])
    print("pickled", pickle.loads(pickle.dumps(Row(5))).value)
"""


def test_spawned_workers_unpickle_what_main_defines(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(SPAWNS)
    ended, report = explain("-m", "jobs", cwd=tmp_path, real=True)
    assert "spawned [4, 6]" in ended.stderr
    assert "pickled 5" in ended.stderr
    assert report["outcome"]["exit_status"] == 0


def test_a_traceback_is_the_one_plain_python_prints(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(
        "def load(path):\n    try:\n        return {}[path]\n    except KeyError as error:\n"
        "        raise ValueError(path) from error\n\nload('weights')\n"
    )
    plain = subprocess.run([sys.executable, "model.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    ended, _ = explain("model.py", cwd=tmp_path, real=True)
    assert plain.stderr.count("Traceback") == 2
    assert plain.stderr in ended.stderr


# ---- streams ----------------------------------------------------------------------------------------------

LOUD = """\
import os, subprocess, sys
print("from print")
sys.stdout.write("X" * 200_000 + "\\n")
sys.stderr.write("Y" * 200_000 + "\\n")
os.write(1, b"from os.write 1\\n")
os.write(2, b"from os.write 2\\n")
subprocess.run([sys.executable, "-c", "print('from a subprocess')"])
subprocess.Popen(["sh", "-c", "echo from a shell"]).wait()
sys.__stdout__.write('{"schema_version": "of the target"}\\n')
os.write(1, b"\\xff\\xfe no text\\n")
print("no end of line", end="")
"""
SAID = ("from print", "from os.write 1", "from os.write 2", "from a subprocess", "from a shell", "no end of line")


@pytest.mark.parametrize("quiet", [False, True])
def test_json_to_standard_output_is_one_document(tmp_path: Path, quiet: bool) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    options = ["--quiet-target"] if quiet else []
    ended = subprocess.run(
        [sys.executable, "-m", "dynalyze", "explain", "--no-bench", "loud.py", "--json", "-", *options],
        cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, timeout=WALL_SECONDS, check=True,
    )  # fmt: skip
    assert json.loads(ended.stdout)["schema_version"] == 1
    errors = ended.stderr.decode(errors="replace")
    assert [said in errors for said in SAID] == [not quiet] * len(SAID)
    if not quiet:
        assert errors.count("X") == errors.count("Y") == 200_000
        assert b"\xff\xfe no text" in ended.stderr


def test_output_in_the_order_it_came(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text("import os\nfor n in range(50): os.write(1 + n % 2, b'step %d\\n' % n)\n")
    ended = dynalyze("explain", "steps.py", "--json", "-", cwd=tmp_path, real=True)
    steps = [int(line.split()[1]) for line in ended.stderr.splitlines() if line.startswith("step ")]
    assert sorted(steps) == list(range(50))
    assert [n for n in steps if n % 2] == list(range(1, 50, 2))


# ---- another interpreter ----------------------------------------------------------------------------------

OURS_ALONE = ("click", "rich", "msgspec", "pygments", "dynalyze")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An environment with torch and what torch needs, without dynalyze and without what dynalyze needs."""
    import torch

    folder = tmp_path
    venv.create(folder / "env", with_pip=False, symlinks=True)
    (site,) = (folder / "env/lib").glob("python*/site-packages")
    for entry in Path(torch.__file__).parents[1].iterdir():
        if not entry.name.lower().lstrip("_").startswith(OURS_ALONE) and entry.suffix != ".pth":
            (site / entry.name).symlink_to(entry)
    return folder


def test_another_interpreter_needs_only_torch(project: Path) -> None:
    (project / "model.py").write_text(
        "import importlib.util, sys, torch\n"
        f"print('ours', [name for name in {OURS_ALONE!r} if importlib.util.find_spec(name)])\n"
        "print('prefix', sys.prefix)\n"
        "@torch.compile(backend='eager')\n"
        "def half(x):\n"
        "    print('half')\n"
        "    return x / 2\n"
        "half(torch.ones(3))\n"
    )
    ended, report = explain("model.py", "--python", "env/bin/python", cwd=project, real=True)
    assert ended.status == 0, ended.stderr
    assert f"prefix {project / 'env'}" in ended.stderr
    assert [each["location"]["line"] for each in report["graph_breaks"]] == [6]


READS = """
import torch

@torch.compile(backend="eager")
def f(x, n):
    k = int(x.sum()) + n
    return x * k

for n in range(3):
    f(torch.ones(4), n)
    f(torch.ones(4) * n, n)
"""


def test_a_target_above_the_working_folder_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "reads.py").write_text(READS)
    _, report = explain("../reads.py", cwd=tmp_path / "work")
    places = [each["location"] for kind in ("graph_breaks", "recompiles", "compilations") for each in report[kind]]
    assert {each["file"] for each in places} == {str(tmp_path / "reads.py")}
    assert report["recompiles"] and {
        each["result_of"]["line"] for each in report["recompiles"] if each["result_of"]
    } == {6}
