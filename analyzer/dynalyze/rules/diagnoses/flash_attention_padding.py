"""FlashAttention on a padded batch: taking the padding out depends on the data, in every layer."""

from __future__ import annotations

from collections.abc import Iterator

from dynalyze.report import Advice, Finding, GraphBreak, Report
from dynalyze.rules.attention_calls import FROM_RUN, counted, flash_modules, ids, users_line
from dynalyze.rules.rule import Rule

_RANK = 90
_LINK = "https://github.com/huggingface/transformers/issues/41803"
_UNPADDING = ("_get_unpad_data", "_upad_input", "_unpad_input", "unpad_input", "index_first_axis", "_index_first_axis")
_DATA_DEPENDENT = ("Dynamic shape", "Tensor.item()", "Data dependent", "Data-dependent")
_FLAGS = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
_PACKED = (
    "pass sequences laid end to end instead of a padded batch: `cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and "
    "`max_length_k`, and no `attention_mask` (transformers' "
    "`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` makes them)"
)


def _judge(report: Report) -> Iterator[tuple[int, Finding]]:
    unpadding = [found for found in report.graph_breaks if _unpads(found)]
    asking = [found for found in report.graph_breaks if _asks_for_padding(found)]
    if unpadding:
        yield _RANK, _finding(report, unpadding, asking)
    elif asking:
        yield _RANK + 250, _only_asked(asking)


def _unpads(found: GraphBreak) -> bool:
    file = found.location.file.replace("\\", "/")
    if not any(words in found.gb_type for words in _DATA_DEPENDENT):
        return False
    by_library = file.endswith("/modeling_flash_attention_utils.py") or "/flash_attn/" in file
    return by_library or found.location.function in _UNPADDING


def _asks_for_padding(found: GraphBreak) -> bool:
    """transformers looks whether a mask holds any padding, to leave it out otherwise."""
    return found.location.function == "flash_attention_mask" and found.gb_type.startswith("Data-dependent")


def _finding(report: Report, unpadding: list[GraphBreak], asking: list[GraphBreak]) -> Finding:
    used = flash_modules(report)
    breaks = [*asking, *unpadding]
    named = f"`{used[0].attention}`" if used else "FlashAttention"
    action = f'Keep {named} and {_PACKED}; or use `attn_implementation="sdpa"`, which takes the mask as it is.'
    left_out = [flag for flag in _FLAGS if report.settings.get(f"torch._dynamo.config.{flag}") is not True]
    return Finding(
        rule="flash-attention-padding",
        severity="warning",
        title=f"FlashAttention takes the padding out of the batch: {counted(len(breaks), 'graph break')}",
        location=users_line(unpadding[0]),
        evidence=ids(breaks),
        advice=action,
        detail=Advice(
            action=action,
            why=f"{FROM_RUN} With a mask that holds padding, each layer finds out which tokens are real and how long "
            "the longest row is. Both depend on the data, so the graph ends there.",
            config="\n".join(f"torch._dynamo.config.{flag} = True" for flag in left_out),
            config_note=_note(asking) if left_out else "",
            link=_LINK,
        ),
    )


def _note(asking: list[GraphBreak]) -> str:
    """What the flags leave as it is."""
    stays = " The question whether the mask holds padding stays a break: packed sequences alone end that one."
    return (
        "These keep both in the graph, with unknown sizes. Leave the `.item()` where it is: transformers reads the "
        f"length once on purpose, and without it FlashAttention is slower.{stays if asking else ''}"
    )


def _only_asked(asking: list[GraphBreak]) -> Finding:
    action = "Pass no `attention_mask` where nothing is padded, so that nobody has to look into it."
    return Finding(
        rule="flash-attention-padding",
        severity="warning",
        title="Asking whether the attention mask holds padding breaks the graph",
        location=users_line(asking[0]),
        evidence=ids(asking),
        advice=action,
        detail=Advice(
            action=action,
            why=f"{FROM_RUN} transformers leaves a mask without padding out for FlashAttention, and has to read its "
            "values for that. Here none was taken out afterwards.",
            link=_LINK,
        ),
    )


RULE = Rule(
    id="flash-attention-padding",
    title="FlashAttention with a padded batch",
    severity="warning",
    description=(
        "FlashAttention computes on real tokens alone. Given a padded batch, the model takes the padding out first and "
        "puts it back afterwards, in each layer; what it needs for that is in the data, unknown to torch.compile."
    ),
    passed="FlashAttention did not have to take padding out of a batch.",
    judge=_judge,
)
