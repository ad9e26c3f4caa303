"""Calls whose answer is a constant of Python for as long as their arguments are: asked once, when it is compiled."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

import libcst as cst

from dynalyze.fix.rewriting import rewriter
from dynalyze.fix.rewriting.conditions import called, import_of_torch, torch_name
from dynalyze.fix.rewriting.harmless import function_name
from dynalyze.fix.sites import Changes, Proposal, Site, walk

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
_OWN_NAME = ("inspect.currentframe().f_code.co_name", "sys._getframe().f_code.co_name",
             "sys._getframe(0).f_code.co_name")  # fmt: skip
_CONSTANTS = ("str", "int", "float", "bool", "bytes", "NoneType")

_UNCHANGING = ("timedelta", "datetime", "date", "time", "timezone", "Decimal", "Fraction", "UUID", "complex")
"""Types of objects that nobody can change, whose methods do nothing but compute."""


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


@rewriter("constant-expression", "vectorcall_maybe on C method descriptor", rank=14)
def compute_when_compiled(site: Site) -> Iterator[Proposal]:
    """`(step + step).total_seconds()` of a timedelta at the top of the file: a helper under
    torch.compiler.assume_constant_result. Nobody can change such an object, and no other one takes its place.
    """
    names = [node for node in walk(site.statement) if isinstance(node, cst.Name) and _is_fixed(site, node)]
    if not names:
        return
    whole: cst.BaseExpression = names[0]
    while isinstance(above := site.parents.get(whole), cst.BaseExpression | cst.Arg):
        node = site.parents[above] if isinstance(above, cst.Arg) else above
        if not isinstance(node, cst.BaseExpression) or not _of_fixed(site, node):
            break
        whole = node
    name = _unused(site, f"_{names[0].value.lower().strip('_')}_now")
    helper = _helper(site, name, f"return {site.code(whole)}", {})
    if whole is not names[0]:
        yield Proposal(
            "", f"Compute `{site.code(whole)}` when it is compiled, once as it is then",
            site.with_nodes({whole: cst.parse_expression(f"{name}()")}, import_of_torch(site) + helper),
        )  # fmt: skip


def _is_fixed(site: Site, node: cst.Name) -> bool:
    """Whether a name stands for an object that nobody can change, and is assigned once, at the top of the file."""
    value = site.value(node)
    if value is None or value.kind not in _UNCHANGING:
        return False
    assigned = [each for each in ast.walk(ast.parse(site.text)) if isinstance(each, ast.Name)
                and each.id == node.value and isinstance(each.ctx, ast.Store)]  # fmt: skip
    return len(assigned) == 1 and node.value in top_names(site.text)


def _of_fixed(site: Site, node: cst.BaseExpression) -> bool:
    """Whether an expression computes with such objects and constants alone."""
    labels = {each.attr for each in walk(node) if isinstance(each, cst.Attribute)}
    names = [each for each in walk(node) if isinstance(each, cst.Name) and each not in labels]
    plain = not any(isinstance(each, cst.BaseComp | cst.Lambda | cst.NamedExpr | cst.Await) for each in walk(node))
    return plain and all(_is_fixed(site, each) for each in names)


@rewriter("own-name", rank=14)
def name_of_the_function(site: Site) -> Iterator[Proposal]:
    """`inspect.currentframe().f_code.co_name`: the name itself."""
    changes: dict[cst.CSTNode, cst.CSTNode] = {}
    for node in walk(site.statement, lambda each: isinstance(each, cst.Attribute)):
        in_nested = any(isinstance(each, cst.Lambda | cst.BaseComp) for each in walk(site.statement))
        if site.code(node) in _OWN_NAME and not in_nested:
            changes[node] = cst.SimpleString(repr(site.function.name.value))
    if changes:
        yield Proposal("", "Write the name of the function down", site.with_nodes(dict(changes)))


@rewriter("file-when-compiled", rank=14)
def read_when_compiled(site: Site) -> Iterator[Proposal]:
    """`with open(path) as file: x = file.read()`: read by a helper under torch.compiler.assume_constant_result."""
    node: cst.CSTNode = site.statement
    while not isinstance(node, cst.With) and node in site.parents:
        node = site.parents[node]
    if not isinstance(node, cst.With) or not isinstance(node.body, cst.IndentedBlock) or len(node.body.body) != 1:
        return
    line, item = node.body.body[0], node.items[0]
    only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    if not isinstance(only, cst.Assign) or not isinstance(item.item, cst.Call) or len(node.items) != 1:
        return
    name = item.asname.name if item.asname is not None else None
    variables = _variables(site, item.item)
    if not isinstance(name, cst.Name) or variables is None or not _opens_to_read(site, item.item):
        return
    parameters = {text: text.rpartition(".")[2] for text in variables}
    if not _only_of_file(site, only.value, name.value) or len(set(parameters.values())) < len(parameters):
        return
    helper = _unused(site, "_read_now")
    body = f"with {_with_parameters(site, item, parameters)}:\n        return {site.code(only.value)}"
    top = import_of_torch(site) + _helper(site, helper, body, parameters)
    new = only.with_changes(value=cst.parse_expression(f"{helper}({', '.join(variables)})"))
    changes: Changes = {node: cst.SimpleStatementLine(body=[new], leading_lines=node.leading_lines)}
    yield Proposal("", "Read the file when it is compiled, once as it is then", site.with_nodes(changes, top))


def _opens_to_read(site: Site, call: cst.Call) -> bool:
    """`open(path)`, `open(path, "r", encoding=...)`."""
    if site.code(call.func) != "open" or function_name(site, call) not in ("", "_io.open", "io.open", "builtins.open"):
        return False
    plain = [each.value for each in call.args if each.keyword is None]
    named = [each for each in call.args if each.keyword is not None]
    modes = [*plain[1:2], *(each.value for each in named if each.keyword and each.keyword.value == "mode")]
    return len(plain) in (1, 2) and all(site.code(each).strip("\"'") in ("r", "rt", "rb") for each in modes)


def _only_of_file(site: Site, node: cst.BaseExpression, file: str) -> bool:
    """Whether an expression is computed from what is read of the file, by functions that have no effect."""
    known = ("read", "len", "int", "float", "str", "strip", "json.load", "json.loads", "lower", "upper")
    for each in walk(node):
        if isinstance(each, cst.Call) and called(each) not in known and site.code(each.func) not in known:
            return False
        if isinstance(each, cst.Lambda | cst.BaseComp | cst.NamedExpr):
            return False
    labels = {each.attr for each in walk(node) if isinstance(each, cst.Attribute)}
    names = {each.value for each in walk(node) if isinstance(each, cst.Name) and each not in labels}
    return file in names and names <= {file, "json", "len", "int", "float", "str"}


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
