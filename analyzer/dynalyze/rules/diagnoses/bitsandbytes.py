"""Layers quantised by bitsandbytes: breaks in its code, outliers, the compute dtype, its first call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from dynalyze.report import Example, GraphBreak, Recompile, Report
from dynalyze.rules import report_queries as queries
from dynalyze.rules.recompile_advice.source import as_written, clipped
from dynalyze.rules.rule import Ranked, Rule, severity_of
from dynalyze.text.amounts import count_of, how_often

# Since these versions both kinds of layers are traced without a break.
_TORCH, _BITSANDBYTES = (2, 8), (0, 46)


@Rule(
    title="Graph breaks inside bitsandbytes",
    rank=195,
    link="https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1616",
    description="Older versions of bitsandbytes, and torch before 2.8, break the graph in every quantised layer, which "
    "leaves little to compile. Newer versions trace these layers whole.",
    fix="Upgrade to torch 2.8 and bitsandbytes 0.46 or later.",
    owns_breaks=partial(queries.breaks_in, folder="bitsandbytes"),
    precedence=1,
)
def bitsandbytes_breaks(report: Report) -> Iterator[Ranked]:
    if breaks := bitsandbytes_breaks.breaks(report):
        yield bitsandbytes_breaks.finding(
            f"bitsandbytes breaks the graph at {count_of(len(breaks), 'place')}",
            _action(queries.version(report, "torch"), queries.version(report, "bitsandbytes"), breaks[0]),
            why=f"{queries.FROM_RUN} The lines are bitsandbytes' own, so each of its layers is cut out of the graph. "
            "From torch 2.8 and bitsandbytes 0.46 on its layers are traced whole.",
            severity=severity_of(breaks),
            location=queries.users_line(breaks[0]),
            evidence=queries.ids(breaks),
        )


def _action(torch: tuple[int, ...], library: tuple[int, ...], first: GraphBreak) -> str:
    old = []
    if torch and torch < _TORCH:
        old.append(f"torch to 2.8 or later (here {queries.shown_version(torch)})")
    if library and library < _BITSANDBYTES:
        old.append(f"bitsandbytes to 0.46 or later (here {queries.shown_version(library)})")
    if old:
        return f"Upgrade {' and '.join(old)}."
    if not torch or not library:
        return (
            "Upgrade to torch 2.8 and bitsandbytes 0.46 or later, where either is older; the versions are not recorded."
        )
    return (
        f"torch {queries.shown_version(torch)} and bitsandbytes {queries.shown_version(library)} are new enough, so "
        f"their age is not the cause. torch says `{first.gb_type}`: look for `{first.location.function or 'the line'}` "
        "in bitsandbytes' issues."
    )


_CAPTURE = "torch._dynamo.config.capture_dynamic_output_shape_ops"


@Rule(
    title="8-bit layers with an outlier threshold",
    rank=190,
    link="https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1581",
    description="LLM.int8() computes columns with values above llm_int8_threshold (6.0 by default in transformers) in "
    "16 bits. Their number depends on the data, which breaks the graph in each layer unless such sizes are captured.",
    fix="Set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`, which changes no answer; or load with"
    " `llm_int8_threshold=0.0` and compare the answers.",
    example=Example(
        "BitsAndBytesConfig(load_in_8bit=True)", "BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)"
    ),
    # The number of outliers: an int8 operation whose output has a size of the data.
    owns_breaks=lambda report: [
        each
        for each in queries.breaks_in(report, "bitsandbytes")
        if "int8_" in f"{each.context} {each.explanation} {each.location.code}"
    ],
)
def bitsandbytes_int8_threshold(report: Report) -> Iterator[Ranked]:
    breaks = bitsandbytes_int8_threshold.breaks(report)
    if not breaks:
        return
    set_to = (group.facts.get("threshold") for _, group in queries.layers_of(report, "bitsandbytes"))
    threshold = next((f" of {value:g}" for value in set_to if value), "")
    yield bitsandbytes_int8_threshold.finding(
        f"8-bit layers with an outlier threshold{threshold} break the graph "
        f"{how_often(sum(found.occurrences for found in breaks))}",
        f"Set `{_CAPTURE} = True` before the first call: the graph stays whole and the answers the same. Or load with "
        "`BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)`: then nothing depends on the data, but "
        "outliers are rounded to 8 bits too, so compare the answers.",
        why=f"{queries.FROM_RUN} With a threshold above 0 each 8-bit layer finds the columns with large values and "
        "computes them in 16 bits. How many there are only the data tells, so the graph ends at each layer.",
        example=bitsandbytes_int8_threshold.example,
        config=f"{_CAPTURE} = True",
        config_note="The number of outlier columns becomes an unknown size in the graph.",
        severity=severity_of(breaks),
        location=queries.users_line(breaks[0]),
        evidence=queries.ids(breaks),
    )


_AMPERE = (8, 0)


@Rule(
    title="4-bit layers compute in float32",
    rank=340,
    link="https://huggingface.co/docs/transformers/quantization/bitsandbytes",
    description="bitsandbytes unpacks a 4-bit weight in every call and multiplies in the layer's compute dtype. "
    "transformers sets float32 unless bnb_4bit_compute_dtype is given. In a model of 16 bits on a GPU that is silently "
    "slow.",
    fix="Set `bnb_4bit_compute_dtype` in the `BitsAndBytesConfig` that loads the model.",
    example=Example(
        "BitsAndBytesConfig(load_in_4bit=True)",
        "BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)",
    ),
)
def bitsandbytes_compute_dtype(report: Report) -> Iterator[Ranked]:
    for module, group in queries.layers_of(report, "bitsandbytes"):
        if "4bit" not in group.kind or group.facts.get("compute_dtype") != "float32":
            continue
        # bfloat16, unless the model or the GPU is made for float16.
        old = (queries.capability(report) or _AMPERE) < _AMPERE
        wanted = "float16" if old or "float16" in module.parameters else "bfloat16"
        on_accelerator = any(not device.startswith(("cpu", "meta")) for device in module.devices)
        # Whether the rest of the model is kept in 16 bits; packed weights count as integers.
        floats = {name: number for name, number in module.parameters.items() if name.startswith(("float", "bfloat"))}
        is_half = bool(floats) and max(floats, key=lambda name: floats[name]) in queries.HALVES
        why = f"{queries.FROM_LAYERS} `{group.first}` casts its input to float32, multiplies, and casts back."
        unpacked = group.facts.get("quantised_from")
        if unpacked in queries.HALVES:
            why += f" Its weight is unpacked to {unpacked} and cast up for that."
        if on_accelerator:
            why += " Nothing fails or warns; it only takes the slow way. How slow was not measured."
        else:
            why += " Whether 16 bits are faster on this processor was not measured; on a GPU they are."
        yield bitsandbytes_compute_dtype.finding(
            f"{count_of(group.count, '4-bit layer')} of {module.class_name} "
            f"{'computes' if group.count == 1 else 'compute'} in float32",
            f"Set `bnb_4bit_compute_dtype=torch.{wanted}` in the `BitsAndBytesConfig` that loads the model (its "
            f"default is float32), or `compute_dtype=torch.{wanted}` of the layers.",
            why=why,
            example=Example(
                "BitsAndBytesConfig(load_in_4bit=True)",
                f"BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.{wanted})",
            ),
            severity="warning" if on_accelerator and is_half else "info",
            location=queries.compiled_at(module),
            evidence=[module.id],
        )


_STATE = re.compile(r"\._parameters\['weight'\]\.(?:CB|SCB)$|\.weight\.(?:CB|SCB)$|\.state\.(?:CB|SCB)$")
_WEIGHT_SIZE = re.compile(r"^\w+(?P<path>.*)\._parameters\['weight'\](?:\.(?:size|stride)\(\)\[\d+\])?$")
_CHILD = re.compile(r"\._modules\['([^']+)'\]")


@Rule(
    title="bitsandbytes rearranged its weights in the first call",
    rank=398,
    description="Layers of bitsandbytes prepare themselves in their first call: 8-bit ones move their statistics, "
    "4-bit ones may be packed anew for the processor. Where that call is compiled already, the second one compiles "
    "again.",
    fix="Call the model once in eager, without gradients, before torch.compile.",
    example=Example(
        "compiled = torch.compile(model)",
        "with torch.no_grad():\n    model(**inputs)  # in eager\ncompiled = torch.compile(model)",
    ),
    owns_recompiles=lambda series, report: (
        _STATE.search(series.lead.source or "") is not None or _is_packed_weight(series.lead, report)
    ),
    precedence=1,
)
def bitsandbytes_first_call(report: Report) -> Iterator[Ranked]:
    series = bitsandbytes_first_call.recompiles(report)
    if not series:
        return
    members = [member for one in series for member in one.recompiles]
    yield bitsandbytes_first_call.finding(
        f"bitsandbytes rearranged its weights in the first compiled call: compiled again {how_often(len(members))}",
        "Call the model once before torch.compile, without gradients: bitsandbytes then rearranges its weights outside "
        "of the compiled code, and the first compile is the only one.",
        why=f"{queries.FROM_RUN} An 8-bit layer moves its statistics away from the weight in its first call, and on "
        "some processors a 4-bit weight is packed in another order. Here "
        f"`{clipped(as_written(series[0].lead.source or ''))}` changed.",
        example=bitsandbytes_first_call.example,
        location=queries.called_from(report, series[0].lead),
        evidence=queries.ids(members),
        impact=queries.recompile_cost(members),
    )


def _is_packed_weight(lead: Recompile, report: Report) -> bool:
    """Another size of the first 4-bit weight: bitsandbytes packs them anew for the processor."""
    found = _WEIGHT_SIZE.match(lead.source or "")
    if found is None or lead.cause not in ("shape", "rank", "stride", "dtype"):
        return False
    path = _CHILD.sub(r".\1", found["path"]).strip(".")
    layers = [group.first for _, group in queries.layers_of(report, "bitsandbytes") if "4bit" in group.kind]
    # Two paths name one layer, seen from different roots.
    return any(path == own or path.endswith(f".{own}") or own.endswith(f".{path}") for own in layers)
