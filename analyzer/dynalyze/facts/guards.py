"""Reads the text of a failed guard: what kind of change it tells of, and of what."""

from __future__ import annotations

import ast
import contextlib
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


# A size of a tensor, in a condition.
SIZE = re.compile(r"[A-Za-z_][^\s()%*+/<>=-]*\.size\(\)\[\d+\]")
# Every guard holds when torch looks: what made the call miss is over, another thread compiled it meanwhile.
UNEXPLAINED = "Unexpected recompilation"
# What an attribute is that code looks for with `hasattr`.
MISSING, PRESENT = "missing", "present"
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
_DUPLICATES = re.compile(r"Duplicate tensors? found: \[(.*)\]")
_MARKED = re.compile(r"(?s:.*)is present on runtime tensor but was absent")
_ON_SIZES = re.compile(r"(?s)(?=.*\.(?:size|stride|storage_offset)\(\))(?=.*(?:[<>%]|==|!=))")
_MISSING = re.compile(r"KeyError on (?P<source>.+?)\[(?P<key>[^\]]*)\]$")
_KEYS = re.compile(r"^(?P<source>list\(dict\.keys\(.+\)\)\[\d+\]) == (?P<expected>.+)$")
_MEMBER = re.compile(r"^(?:not )?(?:set|dict|frozenset)\.__contains__\((?P<source>[^,]+), (?P<key>.+)\)$")
_KEY = re.compile(r"^(?:not )?___dict_contains\((?P<key>'[^']*'|\"[^\"]*\"|[\w.]+|\([^()]*\)), (?P<source>.+)\)$")
_TYPE = re.compile(r", type=<class '(?P<type>[^']+)'>")
_DISPATCH = re.compile(
    r"tensor '(?P<source>.+?)' dispatch key set mismatch\. expected DispatchKeySet\((?P<expected>[^)]*)\), "
    r"actual DispatchKeySet\((?P<actual>[^)]*)\)"
)
_DEVICES = {"CPU", "CUDA", "HIP", "XPU", "MPS", "Meta", "HPU", "PrivateUse1", "XLA", "MTIA", "MAIA", "IPU", "VE"}
_BACKENDS = re.compile(r"Cached backend: (?P<cached>.+?) \(id=\w+\)\. New backend: (?P<new>.+?) \(id=\w+\)")
_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>\S.*)")
# Of a dictionary torch tells what it met: `len(table) != 1` where the code was compiled for one entry.
_LENGTH = re.compile(r"^(?:not )?(?:len\((?P<source>.+)\)|___dict_(?:contains|size).*)(?: [=!]= (?P<expected>\d+))?")
_GONE = re.compile(r"^KeyError on (?P<source>[A-Za-z_][\w.\[\]']*)\.(?P<name>[A-Za-z]\w*)$")
_HAS = re.compile(r"^(?:not )?hasattr\((?P<source>.+), '(?P<name>\w+)'\)$")
_EMPTY = re.compile(r"^not (?P<source>[A-Za-z_][^\s()]*)$")
_DEALLOCATED = re.compile(r"Cache line invalidated because (?P<source>.+) got deallocated")
_INTEGER = re.compile(r"^-?\d+\s*$")
_EQUAL = re.compile(r"^(?P<source>[^=<>]+?) (?:==|is) (?P<expected>.+)$")
_CHECK = re.compile(r"^___(?:check_)?(?P<what>\w+)\((?P<source>[^,()]*(?:\([^()]*\))?[^,()]*)")
_IMPORTED = re.compile(r"G\['__import_(?P<module>\w+)'\]")
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
    for pattern, read in _READERS:
        if found := pattern.match(plain):
            return replace(read(found, text), text=plain)
    return Guard("other", text=plain)


def readable(source: str) -> str:
    """`L['self'].scale` as the user wrote it: `self.scale`; torch's name for an imported module as that module's."""
    source = _IMPORTED.sub(lambda found: found["module"].replace("_dot_", "."), source)
    return _ACCESS.sub(lambda m: m["name"], source.strip())


def _tensor(found: re.Match[str], _: str) -> Guard:
    source, index = readable(found["source"]), found["index"]
    if found["what"] in ("size", "stride") and index is not None:
        source = f"{source}.{found['what']}()[{index}]"
    cause, expected, actual = _TENSOR_CAUSES[found["what"]], found["expected"], found["actual"]
    if cause == "requires_grad" and actual is None:
        actual = {"0": "1", "1": "0"}.get(expected)
    return Guard(cause, source, expected, actual)


_KINDS_OF_TENSOR = ("an ordinary tensor", "an inference tensor")


def _dispatch(found: re.Match[str], _: str) -> Guard:
    """Another set of dispatch keys: another device, where the backends differ; inference mode, which takes those of
    autograd away; else a mode that has no name here.
    """
    expected, actual = ({key.strip() for key in found[side].split(",")} for side in ("expected", "actual"))
    source = readable(found["source"])
    device, other = expected & _DEVICES, actual & _DEVICES
    if device != other:
        return Guard("device", source, "".join(sorted(device)), "".join(sorted(other)))
    if expected ^ actual == {"ADInplaceOrView"}:  # The mode is the same: inside of it that tensor was not made.
        ordinary = "ADInplaceOrView" in expected
        return Guard("tensor_type", source, *(_KINDS_OF_TENSOR if ordinary else reversed(_KINDS_OF_TENSOR)))
    if all(key == "ADInplaceOrView" or key.startswith("Autograd") for key in expected ^ actual):
        inference = actual < expected
        return Guard("global_state", "inference_mode", str(not inference), str(inference))
    return Guard("other", source, ", ".join(sorted(expected - actual)), ", ".join(sorted(actual - expected)))


def _backend(found: re.Match[str], _: str) -> Guard:
    if (names := _BACKENDS.search(found.string)) is None:
        return Guard("backend")
    # `eager` for a wrapper that names it; else the whole text.
    named = [(re.search(r"compiler='?([\w.]+)", shown), shown.strip()) for shown in names.groups()]
    return Guard("backend", "backend", *(name[1] if name else shown for name, shown in named))


def _aliasing(found: re.Match[str], _: str) -> Guard:
    expected, actual = "one tensor", "different tensors"
    if " is not " in found.string:
        expected, actual = actual, expected
    return Guard("aliasing", readable(f"{found['one']}, {found['other']}"), expected, actual)


def _check(found: re.Match[str], text: str) -> Guard:
    what, source = found["what"], readable(found["source"])
    if what != "type_id":
        return Guard("container" if what.startswith("dict") else "identity", source)
    named = _TYPE.search(text)
    name = named["type"] if named else ""
    # A value of another type is a tensor's business only where a tensor was expected.
    is_value = name and not name.endswith(("Tensor", "Parameter"))
    return Guard("value" if is_value else "tensor_type", source, name if named else None)


def _member(found: re.Match[str], _: str) -> Guard:
    source = readable(found["source"])
    within, without = f"{found['key']} in {source}", f"{found['key']} not in {source}"
    expected, actual = (without, within) if found.string.startswith("not ") else (within, without)
    return Guard("container", source, expected, actual)


def _attribute(found: re.Match[str], _: str) -> Guard:
    source = readable(found["source"])
    cause: Cause = "module_attribute" if re.match(r"self\b", source) else "value"
    expected, actual = (MISSING, PRESENT) if found.string.startswith("not ") else (PRESENT, MISSING)
    return Guard(cause, f"{source}.{found['name']}", expected, actual)


def _symbolic(found: re.Match[str], _: str) -> Guard:
    """The measured side of a condition on sizes, and what was wanted of it: a value, or the whole condition."""
    condition, node = readable(found.string), None
    with contextlib.suppress(SyntaxError, ValueError):
        node = ast.parse(condition, mode="eval").body
    if not isinstance(node, ast.Compare):
        return Guard("symbolic", condition)
    sides = [node.left, *node.comparators]
    measured = next((side for side in sides if not isinstance(side, ast.Constant)), node.left)
    plain = len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq) and measured is node.left
    return Guard("symbolic", ast.unparse(measured), ast.unparse(node.comparators[0] if plain else node))


def _value(found: re.Match[str], text: str) -> Guard:
    cause: Cause = "global_variable" if found["source"].startswith("G[") else "value"
    # Of integers torch says whether a module holds them.
    is_held = re.match(r"^(?:L\['self'\]|self)\.", found["source"]) and not _INTEGER.match(found["expected"])
    if "allow_unspec_int_on_nn_module" in text or is_held:
        cause = "module_attribute"
    return Guard(cause, readable(found["source"]), found["expected"].strip())


# The first whose pattern fits at the beginning of the guard reads it.
_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], str], Guard]], ...] = (
    (_DISPATCH, _dispatch),
    (_TENSOR, _tensor),
    (_EXPECTED_TENSOR, lambda found, _: Guard("tensor_type", readable(found["source"]), "a tensor", found["actual"])),
    # Every state that changed: torch names them all, between blanks.
    (_STATE, lambda found, _: Guard("global_state", ", ".join(re.split(r"[,.\s]+", found["what"].strip(",. "))))),
    (re.compile(r"(?s:.*)BACKEND_MATCH"), _backend),
    (_MARKED, lambda *_: Guard("dynamic_marking", None, "unmarked", "marked dynamic")),
    (re.compile(r"(?s:.*)(?:dynamo_dim_marking|_dynamo_dynamic_indices)"), lambda *_: Guard("dynamic_marking")),
    (_DUPLICATES, lambda found, _: Guard(
        "aliasing", readable(found[1].replace('"', "")), "different tensors", "one tensor"
    )),
    (_ALIAS, _aliasing),
    (_ON_SIZES, _symbolic),
    (_MISSING, _member),
    (_KEYS, lambda found, _: Guard("container", readable(found["source"]), found["expected"])),
    (_MEMBER, _member),
    (_HAS, _attribute),
    (_GONE, _attribute),
    (_KEY, _member),
    (_LENGTH, lambda found, _: Guard(
        "container", f"len({readable(found['source'] or found.string)})", found["expected"]
    )),
    (_EMPTY, lambda found, _: Guard("container", readable(found["source"]), "empty", "not empty")),
    (_CHECK, _check),
    (_DEALLOCATED, lambda found, _: Guard("identity", readable(found["source"]))),
    (re.compile(r"(?s:.*)__code__"), lambda found, _: Guard("identity", readable(found.string))),
    (_EQUAL, _value),
)  # fmt: skip
