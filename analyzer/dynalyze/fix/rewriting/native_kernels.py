"""Native kernels that are called with the addresses of tensors, and operators without a fake: made operators of torch
that have one.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, looks_like_tensor, torch_name
from dynalyze.fix.rewriting.constants import top_names
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.operator_source import space_of
from dynalyze.fix.rewriting.purity import number
from dynalyze.fix.sites import Proposal, Site, statements_of, walk

_NATIVE = ("Unsupported method call", "Unsupported function call", "Attempted to call function marked as skipped",
           "Attempted to inline function marked as skipped", "can't handle functions not implemented in python",
           "Data pointer", "Observed exception")  # fmt: skip
_MAKES = ("empty_like", "zeros_like", "ones_like", "full_like", "empty", "zeros", "ones", "full", "new_empty",
          "new_zeros", "new_full", "new_ones", "empty_strided")  # fmt: skip
_ASKS = ("data_ptr", "numel", "element_size", "size", "stride", "dim", "is_contiguous", "nbytes", "storage_offset")
_FOREIGN = ("ctypes.", "_ctypes.", "cffi.", "_cffi_backend.")
_TYPES = {"tensor": "torch.Tensor", "int": "int", "float": "float", "bool": "bool", "str": "str"}


@rewriter("custom-op", *_NATIVE, rank=16)
def native_kernel_as_operator(site: Site) -> Iterator[Proposal]:
    """A function that makes tensors, lets a native kernel fill them by their addresses and returns them: its body as an
    operator of torch.library. The fake is the body without the calls of the kernel.

    No gradient goes through addresses: so none is lost.
    """
    function = site.function
    parameters = _parameters(site, function)
    body = function.body
    if parameters is None or not isinstance(body, cst.IndentedBlock) or function.name.value not in top_names(site.text):
        return
    lines = [each for each in body.body if isinstance(each, cst.SimpleStatementLine)]
    kernels = [each for each in lines if _calls_kernel(site, each)]
    made = _made(site, lines)
    if len(lines) != len(body.body) or site.statement not in kernels or not _only_makes(site, lines, kernels):
        return
    returned = _returned(lines[-1])
    if returned is None or not made.issuperset(returned) or "torch" not in torch_name(site):
        return
    if not all(_is_asked(site, name) for name in parameters):
        return
    name = f"_{function.name.value}_op"
    top = _operator(site, name, parameters, lines, kernels, len(returned))
    tensors = {each for each, kind in parameters.items() if kind == _TYPES["tensor"]}
    given = ", ".join(f"{each}.detach()" if each in tensors else each for each in parameters)
    (call,) = statements_of(f"return {name}({given})\n")
    yield Proposal(
        "", f"Make the kernel that `{function.name.value}` calls an operator of torch",
        site.with_nodes({body: body.with_changes(body=[call])}, import_of_torch(site) + top),
    )  # fmt: skip


@rewriter("operator-with-fake", "Operator does not support running with fake tensors", rank=16)
def operator_with_a_fake(site: Site) -> Iterator[Proposal]:
    """`torch.ops.mine.shift(x, 2)` without a fake: an operator that calls it, with one that makes a tensor like the
    first one that it takes. Whether that is so torch's opcheck tells, and gradients show in the proof.
    """
    torch = torch_name(site)
    for call in (node for node in walk(site.statement) if isinstance(node, cst.Call)):
        text = site.code(call.func)
        space, _, name = text.removeprefix(f"{torch}.ops.").removesuffix(".default").partition(".")
        kinds = [_kind(site, each.value) if each.keyword is None and not each.star else "" for each in call.args]
        if not text.startswith(f"{torch}.ops.{space}.{name}") or not name.isidentifier() or not all(kinds):
            continue
        if "tensor" not in kinds or {f"_{name}_op", f"_{name}_fake"} & top_names(site.text):
            continue
        names = [f"{kind}_{place}" for place, kind in enumerate(kinds)]
        takes = [
            f"{each}: {_TYPES[kind]}".replace("torch.", f"{torch}.") for each, kind in zip(names, kinds, strict=True)
        ]
        top = (
            f'\n\n@{torch}.library.custom_op("{space_of(site)}::{name}", mutates_args=())\n'
            f"def _{name}_op({', '.join(takes)}) -> {torch}.Tensor:\n    return {text}({', '.join(names)})\n\n\n"
            f"@_{name}_op.register_fake\ndef _{name}_fake({', '.join(names)}):\n"
            f"    return {torch}.empty_like({names[kinds.index('tensor')]})\n\n\n"
            # An operator without a gradient of its own lets none through, as torch does it.
            f"def _{name}_backward(ctx, grad):\n    return {', '.join(['None'] * len(names))}\n\n\n"
            f"_{name}_op.register_autograd(_{name}_backward)\n"
        )
        title = f"Call {space}::{name} by an operator with a fake: what it makes is like its first tensor"
        new = call.with_changes(func=cst.Name(f"_{name}_op"))
        yield Proposal("", title, site.with_nodes({call: new}, import_of_torch(site) + top))
        return


def _kind(site: Site, node: cst.BaseExpression) -> str:
    """The kind of an argument, of those that operators take; "" where it is none or not known."""
    if looks_like_tensor(site, node):
        return "tensor"
    found = site.value(node)
    kind = type(number(node)).__name__ if found is None else found.kind
    return kind if kind in _TYPES else ""


def _parameters(site: Site, function: cst.FunctionDef) -> dict[str, str] | None:
    """The types of the arguments, by name; None where they are not plain ones."""
    given = function.params
    if given.kwonly_params or given.star_kwarg or given.posonly_params or function.decorators or function.asynchronous:
        return None
    if isinstance(given.star_arg, cst.Param) or any(each.default is not None for each in given.params):
        return None
    found: dict[str, str] = {}
    for each in given.params:
        value = site.values.get(each.name.value)
        if value is None or value.kind not in _TYPES or (value.kind == "tensor" and value.name != "Tensor"):
            return None
        found[each.name.value] = _TYPES[value.kind].replace("torch", torch_name(site))
    return found if _TYPES["tensor"].replace("torch", torch_name(site)) in found.values() else None


def _calls_kernel(site: Site, line: cst.SimpleStatementLine) -> bool:
    """`kernel(out.data_ptr(), x.data_ptr(), n)`: a call of what is no part of torch, with addresses."""
    only = line.body[0]
    if len(line.body) != 1 or not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
        return False
    known = function_name(site, only.value)
    foreign = known.startswith(_FOREIGN) or "CFunctionType" in known or "_FuncPtr" in known
    pointers = [each for each in walk(only) if isinstance(each, cst.Call) and called(each) == "data_ptr"]
    return foreign and bool(pointers)


def _made(site: Site, lines: list[cst.SimpleStatementLine]) -> set[str]:
    """The variables that tensors are made for here, each once."""
    found: list[str] = []
    for line in lines:
        for each in line.body:
            if isinstance(each, cst.Assign) and isinstance(each.value, cst.Call) and called(each.value) in _MAKES:
                found += [one.target.value for one in each.targets if isinstance(one.target, cst.Name)]
    assigned = [each.target.value for line in lines for each in walk(line)
                if isinstance(each, cst.AssignTarget) and isinstance(each.target, cst.Name)]  # fmt: skip
    return {name for name in found if assigned.count(name) == 1}


def _only_makes(site: Site, lines: list[cst.SimpleStatementLine], kernels: list[cst.SimpleStatementLine]) -> bool:
    """Whether all that the others do is to make tensors and to compute sizes, for variables of their own."""
    plain = (*_MAKES, *_ASKS, "len", "int", "tuple", "max", "min")
    for line in lines:
        for each in walk(line):
            if isinstance(each, cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.Await | cst.Yield | cst.Global):
                return False
            if isinstance(each, cst.AssignTarget) and not isinstance(each.target, cst.Name):
                return False
            if isinstance(each, cst.Call) and called(each) not in plain:
                native = line in kernels and function_name(site, each).startswith(_FOREIGN)
                if not native and not _is_kernel(line, each):
                    return False
    return True


def _is_kernel(line: cst.SimpleStatementLine, call: cst.Call) -> bool:
    only = line.body[0]
    return isinstance(only, cst.Expr) and only.value is call


def _is_asked(site: Site, name: str) -> bool:
    """Whether an argument is only asked for its size and address, or a new one is made like it."""
    for use in walk(site.function.body, lambda each: isinstance(each, cst.Name)):
        assert isinstance(use, cst.Name)
        parent = site.parents[use]
        if use.value != name or (isinstance(parent, cst.Attribute) and parent.value is not use):
            continue
        value = site.values[name]
        if value.kind == "tensor" and isinstance(parent, cst.Arg):
            call = site.parents[parent]
            if not (isinstance(call, cst.Call) and called(call) in _MAKES):
                return False
        elif value.kind == "tensor" and not isinstance(parent, cst.Attribute):
            return False
    return True


def _returned(line: cst.SimpleStatementLine) -> list[str] | None:
    """The variables that the last line returns."""
    only = line.body[0]
    if not isinstance(only, cst.Return):
        return None
    if isinstance(only.value, cst.Name):
        return [only.value.value]
    if isinstance(only.value, cst.Tuple):
        names = [each.value.value for each in only.value.elements if isinstance(each.value, cst.Name)]
        return names if len(names) == len(only.value.elements) and len(set(names)) == len(names) else None
    return None


def _operator(
    site: Site, name: str, parameters: dict[str, str], lines: list[cst.SimpleStatementLine],
    kernels: list[cst.SimpleStatementLine], returned: int,
) -> str:  # fmt: skip
    torch = torch_name(site)
    takes = ", ".join(f"{each}: {kind}" for each, kind in parameters.items())
    gives = f"{torch}.Tensor" if returned == 1 else f"tuple[{', '.join([f'{torch}.Tensor'] * returned)}]"
    whole = "".join(f"    {site.code(each).strip()}\n" for each in lines)
    faked = "".join(f"    {site.code(each).strip()}\n" for each in lines if each not in kernels)
    return (
        f'\n\n@{torch}.library.custom_op("{space_of(site)}::{site.function.name.value}", mutates_args=())\n'
        f"def {name}({takes}) -> {gives}:\n{whole}"
        f"\n\n@{name}.register_fake\ndef {name}_fake({takes}) -> {gives}:\n{faked}"
    )
