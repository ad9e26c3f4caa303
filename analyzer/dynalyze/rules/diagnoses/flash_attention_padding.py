"""FlashAttention that looks into the data: for padding to take out, or for texts laid end to end, in every layer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from dynalyze.report import Advice, Finding, GraphBreak, Impact, Report
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.report_queries import FROM_RUN, counted, flash_modules, ids, spent, users_line
from dynalyze.rules.rule import Rule, severity_of

_RANK = 90
_LINK = "https://github.com/huggingface/transformers/issues/41803"
_FLAGS = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
_LENGTHS = "`cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k`"
_PACKED = (
    f"pass sequences laid end to end instead of a padded batch: {_LENGTHS}, and no `attention_mask` (transformers' "
    "`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` makes them)"
)
_DATA_DEPENDENT = ("Dynamic shape", "Tensor.item()", "Data dependent", "Data-dependent")
_UNPADDING = ("_get_unpad_data", "_upad_input", "_unpad_input", "unpad_input", "index_first_axis", "_index_first_axis")
_LAYER_INDEX = re.compile(r"\blayer_idx\b")
_FLASH_FILES = ("/integrations/flash_attention.py", "/modeling_flash_attention_utils.py")
_SDPA = 'use `attn_implementation="sdpa"`'


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    breaks = RULE.breaks(report)
    asking = [found for found in breaks if _asks_for_padding(found)]
    packing = [found for found in breaks if _asks_for_packing(found)]
    unpadding = [found for found in breaks if found not in asking and found not in packing]
    if unpadding:
        yield _RANK, _unpads(report, breaks, unpadding[0], asks=bool(asking))
    elif packing:
        yield _RANK, _looks_for_packing(report, breaks, packing[0])
    elif asking:
        yield _RANK + 250, _only_asks(report, asking)


def _unpads(report: Report, breaks: list[GraphBreak], first: GraphBreak, *, asks: bool) -> Finding:
    left_out = [flag for flag in _FLAGS if report.settings.get(f"torch._dynamo.config.{flag}") is not True]
    return _finding(
        report,
        breaks,
        first,
        f"FlashAttention takes the padding out of the batch: {counted(len(breaks), 'graph break')}",
        Advice(
            action=f"Keep {_named(report)} and {_PACKED}; or {_SDPA}, which takes the mask as it is.",
            why="With a mask that holds padding, each layer finds out which tokens are real and how long the longest "
            "row is. Both depend on the data, so the graph ends there.",
            config="\n".join(f"torch._dynamo.config.{flag} = True" for flag in left_out),
            config_note=_note(asks=asks) if left_out else "",
        ),
    )


def _note(*, asks: bool) -> str:
    """What the flags leave as it is."""
    stays = " The question whether the mask holds padding stays a break: packed sequences alone end that one."
    return (
        "These keep both in the graph, with unknown sizes. Leave the `.item()` where it is: transformers reads the "
        f"length once on purpose, and without it FlashAttention is slower.{stays if asks else ''}"
    )


def _looks_for_packing(report: Report, breaks: list[GraphBreak], first: GraphBreak) -> Finding:
    return _finding(
        report,
        breaks,
        first,
        f"FlashAttention looks whether a batch of one holds several texts: {counted(len(breaks), 'graph break')}",
        Advice(
            action=f"Say how long the text is, so that nobody looks: pass {_LENGTHS}, and no `attention_mask`; or "
            f"{_SDPA}.",
            why="A batch of one may be several texts laid end to end. Unless it is told their lengths, transformers "
            "reads that from the position ids in each layer; steps of a single token and larger batches are not asked.",
        ),
    )


def _only_asks(report: Report, asking: list[GraphBreak]) -> Finding:
    return _finding(
        report,
        asking,
        asking[0],
        "Asking whether the attention mask holds padding breaks the graph",
        Advice(
            action="Pass no `attention_mask` where nothing is padded, so that nobody has to look into it.",
            why="transformers leaves a mask without padding out for FlashAttention, and has to read its values for "
            "that. Here none was taken out afterwards.",
        ),
    )


def _finding(report: Report, breaks: list[GraphBreak], first: GraphBreak, title: str, advice: Advice) -> Finding:
    again = [member for one in RULE.recompiles(report) for member in one.recompiles]
    seconds = spent(again)
    apart = " What is cut off is compiled apart, anew for each layer." if again else ""
    return RULE.finding(
        title=title,
        severity=severity_of(breaks),
        location=users_line(first),
        evidence=[*ids(breaks), *(member.id for member in again)],
        advice=msgspec.structs.replace(advice, link=_LINK, why=f"{FROM_RUN} {advice.why}{apart}"),
        impact=None if seconds is None else Impact(seconds, "spent compiling again"),
    )


def _named(report: Report) -> str:
    used = flash_modules(report)
    return f"`{used[0].attention}`" if used else "FlashAttention"


def _owned_breaks(report: Report) -> list[GraphBreak]:
    return [each for each in report.graph_breaks if _unpads_in(each) or _asks_for_padding(each)]


def _unpads_in(found: GraphBreak) -> bool:
    """Whether a line breaks that takes padding out, in flash-attn, in transformers, or in a model's copy of either."""
    file = found.location.file.replace("\\", "/")
    if not any(words in found.gb_type for words in _DATA_DEPENDENT):
        return False
    by_library = file.endswith("/modeling_flash_attention_utils.py") or "/flash_attn/" in file
    return by_library or found.location.function in _UNPADDING


def _asks_for_padding(found: GraphBreak) -> bool:
    """transformers looks whether a mask holds any padding, to leave it out otherwise."""
    return found.location.function == "flash_attention_mask" and found.gb_type.startswith("Data-dependent")


def _asks_for_packing(found: GraphBreak) -> bool:
    """transformers looks whether a batch of one is several texts laid end to end."""
    inside = found.location.function in ("_flash_attention_forward", "_is_packed_sequence")
    return inside and found.gb_type.startswith("Data-dependent")


def _owns_series(series: Series, report: Report) -> bool:
    """A piece of a layer that breaks for FlashAttention left by itself: it is compiled for each layer's number."""
    lead = series.lead
    file = lead.location.file.replace("\\", "/")
    cut_off = _LAYER_INDEX.search(lead.source or "") is not None and file.endswith(_FLASH_FILES)
    return cut_off and bool(RULE.breaks(report))


RULE = Rule(
    id="flash-attention-padding",
    title="FlashAttention with a padded batch",
    severity="warning",
    description=(
        "FlashAttention computes on real tokens alone. Given a padded batch, the model takes the padding out first and "
        "puts it back afterwards, in each layer; what it needs for that is in the data, unknown to torch.compile. A "
        "batch of one is asked in each layer whether it holds several texts."
    ),
    fix=(
        "Pass texts laid end to end with their lengths and no `attention_mask`, or use sdpa, which takes the mask "
        "as it is. Two settings keep taking the padding out in the graph: `capture_scalar_outputs` and "
        "`capture_dynamic_output_shape_ops` of `torch._dynamo.config`."
    ),
    passed="FlashAttention did not have to look into the data for padding or for packed texts.",
    judge=_judge,
    owns_breaks=_owned_breaks,
    owns_recompiles=_owns_series,
    at_limit=(
        "These are pieces of layers that the breaks of FlashAttention cut off: end these, see flash-attention-padding."
    ),
)
