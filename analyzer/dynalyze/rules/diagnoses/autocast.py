"""autocast that changes nothing, or not what it is meant for."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, Location, Report
from dynalyze.report.models import ModuleFacts
from dynalyze.rules.report_queries import FROM_SETTINGS, LOW_PRECISION, autocast_dtype, dtype_of, evidence_of
from dynalyze.rules.rule import Rule

_RANK = 550
_DEVICES = ("cuda", "cpu")
_LINK = "https://docs.pytorch.org/docs/stable/amp.html"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    for device in _DEVICES:
        dtype = autocast_dtype(report, device)
        if dtype is None:
            continue
        there = [module for module in report.modules if _is_on(module, device)]
        same = [module for module in there if dtype in LOW_PRECISION and dtype_of(module) == dtype]
        if same:
            yield _RANK, _for_nothing(same, device, dtype)
        elif report.modules and not there and all(module.devices for module in report.modules):
            yield _RANK, _elsewhere(report.modules, device)


def _for_nothing(modules: list[ModuleFacts], device: str, dtype: str) -> Finding:
    names = ", ".join(dict.fromkeys(f"`{module.class_name}`" for module in modules))
    return _finding(
        modules,
        f"autocast to {dtype} around parameters that are {dtype} already",
        f'Call {names} without `torch.autocast("{device}")`, or keep its parameters in float32 and let autocast cast '
        "them: one of the two.",
        "With both, matrix products are as they were, and autocast only raises some other operations to float32 and "
        "back, which costs kernels.",
    )


def _elsewhere(modules: list[ModuleFacts], device: str) -> Finding:
    kinds = sorted({name.partition(":")[0] for module in modules for name in module.devices})
    return _finding(
        modules,
        f'autocast is on for "{device}", and the model is on {" and ".join(kinds)}',
        f'Write `torch.autocast("{kinds[0]}")`: autocast casts only the operations of the device that it is given.',
        "All of the model runs in its own dtype.",
    )


def _finding(modules: list[ModuleFacts], title: str, action: str, why: str) -> Finding:
    first = next((module for module in modules if module.file), None)
    return RULE.finding(
        title=title,
        location=Location(first.file, first.line) if first is not None else None,
        evidence=evidence_of(modules),
        advice=Advice(action=action, why=f"{why} {FROM_SETTINGS}", link=_LINK),
    )


def _is_on(module: ModuleFacts, device: str) -> bool:
    return any(name.partition(":")[0] == device for name in module.devices)


RULE = Rule(
    id="autocast",
    title="autocast without effect",
    severity="info",
    description=(
        "autocast casts float32 operations of one kind of device while they run. Around a model that is in the lower "
        "dtype already, or on another device, it does not do what it is there for. A switch of autocast between calls "
        "is the finding recompile."
    ),
    fix=(
        "Name the device that the model is on, and keep its parameters in float32 for autocast to cast; or cast "
        "the model and leave autocast out."
    ),
    example=Example(
        'with torch.autocast("cuda"):\n    model.to("cpu")(x)', 'with torch.autocast("cpu"):\n    model.to("cpu")(x)'
    ),
    passed="autocast is off, or has float32 parameters of its device to cast.",
    judge=_judge,
)
