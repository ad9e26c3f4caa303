"""More arguments for a function that breaks and for the call of it, each on a line of its own where the others are.

They are None unless given, so that other callers need not know of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from dynalyze.fix.lines import line_map
from dynalyze.fix.rewriting.conditions import called
from dynalyze.fix.sites import Proposal, Site, walk

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_SPACE, _NOTHING = cst.SimpleWhitespace(" "), cst.SimpleWhitespace("")


def paths_below(site: Site) -> Iterator[list[Site]]:
    """The functions that the line calls, each called by the one before by its name, through decorators or not, down to
    one that may get more arguments: the longest way first. No class derived from that of a method has one of the same
    name.
    """
    path, here, inner = list[Site](), site, site.called
    while inner is not None:
        name = inner.function.name.value
        if len(_calls(here, name)) == 1:
            if _is_overridden(inner.text, name):
                break
            path, here = [*path, inner], inner
        inner = inner.called
    for length in range(len(path), 0, -1):
        yield path[:length]


def proposed_with_call(
    site: Site, path: Sequence[Site], changed: str, given: Mapping[str, str], title: str,
) -> Iterator[Proposal]:  # fmt: skip
    """The change of the last function of the path, whose file is `changed` already, and of the lines that lead to it:
    those between hand on what the first one gives.
    """
    texts = {path[-1].broken.location.file: changed}
    above = [site, *path[:-1]]
    for caller, callee in zip(reversed(above), reversed(path), strict=True):
        file = caller.broken.location.file
        text = texts.get(file, caller.text)
        line = next((now for now, was in line_map(caller.text, text).items() if was == caller.line), None)
        if line is None:
            return
        here = caller.at(text, line)
        calls = _calls(here, callee.function.name.value)
        taken = {each.value for each in walk(here.function) if isinstance(each, cst.Name)}
        if len(calls) != 1 or (caller is not site and taken & set(given)):
            return
        if caller is site:
            texts[file] = here.with_nodes({calls[0]: giving(calls[0], given)})
        else:
            handed = {name: name for name in given}
            texts[file] = here.with_nodes({
                calls[0]: giving(calls[0], handed), here.function.params: taking(here.function, list(given)),
            })  # fmt: skip
    source = texts.pop(site.broken.location.file)
    yield Proposal("", title, source, others=texts)


def _calls(site: Site, name: str) -> list[cst.Call]:
    return [node for node in walk(site.statement) if isinstance(node, cst.Call) and called(node) == name]


def _is_overridden(text: str, name: str) -> bool:
    classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    having = {
        each.name for each in classes for one in each.body if isinstance(one, ast.FunctionDef) and one.name == name
    }
    derived = {each.name: {ast.unparse(base) for base in each.bases} for each in classes}

    def above(name: str) -> set[str]:
        bases = derived.get(name, set())
        return bases.union(*map(above, bases - {name}))

    return any(having & above(each) for each in having)


def taking(function: cst.FunctionDef, names: Sequence[str]) -> cst.Parameters:
    """What a function takes, and more by name, each None unless it is given."""
    taken = function.params
    more = [cst.Param(cst.Name(each), equal=_TIGHT, default=cst.Name("None"), star="") for each in names]
    is_open = isinstance(taken.star_arg, cst.MaybeSentinel) and not taken.kwonly_params
    if not more or not is_open or not taken.params or taken.star_kwarg is not None:
        star = cst.ParamStar() if is_open and more else taken.star_arg
        return taken.with_changes(kwonly_params=[*taken.kwonly_params, *more], star_arg=star)
    between, end = _between(function.whitespace_before_params, taken.params[-1].comma)
    comma = cst.Comma(whitespace_after=between)
    *first, final = (each.with_changes(comma=comma) for each in more)
    before = taken.params[-1]
    last = cst.MaybeSentinel.DEFAULT if end is None else cst.Comma(whitespace_after=end)
    return taken.with_changes(
        params=[*taken.params[:-1], before.with_changes(comma=comma, whitespace_after_param=_NOTHING)],
        star_arg=cst.ParamStar(comma=comma),
        kwonly_params=[*first, final.with_changes(comma=last, whitespace_after_param=before.whitespace_after_param)],
    )


def giving(call: cst.Call, values: Mapping[str, str]) -> cst.Call:
    """A call with more arguments, by name, as source."""
    more = [cst.Arg(cst.parse_expression(value), cst.Name(name), equal=_TIGHT) for name, value in values.items()]
    if not call.args:
        return call.with_changes(args=more)
    between, end = _between(call.whitespace_before_args, call.args[-1].comma)
    comma = cst.Comma(whitespace_after=between)
    before = call.args[-1]
    *first, final = [each.with_changes(comma=comma, whitespace_after_arg=_NOTHING) for each in (before, *more)]
    last = cst.MaybeSentinel.DEFAULT if end is None else cst.Comma(whitespace_after=end)
    final = final.with_changes(comma=last, whitespace_after_arg=before.whitespace_after_arg)
    return call.with_changes(args=[*call.args[:-1], *first, final])


def _between(
    before: cst.BaseParenthesizableWhitespace, comma: cst.Comma | cst.MaybeSentinel
) -> tuple[cst.BaseParenthesizableWhitespace, cst.BaseParenthesizableWhitespace | None]:
    """What stands between arguments, and after the last one's comma, where it has one."""
    if isinstance(comma, cst.Comma) and isinstance(before, cst.ParenthesizedWhitespace):
        return before, comma.whitespace_after
    return _SPACE, None
