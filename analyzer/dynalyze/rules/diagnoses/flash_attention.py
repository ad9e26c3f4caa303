"""FlashAttention of the library flash-attn: what it needs, and what of it ends a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from dynalyze.report import Advice, Example, GraphBreak, Location, Report
from dynalyze.rules import report_queries as queries
from dynalyze.rules.recompile_series import Series
from dynalyze.rules.rule import Ranked, Rule, severity_of
from dynalyze.text.amounts import count_of

# What transformers asks of a GPU for each version of flash-attn; version 2 says so itself.
_NEEDS = {"2": (8, 0), "3": (8, 0), "4": (9, 0)}
_CALLED = {(8, 0): "Ampere", (9, 0): "Hopper"}
_VERSION = re.compile(r"flash_attention_(\d)|flash-attn-?(\d)")


@Rule(
    title="FlashAttention that this GPU has no kernel for",
    severity="error",
    rank=10,
    description="FlashAttention 2 and 3 are made for GPUs of compute capability 8.0 (Ampere) or more, version 4 for "
    "9.0 (Hopper). On an older one the model fails at its first call of attention.",
    fix='Use `attn_implementation="sdpa"` on such a GPU.',
)
def flash_attention_device(report: Report) -> Iterator[Ranked]:
    found = queries.capability(report)
    if found is None:
        return
    asked: dict[str, list[str]] = {}
    for module in queries.flash_modules(report):
        named = _VERSION.search(module.attention)
        asked.setdefault((named[1] or named[2]) if named is not None else "2", []).append(module.id)
    if not asked and (calls := queries.calls_of(report, "flash_attn")):
        asked["2"] = queries.ids(calls)  # Of the oldest: what the others need is not less.
    for made, evidence in asked.items():
        needed = _NEEDS.get(made, _NEEDS["2"])
        if found < needed:
            yield flash_attention_device.finding(
                f"FlashAttention-{made} does not run on {queries.device_name(report)} (compute capability "
                f"{found[0]}.{found[1]})",
                'Use `attn_implementation="sdpa"`: PyTorch then takes the best kernel that this GPU has.',
                why=f"{queries.FROM_SETTINGS} FlashAttention-{made} needs {needed[0]}.{needed[1]} ({_CALLED[needed]}) "
                "or later.",
                evidence=evidence,
            )


_REFUSED = "only support fp16 and bf16"


@Rule(
    title="FlashAttention in float32",
    severity="error",
    of_failure=True,
    description="The kernels of flash-attn exist for float16 and bfloat16. A model whose weights are float32 fails at "
    "its first call of attention; compiled, only when the graph runs.",
    fix="Load the model in bfloat16 or float16, run it under autocast, or use sdpa for float32.",
    example=Example(
        'from_pretrained(name, attn_implementation="flash_attention_2")',
        'from_pretrained(name, attn_implementation="flash_attention_2", dtype=torch.bfloat16)',
    ),
)
def flash_attention_float32(report: Report) -> Iterator[Ranked]:
    every = queries.calls_of(report, "flash_attn")
    # Where only some of query, key and value are float32, the finding is attention-mixed-dtypes.
    calls = [call for call in every if len(set(queries.dtypes_of(call).values())) < 2]
    if every and not calls:
        return
    wide = [call for call in calls if call.query is not None and call.query.dtype == "float32"]
    place = queries.place_of(report, wide[0]) if wide else None
    # The compile that ended in flash-attn's own words, or whatever else holds them.
    refused = next((each for each in report.compilations if _REFUSED in each.reason), None)
    if refused is not None:
        evidence = [*queries.ids(wide), refused.compile_id]
        yield _float32(
            report, 3, "FlashAttention refused float32", queries.FROM_RUN, evidence, place if wide else refused.location
        )
    elif any(_REFUSED in text for text in (report.outcome.message, *report.capture.notes)):
        yield _float32(report, 3, "FlashAttention refused float32", queries.FROM_RUN, queries.ids(wide), place)
    elif wide:
        yield _float32(report, 70, "FlashAttention is given float32", queries.FROM_GRAPH, queries.ids(wide), place)
    elif not calls:
        # Under autocast or with a quantiser the half-precision part is not hidden.
        modules = [
            module
            for module in queries.flash_modules(report)
            if "float32" in module.parameters and not any(half in module.parameters for half in queries.HALVES)
        ]
        if modules:
            title = f"{modules[0].class_name} asks for FlashAttention and has float32 parameters"
            yield _float32(
                report, 340, title, queries.FROM_SETTINGS, queries.ids(modules), queries.compiled_at(modules[0])
            )


def _float32(report: Report, rank: int, title: str, sure: str, evidence: list[str], place: Location | None) -> Ranked:
    used = queries.flash_modules(report)
    named = f'`attn_implementation="{used[0].attention}"`' if used else "FlashAttention"
    return flash_attention_float32.finding(
        title,
        f"Load the model with `dtype=torch.bfloat16` (or call `.to(torch.bfloat16)`) where {named} is to be used, run "
        'it under `torch.autocast`, or use `attn_implementation="sdpa"` for float32.',
        why=f"{sure} FlashAttention has no kernels for float32.",
        rank=rank,
        severity="error" if sure == queries.FROM_RUN else "warning",
        location=place,
        evidence=evidence,
    )


_FIRST_WITH_OPERATORS = (2, 7)
# A C++ function of flash-attn, as torch names it in a break.
_BUILTIN = re.compile(r"(flash_attn\w*)\.PyCapsule\.(\w+)")


@Rule(
    title="flash-attn without operators",
    rank=80,
    link="https://github.com/Dao-AILab/flash-attention/pull/1139",
    description="Until version 2.7 flash-attn called its kernels as plain C++ functions. torch.compile cannot look "
    "into these and has no operator to put into the graph in their place: each call is a graph break.",
    fix="Install flash-attn 2.7 or later, or wrap the call with `torch.library.custom_op`.",
    owns_breaks=lambda report: [each for each in report.graph_breaks if _named_builtin(each) is not None],
)
def flash_attention_builtin(report: Report) -> Iterator[Ranked]:
    by_module: dict[str, list[GraphBreak]] = {}
    for found in flash_attention_builtin.breaks(report):
        if (named := _named_builtin(found)) is not None:
            by_module.setdefault(named[1], []).append(found)
    for module, breaks in by_module.items():
        yield flash_attention_builtin.finding(
            f"The kernels of {module} cannot be in a graph",
            _action(report, module),
            why=f"{queries.FROM_RUN} The function comes from C++ without a description that torch.compile could read, "
            "so each call of attention ends the graph.",
            severity=severity_of(breaks),
            location=queries.users_line(breaks[0]),
            evidence=queries.ids(breaks),
        )


def _action(report: Report, module: str) -> str:
    wrap = "wrap the call as an operator with `torch.library.custom_op`"
    if "2" not in module:
        return f"Build flash-attn 3 anew from its newest source, which registers operators; or {wrap}."
    installed = queries.version(report, "flash-attn") or queries.version(report, "flash_attn")
    if installed >= _FIRST_WITH_OPERATORS:
        return (
            f"flash-attn {queries.shown_version(installed)} registers operators: call its own `flash_attn_func` and "
            f"`flash_attn_varlen_func` instead of `{module}`; or {wrap}."
        )
    have = f" ({queries.shown_version(installed)} is installed)" if installed else ""
    return f"Install flash-attn 2.7 or later{have}, which registers operators; or {wrap}."


def _named_builtin(found: GraphBreak) -> re.Match[str] | None:
    return _BUILTIN.search(f"{found.explanation}\n{found.context}")


_FLAGS = ("capture_scalar_outputs", "capture_dynamic_output_shape_ops")
_LENGTHS = "`cu_seq_lens_q`, `cu_seq_lens_k`, `max_length_q` and `max_length_k`"
_DATA_DEPENDENT = ("Dynamic shape", "Tensor.item()", "Data dependent", "Data-dependent")
_UNPADDING = ("_get_unpad_data", "_upad_input", "_unpad_input", "unpad_input", "index_first_axis", "_index_first_axis")
_LAYER_INDEX = re.compile(r"\blayer_idx\b")
_FLASH_FILES = ("/integrations/flash_attention.py", "/modeling_flash_attention_utils.py")


def _owns_series(series: Series, report: Report) -> bool:
    """A piece of a layer that breaks for FlashAttention left by itself: it is compiled for each layer's number."""
    lead = series.lead
    file = lead.location.file.replace("\\", "/")
    cut_off = _LAYER_INDEX.search(lead.source or "") is not None and file.endswith(_FLASH_FILES)
    return cut_off and bool(flash_attention_padding.breaks(report))


@Rule(
    title="FlashAttention with a padded batch",
    rank=90,
    link="https://github.com/huggingface/transformers/issues/41803",
    description="FlashAttention computes on real tokens alone. Given a padded batch, the model takes the padding out "
    "first and puts it back afterwards, in each layer; what it needs for that is in the data, unknown to "
    "torch.compile. A batch of one is asked in each layer whether it holds several texts.",
    fix="Pass texts laid end to end with their lengths and no `attention_mask`, or use sdpa, which takes the mask "
    "as it is. Two settings keep taking the padding out in the graph: `capture_scalar_outputs` and "
    "`capture_dynamic_output_shape_ops` of `torch._dynamo.config`.",
    owns_breaks=lambda report: [each for each in report.graph_breaks if _unpads_in(each) or _asks_for_padding(each)],
    owns_recompiles=_owns_series,
    at_limit=(
        "These are pieces of layers that the breaks of FlashAttention cut off: end these, see flash-attention-padding."
    ),
)
def flash_attention_padding(report: Report) -> Iterator[Ranked]:
    breaks = flash_attention_padding.breaks(report)
    asking = [found for found in breaks if _asks_for_padding(found)]
    # transformers looks whether a batch of one is several texts laid end to end.
    looking = ("_flash_attention_forward", "_is_packed_sequence")
    packing = [
        each for each in breaks if each.location.function in looking and each.gb_type.startswith("Data-dependent")
    ]
    unpadding = [found for found in breaks if found not in asking and found not in packing]
    count = count_of(len(breaks), "graph break")
    if unpadding:
        title = f"FlashAttention takes the padding out of the batch: {count}"
        yield _padding(report, breaks, unpadding[0], title, _unpads(report, asks=bool(asking)))
    elif packing:
        title = f"FlashAttention looks whether a batch of one holds several texts: {count}"
        yield _padding(report, breaks, packing[0], title, _LOOKS_FOR_PACKING)
    elif asking:
        title = "Asking whether the attention mask holds padding breaks the graph"
        yield _padding(report, asking, asking[0], title, _ONLY_ASKS, rank=340)


def _unpads(report: Report, *, asks: bool) -> Advice:
    left_out = [flag for flag in _FLAGS if report.settings.get(f"torch._dynamo.config.{flag}") is not True]
    used = queries.flash_modules(report)
    stays = " The question whether the mask holds padding stays a break: packed sequences alone end that one."
    return Advice(
        f"Keep {f'`{used[0].attention}`' if used else 'FlashAttention'} and pass sequences laid end to end instead of "
        f"a padded batch: {_LENGTHS}, and no `attention_mask` (transformers' "
        "`DataCollatorWithFlattening(return_flash_attn_kwargs=True)` makes them); or "
        'use `attn_implementation="sdpa"`, which takes the mask as it is.',
        why="With a mask that holds padding, each layer finds out which tokens are real and how long the longest "
        "row is. Both depend on the data, so the graph ends there.",
        config="\n".join(f"torch._dynamo.config.{flag} = True" for flag in left_out),
        config_note="These keep both in the graph, with unknown sizes. Leave the `.item()` where it is: transformers "
        f"reads the length once on purpose, and without it FlashAttention is slower.{stays if asks else ''}"
        if left_out
        else "",
    )


_LOOKS_FOR_PACKING = Advice(
    f"Say how long the text is, so that nobody looks: pass {_LENGTHS}, and no `attention_mask`; or "
    'use `attn_implementation="sdpa"`.',
    why="A batch of one may be several texts laid end to end. Unless it is told their lengths, transformers "
    "reads that from the position ids in each layer; steps of a single token and larger batches are not asked.",
)
_ONLY_ASKS = Advice(
    "Pass no `attention_mask` where nothing is padded, so that nobody has to look into it.",
    why="transformers leaves a mask without padding out for FlashAttention, and has to read its values for "
    "that. Here none was taken out afterwards.",
)


def _padding(
    report: Report, breaks: list[GraphBreak], first: GraphBreak, title: str, advice: Advice, rank: int | None = None
) -> Ranked:
    again = [member for one in flash_attention_padding.recompiles(report) for member in one.recompiles]
    apart = " What is cut off is compiled apart, anew for each layer." if again else ""
    return flash_attention_padding.finding(
        title,
        msgspec.structs.replace(
            advice, link=flash_attention_padding.link, why=f"{queries.FROM_RUN} {advice.why}{apart}"
        ),
        rank=rank,
        severity=severity_of(breaks),
        location=queries.users_line(first),
        evidence=[*queries.ids(breaks), *queries.ids(again)],
        impact=queries.recompile_cost(again),
    )


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


@Rule(
    title="FlashAttention with a static cache",
    rank=330,
    link="https://github.com/huggingface/transformers/issues/32040",
    description="A static cache has room for the longest text from the first token on. FlashAttention knows the length "
    "of the text only if the model tells it; versions of transformers that did not gave wrong answers or failed.",
    fix="Use sdpa with a static cache, or FlashAttention with the default one; else compare the answers.",
    example=Example(
        'from_pretrained(name, attn_implementation="flash_attention_2")',
        'from_pretrained(name, attn_implementation="sdpa")',
    ),
)
def static_cache_attention(report: Report) -> Iterator[Ranked]:
    for module in queries.flash_modules(report):
        if module.cache == "static":
            yield static_cache_attention.finding(
                f"{module.class_name} uses {module.attention} with a static cache",
                f'Load {module.class_name} with `attn_implementation="sdpa"` for a static cache, or keep '
                f"`{module.attention}` with the default cache. If both are needed, compare the answers with eager "
                "ones before they ship.",
                why=f"{queries.FROM_LAYERS} The run does not show whether its answers are wrong: that is for the "
                "accuracy test. A static cache holds empty positions after the text, which FlashAttention takes for "
                "real ones unless the model cuts them off; and transformers compiles this pair only without fullgraph.",
                location=queries.compiled_at(module),
                evidence=[module.id],
            )
