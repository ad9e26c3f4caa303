"""More arguments for a function, and for a call of it, each on a line of its own where the others are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import libcst as cst

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_SPACE = cst.SimpleWhitespace(" ")


def taking(function: cst.FunctionDef, names: Sequence[str]) -> cst.Parameters:
    """What a function takes, and more by name, each None unless it is given."""
    taken = function.params
    more = [cst.Param(cst.Name(each), equal=_TIGHT, default=cst.Name("None"), star="") for each in names]
    is_open = isinstance(taken.star_arg, cst.MaybeSentinel) and not taken.kwonly_params
    plain = [*taken.posonly_params, *taken.params]
    if not more or not is_open or not plain or taken.star_kwarg is not None or not taken.params:
        star = cst.ParamStar() if is_open and more else taken.star_arg
        return taken.with_changes(kwonly_params=[*taken.kwonly_params, *more], star_arg=star)
    between, end = _between(function.whitespace_before_params, taken.params[-1].comma)
    last = None if end is None else cst.Comma(whitespace_after=end)
    *first, final = (each.with_changes(comma=cst.Comma(whitespace_after=between)) for each in more)
    return taken.with_changes(
        params=[*taken.params[:-1], taken.params[-1].with_changes(comma=cst.Comma(whitespace_after=between))],
        star_arg=cst.ParamStar(comma=cst.Comma(whitespace_after=between)),
        kwonly_params=[*first, final.with_changes(comma=last or cst.MaybeSentinel.DEFAULT)],
    )


def giving(call: cst.Call, values: Mapping[str, str]) -> cst.Call:
    """A call with more arguments, by name, as source."""
    more = [cst.Arg(cst.parse_expression(value), cst.Name(name), equal=_TIGHT) for name, value in values.items()]
    if not call.args:
        return call.with_changes(args=more)
    between, end = _between(call.whitespace_before_args, call.args[-1].comma)
    comma = cst.Comma(whitespace_after=between)
    *first, final = [call.args[-1].with_changes(comma=comma), *(each.with_changes(comma=comma) for each in more)]
    last = cst.MaybeSentinel.DEFAULT if end is None else cst.Comma(whitespace_after=end)
    return call.with_changes(args=[*call.args[:-1], *first, final.with_changes(comma=last)])


def _between(
    before: cst.BaseParenthesizableWhitespace, comma: cst.Comma | cst.MaybeSentinel
) -> tuple[cst.BaseParenthesizableWhitespace, cst.BaseParenthesizableWhitespace | None]:
    """What stands between arguments, and after the last one's comma, where it has one."""
    if isinstance(comma, cst.Comma) and isinstance(before, cst.ParenthesizedWhitespace):
        return before, comma.whitespace_after
    return _SPACE, None
