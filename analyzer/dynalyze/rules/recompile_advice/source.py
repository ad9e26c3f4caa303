"""What failed guards name, as the user writes it; and the words and settings that several pieces of advice share."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from dataclasses import dataclass

from dynalyze.files.paths import library_of
from dynalyze.report import Example, Location, Recompile

RECOMPILATION_PAGE = (
    "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/compile/programming_model.recompilation.html"
)
DYNAMIC_PAGE = "https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_dynamic_shapes.html"

PRODUCTION = 'torch.compiler.set_stance("fail_on_recompile")'
PRODUCTION_NOTE = (
    "This mends nothing, it makes the change visible: set it in production after the warm-up, and a call that would "
    "compile again raises and names its guard."
)


def callee(location: Location) -> str:
    """A name for what the user calls: the function's own, or `model` for a module's forward."""
    name = location.function.rpartition(".")[2]
    if name in ("forward", "__call__"):
        return "model"
    return name if name.isidentifier() else "function"


def dynamic_sources(name: str) -> tuple[str, str]:
    """The setting that makes sources dynamic, and a note on it; empty without a name."""
    if not name:
        return "", ""
    note = (
        "One list for the whole program: join those of several findings with commas. Without a change of the code the "
        "variable TORCH_COMPILE_DYNAMIC_SOURCES takes it."
    )
    return f'torch.compiler.config.dynamic_sources = "{name}"', note


_DIMENSION = re.compile(r"^(?P<tensor>.+)\.(?:size|stride)\(\)\[(?P<dimension>\d+)\]$")
_SIZE = re.compile(r"(?P<tensor>[A-Za-z_][^\s()%*+/<>=-]*)\.(?:size|stride)\(\)\[(?P<dimension>\d+)\]")
_ARGS = re.compile(r"\bargs\[(\d+)\]")
_CALLABLE = re.compile(r"(?!(?:torch|F)\.)[A-Za-z_][\w.]*(?:\[[^\]]*\][\w.]*)*(?<!_)")
_NAMED = re.compile(r"[A-Za-z_]\w*(?:\.(?!(?:T|mT|H|mH|real|imag|data)\b)\w+|\['\w+'\])*")
_INDEXED_CHILD = re.compile(r"\._modules\['(\d+)'\]")
_OF_DIMENSION = re.compile(r"\.(size|stride)\(\)\[(\d+)\]")
_OWN = "_(?:modules|parameters|buffers)"
_CHILD = re.compile(rf"(?:\.{_OWN}|\.__dict__\['{_OWN}'\])\['(\w+)'\]")
_CLOSED_OVER = re.compile(r"^(?P<function>.+)\.__closure__\[\d+\](?:\.cell_contents)?")
_CACHE = re.compile(r"past_key_value|(?:key|value)_cache\b|\.layers\[\d+\]\.(?:keys|values)\b")
# The setting is a list between commas, from which torch drops blanks.
_UNSPEAKABLE = re.compile(r"[\s,\"\\]")
_LONGEST = 80


@dataclass(frozen=True)
class Expression:
    """An expression as torch names it (`text`) and as the user writes it (`shown`).

    `argument` is what the caller writes, for a size or a stride the tensor alone; `dimension` is set for those.
    `call` is a name for what the user calls.
    """

    text: str
    shown: str
    argument: str
    dimension: int | None
    dynamo_name: str
    call: str
    is_numbered: bool = False

    @property
    def is_cache(self) -> bool:
        """Whether it is the key-value cache of a transformer."""
        return _CACHE.search(self.text) is not None

    @property
    def is_parameter(self) -> bool:
        return "._parameters[" in self.text

    @property
    def is_name(self) -> bool:
        """Whether the caller can write it down: a name with attributes and constant indices, nothing computed, and no
        argument that torch's own wrapper around a module knows by its number alone.
        """
        return plain_expression(self.argument) and not self.is_numbered

    @property
    def closed_over_by(self) -> str:
        """The function whose closure holds the value; "" where it is none."""
        found = _CLOSED_OVER.match(self.text)
        return found["function"] if found else ""

    def passed_as(self, changed: str) -> Example | None:
        """The call with its argument changed; None where the caller cannot write that down."""
        return Example(f"{self.call}({self.argument})", f"{self.call}({changed})") if self.is_name else None


def read_source(recompile: Recompile) -> Expression:
    """The source of a recompile; of several sizes in one condition, the first one."""
    text = (recompile.source or "").strip()
    found = _DIMENSION.match(text) or _SIZE.search(text)
    measured, dimension = (found["tensor"], int(found["dimension"])) if found is not None else (text, None)
    return Expression(
        text,
        as_written(as_called(text, recompile)),
        _argument(measured, recompile),
        dimension,
        _dynamo_name(measured, recompile),
        callee(recompile.location),
        _ARGS.match(_argument(measured, recompile)) is not None
        and ("*args" not in (recompile.location.code or "") or library_of(recompile.location.file) != ""),
    )


def as_written(text: str) -> str:
    """`self._modules['layers']._modules['0'].weight.size()[1]` as people write it: `self.layers[0].weight.size(1)`."""
    return _OF_DIMENSION.sub(r".\1(\2)", _CHILD.sub(r".\1", _INDEXED_CHILD.sub(r"[\1]", text)))


def as_called(text: str, recompile: Recompile) -> str:
    """`args[0]` of a module of torch itself as the line that calls it has it: `x` of `net(x)`; and `fn`, the module, as
    `net`.
    """
    code = recompile.location.code or ""
    if text.startswith("fn.") and len(called := {ast.unparse(each.func) for each in _calls(code) if each.args}) == 1:
        text = called.pop() + text[2:]
    return _ARGS.sub(lambda found: _shown(_in_place(code, int(found[1]))) or found[0], text)


def _in_place(code: str, at: int, function: str = "") -> ast.expr | None:
    """What the one call in a line hands over in one place, or the one of `function`; None for several calls."""
    calls = [call for call in _calls(code) if len(call.args) > at]
    calls = [each for each in calls if ast.unparse(each.func).rpartition(".")[2] == function] or calls
    return calls[0].args[at] if len(calls) == 1 else None


def handed_over(name: str, location: Location, call: str) -> tuple[str, str]:
    """What a line of the program hands over for a parameter of the function at the location, and the expression that it
    has to be given that name first, "" where it has one; two empty ones where the line does not tell.
    """
    given = _given_for(name, location, call)
    if given is None or isinstance(given, ast.Constant | ast.Starred):
        return "", ""
    name = "passed" if _ARGS.fullmatch(name) else name
    taken = re.search(rf"\b{re.escape(name)}\b", call) is not None
    return (text, "") if (text := _one_tensor(given)) else (f"{name}_passed" if taken else name, ast.unparse(given))


def _given_for(name: str, location: Location, call: str) -> ast.expr | None:
    if (numbered := _ARGS.fullmatch(name)) is not None:
        return _in_place(call, int(numbered[1]))
    by_keyword = [each.value for found in _calls(call) for each in found.keywords if each.arg == name]
    if by_keyword:
        return by_keyword[0] if len(by_keyword) == 1 else None
    whole = [found.keywords[0] for found in _calls(call) if len(found.keywords) == 1 and not found.args]
    if len(whole) == 1 and whole[0].arg is None and (mapping := _one_tensor(whole[0].value)):
        return ast.parse(f"{mapping}[{name!r}]", mode="eval").body  # model(**batch)
    try:
        written = (location.code or "").strip()
        (function,) = ast.parse(f"{written} ..." if written.endswith(":") else written).body
    except (SyntaxError, ValueError):
        return None
    parameters = [each.arg for each in function.args.args] if isinstance(function, ast.FunctionDef) else []
    own = parameters[callee(location) == "model" or parameters[:1] == ["self"] :]  # Without the object of a method.
    return _in_place(call, own.index(name), location.function) if name in own else None


def _calls(code: str) -> list[ast.Call]:
    """The calls in a line that may be of something compiled: by a name, and not of Python's or torch's own functions or
    of methods that write into a tensor (`out.add_(x)`). The `def` of a function with `*args` is no call.
    """
    try:
        nodes = list(ast.walk(ast.parse(code.strip())))
    except (SyntaxError, ValueError):
        return []
    named = [(ast.unparse(node.func), node) for node in nodes if isinstance(node, ast.Call)]
    return [node for name, node in named if _CALLABLE.fullmatch(name) and name not in vars(builtins)]


def _shown(given: ast.expr | None) -> str:
    """What is handed over, where it can stand in a sentence: `x`, `torch.randn(n, 8)`."""
    text = ast.unparse(given) if isinstance(given, ast.Call) else _written(given)
    return text if len(text) <= _MOST_SHOWN else ""


_MOST_SHOWN = 40


def _written(given: ast.expr | None) -> str:
    return ast.unparse(given) if isinstance(given, ast.Name | ast.Attribute | ast.Subscript) else ""


def _one_tensor(given: ast.expr) -> str:
    """The expression, where it gives one and the same tensor each time: `x.T` and `x[0]` make another one."""
    text = ast.unparse(given)
    return text if _NAMED.fullmatch(text) else ""


def clipped(text: str) -> str:
    """On one line, cut to a readable length."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 4].rstrip() + " ..."


def continued(action: str) -> str:
    """An action as it goes on within a sentence."""
    is_word = action.partition(" ")[0].rstrip(",:").isalpha()  # Not `Blocks.py:25`.
    return f"{action[0].lower()}{action[1:]}" if is_word else action


def is_condition(text: str) -> bool:
    """Whether `text` compares the program's own numbers: "(step % 3) != 0"."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    return isinstance(node, ast.Compare) and "___" not in text and not any(
        isinstance(each, ast.Call) for each in ast.walk(node)
    )  # fmt: skip


def plain_expression(text: str) -> bool:
    """Whether `text` is a name with attributes and constant indices."""
    if not text[:1].isidentifier() or not text.isprintable():
        return False
    try:
        node = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return False
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return False
        node = node.value
    return isinstance(node, ast.Name) and not keyword.iskeyword(node.id) and "___" not in text


def _argument(text: str, recompile: Recompile) -> str:
    """What the caller hands over: `kwargs['mask']` of a function with `**kwargs` is its `mask`."""
    found = re.match(r"^(?P<name>\w+)\['(?P<key>[A-Za-z_]\w*)'\](?P<rest>.*)$", text)
    keywords = {"kwargs", *re.findall(r"\*\*(\w+)", recompile.location.code or "")}
    return as_written(
        found["key"] + found["rest"] if found and found["name"] in keywords else as_called(text, recompile)
    )


def _dynamo_name(text: str, recompile: Recompile) -> str:
    """Dynamo's name of a source, as TORCH_COMPILE_DYNAMIC_SOURCES takes it: `L['batch']`."""
    found = re.match(r"^(?P<name>[A-Za-z_]\w*)(?P<rest>.*)$", text, re.DOTALL)
    if found is None or not plain_expression(text) or _UNSPEAKABLE.search(text):
        return ""
    scope = "G" if re.search(rf"\bG\['{found['name']}'\]", recompile.guard) else "L"
    return f"{scope}['{found['name']}']{found['rest']}"
