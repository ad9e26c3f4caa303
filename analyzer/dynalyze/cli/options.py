"""Options that several commands share, under the names of the contract, and their help: in sections, those that few
people need at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import click

from dynalyze.capture.libraries import PREFIXES, library_facts
from dynalyze.capture.settings import COMPILE_OPTIONS, MODEL_OPTIONS, PHASES, CompileOptions
from dynalyze.text.amounts import listed
from dynalyze.text.errors import UsageError
from dynalyze.text.escape import dashed

if TYPE_CHECKING:
    from dynalyze.launch.observe import Observation
    from dynalyze.launch.spec import TargetSpec


_OWN, _MORE = "Options", "More"
_SECTIONS = {
    "Target": "module inputs chosen python quiet_target",
    "Compile": "backend mode dynamic fullgraph train device dtype autocast configs matrix",
    "Models of libraries": "batch batches sequence sequences size phase phases full_size weights",
    "Output": "html_file json_file brief artifacts patch verbose fail_on sarif junit markdown chrome_trace graphml "
    "bug_report",
    "Privacy": "no_source redact show_values",
    "Limits": "timeout stop_after no_bench bench_seconds search_seconds seconds pairs sandbox allow_effects memory",
    _MORE: "attn_implementation static_cache new_tokens features steps lora cold init trust_remote_code provenance "
    "vary_inputs threads seed no_memory no_accuracy prices rerun spawn shared_disk gpus_per_item",
}
_SECTION_OF = {name: title for title, names in _SECTIONS.items() for name in names.split()}


class Sectioned(click.Command):
    """A command whose help lists its own options first, then shared ones by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (_OWN, *_SECTIONS)}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx) if isinstance(each, click.Option) else None
            if record is not None and "--help" not in each.opts:
                rows[_SECTION_OF.get(each.name or "", _OWN)].append(record)
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


class Number(click.Option):
    """An option whose help leaves the range out."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if "default" in extra:
            extra["default"] = extra["default"].removesuffix(".0")
        return extra


_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _all(*decorators: _Decorator) -> _Decorator:
    """Several decorators as one, in the order of the help."""
    return lambda command: reduce(lambda made, each: each(made), reversed(decorators), command)


def seconds_option(name: str, help: str, default: float | None = None) -> _Decorator:
    """A time above zero."""
    return click.option(
        name, type=click.FloatRange(min=0, min_open=True), default=default, metavar="SECONDS", help=help,
        show_default=True, cls=Number,
    )  # fmt: skip


def count_option(name: str, help: str, default: int | None = None, metavar: str | None = "N") -> _Decorator:
    """A whole number above zero."""
    return click.option(
        name, type=click.IntRange(1), default=default, show_default=True, metavar=metavar, help=help, cls=Number
    )


def shown_options(of_what: str = "") -> _Decorator:
    return _all(
        click.option("--no-source", is_flag=True, help=f"Leave every line of your code out{of_what}."),
        redact_option,
        click.option("--show-values", is_flag=True, help="Show long strings that guards compare with."),
    )


def shape_options(what_for: str) -> _Decorator:
    shapes = f"Sizes that production sends{what_for} batch=1..8,sequence=128|512; repeatable."
    dims = "Which input has a size of --shapes, by position or keyword: batch=0:0; repeatable."
    return _all(
        click.option("--shapes", multiple=True, metavar="NAME=SIZES", help=shapes),
        click.option("--dim", "dims", multiple=True, metavar="NAME=INPUT:AXIS", help=dims),
    )


vary_inputs_option = seconds_option(
    "--vary-inputs",
    "Also test answers to equivalent inputs for this long: other strides, batches, NaN, gradients.",
)

redact_option = click.option("--redact", is_flag=True, help="Leave home folder, user and host names out.")

sandbox_option = click.option(
    "--sandbox", type=click.Choice(("auto", "on", "off")), default="auto", show_default=True,
    help="Run the whole program again in a sandbox. auto: where there is one; on: its calls too, with their effects.",
)  # fmt: skip
"""For commands that run a program, or its calls, more than once."""

target_options = _all(
    click.argument("target", required=False),
    click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
    click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does."),
    click.option(
        "--input", "inputs", multiple=True, metavar="EXPR",
        help="Inputs of FILE:NAME, a Python expression with torch in scope; repeatable.",
    ),
    click.option(
        "--compile", "chosen", multiple=True, metavar="EXPR",
        help="What to compile, e.g. model.backbone or main:net, in place of what the program compiles itself; "
        "repeatable. [default: the outermost modules of a program that compiles nothing]",
    ),
    click.option("--python", metavar="PATH", help="Run the target under this interpreter."),
    seconds_option("--timeout", "End the target, and all it started, after this long.", 600.0),
    click.option("--quiet-target", is_flag=True, help="Drop what the target prints."),
    click.option(
        "--allow-effects", is_flag=True,
        help="Also repeat calls that have effects outside: write files, use the network, start processes.",
    ),
)  # fmt: skip
"""TARGET, its arguments, and how it is run."""

compile_options = _all(
    click.option(
        "--backend", default="inductor", show_default=True, metavar="NAME",
        help="A backend torch knows, or module:function.",
    ),
    click.option("--mode", metavar="MODE", help="torch.compile's mode."),
    click.option(
        "--dynamic", type=click.Choice(("auto", "on", "off", "mark")), default="auto", show_default=True,
        help="Dynamic shapes; mark: mark the first dimension of each input.",
    ),
    click.option("--fullgraph", is_flag=True, help="Refuse graph breaks."),
    click.option("--train/--eval", "train", default=None, help="Mode of the module; --train runs backward too."),
    click.option("--device", metavar="DEVICE", help="Where to run it."),
    click.option("--dtype", metavar="DTYPE", help="Cast module and inputs, e.g. bfloat16."),
)  # fmt: skip
"""How dynalyze compiles what it compiles itself."""

model_options = _all(
    click.option("--full-size", is_flag=True, help="Keep the configuration's size. [default: scaled down]"),
    click.option("--weights", is_flag=True, help="Load the checkpoint's own weights."),
    click.option(
        "--init", type=click.Choice(("fast", "real")), default="fast", show_default=True,
        help="Random weights by a cheap fill, or by the model's own initialisation.",
    ),
    click.option("--attn-implementation", metavar="NAME", help="How attention is computed, as eager or sdpa."),
    click.option("--features", is_flag=True, help="A model of timm as features_only."),
    click.option(
        "--size", multiple=True, type=click.IntRange(1), metavar="N",
        help="Height and width of images; repeatable.", cls=Number,
    ),
    count_option("--steps", "Steps of a pipeline of diffusers.", 8),
    click.option("--lora", is_flag=True, help="Switch LoRA adapters between calls, by hotswap."),
    click.option("--trust-remote-code", is_flag=True, help="Allow code that comes with a checkpoint to run."),
)  # fmt: skip
"""How a model of a library is built."""

library_options = _all(
    count_option("--batch", "Size of the batch. [default: 2]"),
    count_option("--sequence", "Length of the inputs, in tokens."),
    click.option(
        "--phase", type=click.Choice(PHASES), default="forward", show_default=True, metavar="PHASE",
        help=f"One of {', '.join(PHASES)}.",
    ),
    click.option("--static-cache", is_flag=True, help="A key-value cache of a fixed size."),
    count_option("--new-tokens", "Tokens that are generated.", 16),
    click.option("--cold", is_flag=True, help="Compile the very first call, none in eager first."),
    model_options,
)  # fmt: skip
"""How a model of a library is built, and what is done with it."""

run_options = _all(target_options, compile_options, library_options)
rerun_options = _all(target_options, sandbox_option, compile_options, library_options)
"""Of commands that run TARGET once, and more than once."""

brief_option = click.option(
    "--brief", is_flag=True, help="Make the JSON one of a few kB, for agents and scripts: what to try, what was tried."
)

report_options = _all(
    click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - for standard output."),
    click.option("--html", "html_file", metavar="FILE", help="Write the page to FILE."),
    click.option(
        "--fail-on", metavar="LEVEL", default="none", show_default=True,
        help="Exit 1 where a finding reaches error, warning or info, or has this rule's id; max-break-ms=0.5: where a "
        "graph break takes more of a call.",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Print every finding whole, not just three."),
    shown_options(" of the report"),
)  # fmt: skip
"""Where a report goes, and what it may show."""


FORMATS = {
    "chrome_trace": ("Chrome trace", "Write the compile times for Perfetto."),
    "graphml": ("GraphML", "Write the map of compiles and breaks as GraphML."),
    "sarif": ("SARIF", "Write the findings as SARIF 2.1.0, for code scanning."),
    "junit": ("JUnit", "Write rules and checks as JUnit XML, for CI."),
    "markdown": ("Markdown", "Write a pull request's comment; - prints it."),
    "bug_report": ("Bug report", "Write an issue for PyTorch; - prints it."),
}
"""Outputs that are one file each: the module in `render/`, which names the option; its title and what `--help` says."""

output_options = _all(
    report_options,
    *(click.option(f"--{dashed(name)}", metavar="FILE", help=says) for name, (_, says) in FORMATS.items()),
)
"""Where the report of what was compiled goes, and what it may show."""

artifacts_option = click.option("--artifacts", metavar="DIR", help="Write all graphs, their code and a repro into DIR.")
"""For commands that can see what the compiler wrote."""


def target_of(context: click.Context, names: Sequence[str] = MODEL_OPTIONS) -> TargetSpec:
    """The target, with the options for models; --fail-on is checked first."""
    from dynalyze.launch.spec import read_target

    given = context.params
    check_fail_on(given["fail_on"])
    target = read_target(given["target"], given["module"], given["arguments"], given["inputs"], given["chosen"])
    return with_model_options(context, target, names)


def with_model_options(context: click.Context, target: TargetSpec, names: Sequence[str] = MODEL_OPTIONS) -> TargetSpec:
    """The target with the options for models, of which the command has these `names`. Raises UsageError for one that
    the target does not take, and for two that exclude each other.
    """
    for name in names:
        if is_given(context, name) and (target.asked is None or name not in library_facts(target.library).options):
            takers = [f"{prefix}:NAME" for prefix in PREFIXES if name in library_facts(prefix).options]
            raise UsageError(f"--{dashed(name)} is for {listed(takers)} alone")
    if target.asked is None:
        return target
    asked = replace(target.asked, **{name: context.params[name] for name in names})
    train = context.params["train"]
    if asked.phase not in (phases := library_facts(target.library).phases):
        raise UsageError(f"--phase {asked.phase} is not for {target.spec}: it has {', '.join(phases)}")
    if asked.phase == "train" and train is False:
        raise UsageError("--phase train and --eval exclude each other")
    if asked.phase not in ("forward", "train") and train:
        raise UsageError(f"--train and --phase {asked.phase} exclude each other: nothing is trained in it")
    return replace(target, asked=asked)


def observation_of(context: click.Context, target: TargetSpec, **more: Any) -> Observation:
    from dynalyze.launch.observe import Observation

    given = context.params
    compiling = {name: given[name] for name in COMPILE_OPTIONS}
    options = CompileOptions(**compiling, given=given_compile_options(context))
    return Observation(
        target, options, timeout=given["timeout"], python=given["python"], quiet=given["quiet_target"],
        command=tuple(sys.argv[1:]), allow_effects=given["allow_effects"] or given.get("sandbox") == "on",
        sandbox=given.get("sandbox", "auto"), **more,
    )  # fmt: skip


def given_observation(context: click.Context, target: str | None, arguments: Sequence[str]) -> Observation:
    """Of a target that is run without its calls being kept."""
    from dynalyze.launch.spec import read_target

    given = context.params
    read = read_target(target, given["module"], tuple(arguments), given["inputs"], given["chosen"])
    return replace(observation_of(context, with_model_options(context, read)), bundle=False)


def given_compile_options(context: click.Context) -> tuple[str, ...]:
    """The compile options on the command line, as the user wrote them."""
    names = [name for name in COMPILE_OPTIONS if is_given(context, name)]
    return tuple("--eval" if name == "train" and not context.params[name] else f"--{name}" for name in names)


def is_given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def check_fail_on(level: str) -> None:
    """Raise UsageError unless it is a severity, the id of a rule, or a limit on the cost of graph breaks."""
    from dynalyze.rules.rule import BREAK_LIMIT, break_limit

    if break_limit(level) is None and level not in (known := fail_on_levels()):
        raise UsageError(f"--fail-on {level}: choose one of {', '.join(known)}, or {BREAK_LIMIT}=MS")


def fail_on_levels(*more: str) -> list[str]:
    """Every severity, "none", `more`, and every id of a rule."""
    from dynalyze.rules.rule import rules

    return ["error", "warning", "info", "none", *more, *(rule_id for rule in rules() for rule_id in rule.ids)]
