"""Options that several commands share, under the names of the contract."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from dynalyze.capture.settings import COMPILE_OPTIONS, MODEL_OPTIONS, PHASES, CompileOptions, ModelOptions
from dynalyze.text.errors import UsageError

if TYPE_CHECKING:
    from dynalyze.launch.spec import TargetSpec

_Command = Callable[..., Any]

_DYNAMIC = ("auto", "on", "off", "mark")


def target_options(command: _Command) -> _Command:
    """TARGET, its arguments, and how it is run."""
    return _all(
        command,
        click.argument("target", required=False),
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS...]"),
        click.option("-m", "module", metavar="MODULE", help="Run a module, as python -m does."),
        click.option(
            "--input",
            "inputs",
            multiple=True,
            metavar="EXPR",
            help="Inputs of FILE:NAME, a Python expression with torch in scope; repeatable.",
        ),
        click.option(
            "--compile",
            "chosen",
            multiple=True,
            metavar="EXPR",
            help="What to compile of a program that compiles nothing, e.g. model.backbone or main:net; repeatable. "
            "[default: its outermost modules]",
        ),
        click.option("--python", metavar="PATH", help="Run the target under this interpreter."),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="End the target, and all it started, after this long.",
        ),
        click.option("--quiet-target", is_flag=True, help="Drop what the target prints."),
    )


def compile_options(command: _Command) -> _Command:
    """How dynalyze compiles what it compiles itself."""
    return _all(
        command,
        click.option(
            "--backend",
            default="inductor",
            show_default=True,
            metavar="NAME",
            help="A backend torch knows, or module:function.",
        ),
        click.option("--mode", metavar="MODE", help="torch.compile's mode."),
        click.option(
            "--dynamic",
            type=click.Choice(_DYNAMIC),
            default="auto",
            show_default=True,
            help="Dynamic shapes; mark: mark the first dimension of each input.",
        ),
        click.option("--fullgraph", is_flag=True, help="Refuse graph breaks."),
        click.option("--train/--eval", "train", default=None, help="Mode of the module; --train runs backward too."),
        click.option("--device", metavar="DEVICE", help="Where to run it."),
        click.option("--dtype", metavar="DTYPE", help="Cast module and inputs, e.g. bfloat16."),
    )


def model_options(command: _Command) -> _Command:
    """How the model of an `hf:` target is built."""
    return _all(
        command,
        click.option("--full-size", is_flag=True, help="hf: keep the configuration's size; it is made small else."),
        click.option("--weights", is_flag=True, help="hf: load the checkpoint's own weights."),
        click.option(
            "--init",
            type=click.Choice(("fast", "real")),
            default="fast",
            show_default=True,
            help="hf: random weights by a cheap fill, or by the model's own initialisation.",
        ),
        click.option("--attn-implementation", metavar="NAME", help="hf: how attention is computed, as eager or sdpa."),
        click.option("--trust-remote-code", is_flag=True, help="hf: allow code that comes with a checkpoint to run."),
    )


def transformers_options(command: _Command) -> _Command:
    """How the model of an `hf:` target is built, and what is done with it."""
    return _all(
        model_options(command),
        click.option("--batch", type=click.IntRange(1), metavar="N", help="hf: size of the batch. [default: 2]"),
        click.option("--sequence", type=click.IntRange(1), metavar="N", help="hf: length of the inputs, in tokens."),
        click.option(
            "--phase",
            type=click.Choice(PHASES),
            default="forward",
            show_default=True,
            help="hf: one forward pass, one with backward, or a phase of a language model.",
        ),
        click.option("--static-cache", is_flag=True, help="hf: a key-value cache of a fixed size."),
        click.option(
            "--new-tokens", type=click.IntRange(1), default=16, show_default=True, help="hf: tokens that are generated."
        ),
        click.option("--cold", is_flag=True, help="hf: compile the very first call, without one in eager before it."),
    )


def target_of(context: click.Context, names: Sequence[str] = MODEL_OPTIONS) -> TargetSpec:
    """What `target_options` name, with what the options for `hf:` targets ask for; --fail-on is checked before it.

    Raises:
        UsageError: one of them cannot be.
    """
    from dynalyze.launch.spec import read_target

    given = context.params
    check_fail_on(given["fail_on"])
    target = read_target(given["target"], given["module"], given["arguments"], given["inputs"], given["chosen"])
    return asked_of(context, target, names)


def asked_of(context: click.Context, target: TargetSpec, names: Sequence[str] = MODEL_OPTIONS) -> TargetSpec:
    """The target with what the options for `hf:` targets ask for; `names` are those that the command has.

    Raises:
        UsageError: one stands on the command line, and the target is of another kind; or two exclude each other.
    """
    if target.asked is None:
        for name in names:
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise UsageError(f"--{name.replace('_', '-')} is for a model of transformers (hf:NAME) alone")
        return target
    asked = replace(target.asked, **{name: context.params[name] for name in names})
    _check_phase(asked, context.params["train"])
    return replace(target, asked=asked)


def output_options(command: _Command) -> _Command:
    """Where the report of what was compiled goes, and what it may show."""
    return _all(
        report_options(command),
        click.option("--chrome-trace", metavar="FILE", help="Write the compile times for Perfetto."),
        click.option("--graphml", metavar="FILE", help="Write the map of compiles and breaks as GraphML."),
        click.option("--sarif", metavar="FILE", help="Write the findings as SARIF 2.1.0, for code scanning."),
        click.option("--junit", metavar="FILE", help="Write rules and checks as JUnit XML, for CI."),
        click.option("--markdown", metavar="FILE", help="Write a comment for a pull request; - for standard output."),
        click.option("--bug-report", metavar="FILE", help="Write an issue for PyTorch; - for standard output."),
    )


def report_options(command: _Command) -> _Command:
    """Where a report goes, and what it may show."""
    return _all(
        command,
        click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - for standard output."),
        click.option("--html", "html_file", metavar="FILE", help="Write the page to FILE."),
        click.option(
            "--fail-on",
            metavar="LEVEL",
            default="none",
            show_default=True,
            help="Exit 1 where a finding reaches error, warning or info, or has this rule's id.",
        ),
        click.option("--no-source", is_flag=True, help="Leave every line of your code out of the report."),
        click.option("--redact", is_flag=True, help="Leave home folder, user and host names out."),
        click.option("--show-values", is_flag=True, help="Show long strings that guards compare with."),
    )


def shape_options(what_for: str) -> Callable[[_Command], _Command]:
    """The sizes that production sends; `what_for` says what a command does with them."""

    def add(command: _Command) -> _Command:
        return _all(
            command,
            click.option(
                "--shapes",
                multiple=True,
                metavar="NAME=SIZES",
                help=f"Sizes that production sends{what_for} batch=1..8,sequence=128|512; repeatable.",
            ),
            click.option(
                "--dim",
                "dims",
                multiple=True,
                metavar="NAME=INPUT:AXIS",
                help="Which input has a size of --shapes, by position or keyword: batch=0:0; repeatable.",
            ),
        )

    return add


def artifacts_option(command: _Command) -> _Command:
    """For commands that can see what the compiler wrote."""
    return click.option(
        "--artifacts", metavar="DIR", help="Write every graph, the code made of it and a repro into DIR."
    )(command)


def compile_asked(context: click.Context) -> CompileOptions:
    """What the compile options ask for, and which of them stand on the command line."""
    asked = {name: context.params[name] for name in COMPILE_OPTIONS}
    return CompileOptions(**asked, given=given_compile_options(context))


def given_compile_options(context: click.Context) -> tuple[str, ...]:
    """The compile options that stand on the command line, as the user knows them."""
    names = []
    for name in COMPILE_OPTIONS:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            shown = name if name != "train" or context.params["train"] else "eval"
            names.append(f"--{shown}")
    return tuple(names)


def check_fail_on(level: str) -> None:
    """Refuse a level that no finding can reach.

    Raises:
        UsageError: neither a severity nor the id of a rule.
    """
    from dynalyze.rules.rule import rules

    known = ["error", "warning", "info", "none", *(rule_id for rule in rules() for rule_id in rule.ids)]
    if level not in known:
        raise UsageError(f"--fail-on {level}: choose one of {', '.join(known)}")


def _check_phase(asked: ModelOptions, train: bool | None) -> None:
    if asked.phase == "train" and train is False:
        raise UsageError("--phase train and --eval exclude each other")
    if asked.phase not in ("forward", "train") and train:
        raise UsageError(f"--train and --phase {asked.phase} exclude each other: nothing is trained in it")


def _all(command: _Command, *decorators: Callable[[_Command], _Command]) -> _Command:
    for decorate in reversed(decorators):
        command = decorate(command)
    return command
