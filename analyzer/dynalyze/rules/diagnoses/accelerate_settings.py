"""Accelerate, or a Trainer through it, called torch.compile: its arguments are Accelerate's settings."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Example, Report
from dynalyze.rules.rule import Ranked, Rule

# What dynamic=True may spare; other causes have nothing to do with how torch.compile was called.
_OF_SIZES = ("shape", "symbolic", "value")


@Rule(
    title="Where Accelerate's torch.compile is set up",
    severity="info",
    rank=700,
    link="https://huggingface.co/docs/accelerate/package_reference/utilities#accelerate.utils.TorchDynamoPlugin",
    description="Functions were compiled again over a size or a value, and it was Accelerate, directly or for a "
    "Trainer, that called torch.compile. The arguments that other findings name are settings of Accelerate there.",
    fix="Give the Accelerator a `TorchDynamoPlugin`, or set its environment variables.",
    example=Example(
        'Accelerator(dynamo_backend="inductor")',
        'Accelerator(dynamo_plugin=TorchDynamoPlugin(backend="inductor", dynamic=True))',
    ),
)
def accelerate_settings(report: Report) -> Iterator[Ranked]:
    modules = [
        module
        for module in report.modules
        if "/accelerate/" in module.file.replace("\\", "/") and module.options.get("dynamic") is not True
    ]
    again = [recompile for recompile in report.recompiles if recompile.cause in _OF_SIZES]
    if modules and again:
        yield accelerate_settings.finding(
            f"Accelerate compiles {modules[0].class_name}: the arguments of torch.compile are its settings",
            "For `dynamic=True` give the Accelerator a `TorchDynamoPlugin(dynamic=True)`, or set the environment "
            "variable `ACCELERATE_DYNAMO_USE_DYNAMIC=true`, which a Trainer with torch_compile=True obeys too.",
            why="No call of torch.compile stands in your program: Accelerate makes it when it prepares the model. A "
            "Trainer has arguments for backend and mode alone.",
            example=accelerate_settings.example,
            evidence=[*(module.id for module in modules), *(recompile.id for recompile in again)],
        )
