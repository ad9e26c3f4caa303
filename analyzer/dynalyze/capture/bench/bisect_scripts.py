"""Writes scripts that show one wrong operation alone, or a small program. Whether they do is found out by running them.

There are several: the operation by itself, or with the graph before it; inputs that are written down where they are few
and else drawn from a seed, or the values themselves, kept in a file beside the script; and with the program's own file
imported first, for what it sets up.
"""

from __future__ import annotations

import contextlib
import itertools
import keyword
import math
import operator
import re
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx.node import map_arg

from dynalyze.capture.bench.bisect_graph import tapped
from dynalyze.capture.bench.bisect_minimal import Program
from dynalyze.capture.bench.bisect_operations import OperationFault
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.protocol import Configuration

_MOST_BYTES = 256 << 20
_WRITTEN = 64
_TEMPLATE = Path(__file__).with_name("bisect_script.txt")
_JUDGES_OPERATIONS = Path(__file__).with_name("bisect_script_operation.txt")
_JUDGES_PROGRAMS = Path(__file__).with_name("bisect_script_program.txt")
_HEAD = re.compile(r"^def forward\(self(?:, )?(?P<names>.*?)\)(?: -> .*?)?:", re.MULTILINE | re.DOTALL)
_LITERALS = (bool, int, float, str, type(None), torch.dtype, torch.device)
_BUILTINS = {"_operator": "operator"}


def write_scripts(fault: OperationFault, configuration: Configuration, folder: Path) -> list[dict[str, str]]:
    """Write every script that may show the fault into `folder`, the plainest first; `data` is "" where there is none.

    What cannot be written is left out.
    """
    written = []
    for name, make in (("gradient", backward),) if fault.gradient else (("operation", alone), ("graph", within)):
        with contextlib.suppress(CannotWrite):
            form = make(fault)
            parts = _operation_parts(form, fault)
            written += _ways(name, form.inputs, form.imports, parts, configuration, folder)
    return written


def write_program(
    program: Program, facts: dict[str, int], configuration: Configuration, folder: Path
) -> list[dict[str, str]]:
    """The same for a program that was reduced, as the `facts` say."""
    try:
        source, imports = _source(program.graph, program.graph.graph)
    except CannotWrite as error:
        return [{"problem": one_line(error)}]
    names = [operation_name(node) for node in program.graph.graph.nodes if node.op.startswith("call_")]
    reduced = (
        "Reduced from {operations_before:,} operations to {operations:,}, and from {elements_before:,} elements of\n"
        "the inputs to {elements:,}; {tried:,} programs were tried.\n"
    )
    parts = {
        "OPERATION": " and ".join(dict.fromkeys(names[-2:])).replace("`", "'") or "nothing",
        "WHERE": "a program",
        "REDUCED": reduced.format(**facts),
        "AUTOCAST": f"torch.{configuration.autocast}" if configuration.autocast else "None",
        "JUDGED": _JUDGES_PROGRAMS.read_text(encoding="utf-8").strip(),
        "GRAPH": source,
        "TRAIN": repr(program.train),
    }  # fmt: skip
    return _ways("program", program.inputs, tuple(imports), parts, configuration, folder)


def _ways(
    name: str, inputs: tuple[Any, ...], imports: tuple[str, ...], parts: dict[str, str], configuration: Configuration,
    folder: Path,
) -> list[dict[str, str]]:  # fmt: skip
    """The same script with inputs from everywhere that they may come from."""
    main = sys.argv[0] if sys.argv else ""
    # Imports the program's own file, where the model was taken from one.
    from_file = main.endswith(".py") and Path(main).is_file()
    prelude = [f"import_program({str(Path(main).resolve())!r})"] if from_file else []
    ways: list[tuple[str, str, list[str]]] = [("seeded", "", []), ("saved", f"{name}_saved.pt", [])]
    ways += [("in_program", f"{name}_in_program.pt", prelude)] if prelude else []
    written = []
    for way, data, lines in ways:
        try:
            script = folder / f"{name}_{way}.py"
            own = {
                "IMPORTS": "\n".join([*imports, *_backend(configuration)[0], *lines]),
                "INPUTS": _inputs(inputs, data),
            }
            script.write_text(_text({**parts, **own}, configuration), encoding="utf-8")
            if data:
                tensors = [value.detach().cpu() for value in inputs if isinstance(value, torch.Tensor)]
                if sum(tensor.untyped_storage().nbytes() for tensor in tensors) > _MOST_BYTES:
                    raise CannotWrite("its inputs are too large to be kept in a file")
                torch.save(tensors, folder / data)
            written.append({"script": script.name, "data": data, "problem": ""})
        except Exception as error:  # A value that cannot be saved; another way may do without it.
            written.append({"problem": one_line(error)})
    return written


def _operation_parts(form: Form, fault: OperationFault) -> dict[str, str]:
    name = operation_name(fault.operation).replace("`", "'")
    return {
        "OPERATION": f"the gradient of {name}" if fault.gradient else name,
        "WHERE": form.description,
        "REDUCED": "",
        "AUTOCAST": f"torch.{fault.autocast}" if fault.autocast else "None",
        "JUDGED": _JUDGES_OPERATIONS.read_text(encoding="utf-8").strip(),
        "GRAPH": form.graph,
        "ALONE": form.operation,
        "TOWARDS": repr(form.towards),
        "INCOMING": str(form.incoming),
    }


def _text(parts: dict[str, str], configuration: Configuration) -> str:
    """The template with its parts; those of a part come after it."""
    options = {"mode": configuration.mode, "dynamic": {"on": True, "off": False}.get(configuration.dynamic)}
    values = {
        "TORCH": torch.__version__,
        "BACKEND": _backend(configuration)[1],
        "OPTIONS": repr({name: value for name, value in options.items() if value is not None}),
        **parts,
    }
    text = _TEMPLATE.read_text(encoding="utf-8").replace("<<JUDGED>>", values.pop("JUDGED"))
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    return text


def _backend(configuration: Configuration) -> tuple[list[str], str]:
    """Lines that make the backend known, and the expression for it."""
    module, colon, function = configuration.backend.partition(":")
    if not colon:
        return [], repr(configuration.backend)
    file = getattr(sys.modules.get(module), "__file__", None)
    path = [f"sys.path.insert(0, {str(Path(file).resolve().parents[module.count('.')])!r})"] if file else []
    return [*path, f"from {module} import {function}"], function


def _inputs(values: tuple[Any, ...], data: str) -> str:
    """The list of inputs as Python; from `data`, written down, or drawn with the moments that they had."""
    numbers = itertools.count()

    def source(value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        number = next(numbers)
        made = f"SAVED[{number}].to({str(value.device.type)!r})" if data else _drawn(value, number)
        return f"{made}.requires_grad_()" if value.requires_grad else made

    head = f'SAVED = torch.load(Path(__file__).with_name("{data}"), weights_only=True)\n' if data else ""
    return f"{head}INPUTS = [\n" + "\n".join(f"    {source(value)}," for value in values) + "\n]"


def _drawn(value: torch.Tensor, seed: int) -> str:
    shape = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}, {value.device.type!r}"
    if value.numel() <= _WRITTEN:
        return f"written({value.detach().flatten().tolist()}, {shape})"
    if value.is_floating_point():
        finite = value.detach().double()
        finite = finite[torch.isfinite(finite)]
        mean, spread = (float(finite.mean()), float(finite.std(correction=0))) if finite.numel() else (0.0, 1.0)
        return f"floats({seed}, {shape}, {mean:.6g}, {spread:.6g})"
    if value.is_complex():
        raise CannotWrite("complex inputs are not drawn")
    low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
    return f"integers({seed}, {shape}, {low}, {high})"


class CannotWrite(Exception):
    """There is no source for it: it names something that no import gives, or an input is no tensor and no number."""


@dataclass(frozen=True)
class Form:
    """`graph` gives the inputs of the operation and its result, `operation` the result from these inputs alone.

    For a gradient, `towards` is the place of the input that it is passed back to; the last `incoming` of the inputs are
    the gradients at the results then.
    """

    graph: str
    operation: str
    imports: tuple[str, ...]
    inputs: tuple[Any, ...]
    description: str
    towards: int | None
    incoming: int


def alone(fault: OperationFault) -> Form:
    """The operation by itself."""
    operation, tensors = operation_graph(fault)
    graph = torch.fx.Graph()
    copies = {node: graph.placeholder(node.name) for node in operation.nodes if node.op == "placeholder"}
    placeholders = list(copies.values())
    graph.output((*placeholders, graph.graph_copy(operation, copies)))
    return _form(fault, operation, graph, tensors, "the operation by itself")


def backward(fault: OperationFault) -> Form:
    """The operation by itself, with the gradients that it got."""
    operation, tensors = operation_graph(fault)
    names = [node.name for node in operation.nodes if node.op == "placeholder"]
    if fault.towards not in names:
        raise CannotWrite(f"the gradient is not one of {', '.join(names)}")
    gradients = tuple(gradient for _, gradient in fault.incoming)
    description = "the operation by itself, and its backward"
    towards = names.index(fault.towards)
    return _form(fault, operation, operation, (*tensors, *gradients), description, towards, len(gradients))


def within(fault: OperationFault) -> Form:
    """The operation behind all that the graph computes before it; the whole graph gives what the operation took and
    what it gave.
    """
    operation, _ = operation_graph(fault)
    used = [name for name, value in fault.inputs.items() if isinstance(value, torch.Tensor)]
    watched = tapped(fault.graph, frozenset({*used, fault.node.name}))
    graph = watched.graph.graph
    *_, output = graph.nodes
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    version = watched.version[fault.operation.name]
    versions = [v for name, v in watched.taps if name == fault.node.name]
    if not versions:
        raise CannotWrite("the result is a tensor that it wrote to")
    after = max(versions)
    outputs = list(output.args[0])
    wanted = [
        outputs[watched.taps[name, version]] if (name, version) in watched.taps else placeholders[name] for name in used
    ]
    output.args = ((*wanted, outputs[watched.taps[fault.node.name, after]]),)
    for value in fault.arguments:
        if not isinstance(value, (torch.Tensor, *_LITERALS)):
            raise CannotWrite(f"an input of the graph is a {type(value).__name__}")
    return _form(fault, operation, graph, fault.arguments, "the graph that the operation stands in")


def _form(
    fault: OperationFault, operation: torch.fx.Graph, graph: torch.fx.Graph, inputs: tuple[Any, ...], description: str,
    towards: int | None = None, incoming: int = 0,
) -> Form:  # fmt: skip
    source, imports = _source(fault.graph, operation)
    whole, more = _source(fault.graph, graph)
    every_import = tuple(dict.fromkeys([*imports, *more]))
    return Form(whole, source, every_import, inputs, description, towards, incoming)


def operation_graph(fault: OperationFault) -> tuple[torch.fx.Graph, tuple[Any, ...]]:
    """A graph of the one operation, whose inputs are its tensors; everything else becomes a constant."""
    graph = torch.fx.Graph()
    tensors = tuple(value for value in fault.inputs.values() if isinstance(value, torch.Tensor))
    made = {
        name: graph.placeholder(name) if isinstance(value, torch.Tensor) else _literal(value)
        for name, value in fault.inputs.items()
    }
    copied = graph.create_node(
        fault.operation.op, fault.operation.target,
        map_arg(fault.operation.args, lambda used: made[used.name]),
        map_arg(fault.operation.kwargs, lambda used: made[used.name]),
    )  # fmt: skip
    if fault.towards:
        places = [place for place, _ in fault.incoming]
        graph.output(
            tuple(copied if at is None else graph.call_function(operator.getitem, (copied, at)) for at in places)
        )
        return graph, tensors

    def taken_out(node: torch.fx.Node) -> torch.fx.Node:
        """The wrong result, where the operation gives several."""
        if node is fault.operation:
            return copied
        assert isinstance(node.args[0], torch.fx.Node)
        return graph.call_function(node.target, (taken_out(node.args[0]), *node.args[1:]))

    graph.output(taken_out(fault.node))
    return graph, tensors


def _literal(value: Any) -> Any:
    if isinstance(value, torch.Size):
        return tuple(int(size) for size in value)
    if isinstance(value, (tuple, list)):
        return type(value)(_literal(item) for item in value)
    if isinstance(value, _LITERALS):
        return value
    raise CannotWrite(f"an input of the operation is a {type(value).__name__}")


def _source(root: torch.fx.GraphModule, graph: torch.fx.Graph) -> tuple[str, list[str]]:
    """The body of a module whose forward this graph is, and the imports that it needs."""
    if any(node.op in ("get_attr", "call_module") for node in graph.nodes):
        raise CannotWrite("the graph holds constants or modules of its own")
    for node in graph.nodes:
        if node.op == "placeholder":
            node.target = node.name
    made = graph.python_code("self")
    found = _HEAD.search(made.src)
    if found is None:
        raise CannotWrite("the code of the graph has no forward")
    names = [name.partition(":")[0].strip() for name in found["names"].split(",") if name.strip()]
    text = _HEAD.sub(f"def forward({', '.join(['self', *names])}):", made.src, count=1).strip()
    lines = (f"    {line}".rstrip() for line in text.splitlines())
    used = {name: value for name, value in made.globals.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    imports = [line for name, value in used.items() if (line := _import(name, value))]
    return "\n".join(lines).strip(), imports


def _import(name: str, value: Any) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise CannotWrite(f"{name!r} is no name")
    if name == "torch":
        return ""
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    if isinstance(value, float) and not math.isfinite(value):
        return f'{name} = float("{value}")'
    if value is type(None):
        return f"{name} = type(None)"
    owner, qualified = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    if owner and qualified and "<" not in qualified and "." not in qualified:
        return f"from {owner} import {qualified} as {name}"
    raise CannotWrite(f"nothing can be imported for {name}")


def operation_name(node: torch.fx.Node) -> str:
    """`torch.nn.functional.gelu`, `operator.add`, `Tensor.view`, `aten.mm.default`."""
    target = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if node.op == "call_module" or isinstance(target, (str, torch._ops.OpOverload)):
        return str(target)
    name = str(getattr(target, "__name__", target))
    for owner in (torch.nn.functional, torch, torch.linalg):
        if getattr(owner, name, None) is target:
            return f"{owner.__name__}.{name}"
    module = str(getattr(target, "__module__", "") or "")
    return f"{_BUILTINS.get(module, module)}.{name}".lstrip(".")
