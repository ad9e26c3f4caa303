"""8-bit layers that treat outliers apart: how many there are depends on the data, which breaks the graph."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Example, Finding, GraphBreak, Report
from dynalyze.rules.report_queries import FROM_RUN, breaks_in, layers_of, times, users_line
from dynalyze.rules.rule import Rule, severity_of

_RANK = 190
_LINK = "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1581"
_CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops"
_ACTION = (
    f"Set `{_CAPTURE} = True` before the first call: the graph stays whole and the answers the same. Or load with "
    "`BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)`: then nothing depends on the data, but outliers "
    "are rounded to 8 bits too, so compare the answers."
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    breaks = RULE.breaks(report)
    if breaks:
        set_to = (group.facts.get("threshold") for _, group in layers_of(report, "bitsandbytes"))
        yield _RANK, _broke(breaks, next((f" of {value:g}" for value in set_to if value), ""))


def _broke(breaks: list[GraphBreak], threshold: str) -> Finding:
    seen = sum(found.occurrences for found in breaks)
    return RULE.finding(
        title=f"8-bit layers with an outlier threshold{threshold} break the graph {times(seen)}",
        severity=severity_of(breaks),
        location=users_line(breaks[0]),
        evidence=[found.id for found in breaks],
        advice=Advice(
            action=_ACTION,
            why=f"{FROM_RUN} With a threshold above 0 each 8-bit layer finds the columns with large values and "
            "computes them in 16 bits. How many there are only the data tells, so the graph ends at each layer.",
            example=Example(
                "BitsAndBytesConfig(load_in_8bit=True)",
                "BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)",
            ),
            config=f"{_CAPTURE} = True",
            config_note="The number of outlier columns becomes an unknown size in the graph.",
            link=_LINK,
        ),
    )


def _owned_breaks(report: Report) -> list[GraphBreak]:
    """Breaks that come of the number of outliers: an int8 operation whose output has a size of the data."""
    return [
        each
        for each in breaks_in(report, "bitsandbytes")
        if "int8_" in f"{each.context} {each.explanation} {each.location.code}"
    ]


RULE = Rule(
    id="bitsandbytes-int8-threshold",
    title="8-bit layers with an outlier threshold",
    severity="warning",
    description=(
        "LLM.int8() computes columns with values above llm_int8_threshold (6.0 by default in transformers) in 16 bits. "
        "Their number depends on the data, which breaks the graph in each layer unless such sizes are captured."
    ),
    fix=(
        "Set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`, which changes no answer; or load with"
        " `llm_int8_threshold=0.0` and compare the answers."
    ),
    example=Example(
        "BitsAndBytesConfig(load_in_8bit=True)", "BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)"
    ),
    passed="No 8-bit layer broke a graph over its outliers.",
    judge=_judge,
    owns_breaks=_owned_breaks,
)
