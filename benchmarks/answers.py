"""Are wrong answers that were real found? The programs of tests/answers, each on the versions of torch that there are.

    .venv/bin/python benchmarks/answers.py                                         # this interpreter
    .venv/bin/python benchmarks/answers.py --python OLD/bin/python --python NEW/bin/python --only 174073,197895
    .venv/bin/python benchmarks/answers.py --write                                 # what came out, into the table

Each program runs in eager and compiled, in a process of its own and with the backend that ends
at the stage at fault, and what differs is looked for in a plain way that
shares nothing with dynalyze: values (measured from fp64, where the table does not say that eager is the truth), NaN,
dtypes, shapes, strides, classes, `requires_grad`, gradients, which tensors share memory or are the same, changes of
arguments and buffers, Python values, exceptions, and where the random numbers stand. A version is

    wrong   compiled differs from eager, and says nothing
    right   it does not, or it fails as eager does
    error   compiled fails where eager does not: wrong, but not silently

`--minimal` lets the search of an audit reduce the program to a small one too, and runs the script of that alone; with
`--larger` the program stands beside other layers in one function.

`--found` asks dynalyze for its verdict on the same program, with the process that audits and benchmarks ask, and the
search of an audit for the stage. `fault` in the table is the stage that is at fault by the issue or its fix, `why` the
reason; `stage` is the first backend with wrong answers.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "answers"
TABLE = PROGRAMS / "answers.json"
SECONDS = 600
# The backend of torch that has the stage at fault, and none that comes after it.
BACKENDS = {
    "dynamo": "eager", "aot_autograd": "aot_eager", "decompositions": "aot_eager_decomp_partition",
    "inductor": "inductor",
}  # fmt: skip
STAGES = list(BACKENDS)
_FACTOR, _SHARE = 3.0, 1e-4
_TOLERANCES = {"torch.float64": 1e-9, "torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 4e-2}


def table() -> dict[str, Any]:
    return json.loads(TABLE.read_text())


# In the process of one program.


def differences(entry: dict[str, Any]) -> dict[str, Any]:
    """What compiled does otherwise than eager: `verdict`, and the kinds and places of what differs."""
    import torch

    torch._inductor.config.fallback_random = True  # The same random numbers as eager's, where it draws as many.
    eager = observed(entry, compiled=False)
    compiled = observed(entry, compiled=True)
    if compiled["raises"] and not eager["raises"]:
        return {"verdict": "error", "differs": [compiled["raises"]]}
    if eager["raises"] and compiled["raises"]:
        return {"verdict": "right", "differs": []}
    if eager["raises"]:
        return {"verdict": "wrong", "differs": [f"exception: eager raises {eager['raises']}"]}
    again = observed(entry, compiled=False)
    if list(unlike(again["seen"], eager["seen"], {}, "")):
        return {"verdict": "error", "differs": ["eager differs from itself"]}
    exact = observed(entry, compiled=False, exact=True) if entry.get("truth", "fp64") == "fp64" else {"raises": "-"}
    anchors = {} if exact["raises"] else dict(_tensors(exact["seen"], ""))
    found = sorted(set(unlike(eager["seen"], compiled["seen"], anchors, "")))
    return {"verdict": "wrong" if found else "right", "differs": found[:20]}


def observed(entry: dict[str, Any], *, compiled: bool, exact: bool = False) -> dict[str, Any]:
    """Everything that a user can see of the program's calls; `raises` is what they ended with, "" for nothing."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(7)
    module = _module(entry)
    program, calls = module.build()
    if exact:
        program, calls = _in_fp64(program), _in_fp64(calls)
    options: dict[str, Any] = {"backend": BACKENDS[entry["stage"]]} | (
        {"dynamic": True} if entry.get("dynamic") else {}
    )
    target = torch.compile(program, **options) if compiled else program
    seen: list[Any] = []
    torch.manual_seed(11)
    try:
        if hasattr(module, "use"):
            seen.append({"used": module.use(program, target)})
        else:
            grad = entry.get("phase") == "train"
            seen += [_one_call(target, call, grad) for call in (calls if isinstance(calls, list) else [calls])]
    except Exception as error:
        return {"raises": f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:160]}
    seen.append({"random": torch.get_rng_state().tolist()})
    if hasattr(module, "seen"):
        seen.append({"python": module.seen(program)})
    if isinstance(program, torch.nn.Module):
        seen.append({"buffer": dict(program.named_buffers())})
    return {"raises": "", "seen": seen}


def _module(entry: dict[str, Any]) -> Any:
    path = PROGRAMS / f"issue_{entry['issue']}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _one_call(target: Callable[..., Any], call: tuple[Any, ...], grad: bool) -> dict[str, Any]:
    import torch

    with torch.set_grad_enabled(grad):
        result = target(*call)
        gradients = _gradients(result, call, target) if grad else {}
    tensors = [tensor for _, tensor in _tensors({"argument": list(call), "result": result}, "")]
    shared = [[one.untyped_storage()._cdata == two.untyped_storage()._cdata for two in tensors] for one in tensors]
    same = [[one is two for two in tensors] for one in tensors]
    if hasattr(result, "__next__"):
        result = (type(result).__name__, list(result))
    return {
        "result": result, "argument": call, "gradient": gradients, "shares memory": shared, "is the same": same,
    }  # fmt: skip


def _gradients(result: Any, call: tuple[Any, ...], target: Any) -> dict[str, Any]:
    import torch

    ends = [t for _, t in _tensors(result, "") if t.requires_grad]
    leaves = {f"argument {n}": t for n, t in enumerate(call) if isinstance(t, torch.Tensor) and t.requires_grad}
    leaves |= dict(target.named_parameters()) if isinstance(target, torch.nn.Module) else {}
    if not ends or not leaves:
        return {}
    weights = [torch.linspace(0.5, 1.5, end.numel()).reshape(end.shape).to(end.dtype) for end in ends]
    found = torch.autograd.grad(ends, list(leaves.values()), weights, allow_unused=True)
    return dict(zip(leaves, found, strict=True))


def _in_fp64(value: Any) -> Any:
    import torch

    if isinstance(value, torch.nn.Module):
        return value.double()
    if isinstance(value, torch.Tensor):
        wide = torch.complex128 if value.is_complex() else torch.float64
        if not (value.is_floating_point() or value.is_complex()):
            return value
        return value.detach().to(wide).requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(_in_fp64(item) for item in value)
    return value


def _children(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        yield from vars(value).items()


def _tensors(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
        return
    for name, item in _children(value):
        yield from _tensors(item, f"{path}.{name}")


def unlike(one: Any, two: Any, exact: dict[str, Any], path: str) -> Iterator[str]:
    """What differs between two values, as "kind: place"."""
    import torch

    if type(one).__qualname__ != type(two).__qualname__:  # The module is imported anew each time, with its classes.
        yield f"class: {path} is {type(one).__name__}, compiled {type(two).__name__}"
    elif isinstance(one, torch.Tensor):
        yield from _unlike_tensors(one, two, exact.get(path), path)
    elif isinstance(one, (dict, list, tuple)) or list(_children(one)):
        ours, theirs = list(_children(one)), list(_children(two))
        if [name for name, _ in ours] != [name for name, _ in theirs]:
            yield f"python: {path} holds other things"
            return
        for (name, mine), (_, other) in zip(ours, theirs, strict=True):
            yield from unlike(mine, other, exact, f"{path}.{name}")
    elif type(one).__module__ == "numpy":
        if one.dtype != two.dtype:
            yield f"dtype: {path} is {one.dtype}, compiled {two.dtype}"
        yield from unlike(torch.as_tensor(one), torch.as_tensor(two), exact, path)
    elif isinstance(one, (bool, int, float, str, bytes, complex)) and one != two and not (one != one and two != two):
        yield f"python: {path} is {str(one)[:40]}, compiled {str(two)[:40]}"


def _unlike_tensors(one: Any, two: Any, exact: Any, path: str) -> Iterator[str]:
    for name in ("dtype", "shape", "requires_grad"):
        if getattr(one, name) != getattr(two, name):
            yield f"{name}: {path} has {getattr(one, name)}, compiled {getattr(two, name)}"
    if one.shape != two.shape:
        return
    if _steps(one) != _steps(two):
        yield f"stride: {path} has {one.stride()}, compiled {two.stride()}"
    if one.dtype == two.dtype and not _close(one.detach(), two.detach(), exact):
        yield f"values: {path}"


def _steps(tensor: Any) -> list[int]:
    """The strides that say something: a dimension of one, or of an empty tensor, can have any."""
    return [step for size, step in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()]


def _close(one: Any, two: Any, exact: Any) -> bool:
    import torch

    tolerance = _TOLERANCES.get(str(one.dtype), 1e-4 if one.is_complex() else None)
    if tolerance is None:
        return torch.equal(one, two)
    wide = torch.complex128 if one.is_complex() else torch.float64
    one, two = one.to(wide), two.to(wide)
    if not torch.equal(torch.isfinite(one), torch.isfinite(two)) or not torch.equal(one.isnan(), two.isnan()):
        return False
    one, two = (torch.nan_to_num(each, 0.0, 1.0, -1.0) if not each.is_complex() else each for each in (one, two))
    if torch.allclose(one, two, rtol=tolerance, atol=tolerance * _size(one)):
        return True
    if exact is None or exact.shape != one.shape:
        return False
    truth = exact.detach().to(wide)
    if not torch.isfinite(truth).all():
        return False
    return _size(two - truth) <= _FACTOR * _size(one - truth) + _SHARE * _size(truth)


def _size(tensor: Any) -> float:
    return float(tensor.abs().square().mean().sqrt()) if tensor.numel() else 0.0


def verdict_of_dynalyze(entry: dict[str, Any]) -> dict[str, Any]:
    """What the accuracy test of `audit` and `bench` says of the program, and the stage that the search of an audit
    names (`named`): on Inductor, and where that answers rightly with the backend that ends at the stage at fault.
    """
    # Each in a process of its own: a session leaves its temporary folder, which is gone, to all that comes after it.
    on_inductor = forked(functools.partial(_tested, "inductor"), entry)
    elsewhere = entry["stage"] != "inductor" and on_inductor["verdict"] != "suspicious"
    return _tested(BACKENDS[entry["stage"]], entry) if elsewhere else on_inductor


def _tested(backend: str, entry: dict[str, Any]) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "analyzer"))
    import msgspec

    from dynalyze.bench.bisect import Search
    from dynalyze.capture.bench.commands import CompareAnswers, Load
    from dynalyze.capture.bench.protocol import Configuration, WorkerRequest
    from dynalyze.capture.bench.worker import MeasuringSession
    from dynalyze.facts.audit import wrong_part
    from dynalyze.report.measurements import Accuracy

    program = PROGRAMS / f"issue_{entry['issue']}.py"
    source = {
        "kind": "object", "path": str(_larger(program) if entry.get("larger") else program), "module": None,
        "name": "build", "inputs": [], "arguments": [], "attention": None,
    }  # fmt: skip
    configuration = Configuration("default", backend=backend, dynamic="on" if entry.get("dynamic") else "auto")
    request = WorkerRequest(source=source, configuration=configuration, phase=entry.get("phase", "forward"))
    with tempfile.TemporaryDirectory() as folder:
        asked = _Asked(MeasuringSession(request, Path(folder)))
        try:
            asked.ask(Load())
            answer = asked.ask(CompareAnswers())
        except asked.Failed as error:
            return {"verdict": "not asked", "reason": str(error)}
        found = {"verdict": answer["verdict"], "reason": answer.get("reason", "")}
        if answer["verdict"] == "suspicious":
            test = msgspec.convert(
                {name: answer[name] for name in answer.keys() & set(Accuracy.__struct_fields__)}, Accuracy
            )
            search = Search(test, request, asked, Path(folder) / "kept", entry["issue"], lambda line: None)
            found["named"] = search.first_stage()
            if entry.get("minimal") and found["named"] != "dynamo":
                search.wrong_operation(found["named"])
                search.show_alone(found["named"])
                reduced = search.found.reduced
                found["minimal"] = reduced and {name: getattr(reduced, name) for name in reduced.__struct_fields__}
                found["repro"] = bool(search.found.repro)
            if entry.get("parts") and found["named"] == "inductor":
                search.into_inductor()
                found["part"] = wrong_part(search.found)
        return found


def _larger(program: Path) -> Path:
    """A file whose `build` gives the program beside layers that have nothing to do with it."""
    made = Path(tempfile.mkdtemp()) / f"larger_{program.stem}.py"
    made.write_text(_LARGER.format(folder=str(program.parent), name=program.stem), encoding="utf-8")
    return made


_LARGER = """
import sys, torch
sys.path.insert(0, {folder!r})
from {name} import build as small

def build():
    program, calls = small()
    torch.manual_seed(3)
    parts = [torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)] * 4
    before, after = torch.nn.Sequential(*parts), torch.nn.Sequential(*parts)
    x = torch.randn(32, 64)

    def larger(*args):
        hidden = before(x)
        answer = program(*args)
        return answer, torch.softmax(after(hidden) + x, -1)

    return larger, calls
"""


class _Asked:
    """A session of this process, in the place of a pool with one worker."""

    seconds_left = 300.0

    def __init__(self, session: Any) -> None:
        from dynalyze.bench.workers import WorkerFailed

        self._session = session
        self.Failed = WorkerFailed

    def ask(self, command: Any) -> dict[str, Any]:
        answer = self._session.handle({"do": command.do, **vars(command)})
        if not answer["ok"]:
            raise self.Failed(answer["error"]["kind"], answer["error"]["message"])
        return answer

    def empty_caches(self) -> Path:
        return Path(tempfile.mkdtemp())

    def exit_status(self, script: Path, caches: Path, seconds: float) -> int | None:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(caches)}
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run([sys.executable, script], env=environment, timeout=seconds, check=False).returncode
        return None

    def worker(self, *_: Any) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext(self)


# In the process that forks: it has imported torch, so that each program does not have to.


def serve(entries: list[dict[str, Any]], found: bool, ladder: bool) -> None:
    """One line of JSON for each program, in a process of its own: what differs, and what dynalyze says of it."""
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import torch._inductor.graph  # noqa: F401

    for entry in entries:
        answer = forked(differences, entry)
        while answer["verdict"] == "right" and ladder and entry["stage"] != "inductor":
            entry = {**entry, "stage": STAGES[STAGES.index(entry["stage"]) + 1]}
            answer = forked(differences, entry)
        answer["stage"] = entry["stage"]
        if found and answer["verdict"] == "wrong":
            answer["dynalyze"] = forked(verdict_of_dynalyze, entry)
        print(json.dumps(answer), flush=True)


def forked(work: Callable[[dict[str, Any]], dict[str, Any]], entry: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        signal.alarm(SECONDS)  # It ends the process, whatever it does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            answer = work(entry)
        except BaseException as error:
            answer = {"verdict": "error", "differs": [f"{type(error).__name__}: {error}"]}
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"verdict": "error", "differs": [f"it died with status {status}"]}


# In the process that asks.


def asked(python: str, entries: list[dict[str, Any]], found: bool, ladder: bool) -> Iterator[dict[str, Any]]:
    """The answers of one interpreter, in order."""
    with tempfile.TemporaryDirectory() as caches, tempfile.TemporaryFile() as errors:
        caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR", caches)
        settings = {"TORCHINDUCTOR_CACHE_DIR": caches, "TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [python, str(Path(__file__).resolve()), "serve", json.dumps([entries, found, ladder])]
        environment = {**os.environ, **settings, "PYTHONWARNINGS": "ignore"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as server:
            assert server.stdout is not None
            for line in server.stdout:
                yield json.loads(line)


def version_of(python: str) -> str:
    code = "import torch; print(torch.__version__.partition('+')[0])"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def counted(entries: list[dict[str, Any]], answers: dict[str, dict[str, Any]]) -> str:
    """By kind: collected, wrong on some version here, and found by dynalyze of those that it was asked for; and of
    those whose fault is known, with the right stage.
    """
    kinds = sorted({entry["kind"] for entry in entries})
    rows = [
        "| kind | collected | wrong here | asked | found | fault known | stage right |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in [*kinds, "all"]:
        mine = [entry for entry in entries if kind in ("all", entry["kind"])]
        wrong = [entry for entry in mine if entry.get("wrong")]
        asked = [entry for entry in mine if entry["issue"] in answers]
        found = [entry for entry in asked if answers[entry["issue"]]["verdict"] == "suspicious"]
        named = [answers[entry["issue"]].get("named") == entry["fault"] for entry in found if "fault" in entry]
        counts = (kind, *map(len, (mine, wrong, asked, found, named)), sum(named))
        rows.append(f"| {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


def main() -> None:
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["serve"]:
        serve(*json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="an interpreter with torch; this one without it")
    parser.add_argument("--only", default="", help="numbers of issues, separated by commas")
    parser.add_argument(
        "--found", action="store_true", help="ask dynalyze too, where this interpreter's torch is wrong"
    )
    parser.add_argument(
        "--ladder", action="store_true", help="go on with the later stages where the named one is right"
    )
    parser.add_argument("--parts", action="store_true", help="with --found, ask for the part of Inductor too")
    parser.add_argument("--minimal", action="store_true", help="with --found, ask for a small program too")
    parser.add_argument("--larger", action="store_true", help="each program beside other layers")
    parser.add_argument("--write", action="store_true", help="write the versions into the table")
    options = parser.parse_args()
    whole = table()
    wanted = set(filter(None, options.only.split(",")))
    entries = [entry for entry in whole["programs"] if not wanted or entry["issue"] in wanted][::-1]
    found: dict[str, dict[str, Any]] = {}
    for python in options.python or [sys.executable]:
        version = version_of(python)
        given = [entry | {name: getattr(options, name) for name in ("parts", "minimal", "larger")} for entry in entries]
        for entry, answer in zip(entries, asked(python, given, options.found, options.ladder), strict=True):
            for name in ("wrong", "right", "error"):
                entry[name] = _with(entry.get(name, []), version, answer["verdict"] == name)
            if not entry["error"]:
                del entry["error"]
            if options.found:
                entry["found"] = _with(entry.get("found", []), version, _is_found(answer))
                if "fault" in entry:
                    is_right = answer.get("dynalyze", {}).get("named") == entry["fault"]
                    entry["named"] = _with(entry.get("named", []), version, is_right)
            where = f"{entry['issue']} {entry['kind']}, {answer['stage']}"
            line = f"{version} {where}: {answer['verdict']}  {'; '.join(answer['differs'])}"
            if ours := answer.get("dynalyze"):
                found[entry["issue"]] = ours
                named = f", {ours['named']} for {entry.get('fault', 'unknown')}" if "named" in ours else ""
                named += f", {ours['part'] or 'no part'}" if "part" in ours else ""
                named += f", alone {ours['repro']}, {ours['minimal']}" if "minimal" in ours else ""
                line += f"\n    dynalyze: {ours['verdict']}{named}  {ours.get('reason', ours.get('differs'))}"
            print(line[:600], flush=True)
            if options.write:
                TABLE.write_text(_written(whole))
    print(counted(entries, found))


def _written(whole: dict[str, Any]) -> str:
    """One row a line, as the table is kept."""
    parts = []
    for name, rows in whole.items():
        lines = ",\n".join(json.dumps(row) for row in rows)
        parts.append(
            f'"{name}": [\n{lines}\n]' if rows and isinstance(rows[0], dict) else f'"{name}": {json.dumps(rows)}'
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _is_found(answer: dict[str, Any]) -> bool:
    return answer.get("dynalyze", {}).get("verdict") == "suspicious"


def _with(versions: list[str], version: str, here: bool) -> list[str]:
    """The versions with this one among them, or without it."""
    return sorted({*versions, version} if here else {*versions} - {version}, key=_numbers)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


if __name__ == "__main__":
    main()
