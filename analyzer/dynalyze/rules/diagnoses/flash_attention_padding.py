"""FlashAttention that looks into the data: for padding to take out, or for texts laid end to end, in every layer."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, GraphBreak, Impact, Report
from dynalyze.rules.attention_calls import FROM_RUN, counted, flash_modules, ids, users_line
from dynalyze.rules.break_owners import asks_for_packing, asks_for_padding, owned, severity_of
from dynalyze.rules.library_layers import spent
from dynalyze.rules.recompile_owners import owned as owned_recompiles
from dynalyze.rules.rule import Rule

_RANK = 90
_LINK = "https://github.com/huggingface/transformers/issues/41803"
_FLAGS = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
_LENGTHS = "`cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k`"
_PACKED = (
    f"pass sequences laid end to end instead of a padded batch: {_LENGTHS}, and no `attention_mask` (transformers' "
    "`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` makes them)"
)
_SDPA = 'use `attn_implementation="sdpa"`'


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    breaks = owned(report, "flash-attention-padding")
    asking = [found for found in breaks if asks_for_padding(found)]
    packing = [found for found in breaks if asks_for_packing(found)]
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
        f"Keep {_named(report)} and {_PACKED}; or {_SDPA}, which takes the mask as it is.",
        Advice(
            action="",
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
        f"Say how long the text is, so that nobody looks: pass {_LENGTHS}, and no `attention_mask`; or {_SDPA}.",
        Advice(
            action="",
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
        "Pass no `attention_mask` where nothing is padded, so that nobody has to look into it.",
        Advice(
            action="",
            why="transformers leaves a mask without padding out for FlashAttention, and has to read its values for "
            "that. Here none was taken out afterwards.",
        ),
    )


def _finding(
    report: Report, breaks: list[GraphBreak], first: GraphBreak, title: str, action: str, detail: Advice
) -> Finding:
    again = [member for one in owned_recompiles(report, "flash-attention-padding") for member in one.recompiles]
    seconds = spent(again)
    detail.action, detail.link, detail.why = action, _LINK, f"{FROM_RUN} {detail.why}"
    if again:
        detail.why += " What is cut off is compiled apart, anew for each layer."
    return Finding(
        rule="flash-attention-padding",
        severity=severity_of(breaks),
        title=title,
        location=users_line(first),
        evidence=[*ids(breaks), *(member.id for member in again)],
        advice=action,
        impact=None if seconds is None else Impact(seconds, "spent compiling again"),
        detail=detail,
    )


def _named(report: Report) -> str:
    used = flash_modules(report)
    return f"`{used[0].attention}`" if used else "FlashAttention"


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
    of=("graph-break", "recompile"),
)
