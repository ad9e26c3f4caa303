"""Recompiles that have a rule of their own, because a library changes the value and the general advice would mislead.

Whose they are is read from the guard's source: the name of an attribute that this library alone has.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Literal

from dynalyze.report import Recompile, Report
from dynalyze.rules import break_owners
from dynalyze.rules.library_layers import adapters_of, by_generate, layers_of, was_traced
from dynalyze.rules.recompile_advice.source import read_source
from dynalyze.rules.recompile_series import Series, gather

Owner = Literal[
    "adapter-switch",
    "lora-hotswap",
    "bitsandbytes-first-call",
    "dynamic-cache",
    "flash-attention-padding",
    "prefill-and-decode",
]

_SWITCHED = re.compile(r"\b_?active_adapters?\b|\b_?disable_adapters\b|\b_adapters_disabled\b|\bmerged_adapters\b")
_LORA_WEIGHT = re.compile(r"\blora_(?:A|B|embedding_A|embedding_B|magnitude_vector)\b")
_SCALING = re.compile(r"\.scaling\[")
_BNB_STATE = re.compile(r"\._parameters\['weight'\]\.(?:CB|SCB)$|\.weight\.(?:CB|SCB)$|\.state\.(?:CB|SCB)$")
_WEIGHT_SIZE = re.compile(r"^\w+(?P<path>.*)\._parameters\['weight'\](?:\.(?:size|stride)\(\)\[\d+\])?$")
_CHILD = re.compile(r"\._modules\['([^']+)'\]")
_CACHE_STATE = re.compile(
    r"\.layers\[\d+\]\.(?:is_initialized|cumulative_length)\b|\.is_updated\[|len\([^)]*past_key_values?"
)
_CACHE_INDEX = re.compile(r"\.layer_idx$")
_TOKENS = re.compile(r"\b(?:input_ids|inputs_embeds|position_ids|cache_position)\b[^.]*\.size\(\)\[1\]$")
_KEYWORDS = re.compile(r"^len\(\w*kwargs\)$")
_LAYER_INDEX = re.compile(r"\blayer_idx\b")
_FLASH_FILES = ("/integrations/flash_attention.py", "/modeling_flash_attention_utils.py")


def owner(series: Series, report: Report) -> Owner | None:
    """The rule that tells of a series; None where it is the general one."""
    return "prefill-and-decode" if _is_first_token(series, report) else _owner(series.lead, report)


def owned(report: Report, rule: Owner) -> list[Series]:
    """The series that a rule has to tell of. Those that reached the recompile limit stay with that finding."""
    free, _ = gather(report)
    return [series for series in free if owner(series, report) == rule]


def _owner(lead: Recompile, report: Report) -> Owner | None:
    source = lead.source or ""
    if _uses_peft(report):
        if _SWITCHED.search(source) or (lead.cause == "requires_grad" and _LORA_WEIGHT.search(source)):
            return "adapter-switch"
        if _SCALING.search(source) or _LORA_WEIGHT.search(source):
            return "lora-hotswap"
    if _BNB_STATE.search(source) or _is_packed_weight(lead, report):
        return "bitsandbytes-first-call"
    if _is_cut_off(lead) and break_owners.owned(report, "flash-attention-padding"):
        return "flash-attention-padding"
    if _is_cache(lead) or (_CACHE_INDEX.search(source) and any(map(_is_cache, report.recompiles))):
        return "dynamic-cache"
    return None


def _is_cut_off(lead: Recompile) -> bool:
    """A piece of a layer that breaks for FlashAttention left by itself: it is compiled for each layer's number."""
    file = lead.location.file.replace("\\", "/")
    return _LAYER_INDEX.search(lead.source or "") is not None and file.endswith(_FLASH_FILES)


def _is_first_token(series: Series, report: Report) -> bool:
    """One change from a prompt to single tokens, or back, in a model of transformers that generates."""
    lead, sizes = series.lead, {series.lead.expected, series.lead.actual}
    if series.changes != 1 or not any(module.family for module in report.modules):
        return False
    if lead.cause == "container" and _KEYWORDS.search(lead.source or ""):
        return by_generate(report, lead)
    return lead.cause == "shape" and "1" in sizes and _TOKENS.search(lead.source or "") is not None


def _uses_peft(report: Report) -> bool:
    return any(adapters_of(report)) or was_traced(report, "peft")


def _is_cache(lead: Recompile) -> bool:
    source = lead.source or ""
    return read_source(lead).is_cache or _CACHE_STATE.search(source) is not None


def _is_packed_weight(lead: Recompile, report: Report) -> bool:
    """Another size of the first 4-bit weight: bitsandbytes packs them anew for the processor."""
    found = _WEIGHT_SIZE.match(lead.source or "")
    if found is None or lead.cause not in ("shape", "rank", "stride", "dtype"):
        return False
    path = _CHILD.sub(r".\1", found["path"]).strip(".")
    is_first = partial(_ends_alike, path)
    return any(is_first(group.first) for _, group in layers_of(report, "bitsandbytes") if "4bit" in group.kind)


def _ends_alike(one: str, other: str) -> bool:
    """Whether two paths name one layer, seen from different roots."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")
