"""`dynalyze audit`: whether a target may ship."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dynalyze.cli.explain import same_call, short_bench
from dynalyze.cli.files import check_writable, write_whole
from dynalyze.cli.options import (
    FORMATS,
    Sectioned,
    is_given,
    observation_of,
    output_options,
    rerun_options,
    seconds_option,
    shape_options,
    target_of,
    vary_inputs_option,
)
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say

if TYPE_CHECKING:
    from dynalyze.audit.policy import Policy
    from dynalyze.audit.run import AuditRequest
    from dynalyze.audit.waivers import AuditBaseline
    from dynalyze.launch.spec import TargetSpec
    from dynalyze.report import Report

_MATRIX_SECONDS = 3600.0
_OF_ONE = ("json_file", "html_file", "artifacts", "baseline", *FORMATS)


@click.command(cls=Sectioned)
@rerun_options
@output_options
@click.option(
    "--policy", metavar="FILE",
    help="What is asked of the run, as TOML. [default: [tool.dynalyze.audit] of the pyproject.toml nearest to TARGET]",
)  # fmt: skip
@click.option("--baseline", metavar="FILE", help="Findings that are known: they pass, new ones fail.")
@click.option("--update-baseline", is_flag=True, help="Write the findings of this run to --baseline.")
@shape_options(": does anything compile after warm-up?")
@click.option(
    "--attention-matrix", is_flag=True,
    help="Try every attention implementation with every dtype and cache. --timeout is 3600 then unless you give it; "
    "with --no-bench it is faster, and tells no speed.",
)  # fmt: skip
@click.option("--no-bench", is_flag=True, help="Measure no speed, no memory and no answers.")
@vary_inputs_option
@seconds_option("--bench-seconds", "The most that measuring speed, memory and answers may take in all.", 300.0)
@click.pass_context
def audit(context: click.Context, /, **options: Any) -> int:
    """Decide whether TARGET may ship: run it under torch.compile, measure speed, memory and answers, and judge all of
    it by a policy. Exit 1 where it fails.

    TARGET is what `dynalyze explain` takes; without one, each of `targets` in [tool.dynalyze.audit] of pyproject.toml
    is audited. Without a policy this is asked: no graph break, no function left in eager,
    no finding that is an error, answers that are wrong by no more than rounding.

    Without an output option the page goes to dynalyze-reports/.
    """
    from dynalyze.audit.policy import read_policy, with_options
    from dynalyze.audit.run import audit as run_audit
    from dynalyze.audit.verdict import conclusion
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts

    if options["target"] is None and options["module"] is None:
        return _each_of_project(context)
    target = target_of(context)
    baseline = _baseline(options)
    policy = with_options(
        read_policy(None if options["policy"] is None else Path(options["policy"]), target.folder),
        fail_on=options["fail_on"] if is_given(context, "fail_on") else None,
        baseline=options["baseline"] is not None,
        warmup=bool(options["shapes"]),
    )
    request = _request(context, options, target)
    # The policy judges the findings, with --fail-on in it: what is waived or known does not fail.
    outputs = Outputs({**options, "fail_on": "none"}, f"{target.stem}.audit", target.path)
    with Interrupts():
        report = run_audit(request, say, outputs.keep())
        if options["update_baseline"]:
            baseline = _updated(report, policy, options["baseline"], hide_names=options["redact"])
        return outputs.publish(report, conclusion(report, policy, baseline))


def _each_of_project(context: click.Context) -> int:
    """Audit each target of the project; all are read before the first runs. The exit status is that of the worst."""
    from dynalyze.audit.policy import targets_of_project
    from dynalyze.cli.outputs import WORST_FIRST

    targets = targets_of_project()
    given = [each.opts[0] for each in audit.params if each.name in _OF_ONE and is_given(context, each.name)]
    if len(targets) > 1 and given:
        raise UsageError(f"{given[0]} is for one TARGET, and the project names {len(targets)}")
    _, *words = same_call(context, "audit", but=())
    each_own = [audit.make_context("audit", [*words, *target], parent=context.parent) for target in targets]
    if any(own.params["target"] is None and own.params["module"] is None for own in each_own):
        raise UsageError("targets in pyproject.toml: each begins with a TARGET, or has -m MODULE")
    statuses = []
    for target, own in zip(targets, each_own, strict=True):
        say(f"audit {shlex.join(target)}")
        with own:
            statuses.append(int(audit.invoke(own)))
        if statuses[-1] > max(WORST_FIRST):  # A signal ends all.
            break
    return min(statuses, key=lambda each: WORST_FIRST.index(each) if each in WORST_FIRST else -1)


def _baseline(options: dict[str, Any]) -> AuditBaseline | None:
    """What is known so far; with --update-baseline the run itself says so."""
    from dynalyze.audit.waivers import read_baseline

    file = options["baseline"]
    if not options["update_baseline"]:
        return None if file is None else read_baseline(Path(file))
    if file is None:
        raise UsageError("--update-baseline writes --baseline FILE; name it")
    check_writable("--baseline", file, options["target"])
    return None


def _request(context: click.Context, options: dict[str, Any], target: TargetSpec) -> AuditRequest:
    from dynalyze.audit.run import AuditRequest
    from dynalyze.bench.plan import shaped
    from dynalyze.launch.shape_options import read_dims, read_shapes

    sizes, dims = read_shapes(options["shapes"]), read_dims(options["dims"])
    plan = replace(
        short_bench(options, target),
        memory=True,
        answers_first=True,
        operators=True,
        vary_inputs=options["vary_inputs"],
    )
    observation = observation_of(context, target, bundle=not options["no_bench"] or bool(sizes))
    if options["attention_matrix"]:
        from dynalyze.audit.attention_matrix import check_target

        check_target(target, plan.works[0].phase)
    # A matrix starts some hundred processes, which have their own limits.
    longer = options["attention_matrix"] and not is_given(context, "timeout")
    shapes = shaped(plan.works, sizes, dims, target)
    return AuditRequest(
        observation, plan, bench=not options["no_bench"], shapes=shapes if sizes else (), dims=dims,
        attention_matrix=options["attention_matrix"], seconds=_MATRIX_SECONDS if longer else float(options["timeout"]),
        scripts=not (options["no_source"] or options["redact"]),
    )  # fmt: skip


def _updated(report: Report, policy: Policy, file: str, *, hide_names: bool) -> AuditBaseline | None:
    """The baseline of this run, written; an earlier one stays if the run did not finish."""
    from dynalyze.audit.verdict import judged
    from dynalyze.audit.waivers import AuditBaseline, excused_findings, known_of, read_baseline, to_json

    path = Path(file)
    if report.outcome.status != "complete":
        report.capture.notes.append(f"The baseline {path.name} was not written: the run did not finish.")
        return read_baseline(path) if path.is_file() else None
    whole = judged(report)
    counting = excused_findings(whole, policy).counting(whole.findings)
    known = known_of(counting, whole)
    write_whole(path, to_json(known, hide_names=hide_names))
    return AuditBaseline(str(path), tuple(known))
