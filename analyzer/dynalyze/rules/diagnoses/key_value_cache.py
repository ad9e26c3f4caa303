"""A key-value cache that grows, and a prompt compiled apart from the single tokens after it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dynalyze.report import Example, Recompile, Report
from dynalyze.rules.recompile_advice.source import as_written, clipped, read_source
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import FROM_RUN, by_generate, called_from, callers, ids, recompile_cost
from dynalyze.rules.rule import Ranked, Rule
from dynalyze.text.amounts import how_often

_MOST_NAMED = 3
_STATE = re.compile(
    r"\.layers\[\d+\]\.(?:is_initialized|cumulative_length)\b|\.is_updated\[|len\([^)]*past_key_values?"
)
_STATIC = "The cache has one size, but what it keeps beside its tensors changed."
_GROWS = (
    "The default cache grows by one position with each token, so its keys and values never keep their shape. torch "
    "makes the length dynamic after its first change, at the cost of these compiles. A static cache is allocated "
    "once for the longest sequence: it takes that memory from the first token on, and attention reads all of it."
)
_OWN_LOOP = Example(
    "cache = DynamicCache(config=model.config)",
    "cache = StaticCache(config=model.config, max_cache_len=1024)  # of the longest text, and its answer",
)


def _owns_dynamic(series: Series, report: Report) -> bool:
    layer = (series.lead.source or "").endswith(".layer_idx")
    return _is_of_cache(series.lead) or (layer and any(map(_is_of_cache, report.recompiles)))


@Rule(
    title="The key-value cache changed between calls",
    rank=397,
    link="https://huggingface.co/docs/transformers/kv_cache",
    description="transformers makes a cache that grows with each token, unless it is told otherwise. Its first fill "
    "and its first growth compile the model again; layers that are compiled one by one are compiled again for each "
    "layer.",
    fix="Use a cache of fixed size, at its cost in memory.",
    example=Example(
        "output = model.generate(**inputs)", 'output = model.generate(**inputs, cache_implementation="static")'
    ),
    owns_recompiles=_owns_dynamic,
    precedence=2,
    at_limit='Use a cache of fixed size: `cache_implementation="static"` for `generate`, `StaticCache` in a loop of '
    "your own.",
)
def dynamic_cache(report: Report) -> Iterator[Ranked]:
    series = dynamic_cache.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    grew = any(each.cause in ("shape", "stride", "symbolic") for each in members)
    static = any(module.cache == "static" for module in report.modules) and not grew
    # A loop of the program's own; where nobody knows who called, `generate` is the likelier one.
    generates = not callers(report, members[0]) or any(by_generate(report, each) for each in members)
    names = list(dict.fromkeys(f"`{clipped(as_written(each.source or ''))}`" for each in members))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    yield dynamic_cache.finding(
        f"The key-value cache changed between calls: compiled again {how_often(len(members))}",
        _action(report, members, static=static, generates=generates),
        why=f"{FROM_RUN} {_STATIC if static else _GROWS} The guards were on {', '.join(names[:_MOST_NAMED])}{more}.",
        example=None if static else dynamic_cache.example if generates else _OWN_LOOP,
        location=called_from(report, series[0].lead),
        evidence=ids(members),
        impact=recompile_cost(members),
    )


def _action(report: Report, members: list[Recompile], *, static: bool, generates: bool) -> str:
    if static:
        return (
            "Make the static cache once and pass the same one, `past_key_values=cache`, in every call, with "
            "`cache.reset()` between texts: its state before the first call differs from that of every later one."
        )
    action = (
        'Generate with a cache of fixed size: `model.generate(..., cache_implementation="static")`; where prompts '
        "differ in length, compile with `dynamic=True` too, for that size is made for each."
    )
    if not generates:
        action = (
            "Give the model a cache of fixed size: `past_key_values=StaticCache(config=model.config, "
            "max_cache_len=...)` of transformers, as long as the longest text and its answer."
        )
    # After a graph break inside a layer its pieces are compiled apart too, without anyone's having asked for it.
    if not report.graph_breaks and any((each.source or "").endswith(".layer_idx") for each in members):
        action += (
            " Compile the whole model, not its layers one by one: each layer asks the cache for its own number, so one "
            "compiled layer does not serve the others."
        )
    return action


def _is_of_cache(again: Recompile) -> bool:
    return read_source(again).is_cache or _STATE.search(again.source or "") is not None


_TOKENS = re.compile(r"\b(?:input_ids|inputs_embeds|position_ids|cache_position)\b[^.]*\.size\(\)\[1\]$")
_KEYWORDS = re.compile(r"^len\(\w*kwargs\)$")


def _owns_prefill(series: Series, report: Report) -> bool:
    """One change from a prompt to single tokens, or back, in a model of transformers that generates."""
    lead, sizes = series.lead, {series.lead.expected, series.lead.actual}
    if series.changes != 1 or not any(module.family for module in report.modules):
        return False
    if lead.cause == "container" and _KEYWORDS.search(lead.source or ""):
        return by_generate(report, lead)
    return lead.cause == "shape" and "1" in sizes and _TOKENS.search(lead.source or "") is not None


@Rule(
    title="A prompt and single tokens are compiled apart",
    severity="info",
    rank=660,
    link="https://huggingface.co/docs/transformers/llm_optims",
    description="A language model is called with the whole prompt first and with one token a step then. torch compiles "
    "a size of 1 by itself, so these are two programs: one recompile, once. More than one change of the length is the "
    "finding recompile.",
    fix="Call the model once with a prompt and once with a single token in the warm-up.",
    owns_recompiles=_owns_prefill,
    precedence=-1,
)
def prefill_and_decode(report: Report) -> Iterator[Ranked]:
    members = [member for one in prefill_and_decode.recompiles(report) for member in one.recompiles]
    if not members:
        return
    call = "`generate` of two tokens" if by_generate(report, members[0]) else "call with a prompt, and one with a token"
    yield prefill_and_decode.finding(
        "The prompt and the single tokens after it were compiled apart",
        f"Expected. Do both in the warm-up: one {call}, before the first text of a user. Prompts of "
        "another length compile once more, and from then on any length fits.",
        why=f"{FROM_RUN} A size of 1 always gets code of its own, so no setting joins the two. Each is kept.",
        location=called_from(report, members[0]),
        evidence=ids(members),
        impact=recompile_cost(members, "spent compiling the second of them"),
    )
