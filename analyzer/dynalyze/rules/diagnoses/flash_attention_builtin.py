"""A flash-attn so old that torch.compile cannot put its kernels into a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Advice, Finding, GraphBreak, Report
from dynalyze.rules.report_queries import FROM_RUN, ids, shown_version, users_line, version
from dynalyze.rules.rule import Rule, severity_of

_FIRST_WITH_OPERATORS = (2, 7)
# A C++ function of flash-attn, as torch names it in a break.
_BUILTIN = re.compile(r"(flash_attn\w*)\.PyCapsule\.(\w+)")
_LINK = "https://github.com/Dao-AILab/flash-attention/pull/1139"


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    by_module: dict[str, list[GraphBreak]] = {}
    for found in RULE.breaks(report):
        named = _named(found)
        if named is not None:
            by_module.setdefault(named[1], []).append(found)
    for module, breaks in by_module.items():
        yield 80, _finding(report, module, breaks)


def _finding(report: Report, module: str, breaks: list[GraphBreak]) -> Finding:
    action = _action(report, module)
    return RULE.finding(
        title=f"The kernels of {module} cannot be in a graph",
        severity=severity_of(breaks),
        location=users_line(breaks[0]),
        evidence=ids(breaks),
        advice=Advice(
            action=action,
            why=f"{FROM_RUN} The function comes from C++ without a description that torch.compile could read, so each "
            "call of attention ends the graph.",
            link=_LINK,
        ),
    )


def _action(report: Report, module: str) -> str:
    wrap = "wrap the call as an operator with `torch.library.custom_op`"
    if "2" not in module:
        return f"Build flash-attn 3 anew from its newest source, which registers operators; or {wrap}."
    installed = version(report, "flash-attn") or version(report, "flash_attn")
    if installed >= _FIRST_WITH_OPERATORS:
        return (
            f"flash-attn {shown_version(installed)} registers operators: call its own `flash_attn_func` and "
            f"`flash_attn_varlen_func` instead of `{module}`; or {wrap}."
        )
    have = f" ({shown_version(installed)} is installed)" if installed else ""
    return f"Install flash-attn 2.7 or later{have}, which registers operators; or {wrap}."


def _named(found: GraphBreak) -> re.Match[str] | None:
    return _BUILTIN.search(f"{found.explanation}\n{found.context}")


def _owned_breaks(report: Report) -> list[GraphBreak]:
    return [each for each in report.graph_breaks if _named(each) is not None]


RULE = Rule(
    id="flash-attention-builtin",
    title="flash-attn without operators",
    severity="warning",
    description=(
        "Until version 2.7 flash-attn called its kernels as plain C++ functions. torch.compile cannot look into these "
        "and has no operator to put into the graph in their place: each call is a graph break."
    ),
    fix="Install flash-attn 2.7 or later, or wrap the call with `torch.library.custom_op`.",
    passed="No kernel of flash-attn was called past torch's operators.",
    judge=_judge,
    owns_breaks=_owned_breaks,
)
