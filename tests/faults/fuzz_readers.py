"""Every reader of dynalyze, each with real inputs to damage and with what must hold of whatever comes out.

A reader takes the chance of one input and a folder to write it to. It raises `UsageError` or nothing; an
AssertionError says what did not hold.
"""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / name) for name in ("analyzer", "tests/unit", "tests/faults")]

from fuzz_mutation import TEXTS, as_json, hostile, mutate, mutate_bytes, mutate_lines, storm  # noqa: E402

from comparison_reports import report as small_report  # noqa: E402
from dynalyze import report as report_records  # noqa: E402
from dynalyze.audit.policy import Policy, read_policy  # noqa: E402
from dynalyze.audit.verdict import conclusion  # noqa: E402
from dynalyze.audit.waivers import excused_findings, known_of, read_baseline  # noqa: E402
from dynalyze.audit.waivers import to_json as baseline_json  # noqa: E402
from dynalyze.capture.events import Metrics, RecompileSeen  # noqa: E402
from dynalyze.capture.trace_records import CONTEXT_KEYS  # noqa: E402
from dynalyze.capture.wire import EVENTS_FOLDER  # noqa: E402
from dynalyze.cli.files import read_report  # noqa: E402
from dynalyze.comparison.reports import compare  # noqa: E402
from dynalyze.events.reading import read_run  # noqa: E402
from dynalyze.facts.build import Ended, build_report  # noqa: E402
from dynalyze.facts.graph_text import parse  # noqa: E402
from dynalyze.facts.guards import read_guard  # noqa: E402
from dynalyze.facts.kernels import kernels_of  # noqa: E402
from dynalyze.facts.recompiles import nearest  # noqa: E402
from dynalyze.launch.logs import report_from_logs  # noqa: E402
from dynalyze.launch.shape_options import combinations, read_dims, read_shapes  # noqa: E402
from dynalyze.launch.spec import read_target  # noqa: E402
from dynalyze.privacy import cleaned, showable  # noqa: E402
from dynalyze.report import Report, Target, measurements  # noqa: E402
from dynalyze.report import audit as audit_records  # noqa: E402
from dynalyze.report import models as model_facts  # noqa: E402
from dynalyze.report.document import from_json, to_json  # noqa: E402
from dynalyze.sweep.compare import compare as compare_sweeps  # noqa: E402
from dynalyze.sweep.folder import read_sweep  # noqa: E402
from dynalyze.sweep.settings import read_toml  # noqa: E402
from dynalyze.text.errors import UsageError  # noqa: E402
from dynalyze.text.json_text import json_text  # noqa: E402
from hostile_texts import HIDDEN  # noqa: E402
from recordings import recorded  # noqa: E402
from sample_attention import matrix  # noqa: E402
from sample_audits import failed_report, measured_audit  # noqa: E402
from sample_reports import clean_report, empty_report, measured_report, rich_report  # noqa: E402
from sample_sweeps import matrix_sweep, small_sweep  # noqa: E402

Reader = Callable[[random.Random, Path], None]

# Pages cost most, and hold what the others hold.
_RENDERERS = (
    "html", "terminal", "terminal", "markdown", "markdown", "sarif", "junit", "chrome_trace", "chrome_trace", "graphml",
    "bug_report", "json",
)  # fmt: skip
_RECORD = re.compile(rb"^(\w+ [^\]\n]*\] )(\{.*\})$", re.DOTALL)
_METRICS = sorted(Metrics.__annotations__)
_CONTEXT = sorted(CONTEXT_KEYS)
_FAILED = "failed, please report it"


def trace_log(chance: random.Random, folder: Path) -> None:
    """A log of torch, to a report, and to that report read again."""
    rarity = chance.choice((3, 8, 40))
    lines = mutate_lines([_record(line, rarity, chance) for line in chance.choice(_logs())], chance)
    data = b"".join(lines)
    path = folder / chance.choice(("x.log", "dedicated_log_torch_trace_rank_3_x.log"))
    path.write_bytes(mutate_bytes(data, chance) if chance.randrange(4) == 0 else data)
    try:
        report = report_from_logs(path)
    finally:
        path.unlink()
    _holds(report, chance)


def event_files(chance: random.Random, folder: Path) -> None:
    """What a child wrote, to a report."""
    events = json.loads(chance.choice(_recordings()))
    if chance.randrange(4):
        del events[chance.randrange(20, 60) :]
    mutate(events, chance, chance.choice((1, 2, 5)))
    lines = mutate_lines([as_json(event) + b"\n" for event in events], chance)
    data = b"".join(lines)
    (folder / EVENTS_FOLDER).mkdir(exist_ok=True)
    path = folder / EVENTS_FOLDER / "4711-1.jsonl"
    path.write_bytes(mutate_bytes(data, chance) if chance.randrange(4) == 0 else data)
    run = read_run(folder)
    ended = Ended(
        chance.choice(("exited", "timed_out", "interrupted", "stopped_early")), chance.choice((0, 1, -9, -999)), 1.0
    )
    _holds(build_report(run, ended, Target("script", "model.py"), ["explain"]), chance)


def saved_report(chance: random.Random, folder: Path) -> None:
    """A saved report, to every output."""
    _holds(_read_report(chance, folder), chance, again=False)


_COMPARING = [(name, "render_comparison") for name in ("comparison_text", "comparison_text", "html")]
_COMPARING.append(("comparison_text", "render_comparison_json"))
_COMPARING_SWEEPS = (("sweep.terminal", "render_diff"), ("sweep.pages", "render_diff"), ("sweep.pages", "diff_json"))


def compared_reports(chance: random.Random, folder: Path) -> None:
    """`diff` of two saved reports, often of the same one."""
    corpus = _reports()
    first = chance.choice(corpus)
    second = first if chance.randrange(3) else chance.choice(corpus)
    before, after = (_read_report(chance, folder, text) for text in (first, second))
    hidden = {name: chance.randrange(3) == 0 for name in ("no_source", "redacted", "show_values")}
    whole = {"no_source": False, "redact": False, "show_values": True}
    comparison = cleaned(compare(showable(before, **whole), showable(after, **whole)), **hidden)
    renderer, function = chance.choice(_COMPARING)
    _rendered(renderer, comparison, function)


def saved_sweep(chance: random.Random, folder: Path) -> None:
    """A sweep, by itself and compared with itself as it was."""
    text = chance.choice(_sweeps())
    sweep = read_sweep(_written(folder, "sweep.json", _damaged(text, chance)))
    kind = chance.randrange(3)
    if kind == 0:
        _rendered(*chance.choice((("sweep.terminal", sweep), ("sweep.pages", sweep, "render_sweep"))))
    else:
        before = read_sweep(_written(folder, "before.json", text.encode()))
        renderer, function = chance.choice(_COMPARING_SWEEPS)
        _rendered(renderer, compare_sweeps(before, sweep), function)


def sweep_rows(chance: random.Random, folder: Path) -> None:
    """The rows of a sweep that may still be running."""
    items = [json.dumps(each) for each in json.loads(chance.choice(_sweeps()))["items"]]
    one = chance.randrange(len(items))
    lines = [_damaged(item, chance) if at == one else item.encode() for at, item in enumerate(items)]
    if chance.randrange(4) == 0:
        lines = mutate_lines(lines, chance)
    lines = [line + b"\n" for line in lines]
    _rendered("sweep.terminal", read_sweep(_written(folder, "rows.jsonl", b"".join(lines))))


def baseline(chance: random.Random, folder: Path) -> None:
    """What a project knows of."""
    path = _written(folder, "known.json", _damaged(chance.choice(_baselines()), chance))
    known = read_baseline(path)
    baseline_json(list(known.findings))
    report = from_json(_reports()[0])
    report.outcome.status, report.findings = "complete", []
    assert len(excused_findings(report, Policy(), known).fixed) == len(known.findings)


def policy(chance: random.Random, folder: Path) -> None:
    """A policy and its waivers, and the verdict on a run."""
    read = read_policy(_written(folder, "policy.toml", _damaged_toml(chance.choice(_POLICIES), chance)))
    if chance.randrange(8) == 0:
        report = from_json(_reports()[0])
        showable(report, conclusion(report, read, None), no_source=False, redact=False, show_values=False)


def project_file(chance: random.Random, folder: Path) -> None:
    """The table of a project's pyproject.toml."""
    _written(folder, "pyproject.toml", _damaged_toml(_PROJECT, chance))
    try:
        read_policy(None, folder)
    finally:
        (folder / "pyproject.toml").unlink()


def sweep_items(chance: random.Random, folder: Path) -> None:
    """The targets and configurations of a sweep."""
    read_toml(_written(folder, "items.toml", _damaged_toml(_ITEMS, chance)))


def shapes(chance: random.Random, folder: Path) -> None:
    """`--shapes` and `--dim`."""
    kind = chance.randrange(2)
    texts = [chance.choice(_SHAPES[kind]), _damaged_text(chance.choice(_SHAPES[kind]), chance).decode(errors="replace")]
    if kind:
        read_dims(texts)
    else:
        combinations(read_shapes(texts[chance.randrange(2) :]))


def inputs(chance: random.Random, folder: Path) -> None:
    """TARGET, `--input` and `--compile`."""
    told = _damaged_text(chance.choice(_EXPRESSIONS), chance).decode(errors="replace")
    if chance.randrange(8) == 0:
        told = (
            chance.choice(("(", "[", "-", "~", "not ", "x.", "f(", "{0:", "lambda: ")) * chance.choice((9, 90, 3000))
            + told
        )
    program = _written(folder, "m.py", b"")
    if chance.randrange(2):
        read_target(f"{program}:Net", None, (), (told,))
    else:
        read_target(str(program), None, (), (), (told,))


def torchs_texts(chance: random.Random, folder: Path) -> None:
    """Graphs, output code and guards as torch writes them."""
    text = _damaged_text(chance.choice(_texts()), chance).decode(errors="replace")
    parse(text)
    kernels_of(text, {"aten.mm.default"})
    read_guard(nearest(RecompileSeen(text=text))[0])


def shown_names(chance: random.Random, folder: Path) -> None:
    """Names that try to steer a terminal: no output may hold a character that shows nothing of its own."""
    document = json.loads(chance.choice(_reports()))
    nasty = "".join(chance.choice(_NASTY) for _ in range(chance.randrange(1, 12)))
    for holder in _texts_in(document):
        for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if isinstance(value, str) and value not in _words() and chance.randrange(2):
                holder[key] = chance.choice((nasty, nasty + value, value + nasty))
    report = read_report(_written(folder, "r.json", as_json(document)))
    if chance.randrange(4) == 0:
        report = showable(report, no_source=False, redact=False, show_values=False)
    name = chance.choice(("terminal", "terminal", "markdown", "junit", "json"))
    text = _rendered(name, report)
    seen = set(text) & (HIDDEN - {"\t"})
    assert not seen, f"{name} shows {sorted(map(ascii, seen))}"


READERS: dict[str, Reader] = {
    each.__name__: each
    for each in (
        trace_log, event_files, saved_report, compared_reports, saved_sweep, sweep_rows, baseline, policy, project_file,
        sweep_items, shapes, inputs, torchs_texts, shown_names,
    )
}  # fmt: skip


def one(name: str, seed: int, number: int, folder: Path) -> None:
    """Give the reader its input of this number; the same numbers make the same input.

    Raises:
        Exception: whatever a user would see as a traceback, or an AssertionError.
    """
    try:
        READERS[name](random.Random(f"{name}/{seed}/{number}"), folder)
    except UsageError as error:
        assert str(error).strip(), "a mistake without words"


def _holds(report: Report, chance: random.Random, *, again: bool = True) -> None:
    """Cleaned, judged and shown without an error; what was written is read again as the same."""
    if again:
        written = to_json(report)
        assert to_json(from_json(written)) == written, "another report when read again"
    if chance.randrange(2):
        hidden = {name: chance.randrange(4) == 0 for name in ("no_source", "redact", "show_values")}
        report = showable(report, **hidden)
        failed = [note for note in report.capture.notes if _FAILED in note]
        assert not failed, failed[0]
    _rendered(chance.choice(_RENDERERS), report)


def _rendered(name: str, document: Any, function: str = "render") -> str:
    if name == "json":
        return to_json(document)
    text: str = getattr(importlib.import_module(f"dynalyze.{name if '.' in name else f'render.{name}'}"), function)(
        document
    )
    text.encode(errors="backslashreplace")
    return text


def _read_report(chance: random.Random, folder: Path, text: str = "") -> Report:
    return read_report(_written(folder, "report.json", _damaged(text or chance.choice(_reports()), chance)))


def _written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def _damaged(text: str, chance: random.Random) -> bytes:
    """JSON with a few of its values changed, or its bytes."""
    if chance.randrange(10) == 0:
        return mutate_bytes(text.encode(), chance)
    if chance.randrange(3) == 0:
        return as_json(storm(json.loads(text), chance))
    return as_json(mutate(json.loads(text), chance, chance.choice((1, 1, 1, 2, 4))))


def _damaged_text(text: str, chance: random.Random) -> bytes:
    """A text with its lines, its bytes or its words changed."""
    if chance.randrange(3) == 0:
        text = b"".join(mutate_lines(text.encode().splitlines(keepends=True), chance)).decode(errors="replace")
    if chance.randrange(2):
        words = re.split(r"(\W)", text)
        words[chance.randrange(len(words))] = chance.choice((*TEXTS, json.dumps(hostile(chance)), chance.choice(words)))
        text = "".join(words)
    data = text.encode(errors="replace")
    return mutate_bytes(data, chance) if chance.randrange(2) else data


def _damaged_toml(document: dict[str, Any], chance: random.Random) -> bytes:
    """TOML with its values changed, or its text."""
    work = json.loads(json.dumps(document))
    by_text = chance.randrange(4) == 0
    if not by_text:
        mutate(work, chance, chance.choice((1, 1, 2, 4)))
    text = "".join(f"{_toml(key)} = {_toml(value)}\n" for key, value in work.items())
    return _damaged_text(text, chance) if by_text else text.encode(errors="replace")


def _toml(value: Any) -> str:
    """A value of JSON as TOML has it; a day stands without quotes half of the time."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_toml(str(key))} = {_toml(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return value if re.fullmatch(r"\d{4}-\d\d-\d[13579]", value) else json.dumps(value)
    return {float("inf"): "inf", float("-inf"): "-inf"}.get(value, json.dumps(value).lower())


def _record(line: bytes, rarity: int, chance: random.Random) -> bytes:
    """A line of a log; of some records with other values, those first of which facts are made."""
    found = _RECORD.match(line.rstrip(b"\n"))
    if found is None or chance.randrange(rarity):
        return line
    record = json.loads(found[2])
    if chance.randrange(2):
        mutate(record, chance, chance.choice((1, 1, 3)))
    elif "compilation_metrics" in record:
        record["compilation_metrics"][chance.choice(_METRICS)] = hostile(chance)
    else:
        record[chance.choice(_CONTEXT)] = hostile(chance)
    return found[1] + as_json(record) + b"\n"


def _texts_in(value: Any) -> list[Any]:
    found = [value] if isinstance(value, dict | list) else []
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _texts_in(each)
    return found


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    """The words of the report's own vocabulary: another one there makes it no report."""
    hints = [
        hint for module in (report_records, measurements, audit_records, model_facts) for hint in vars(module).values()
    ]
    return frozenset(word for hint in hints if get_origin(hint) is Literal for word in get_args(hint)) | {
        "user", "library", "torch", "observed", "in_place", "examples", "object", "transformers", "none",
        "block",
        "cuda", "rss", "process", "output", "gradient", "config", "model", "weights", "inputs", "eager",
    }  # fmt: skip


@lru_cache(maxsize=1)
def _logs() -> list[list[bytes]]:
    """Recorded logs, and pieces of a long one."""
    paths = sorted((ROOT / "tests" / "data" / "logs").glob("*/*.log"))
    found = []
    for path in paths:
        lines = path.read_bytes().splitlines(keepends=True)
        found += [lines[at : at + 150] for at in range(0, len(lines), 150)]
    return found


@lru_cache(maxsize=1)
def _recordings() -> list[str]:
    folder = ROOT / "tests" / "data" / "events"
    return [json.dumps(recorded(path.name)) for path in sorted(folder.iterdir()) if path.is_dir()]


@lru_cache(maxsize=1)
def _reports() -> list[str]:
    """Small and large ones; together they fill every field."""
    attention = empty_report()
    attention.attention_matrix = matrix()
    measured = measured_report()
    for row in measured.measurements:
        for pair in row.samples:
            del pair.eager[4:], pair.compiled[4:]
    reports = [
        small_report(),
        empty_report(),
        clean_report(),
        rich_report(),
        attention,
        measured,
        failed_report(),
        measured_audit(),
    ]
    return [to_json(each) for each in reports]


@lru_cache(maxsize=1)
def _sweeps() -> list[str]:
    return [json_text(small_sweep()), json_text(matrix_sweep())]


@lru_cache(maxsize=1)
def _baselines() -> list[str]:
    report = showable(rich_report(), no_source=False, redact=False, show_values=False)
    return [baseline_json(known_of(report.findings, report)), '{"baseline_version": 1, "findings": []}']


@lru_cache(maxsize=1)
def _texts() -> list[str]:
    """What stands below the records of the logs."""
    texts = []
    for lines in _logs():
        text = b"".join(line[1:] for line in lines if line.startswith(b"\t")).decode(errors="replace")
        texts += [text[at : at + 3000] for at in range(0, len(text), 3000)]
    guards = [event["text"] for text in _recordings() for event in json.loads(text) if event["event"] == "recompile"]
    return [*texts, *dict.fromkeys(guards)]


_NASTY = sorted(each for each in HIDDEN if not 0xD800 <= ord(each) <= 0xDFFF)
_POLICIES: tuple[dict[str, Any], ...] = (
    {
        "max-graph-breaks": 0, "max-recompiles": "any", "max-recompiles-after-warmup": 3, "max-eager-frames": 2,
        "min-speedup": 1.2, "max-compile-seconds": 30.0, "max-memory-growth": 1.5, "accuracy": ["equal", "benign"],
        "fail-on": ["error", "recompile"],
        "ignore": [
            {"rule": "graph-break", "file": "model.py", "reason": "a log line", "expires": "2027-01-31"},
            {"rule": "recompile", "function": "forward", "code": "x.item()", "reason": "known",
            "expires": "2027-12-01"},
        ],
    },
    {"accuracy": "any", "fail-on": "none"},
)  # fmt: skip
_PROJECT = {"project": {"name": "x"}, "tool": {"dynalyze": {"audit": _POLICIES[0]}}}
_ITEMS = {
    "item": [
        {"target": "hf:Llama*", "batch": 4},
        {
            "target": "models/ranker.py:Net", "name": "long", "input": "torch.randn(2, 512)", "arguments": ["--fast",
            "1"],
            "configurations": ["fast"],
        },
    ],
    "configurations": {"fast": {"dynamic": "on", "fullgraph": True}},
}  # fmt: skip
_SHAPES = (
    ("batch=1..8,sequence=128|512|2048", "batch=1,4", "sequence=128..512:128", "a=1|2|3,b=4..9"),
    ("batch=0:0", "sequence=input_ids:1", "x=y:-1"),
)
_EXPRESSIONS = (
    "torch.randn(2, 3)", "{'x': torch.ones(1), 'y': [1, 2]}", "[(torch.zeros(2),), {}]", "lambda: torch.randn(4)",
    "main:model",
    "model.backbone", "-1", "x[0].y",
)  # fmt: skip
