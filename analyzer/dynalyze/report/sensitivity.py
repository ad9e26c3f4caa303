"""What each text of a record is, marked in its type, and a walk over the texts of a document by these marks.

Privacy rests on the marks alone (`privacy` says what becomes of each kind): a text without one counts as a quote,
which nothing keeps. Numbers, switches and fields of a few fixed words tell of nobody and need no mark.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

Document = TypeVar("Document", bound=msgspec.Struct)


class Holds(enum.Enum):
    """What a text is."""

    WORD = "a word of ours or an identity: ids, versions, hashes, keys of our own tables"
    NAME = "what somebody called a function, a class, an operation, a device"
    MACHINE = "a machine"
    PATH = "a file or a folder"
    ARGUMENT = "an argument of a command line"
    SETTING = "a value of the environment, of a configuration or of a setting"
    MESSAGE = "our own words; what a colon or `raised` introduces is somebody else's"
    ERROR = "the text of an exception"
    QUOTE = "names, values and code of the program, as guards, torch or an exception quote them"
    SOURCE = "code of the program, as its file has it"
    # Of these a word that is known stays; any other is a quote.
    DTYPE = "a dtype"
    NUMBER = "a number"
    OPERATION = "an operation of torch or Python"
    BACKEND = "a backend"
    BREAK_TYPE = "a type of PyTorch's registry of graph breaks, or what we say of a compilation"
    CUDAGRAPH = "why there is no CUDA graph"


Word = Annotated[str, Holds.WORD]
Name = Annotated[str, Holds.NAME]
Machine = Annotated[str, Holds.MACHINE]
FilePath = Annotated[str, Holds.PATH]
Argument = Annotated[str, Holds.ARGUMENT]
CommandLine = Annotated[list[str], Holds.ARGUMENT]
Settings = Annotated[dict[str, Any], Holds.SETTING]
Message = Annotated[str, Holds.MESSAGE]
ErrorText = Annotated[str, Holds.ERROR]
Quote = Annotated[str, Holds.QUOTE]
Source = Annotated[str, Holds.SOURCE]
Dtype = Annotated[str, Holds.DTYPE]
Number = Annotated[str, Holds.NUMBER]
Operation = Annotated[str, Holds.OPERATION]
Backend = Annotated[str, Holds.BACKEND]
BreakType = Annotated[str, Holds.BREAK_TYPE]
CudagraphSkip = Annotated[str, Holds.CUDAGRAPH]

Change = Callable[[Holds, str], "str | None"]
"""What becomes of a text; None: it goes, an item from its list, a field to nothing."""
Restate = Mapping[type[msgspec.Struct], Callable[[Any, Any], Any]]
"""By the type of a record: from the record before and after its texts were changed, the one to put in its place, or
None for that after, which it may have changed further."""

Line = Callable[[list[str]], list[str]]
"""What becomes of a command line as a whole, before `change` sees its arguments: one may tell what the next one is."""


@dataclass(frozen=True)
class _How:
    change: Change
    restate: Restate
    line: Line


_Visit = Callable[[Any, _How], Any]


def changed(
    document: Document, change: Change, restate: Restate | None = None, line: Line = lambda line: line
) -> Document:
    """A copy of the document in which every text is what `change` makes of it, keys of dictionaries too.

    A mark on something larger than a text stands for all of it: it goes as a whole where its texts would go.
    """
    copy = _visit_struct(document, _How(change, restate or {}, line))
    assert isinstance(copy, type(document))
    return copy


def texts(document: msgspec.Struct) -> tuple[list[tuple[Holds, str]], list[list[str]]]:
    """Every text of a document, with what it is; and its command lines."""
    found: list[tuple[Holds, str]] = []
    lines: list[list[str]] = []

    def note(holds: Holds, text: str) -> str:
        found.append((holds, text))
        return text

    def note_line(line: list[str]) -> list[str]:
        lines.append(line)
        return line

    changed(document, note, line=note_line)
    return found, lines


def _visit_struct(value: Any, how: _How) -> Any:
    kind: type[msgspec.Struct] = type(value)
    fields = _fields(kind)
    if not fields:  # Numbers alone, and samples are very many.
        return value
    new = {}
    for name, visit, nullable in fields:
        before = getattr(value, name)
        after = visit(before, how)
        new[name] = type(before)() if after is None and before is not None and not nullable else after
    copy = msgspec.structs.replace(value, **new)
    stated = how.restate.get(kind)
    return (stated(value, copy) or copy) if stated is not None else copy


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, _Visit, bool], ...]:
    """The fields of a record that may hold texts, and whether they may be None."""
    marked, bare = get_type_hints(kind, include_extras=True), get_type_hints(kind)
    visits = ((name, _visit(marked[name], Holds.QUOTE)) for name in kind.__struct_fields__)
    return tuple((name, visit, type(None) in get_args(bare[name])) for name, visit in visits if visit is not None)


def _visit(hint: Any, holds: Holds) -> _Visit | None:
    """How values of this type are walked over; None where no text can be in them."""
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *marks = get_args(hint)
        holds = next((mark for mark in marks if isinstance(mark, Holds)), holds)
        visit = _visit(inner, holds)
        return visit if inner is str or visit is None else functools.partial(_visit_whole, holds, visit)
    if hint is str or hint is Any:
        return functools.partial(_visit_open, holds)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _visit_struct
    if origin is list:
        visit = _visit(get_args(hint)[0], holds)
        return visit and functools.partial(_visit_list, visit)
    if origin is dict:
        key, item = (_visit(each, holds) for each in get_args(hint))
        return functools.partial(_visit_dict, key or _as_it_is, item or _as_it_is) if key or item else None
    if origin in (Union, types.UnionType):
        visits = [visit for each in get_args(hint) if (visit := _visit(each, holds)) is not None]
        if len(visits) > 1:
            raise TypeError(f"more than one kind of text in {hint}")
        return functools.partial(_visit_some, visits[0]) if visits else None
    return None


def _visit_whole(holds: Holds, visit: _Visit, value: Any, how: _How) -> Any:
    if how.change(holds, "") is None:
        return None
    return visit(how.line(value) if holds is Holds.ARGUMENT else value, how)


def _visit_some(visit: _Visit, value: Any, how: _How) -> Any:
    return value if value is None else visit(value, how)


def _visit_list(visit: _Visit, value: Any, how: _How) -> Any:
    walked = ((each, visit(each, how)) for each in value)
    return [after for before, after in walked if after is not None or before is None]


def _visit_dict(key: _Visit, item: _Visit, value: Any, how: _How) -> Any:
    found: dict[Any, Any] = {}
    for name, each in value.items():
        shown, kept = key(name, how), item(each, how)
        if shown is None or (kept is None and each is not None):
            continue
        number, free = 2, shown
        while free in found:  # Two names that look the same once they are changed.
            number, free = number + 1, f"{shown} ({number})"
        found[free] = kept
    return found


def _visit_open(holds: Holds, value: Any, how: _How) -> Any:
    """A text, or a value of any type that JSON has, all of whose texts are of one kind."""
    if isinstance(value, str):
        return how.change(holds, value)
    visit = functools.partial(_visit_open, holds)
    if isinstance(value, dict):
        # A setting and its value are what an option and its argument are.
        seen = {key: how.line([f"--{key}", each])[1] if isinstance(each, str) else each for key, each in value.items()}
        return _visit_dict(visit, visit, seen, how)
    if isinstance(value, list | tuple):
        texts_alone = all(isinstance(each, str) for each in value)
        return _visit_list(visit, how.line(list(value)) if texts_alone else value, how)
    return value


def _as_it_is(value: Any, how: _How) -> Any:
    return value
