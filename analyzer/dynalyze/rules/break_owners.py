"""Graph breaks that a rule of their own tells of, in the place of the general one: one root cause, one finding."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from dynalyze.capture.trace_records import LIMITS
from dynalyze.report import GraphBreak, Report, Severity
from dynalyze.rules.distributed_breaks import breaks_of_wrappers
from dynalyze.rules.library_layers import breaks_in, layers_of
from dynalyze.rules.quantisers import NAMES, breaks_of

Owner = Literal[
    "distributed-order", "flash-attention-builtin", "flash-attention-padding", "bitsandbytes-int8-threshold",
    "bitsandbytes-breaks", "torchao", "other-quantiser", "comprehension-apart", "recompile-limit",
]  # fmt: skip

BUILTIN = re.compile(r"(flash_attn\w*)\.PyCapsule\.(\w+)")
"""A C++ function of flash-attn, as torch names it in a break."""
# Functions of their own up to Python 3.11.
_COMPREHENSIONS = ("<dictcomp>", "<listcomp>", "<setcomp>", "<genexpr>")
_UNPADDING = ("_get_unpad_data", "_upad_input", "_unpad_input", "unpad_input", "index_first_axis", "_index_first_axis")
_DATA_DEPENDENT = ("Dynamic shape", "Tensor.item()", "Data dependent", "Data-dependent")


def owners(report: Report) -> dict[str, Owner]:
    """The rule of each break that has one, by the id of the break."""
    found: dict[str, Owner] = {}
    for owner, each in _claims(report):
        found.setdefault(each.id, owner)
    return found


def owned(report: Report, rule: Owner) -> list[GraphBreak]:
    """The breaks that a rule has to tell of."""
    known = owners(report)
    return [each for each in report.graph_breaks if known.get(each.id) == rule]


def severity_of(breaks: list[GraphBreak]) -> Severity:
    """That of the breaks themselves: an error where torch refused to compile."""
    return "error" if any(each.effect == "error" for each in breaks) else "warning"


def asks_for_padding(found: GraphBreak) -> bool:
    """transformers looks whether a mask holds any padding, to leave it out otherwise."""
    return found.location.function == "flash_attention_mask" and found.gb_type.startswith("Data-dependent")


def asks_for_packing(found: GraphBreak) -> bool:
    """transformers looks whether a batch of one is several texts laid end to end."""
    inside = found.location.function in ("_flash_attention_forward", "_is_packed_sequence")
    return inside and found.gb_type.startswith("Data-dependent")


def _claims(report: Report) -> Iterator[tuple[Owner, GraphBreak]]:
    """Each rule's breaks; where two rules claim one, the first has it."""
    for breaks in breaks_of_wrappers(report).values():
        yield from (("distributed-order", each) for each in breaks)
    for each in report.graph_breaks:
        if each.gb_type.startswith(LIMITS):
            yield "recompile-limit", each
        if BUILTIN.search(f"{each.explanation}\n{each.context}"):
            yield "flash-attention-builtin", each
        elif _unpads(each) or asks_for_padding(each):
            yield "flash-attention-padding", each
    for each in breaks_in(report, "bitsandbytes"):
        yield ("bitsandbytes-int8-threshold" if _is_of_outliers(each) else "bitsandbytes-breaks"), each
    yield from (("torchao", each) for each in breaks_in(report, "torchao"))
    for library in dict.fromkeys(group.library for _, group in layers_of(report, *NAMES)):
        yield from (("other-quantiser", each) for each in breaks_of(report, library))
    alone = {(c.process, c.epoch, c.compile_id) for c in report.compilations if c.function in _COMPREHENSIONS}
    for each in report.graph_breaks:
        frames = {(each.process, each.epoch, compile_id) for compile_id in each.compile_ids}
        if each.gb_type.startswith("Missing tp_iternext") and frames and frames <= alone:
            yield "comprehension-apart", each


def _unpads(found: GraphBreak) -> bool:
    file = found.location.file.replace("\\", "/")
    if not any(words in found.gb_type for words in _DATA_DEPENDENT):
        return False
    by_library = file.endswith("/modeling_flash_attention_utils.py") or "/flash_attn/" in file
    return by_library or found.location.function in _UNPADDING


def _is_of_outliers(found: GraphBreak) -> bool:
    """Whether a break comes of the number of outliers: an int8 operation whose output has a size of the data."""
    return "int8_" in f"{found.context} {found.explanation} {found.location.code}"
