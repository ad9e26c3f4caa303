"""Calls whose answer is a constant of Python for as long as their arguments are: asked once, when it is compiled."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import import_of_torch, torch_name
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.rewriting.syntax import called
from dynalyze.fix.sites import Proposal, Site, walk

_ALWAYS = ("zlib.crc32", "zlib.adler32", "binascii.", "_hashlib.", "hashlib.", "_md5.", "_sha1.", "_sha2.", "_sha256.",
           "_sha512.", "_sha3.", "_blake2.", "base64.", "json.dumps", "re.match", "re.fullmatch", "re.search", "re.sub",
           "re.escape", "struct.calcsize", "_struct.calcsize", "unicodedata.", "textwrap.dedent", "textwrap.fill",
           "textwrap.indent", "urllib.parse.quote", "urllib.parse.unquote", "urllib.parse.urlencode",
           "urllib.parse.urljoin", "html.escape", "html.unescape", "shlex.quote", "fnmatch.fnmatch", "uuid.uuid3",
           "uuid.uuid5", "statistics.")  # fmt: skip
"""Functions of their arguments alone, with answers that nobody can change."""
_FOR_NOW = ("genericpath.", "posixpath.exists", "posixpath.lexists", "posixpath.isfile", "posixpath.isdir",
            "posixpath.realpath", "posixpath.abspath", "posixpath.expanduser", "posix.stat", "posix.getcwd",
            "posix.getpid", "posix.cpu_count", "posix.access", "posix.uname", "os.getenv", "os.getcwd", "os.getpid",
            "os.cpu_count", "platform.", "socket.gethostname", "_socket.gethostname", "shutil.which",
            "importlib.util.find_spec", "importlib.metadata.version", "getpass.getuser")  # fmt: skip
"""What hangs on the machine, the process or the disk."""
_BUILT_IN = tuple(f"builtins.{name}" for name in ("str", "len", "int", "float", "bool", "repr", "bytes", "abs", "min",
                                                 "max", "sorted", "tuple", "ord", "chr", "hex", "round"))  # fmt: skip
_CONSTANTS = ("str", "int", "float", "bool", "bytes", "NoneType")


@rewriter("constant-result", rank=14)
def ask_when_compiled(site: Site) -> Iterator[Proposal]:
    """`zlib.crc32(name.encode())`: a helper under torch.compiler.assume_constant_result. Its arguments are guarded."""
    for call in walk(site.statement, lambda each: isinstance(each, cst.Call)):
        assert isinstance(call, cst.Call)
        known = function_name(site, call)
        if not known.startswith((*_ALWAYS, *_FOR_NOW)):
            continue
        whole = _extended(site, call)
        variables = _variables(site, whole)
        if variables is None or not all(_is_pure(site, each) for each in walk(whole)):
            continue
        calls = [each for each in walk(whole) if isinstance(each, cst.Call)]
        for_now = any(function_name(site, each).startswith(_FOR_NOW) for each in calls)
        name = _unused(site, f"_{called(call)}_now" if for_now else f"_{called(call)}_of")
        new = cst.parse_expression(f"{name}({', '.join(variables)})")
        parameters = {text: text.rpartition(".")[2] for text in variables}
        if len(set(parameters.values())) < len(parameters):
            continue
        helper = _helper(site, name, f"return {_with_parameters(site, whole, parameters)}", parameters)
        once = "as it is then" if for_now else "for each value of its arguments"
        yield Proposal(
            "", f"Ask `{site.code(call.func)}(...)` when it is compiled, once {once}",
            site.with_nodes({whole: new}, import_of_torch(site) + helper),
        )  # fmt: skip
        return


def _extended(site: Site, call: cst.BaseExpression) -> cst.BaseExpression:
    """With what is done to the answer by constants alone: `.digest()[0] % 4`, `is not None`."""
    node: cst.CSTNode = call
    while (parent := site.parents.get(node)) is not None:
        if isinstance(parent, cst.Attribute) and parent.value is node:
            above = site.parents.get(parent)
            if not isinstance(above, cst.Call) or above.func is not parent:
                break
            others: list[cst.CSTNode] = list(above.args)
            parent = above
        elif isinstance(parent, cst.Subscript) and parent.value is node:
            others = list(parent.slice)
        elif isinstance(parent, cst.BinaryOperation):
            others = [parent.right if parent.left is node else parent.left]
        elif isinstance(parent, cst.Comparison) and parent.left is node:
            others = list(parent.comparisons)
        else:
            break
        if not all(map(_constant, others)):
            break
        node = parent
    assert isinstance(node, cst.BaseExpression)
    return node


def _is_pure(site: Site, node: cst.CSTNode) -> bool:
    """Whether a node is no call, or one whose answer hangs on nothing but its arguments or the machine."""
    if not isinstance(node, cst.Call):
        return True
    known = function_name(site, node)
    if known:
        return known.startswith((*_ALWAYS, *_FOR_NOW, "str.", "bytes.", "int.", "float.")) or known in _BUILT_IN
    # A method of what another call of the same expression gave.
    return isinstance(node.func, cst.Attribute) and isinstance(node.func.value, cst.Call | cst.Subscript)


def _constant(node: cst.CSTNode) -> bool:
    return not any(
        isinstance(each, cst.Call | cst.Attribute) or (isinstance(each, cst.Name) and each.value != "None")
        for each in walk(node)
    )


def _variables(site: Site, node: cst.BaseExpression) -> list[str] | None:
    """What an expression reads that may be another constant at another time, as source; None where it is more."""
    found: list[str] = []
    tops = top_names(site.text)
    skipped: set[cst.CSTNode] = set()
    for each in walk(node):
        if isinstance(each, cst.BaseComp | cst.Lambda | cst.NamedExpr | cst.Await | cst.FormattedString):
            return None
        if isinstance(each, cst.Arg):
            skipped.update([each.keyword] if each.keyword is not None else [])
        if each in skipped or not isinstance(each, cst.Name | cst.Attribute):
            continue
        value = site.value(each)
        if isinstance(each, cst.Attribute):
            skipped.add(each.attr)
        if value is not None and value.kind in _CONSTANTS:
            found.append(site.code(each))
            skipped.update(walk(each))
        elif value is not None and value.kind in ("module", "function", "class"):
            if isinstance(each, cst.Name) and each.value not in tops and not hasattr(builtins, each.value):
                return None
        elif isinstance(each, cst.Name) and not hasattr(builtins, each.value):
            return None
    return list(dict.fromkeys(found))


def _helper(site: Site, name: str, body: str, parameters: dict[str, str]) -> str:
    decorator = f"@{torch_name(site)}.compiler.assume_constant_result"
    return f"\n\n{decorator}\ndef {name}({', '.join(parameters.values())}):\n    {body}\n"


def _with_parameters(site: Site, node: cst.CSTNode, parameters: dict[str, str]) -> str:
    """A node as source, with the names of a helper's parameters in the place of attributes."""
    replaced = {each: cst.Name(parameters[site.code(each)]) for each in walk(node)
                if isinstance(each, cst.Attribute) and site.code(each) in parameters}  # fmt: skip
    changed = node.visit(_Put(replaced))
    assert isinstance(changed, cst.CSTNode)
    return site.code(changed)


class _Put(cst.CSTTransformer):
    def __init__(self, replaced: dict[cst.Attribute, cst.Name]) -> None:
        super().__init__()
        self._replaced = replaced

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._replaced.get(original_node, updated_node)


def top_names(text: str) -> set[str]:
    """What stands at the top of a file: names imported, defined and assigned there, under a condition or not."""
    found: set[str] = set()
    for each in ast.parse(text).body:
        is_definition = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for node in [each] if is_definition else ast.walk(each):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def _unused(site: Site, name: str) -> str:
    taken = {node.id for node in ast.walk(ast.parse(site.text)) if isinstance(node, ast.Name)} | top_names(site.text)
    while name in taken:
        name += "_"
    return name
