"""`dynalyze cache`: why a start was cold, and where a filled cache can be taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.capture.libraries import prefix_of
from dynalyze.cli.files import check_outputs, print_summary, read_report, write_json
from dynalyze.cli.options import Sectioned, given_observation, rerun_options, shown_options
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

if TYPE_CHECKING:
    from dynalyze.report import Report
    from dynalyze.report.caches import CacheComparison

_HINT = "; dynalyze explain writes one with --json, and vLLM a cache_key_factors.json"


@click.command(cls=Sectioned)
@rerun_options
@click.option(
    "--portable", is_flag=True,
    help="Start it in other places as well: another HOME, working directory, folder of the program and of the cache, "
    "and from torch.compiler.save_cache_artifacts.",
)  # fmt: skip
@click.option("--json", "json_file", metavar="FILE", help="Write what was found as JSON; - for standard output.")
@click.option(
    "--fail-on", type=click.Choice(["cold", "none"]), default="none", show_default=True,
    help="cold: exit 1 where the second start misses something, or a cache does not survive a move.",
)  # fmt: skip
@shown_options(" of what is written")
@click.pass_context
def cache(context: click.Context, /, **options: Any) -> int:
    """Explain cold starts: which component of which cache key is not the same, with both values.

    \b
    dynalyze cache model.py               run it twice, with a cache folder of its own
    dynalyze cache model.py --portable    and in other places, with the filled cache
    dynalyze cache before.json after.json two reports of dynalyze explain
    dynalyze cache before.json model.py   a report and a run now
    dynalyze cache trace-1/ trace-2/      two folders that TORCH_TRACE named, or logs in them
    dynalyze cache OLD NEW                two of vLLM's cache_key_factors.json, or folders that hold one

    Your own cache folder is neither read nor written. TARGET is one of `dynalyze explain`.
    """
    import msgspec

    from dynalyze.cli.outputs import exit_status
    from dynalyze.launch.interrupts import Interrupts
    from dynalyze.privacy import cleaned
    from dynalyze.render.cache_text import render_caches
    from dynalyze.report.caches import SCHEMA_VERSION
    from dynalyze.text.json_text import json_text

    first = options["target"]
    json_file = options["json_file"]
    check_outputs([("--json", json_file)], first)
    before = None if first is None or options["module"] else _written(first)
    with Interrupts():
        found = _found(context, before)
    found = cleaned(
        found, no_source=options["no_source"], show_values=options["show_values"], redacted=options["redact"]
    )
    if not write_json(json_file, json_text({"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(found)})):
        print_summary(render_caches(found, files=[("JSON", json_file)] if json_file else []))
    ended = [start.status for start in (found.before, found.after) if start is not None] if before is None else []
    cold = found.cold or any(move.survives is False for move in found.portability)
    return exit_status(ended, failed=options["fail_on"] == "cold" and cold)


def _found(context: click.Context, before: Path | None) -> CacheComparison:
    from dynalyze.cache import run as runs

    options, portable = context.params, context.params["portable"]
    if before is None:
        observation = given_observation(context, options["target"], options["arguments"])
        return (runs.run_elsewhere if portable else runs.run_twice)(observation, say)
    if portable:
        raise UsageError("--portable runs a target; it takes no report")
    if not options["arguments"]:
        raise UsageError(f"{options['target']} is one of two: name the other report, or a target")
    second, *arguments = options["arguments"]
    after = _written(second)
    if after is None:
        observation = given_observation(context, second, arguments)
        return runs.run_now(_report(before), observation)
    factors = [_factors(path) for path in (before, after)]
    if factors[0] is not None and factors[1] is not None:
        return _vllm(factors[0], factors[1])
    return runs.compare_reports(_report(before), _report(after))


def _written(name: str) -> Path | None:
    """A report, vLLM's factors or logs of torch; None for a target."""
    from dynalyze.comparison.caches import VLLM_FILE

    path = Path(name)
    if path.is_dir() and not prefix_of(name):
        found = sorted(path.rglob(VLLM_FILE))
        return found[0] if found else path if any(path.glob("*.log")) or any(path.glob("*/*.log")) else None
    return path if path.suffix in (".json", ".log") else None


def _factors(path: Path) -> dict[str, Any] | None:
    from dynalyze.comparison.caches import is_vllm_factors
    from dynalyze.files.read_write import read_input

    if path.suffix != ".json":
        return None
    try:
        content = json.loads(read_input(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        return None
    return content if is_vllm_factors(content) else None


def _report(path: Path) -> Report:
    if path.suffix == ".json":
        return read_report(path, hint=_HINT)
    from dynalyze.launch.logs import report_from_logs

    return report_from_logs(path)


def _vllm(before: dict[str, Any], after: dict[str, Any]) -> CacheComparison:
    from dynalyze.comparison.caches import vllm_differences
    from dynalyze.render.text.caches import vllm_verdict
    from dynalyze.report.caches import CacheComparison

    differences = vllm_differences(before, after)
    return CacheComparison(None, None, vllm_verdict(differences), bool(differences), differences)
