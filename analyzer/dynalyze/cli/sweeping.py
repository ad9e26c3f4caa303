"""What `dynalyze sweep` does with its options: expand, run, write, and decide on the exit status."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from dynalyze import __version__
from dynalyze.capture.libraries import library_facts
from dynalyze.capture.process_tree import available_bytes
from dynalyze.capture.settings import COMPILE_OPTIONS, MODEL_OPTIONS, CompileOptions
from dynalyze.cli.files import check_outputs, print_summary, write_json, write_whole
from dynalyze.cli.options import fail_on_levels, with_model_options
from dynalyze.launch.interrupts import Interrupts, first_signal
from dynalyze.launch.spec import TargetSpec
from dynalyze.report import Finding, printable
from dynalyze.report.document import to_json
from dynalyze.rules.rule import reaches
from dynalyze.sweep.drive import SweepProgress, drive
from dynalyze.sweep.expand import Expanded, Request, expand
from dynalyze.sweep.folder import INDEX, ROWS, About, SweepFolder
from dynalyze.sweep.pool import LocalPool, Pool
from dynalyze.sweep.records import STATUSES, Sweep
from dynalyze.sweep.settings import MATRIX, configurations
from dynalyze.sweep.work import RunSettings
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed

_SHOWN = ("no_source", "redact", "show_values", "bench")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
# What an item needs at least, torch and transformers included: more workers than this allows would swap.
_LEAST_BYTES = 3 << 29
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def run_sweep(context: click.Context, options: dict[str, Any]) -> int:
    """One sweep; returns the exit status of the contract."""
    _check(options)
    settings = _settings(options)
    with SweepFolder(Path(options["out"]), resume=options["resume"]) as folder:
        expanded = expand(_request(context, options))
        # An option for models that no item could heed is a mistake.
        heeded = {
            name for item in expanded.items if item.spec.asked for name in library_facts(item.spec.library).options
        }
        with_model_options(context, TargetSpec("script", ""), [name for name in MODEL_OPTIONS if name not in heeded])
        workers, settings = _shares(options, settings, expanded)
        alone = options["bench"] and options["cluster"] is None
        notes = ["Items ran one at a time, because their speed was measured (--bench)."] if alone else []
        with Interrupts() as interrupts:
            with _pool(options, workers, settings, folder, expanded) as pool:
                environment = {**expanded.interpreter.versions, "device": options["device"] or "cpu"}
                now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
                about = About(
                    __version__, now, list(settings.command), environment, [item.key for item in expanded.items],
                    len(expanded.items), pool.workers, notes,
                )  # fmt: skip
                done_before = sum(item.key in folder.rows for item in expanded.items)
                progress = SweepProgress(len(expanded.items), done_before, quiet=options["quiet_target"])
                result = drive(expanded.items, pool, folder, settings, about, progress, lambda: interrupts.count == 0)
            _publish(result, folder.path, options)
            if (interrupted := first_signal()) is not None:
                return 128 + interrupted
        return 1 if _fails(result, folder.path, options["fail_on"]) else 0


def _check(options: dict[str, Any]) -> None:
    known = fail_on_levels(*STATUSES)
    for word in _fail_words(options["fail_on"]):
        if word not in known:
            raise UsageError(f"--fail-on {word}: choose from {', '.join(known)}")
    if options["configs"] is not None and options["matrix"]:
        raise UsageError("--configs and --matrix exclude each other")
    for name in ("gpus_per_item", "shared_disk"):
        if options[name] and options["cluster"] is None:
            raise UsageError(f"--{dashed(name)} is for --cluster alone")
    if options["bench"] and options["workers"] not in (None, 1) and options["cluster"] is None:
        raise UsageError("--bench runs one item at a time, so that nothing disturbs what is timed: leave --workers out")
    check_outputs([(f"--{name}", options[f"{name}_file"] or None) for name in ("json", "html")])


def _request(context: click.Context, options: dict[str, Any]) -> Request:
    names = MATRIX if options["matrix"] else options["configs"]
    return Request(
        tuple(options["targets"]),
        options=CompileOptions(**{name: options[name] for name in COMPILE_OPTIONS}),
        asked=lambda target: target if target.asked is None else with_model_options(context, target, _taken(target)),
        configurations=None if names is None else configurations(names),
        arguments=context.meta["arguments"],
        inputs=options["inputs"],
        python=options["python"],
        shown={name: options[name] for name in _SHOWN},
    )


def _taken(target: TargetSpec) -> list[str]:
    """The options for models that this target takes; others are for other targets of the sweep."""
    return [name for name in MODEL_OPTIONS if name in library_facts(target.library).options]


def _settings(options: dict[str, Any]) -> RunSettings:
    return RunSettings(
        python=options["python"],
        timeout=options["timeout"],
        memory=_bytes(options["memory"]),
        command=tuple(map(printable, sys.argv[1:])),
        spawn=options["spawn"],
        bench_seconds=options["bench_seconds"],
        **{name: options[name] for name in _SHOWN},
    )


def _shares(options: dict[str, Any], settings: RunSettings, expanded: Expanded) -> tuple[int, RunSettings]:
    inductor = any(item.options.backend != "eager" for item in expanded.items)
    settings = replace(settings, libraries=tuple(sorted({item.spec.library for item in expanded.items} - {""})))
    if options["cluster"] is not None:
        return options["workers"] or 0, replace(settings, inductor=inductor)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    free = available_bytes()
    fitting = cores if free is None else max(1, free // (settings.memory or _LEAST_BYTES))
    workers = 1 if options["bench"] else options["workers"] or min(cores, fitting)
    memory = settings.memory or (None if free is None else free // workers)
    threads = None if options["bench"] else max(1, cores // workers)
    return workers, replace(settings, memory=memory, threads=threads, inductor=inductor)


def _pool(
    options: dict[str, Any], workers: int, settings: RunSettings, folder: SweepFolder, expanded: Expanded
) -> Pool:
    if options["cluster"] is None:
        return LocalPool(workers, settings, folder.path.resolve())
    from dynalyze.sweep.ray.ray_pool import ClusterPool

    own = any(item.spec.mode != "library" for item in expanded.items)
    return ClusterPool(
        options["cluster"], settings, workers=workers or None, gpus_per_item=options["gpus_per_item"],
        folder=Path(expanded.items[0].root) if own else None, shared_disk=options["shared_disk"],
    )  # fmt: skip


def _publish(sweep: Sweep, folder: Path, options: dict[str, Any]) -> None:
    from dynalyze.sweep import terminal
    from dynalyze.sweep.pages import render_sweep

    index = folder / INDEX
    write_whole(index, render_sweep(sweep))
    if (file := options["html_file"]) is not None:
        # Pages are named as a file elsewhere has to link them.
        way = os.path.relpath(folder.resolve(), Path(file).resolve().parent)
        rows = [msgspec.structs.replace(row, page=row.page and f"{way}/{row.page}") for row in sweep.items]
        write_whole(Path(file), render_sweep(msgspec.structs.replace(sweep, items=rows)))
    if write_json(options["json_file"], to_json(sweep) if options["json_file"] else ""):
        return
    written = [("Index", options["html_file"] or index), ("Rows", folder / ROWS), ("JSON", options["json_file"])]
    files = [(name, str(path)) for name, path in written if path is not None]
    print_summary(terminal.render(sweep, files=files))


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    found = _SIZE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise UsageError(f"--memory {text}: a size such as 800M or 4G")
    return int(float(found[1]) * _UNITS[found[2].upper()])


class _Findings(msgspec.Struct):
    findings: list[Finding] = []


def _fails(sweep: Sweep, folder: Path, text: str) -> bool:
    """Whether --fail-on is met: an item has such a status, or its report, if it can be read, such a finding."""
    words = _fail_words(text)
    if any(row.status in words for row in sweep.items):
        return True
    levels = [word for word in words if word not in STATUSES and word != "none"]
    for path in [folder / row.report for row in sweep.items if row.report] if levels else []:
        with contextlib.suppress(OSError, msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(path.read_bytes(), type=_Findings).findings
            if any(reaches(found, level) for level in levels):
                return True
    return False


def _fail_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] or ["none"]
