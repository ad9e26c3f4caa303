"""Reads the text of a failed guard: what kind of change it tells of, and of what."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from dynalyze.capture.guards import bare_guard
from dynalyze.report import Cause


@dataclass(frozen=True)
class Guard:
    """A failed guard. `source` is the program's own expression; values are as torch prints them."""

    cause: Cause
    source: str | None = None
    expected: str | None = None
    actual: str | None = None
    text: str = ""


_TENSOR = re.compile(
    r"tensor '(?P<source>.+?)' (?P<what>size|stride|rank|dtype|requires_grad|device|dispatch key set|type)"
    r" mismatch(?: at index (?P<index>\d+))?\. expected (?:requires_grad=)?(?P<expected>[^,]+?)"
    r"(?:, actual (?P<actual>.+?))?(?:\. Guard failed.*)?$"
)
_EXPECTED_TENSOR = re.compile(
    r"expected type of '(?P<source>.+?)' to be a tensor type,?[ ']*(?:but found|got) '?(?P<actual>.+?)'?$"
)
_ALIAS = re.compile(
    r"^(?P<one>[A-Za-z_][\w.\[\]'\"]*) is (?:not )?(?P<other>(?!None\b|True\b|False\b)[A-Za-z_][\w.\[\]'\"]*)$"
)
_KEYS = re.compile(r"^(?P<source>list\(dict\.keys\(.+\)\)\[\d+\]) == (?P<expected>.+)$")
_MEMBER = re.compile(r"^(?:not )?(?:set|dict|frozenset)\.__contains__\((?P<source>[^,]+), (?P<key>.+)\)$")
_KEY = re.compile(r"^(?:not )?___dict_contains\((?P<key>'[^']*'|\"[^\"]*\"|[\w.]+), (?P<source>.+)\)$")
_TYPE = re.compile(r", type=<class '(?P<type>[^']+)'>")
_DISPATCH = re.compile(
    r"tensor '(?P<source>.+?)' dispatch key set mismatch\. expected DispatchKeySet\((?P<expected>[^)]*)\), "
    r"actual DispatchKeySet\((?P<actual>[^)]*)\)"
)
_DEVICES = {"CPU", "CUDA", "HIP", "XPU", "MPS", "Meta", "HPU", "PrivateUse1", "XLA", "MTIA", "MAIA", "IPU", "VE"}
_BACKENDS = re.compile(r"Cached backend: (?P<cached>.+?) \(id=\w+\)\. New backend: (?P<new>.+?) \(id=\w+\)")
_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>\S.*)")
_LENGTH = re.compile(r"^(?:not )?(?:len\((?P<source>.+)\)|___dict_(?:contains|size).*)(?: == (?P<expected>\d+))?")
_EQUAL = re.compile(r"^(?P<source>[^=<>]+?) (?:==|is) (?P<expected>.+)$")
_CHECK = re.compile(r"^___(?:check_)?(?P<what>\w+)\((?P<source>[^,()]*(?:\([^()]*\))?[^,()]*)")
_ACCESS = re.compile(r"\b[LG]\['(?P<name>\w+)'\]")
_TENSOR_CAUSES: dict[str, Cause] = {
    "size": "shape", "stride": "stride", "rank": "rank", "dtype": "dtype", "requires_grad": "requires_grad",
    "device": "device", "dispatch key set": "other", "type": "tensor_type",
}  # fmt: skip


def read_guard(text: str) -> Guard:
    """Classify the text of a failed guard, in torch 2.8 to 2.13's wording.

    The comment in which torch names the guard's origin, a line of the user's code, is left off.
    """
    plain = bare_guard(text)
    for read in _READERS:
        found = read(plain, text)
        if found is not None:
            return replace(found, text=plain)
    return Guard("other", text=plain)


def readable(source: str) -> str:
    """`L['self'].scale` as the user wrote it: `self.scale`."""
    return _ACCESS.sub(lambda m: m["name"], source.strip())


def _tensor(plain: str, text: str) -> Guard | None:
    found = _TENSOR.match(plain)
    if found is None:
        return None
    source, index = readable(found["source"]), found["index"]
    if found["what"] == "size" and index is not None:
        source = f"{source}.size()[{index}]"
    elif found["what"] == "stride" and index is not None:
        source = f"{source}.stride()[{index}]"
    cause, expected, actual = _TENSOR_CAUSES[found["what"]], found["expected"], found["actual"]
    if cause == "requires_grad" and actual is None:
        actual = {"0": "1", "1": "0"}.get(expected)
    return Guard(cause, source, expected, actual)


def _dispatch(plain: str, text: str) -> Guard | None:
    """Another set of dispatch keys: another device, where the backends differ; inference mode, which takes those of
    autograd away; else a mode that has no name here.
    """
    found = _DISPATCH.match(plain)
    if found is None:
        return None
    expected, actual = _keys(found["expected"]), _keys(found["actual"])
    source = readable(found["source"])
    device, other = expected & _DEVICES, actual & _DEVICES
    if device != other:
        return Guard("device", source, "".join(sorted(device)), "".join(sorted(other)))
    if all(key == "ADInplaceOrView" or key.startswith("Autograd") for key in expected ^ actual):
        inference = actual < expected
        return Guard("global_state", "inference_mode", str(not inference), str(inference))
    return Guard("other", source, ", ".join(sorted(expected - actual)), ", ".join(sorted(actual - expected)))


def _keys(text: str) -> set[str]:
    return {key.strip() for key in text.split(",")}


def _tensor_type(plain: str, text: str) -> Guard | None:
    found = _EXPECTED_TENSOR.match(plain)
    if found is None:
        return None
    return Guard("tensor_type", readable(found["source"]), "a tensor", found["actual"])


def _state(plain: str, text: str) -> Guard | None:
    """Every state that changed: torch names them all, between blanks."""
    found = _STATE.match(plain)
    return Guard("global_state", ", ".join(re.split(r"[,.\s]+", found["what"].strip(",. ")))) if found else None


def _backend(plain: str, text: str) -> Guard | None:
    if "BACKEND_MATCH" not in plain:
        return None
    names = _BACKENDS.search(plain)
    expected, actual = (_backend_name(names["cached"]), _backend_name(names["new"])) if names else (None, None)
    return Guard("backend", "backend" if names else None, expected, actual)


def _backend_name(shown: str) -> str:
    """`eager` for a wrapper that names it; the whole text where two of one name differ."""
    named = re.search(r"compiler='?([\w.]+)", shown)
    return named[1] if named else shown.strip()


def _aliasing(plain: str, text: str) -> Guard | None:
    duplicates = re.match(r"Duplicate tensors? found: \[(.*)\]", plain)
    if duplicates:
        source = readable(duplicates[1].replace('"', ""))
        return Guard("aliasing", source, "different tensors", "one tensor")
    pair = _ALIAS.match(plain)
    if pair is None:
        return None
    expected, actual = "one tensor", "different tensors"
    if " is not " in plain:
        expected, actual = actual, expected
    return Guard("aliasing", readable(f"{pair['one']}, {pair['other']}"), expected, actual)


def _marking(plain: str, text: str) -> Guard | None:
    if "is present on runtime tensor but was absent" in plain:
        return Guard("dynamic_marking", None, "unmarked", "marked dynamic")
    if "dynamo_dim_marking" in plain or "_dynamo_dynamic_indices" in plain:
        return Guard("dynamic_marking")
    return None


def _identity(plain: str, text: str) -> Guard | None:
    found = _CHECK.match(plain)
    if found is None and "__code__" not in plain:
        return None
    what, source = (found["what"], readable(found["source"])) if found else ("obj_id", readable(plain))
    if what == "type_id":
        named = _TYPE.search(text)
        return Guard(_type_cause(named["type"] if named else ""), source, named["type"] if named else None)
    return Guard("container" if what.startswith("dict") else "identity", source)


def _type_cause(name: str) -> Cause:
    """A value of another type is a tensor's business only where a tensor was expected."""
    return "value" if name and not name.endswith(("Tensor", "Parameter")) else "tensor_type"


def _container(plain: str, text: str) -> Guard | None:
    missing = re.match(r"KeyError on (.+?)\[([^\]]*)\]$", plain)
    if missing:
        source, key = readable(missing[1]), missing[2]
        return Guard("container", source, f"{key} in {source}", f"{key} not in {source}")
    keys = _KEYS.match(plain)
    if keys:
        return Guard("container", readable(keys["source"]), keys["expected"])
    member = _MEMBER.match(plain) or _KEY.match(plain)
    if member:
        source = readable(member["source"])
        within, without = f"{member['key']} in {source}", f"{member['key']} not in {source}"
        expected, actual = (without, within) if plain.startswith("not ") else (within, without)
        return Guard("container", source, expected, actual)
    found = _LENGTH.match(plain)
    if found is None:
        return None
    source = readable(found["source"] or plain)
    return Guard("container", f"len({source})", found["expected"])


def _symbolic(plain: str, text: str) -> Guard | None:
    if re.search(r"\.(?:size|stride|storage_offset)\(\)", plain) and re.search(r"[<>%]|==|!=", plain):
        source, expected = _measured(readable(plain))
        return Guard("symbolic", source, expected)
    return None


def _measured(condition: str) -> tuple[str, str | None]:
    """The measured side of a condition on sizes, and what was wanted of it: a value, or the whole condition."""
    try:
        node = ast.parse(condition, mode="eval").body
    except (SyntaxError, ValueError):
        return condition, None
    if not isinstance(node, ast.Compare):
        return condition, None
    sides = [node.left, *node.comparators]
    measured = next((side for side in sides if not isinstance(side, ast.Constant)), node.left)
    plain = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq) and measured is node.left
    return ast.unparse(measured), ast.unparse(node.comparators[0] if plain else node)


def _value(plain: str, text: str) -> Guard | None:
    found = _EQUAL.match(plain)
    if found is None:
        return None
    source = found["source"]
    if "allow_unspec_int_on_nn_module" in text or re.match(r"^(?:L\['self'\]|self)\.", source):
        cause: Cause = "module_attribute"
    elif source.startswith("G["):
        cause = "global_variable"
    else:
        cause = "value"
    return Guard(cause, readable(source), found["expected"].strip())


_READERS: tuple[Callable[[str, str], Guard | None], ...] = (
    _dispatch, _tensor, _tensor_type, _state, _backend, _marking, _aliasing, _symbolic, _container, _identity, _value,
)  # fmt: skip
