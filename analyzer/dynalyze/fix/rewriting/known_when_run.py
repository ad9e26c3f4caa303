"""Sizes and whole numbers that only the data know, from small operators that tell torch so: unbacked symbols, which
torch.compile makes by itself only where the settings `capture_dynamic_output_shape_ops` and `capture_scalar_outputs`
are on. Indices keep their gradient: what is chosen by them is computed outside of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, looks_like_tensor, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.masked import bracketed, dims_of, is_boolean, masked_of
from dynalyze.fix.rewriting.operator_source import in_file, new_size, space_of
from dynalyze.fix.rewriting.size_conditions import check_of_two
from dynalyze.fix.settings import READS
from dynalyze.fix.sites import Changes, Proposal, Replacer, Site, walk, with_top


def _operator(name: str, takes: str, returns: str, runs: str, fakes: str) -> str:
    """An operator and its fake, as source: what both do are statements."""
    given = ", ".join(each.partition(":")[0] for each in takes.split(", "))
    return (
        f'\n\n@torch.library.custom_op("{{space}}::{name}", mutates_args=(), tags=torch.Tag.cudagraph_unsafe)\n'
        f"def _{name}_op({takes}) -> {returns}:\n{indent(runs, '    ')}\n\n\n"
        f"@_{name}_op.register_fake\ndef _{name}_fake({given}):\n{indent(fakes, '    ')}\n"
    )


def _function(name: str, takes: str, compiled: str, eager: str) -> str:
    """What the program calls: the operator in compiled code, else what it is for."""
    return (
        f"\n\ndef _{name}({takes}):\n"
        f'    """`{eager}`, by an operator whose size torch.compile learns when it runs."""\n'
        f"    return {compiled} if torch.compiler.is_compiling() else {eager}\n"
    )


_CONTIGUOUS = "clone(memory_format=torch.contiguous_format)"
_HELPERS = {
    "_nonzero": _operator(
        "nonzero", "tensor: torch.Tensor", "torch.Tensor", f"return tensor.nonzero().{_CONTIGUOUS}",
        "return tensor.new_empty((_new_size(tensor), tensor.dim()), dtype=torch.int64)",
    ) + _function("nonzero", "tensor", "_nonzero_op(tensor)", "tensor.nonzero()"),
    "_unique": _operator(
        "unique", "tensor: torch.Tensor", "tuple[torch.Tensor, torch.Tensor, torch.Tensor]",
        "values, inverse, counts = torch.unique(tensor, return_inverse=True, return_counts=True)\n"
        f"return values, inverse.{_CONTIGUOUS}, counts",
        "size = _new_size(tensor)\ninverse = tensor.new_empty(tensor.shape, dtype=torch.int64)\n"
        "return tensor.new_empty((size,)), inverse, tensor.new_empty((size,), dtype=torch.int64)",
    ) + _function(
        "unique", "tensor", "_unique_op(tensor)", "torch.unique(tensor, return_inverse=True, return_counts=True)"
    ),
    "_bincount": _operator(
        "bincount", "tensor: torch.Tensor, minlength: int", "torch.Tensor",
        "return torch.bincount(tensor, minlength=minlength)",
        "return tensor.new_empty((_new_size(tensor, minlength),), dtype=torch.int64)",
    ) + _function(
        "bincount", "tensor, minlength=0", "_bincount_op(tensor, minlength)",
        "torch.bincount(tensor, minlength=minlength)",
    ),
    "_number": _operator(
        "number", "tensor: torch.Tensor", "int", "return tensor.item()",
        "return tensor.fake_mode.shape_env.create_unbacked_symint()",
    ) + """

def _number(tensor):
    \"""`tensor.item()`, of whole numbers by an operator whose value torch.compile learns when it runs.\"""
    whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
    return _number_op(tensor) if whole and torch.compiler.is_compiling() else tensor.item()
""",
    "_numbers": """

def _numbers(tensor):
    \"""`tensor.tolist()`, of whole numbers by operators whose values torch.compile learns when they run.\"""
    if not torch.compiler.is_compiling():
        return tensor.tolist()
    return [_numbers(each) for each in tensor.unbind()] if tensor.dim() else _number(tensor)
""",
}  # fmt: skip
"""The functions that take the place of torch's, as source, by name."""
_SIZED_BY_NUMBERS = ("arange", "range", "zeros", "ones", "empty", "full", "new_zeros", "new_ones", "new_empty",
                     "new_full", "narrow", "split", "view", "reshape", "expand", "one_hot")  # fmt: skip
"""What takes whole numbers, and reads them where it is given tensors."""
_WHOLE = ("argmax", "argmin", "argsort", "sort", "topk", "long", "int", "to", "type", "nonzero", "count_nonzero",
          "bool", "searchsorted", "bucketize", "isnan", "isinf", "isfinite", "eq", "ne", "gt", "lt", "ge",
          "le")  # fmt: skip
"""What may make whole numbers, or truths, of real tensors."""


@rewriter("size-known-when-run", *READS, rank=90)
def know_sizes_when_run(site: Site) -> Iterator[Proposal]:
    """`x[mask]`, `mask.nonzero()`, `torch.unique(x)` and `torch.bincount(x)` by operators of sizes that only the data
    know; where something later asks whether there is no row or one, with a check that there are more.
    """
    changes: Changes = {}
    for node in _own(site):
        if isinstance(node, cst.Subscript) and not isinstance(site.parents[node], cst.AssignTarget | cst.Del):
            changes.update(_indices(site, node))
        elif isinstance(node, cst.Call) and (text := _sized(site, node)):
            changes[node] = cst.parse_expression(text)
    if not changes:
        return
    title = "Make what the data decide the size of by an operator whose size torch learns when it runs"
    if text := _with_helpers(site, changes):
        yield Proposal("", title, text, late=True)
    check = check_of_two(site)
    if check is not None:
        new = site.statement.visit(Replacer(changes))
        assert isinstance(new, cst.BaseStatement)
        if text := _with_helpers(site, {site.statement: [new, check]}):
            few = "and say that there are two rows or more: compiled code raises where there are fewer"
            yield Proposal("", f"{title}, {few}", text, late=True)


@rewriter("number-known-when-run", *READS, rank=91)
def know_numbers_when_run(site: Site) -> Iterator[Proposal]:
    """`n = lengths.max().item()`, `int(n)`, `lengths.tolist()`, `torch.arange(n)` of whole numbers, by an operator
    that gives a number which only the data know.
    """
    changes: Changes = {}
    for node in _own(site):
        if isinstance(node, cst.Call) and (text := _read(site, node)):
            changes[node] = cst.parse_expression(text)
        elif isinstance(node, cst.Call) and called(node) in _SIZED_BY_NUMBERS:
            for each in _sizes_given(node):
                if _is_scalar(site, each):
                    changes[each] = cst.parse_expression(f"_number({site.code(each)})")
        elif isinstance(node, cst.Slice):
            for bound in (node.lower, node.upper):
                if bound is not None and _is_scalar(site, bound):
                    changes[bound] = cst.parse_expression(f"_number({site.code(bound)})")
    if changes and (text := _with_helpers(site, changes)):
        title = "Read whole numbers by an operator that torch does not ask for their values"
        yield Proposal("", title, text, late=True)


def _sizes_given(call: cst.Call) -> Sequence[cst.BaseExpression]:
    """`b` and `n` of `torch.zeros(b, n)` and `torch.zeros((b, n), device=d)`."""
    plain = [each.value for each in call.args if each.keyword is None and not each.star]
    if len(plain) == 1 and isinstance(plain[0], cst.Tuple | cst.List):
        return [each.value for each in plain[0].elements]
    return plain


def _own(site: Site) -> Sequence[cst.CSTNode]:
    """What the statement computes by itself, without the blocks below it."""
    statement = site.statement
    if isinstance(statement, cst.SimpleStatementLine):
        return walk(statement)
    if isinstance(statement, cst.If | cst.While):
        return walk(statement.test)
    return walk(statement.iter) if isinstance(statement, cst.For) else ()


def _indices(site: Site, node: cst.Subscript) -> Changes:
    """The mask of `x[mask]` or `x[:, mask]` as indices."""
    given = [(each.slice, each.slice.value) for each in node.slice if isinstance(each.slice, cst.Index)]
    masks = [(index, each) for index, each in given if is_boolean(site, each) or _may_choose(site, each)]
    if len(masks) != 1:
        return {}
    ((index, mask),) = masks
    dims = dims_of(site, mask)
    if dims == 0 or (len(node.slice) > 1 and dims != 1):
        return {}
    chosen = "unbind(1)" if len(node.slice) == 1 else "squeeze(1)"
    return {index: index.with_changes(value=cst.parse_expression(f"_nonzero({site.code(mask)}).{chosen}"))}


def _may_choose(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an index may be a mask: a tensor of which nothing says that it is none, as `mask.to(x.device)`."""
    return site.value(node) is None and not isinstance(node, cst.Name) and looks_like_tensor(site, node)


def _sized(site: Site, call: cst.Call) -> str | None:
    """A call of a function whose result has a size that the data decide, by an operator."""
    name = called(call)
    if not isinstance(call.func, cst.Attribute):
        return None
    if name == "masked_select":
        chosen = masked_of(site, call)
        if chosen is None:
            return None
        return f"{bracketed(site, chosen.tensor)}[_nonzero({site.code(chosen.mask)}).unbind(1)]"
    of_torch = site.code(call.func.value) == torch_name(site)
    plain = [site.code(each.value) for each in call.args if each.keyword is None]
    plain = plain if of_torch else [site.code(call.func.value), *plain]
    options = {each.keyword.value: site.code(each.value) for each in call.args if each.keyword is not None}
    if name == "repeat_interleave" and "output_size" not in options:
        return _repeated(site, call, plain, options)
    if name == "bincount" and len(plain) == 1 and set(options) <= {"minlength"}:
        return f"_bincount({', '.join([*plain, *options.values()])})"
    if len(plain) != 1:
        return None
    if name in ("nonzero", "argwhere", "where"):
        as_tuple = options.get("as_tuple", str(name == "where"))
        if not set(options) <= {"as_tuple"} or as_tuple not in ("True", "False"):
            return None
        return f"_nonzero({plain[0]}){'.unbind(1)' * (as_tuple == 'True')}"
    return _unique_parts(plain[0], options) if name == "unique" else None


def _unique_parts(tensor: str, options: dict[str, str]) -> str | None:
    asked = [options.get(each, "False") for each in ("return_inverse", "return_counts")]
    if set(options) - {"return_inverse", "return_counts", "sorted"} or set(asked) - {"True", "False"}:
        return None
    parts = {"TrueTrue": "", "TrueFalse": "[:2]", "FalseTrue": "[::2]", "FalseFalse": "[0]"}
    return f"_unique({tensor}){parts[''.join(asked)]}"


def _repeated(site: Site, call: cst.Call, plain: Sequence[str], options: dict[str, str]) -> str | None:
    """`torch.repeat_interleave(x, counts)` with the number of elements that it makes."""
    counts = options.get("repeats", plain[1] if len(plain) > 1 else plain[0] if plain else "")
    try:
        node = cst.parse_expression(counts)
    except cst.ParserSyntaxError:
        return None
    if not looks_like_tensor(site, node):
        return None
    total = f"_number({bracketed(site, node)}.sum()) if {torch_name(site)}.compiler.is_compiling() else None"
    given = ", ".join([*(site.code(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in call.args),
                       f"output_size={total}"])  # fmt: skip
    return f"{site.code(call.func)}({given})"


def _read(site: Site, call: cst.Call) -> str | None:
    """A call that reads whole numbers out of a tensor, by an operator; None where it is no such call."""
    if isinstance(call.func, cst.Name) and called(call) == "int" and len(call.args) == 1:
        of = call.args[0].value
        is_read = isinstance(of, cst.Call) and called(of) == "item" and isinstance(of.func, cst.Attribute)
        wanted = not is_read and looks_like_tensor(site, of) and not _is_real(site, of)
        return f"int(_number({site.code(of)}))" if wanted else None
    if call.args or not isinstance(call.func, cst.Attribute):
        return None
    of = call.func.value
    helper = {"item": "_number", "tolist": "_numbers"}.get(called(call))
    return f"{helper}({site.code(of)})" if helper and not _is_real(site, of) else None


def _is_real(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression computes with real tensors alone, and nothing in it makes whole numbers of them."""
    nodes = walk(node)
    found = [value for each in nodes if isinstance(each, cst.Name | cst.Attribute) and (value := site.value(each))]
    tensors = [each for each in found if each.kind == "tensor"]
    whole = any(isinstance(each, cst.Comparison) or (isinstance(each, cst.Call) and called(each) in _WHOLE)
                for each in nodes)  # fmt: skip
    return bool(tensors) and not whole and all(each.dtype.startswith(("float", "bfloat")) for each in tensors)


def _is_scalar(site: Site, node: cst.BaseExpression) -> bool:
    return dims_of(site, node) == 0 and looks_like_tensor(site, node)


def _with_helpers(site: Site, changes: Changes) -> str | None:
    """The file with these changes and the operators that they call; None where it has others of their names."""
    torch = torch_name(site)
    text = site.with_nodes(changes, import_of_torch(site))
    tops = top_names(site.text)
    wanted = [each for each in _HELPERS if f"{each}(" in text]
    wanted += ["_new_size"] * (not {"_nonzero", "_unique", "_bincount"}.isdisjoint(wanted))
    wanted += ["_number"] * ("_numbers" in wanted)
    for name in dict.fromkeys(wanted):
        source = new_size(torch) if name == "_new_size" else _helper(name, torch, space_of(site))
        if {name, f"{name}_op"} & tops and source not in site.text:
            return None
        text = with_top(text, source)
    return text


def _helper(name: str, torch: str, space: str) -> str:
    return in_file(_HELPERS[name], torch).replace("{space}", space)
