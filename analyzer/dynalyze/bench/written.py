"""The configuration "as written": with the arguments that the program itself gave to torch.compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from dynalyze.bench.plan import Plan
from dynalyze.capture.bench.wire import AS_WRITTEN, Configuration
from dynalyze.events.types import BundleWritten
from dynalyze.text.errors import UsageError

_Dynamic = Literal["auto", "on", "off", "mark"]
_DYNAMIC: dict[Any, _Dynamic] = {True: "on", False: "off"}
_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")


def written_by(event: BundleWritten) -> Configuration | None:
    """The configuration of a program's own compiles; None where it compiled nothing.

    Where several compiles differ, the configuration tells of Inductor and of CUDA graphs if any of them asks for these.
    """
    if not event.written:
        return None
    given = [{"backend": "inductor", **options} for options in event.options] or [{"backend": "inductor"}]
    backends, modes = ([str(each.get(key) or "") for each in given] for key in ("backend", "mode"))
    dynamics: list[_Dynamic] = [_DYNAMIC.get(each.get("dynamic")) or "auto" for each in given]
    return Configuration(
        AS_WRITTEN,
        backend="inductor" if "inductor" in backends else backends[0],
        mode=next((mode for mode in modes if mode in _WITH_CUDA_GRAPHS), modes[0]) or None,
        dynamic=dynamics[0] if len(set(dynamics)) == 1 else "auto",
        fullgraph=all(each.get("fullgraph") for each in given),
        written=_shown(given, event.names),
    )


def asks_for_written(plan: Plan) -> bool:
    """Whether `--configs` names it."""
    return any(each.name == AS_WRITTEN for each in plan.configurations or ())


def with_written(plan: Plan, written: Configuration | None, target: str) -> Plan:
    """The plan for a program that compiles as `written`, or compiles nothing (None).

    Raises:
        UsageError: it is asked for, and there is nothing that the program wrote.
    """
    if written is None and asks_for_written(plan):
        raise UsageError(f'--configs "{AS_WRITTEN}" is for a program that compiles by itself; {target} does not')
    return replace(plan, written=written)


def instead_of_default(plan: Plan, written: Configuration | None) -> Plan:
    """The plan of a short benchmark: what the user wrote is what they want to know about."""
    return plan if written is None else replace(plan, configurations=(written,))


def _shown(given: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """The arguments for the report; by callable where they differ."""
    if all(each == given[0] for each in given):
        return given[0]
    labels = [f"{number}. {name}" for number, name in enumerate(names, 1)]
    texts = [", ".join(f"{key}={value}" for key, value in each.items()) for each in given]
    return dict(zip(labels, texts, strict=False))
