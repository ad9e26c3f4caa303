"""`dynalyze bench`: what compiling gains, measured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from dynalyze.bench import DEFAULT_PAIRS
from dynalyze.capture.settings import CompileArguments, ModelBuild, names_of
from dynalyze.cli.options import (
    Sectioned,
    compile_options,
    count_option,
    given_compile_options,
    model_options,
    report_options,
    sandbox_option,
    seconds_option,
    shape_options,
    target_of,
    target_options,
    vary_inputs_option,
)
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.bench.plan import Plan
    from dynalyze.launch.spec import TargetSpec

_AS_THEY_ARE = (
    "device", "dtype", "train", "static_cache", "new_tokens", "threads", "seed", "seconds", "timeout", "python",
    "allow_effects", "pairs", "rerun", "vary_inputs",
)  # fmt: skip


@click.command(cls=Sectioned)
@target_options
@sandbox_option
@compile_options
@model_options
@report_options
@click.option(
    "--configs", metavar="LIST", help="Configurations to compare with eager, separated by commas. [default: default]"
)
@click.option("--matrix", is_flag=True, help="The configurations that make sense on the device.")
@click.option("--autocast", metavar="DTYPE", help="Run everything under autocast to DTYPE, eager too.")
@click.option(
    "--phase", "phases", metavar="LIST", help="forward, train; of a language model prefill, decode, generate."
)
@click.option("--batch", "batches", metavar="LIST", help="Batch sizes of a library's model, as hf:NAME, e.g. 1,4.")
@click.option("--sequence", "sequences", metavar="LIST", help="Lengths of its prompt or of its inputs, e.g. 128,1024.")
@shape_options(", a row for each combination:")
@click.option(
    "--rerun", is_flag=True,
    help="Run a program again in every process instead of carrying its calls there; outside effects are refused.",
)  # fmt: skip
@count_option("--new-tokens", "Tokens that it generates.", 16, None)
@click.option("--static-cache", is_flag=True, help="Give it a key-value cache of a fixed size.")
@seconds_option("--bench-seconds", "The most that all of it may take; what is not done by then is left out.")
@seconds_option("--seconds", "Timed seconds of each configuration.", 10.0)
@count_option(
    "--pairs", "The most pairs of processes of each configuration; below 3 no difference can be shown.", DEFAULT_PAIRS
)
@count_option("--threads", "Threads of torch on the CPU.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="N", help="Of weights and order.")
@click.option("--no-accuracy", is_flag=True, help="Do not compare the results with eager's and with fp64.")
@vary_inputs_option
@click.option("--prices", is_flag=True, help="Measure where a call's time goes: graphs, breaks, guards.")
@click.option("--no-memory", is_flag=True, help="Do not measure memory.")
@click.pass_context
def bench(context: click.Context, /, **options: Any) -> int:
    """Measure what compiling TARGET gains: eager against each configuration, in fresh processes that take turns.

    A difference is claimed only where it is larger than that between eager and itself. TARGET is what
    `dynalyze explain` takes; a program is run once, and the calls it made are measured. One that compiles by itself is
    also measured as written, with its own arguments of torch.compile.

    \b
    A configuration is one of these, or several joined by +, as in
    reduce-overhead+dynamic=on:
      eager                always measured; alone, nothing else is
      as written           as a program that compiles by itself does it;
                           stands alone
      default              torch.compile, with --backend, --mode, --dynamic,
                           --fullgraph
      reduce-overhead, max-autotune, max-autotune-no-cudagraphs
      dynamic=on|off|mark  dynamic is dynamic=on, static is dynamic=off
      fullgraph            refuse graph breaks
      regional             compile repeated blocks only; regions and blocks mean
                           the same
      accelerate           the same through Hugging Face Accelerate
      backend=NAME         a backend torch knows, or module:function

    Without an output option the page goes to dynalyze-reports/.
    """
    from dynalyze.bench.measure import measure
    from dynalyze.cli.outputs import Outputs
    from dynalyze.launch.interrupts import Interrupts

    target = target_of(context, names_of(ModelBuild))
    plan = _plan(context, options, target)
    outputs = Outputs(options, f"{target.stem}.bench", target.path)
    with Interrupts():
        return outputs.publish(measure(target, plan, tuple(sys.argv[1:])))


def _plan(context: click.Context, options: dict[str, Any], target: TargetSpec) -> Plan:
    """What the options ask for; what is run is not in it yet."""
    from dynalyze.bench.configurations import configurations, names_default
    from dynalyze.bench.plan import Plan, shaped, works
    from dynalyze.capture.bench.protocol import Configuration
    from dynalyze.launch.shape_options import read_dims, read_shapes

    default = Configuration("default", **{name: options[name] for name in names_of(CompileArguments)})
    if options["configs"] is not None and options["matrix"]:
        raise UsageError("--configs and --matrix exclude each other")
    chosen = None if options["matrix"] else configurations(options["configs"] or "default", default)
    given = given_compile_options(context)
    idle = [option for option in given if option.removeprefix("--") in names_of(CompileArguments)]
    if options["configs"] is not None and idle and not names_default(options["configs"]):
        raise UsageError(
            f"{idle[0]} is for the configuration `default`, which is not in --configs {options['configs']}"
        )
    plain = works(options["phases"], options["batches"], options["sequences"], train=options["train"])
    dims = read_dims(options["dims"])
    return Plan(
        source={},
        configurations=chosen,
        default=default,
        works=shaped(plain, read_shapes(options["shapes"]), dims, target),
        dims=dims,
        adds_written=options["configs"] is None,
        total=options["bench_seconds"],
        as_called=options["phases"] is None and options["train"] is None,
        quiet=options["quiet_target"],
        accuracy=not options["no_accuracy"],
        memory=not options["no_memory"],
        recorded=options["prices"],
        autocast=options["autocast"] or "",
        sandboxed=options["sandbox"] == "on",
        **{key: options[key] for key in _AS_THEY_ARE},
    )
