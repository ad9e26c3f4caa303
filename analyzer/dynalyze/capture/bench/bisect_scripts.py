"""Writes a script that shows a wrong program alone; running it tells whether it does. Small inputs are written into it,
others into a file beside it.
"""

from __future__ import annotations

import keyword
import math
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.bisect_program import Program
from dynalyze.capture.bench.commands import BISECT_DATA, BISECT_SCRIPT
from dynalyze.capture.bench.protocol import Configuration

_MOST_BYTES = 256 << 20
_WRITTEN = 64  # Elements of an input that stands in the script.
_TEMPLATE = Path(__file__).with_name("bisect_script.txt")
_HEAD = re.compile(r"^def forward\(self(?:, )?(?P<names>.*?)\)(?: -> .*?)?:", re.MULTILINE | re.DOTALL)
_BUILTINS = {"_operator": "operator"}


class NoScript(Exception):
    """There is no source for it: it names something that no import gives, or an input is no tensor and no number."""


def write_script(program: Program, reduction: str, configuration: Configuration, folder: Path) -> bool:
    """Write the script, with `reduction` in its head, and the data that it needs into `folder`; False where there is no
    source for it.
    """
    large = [value for value in program.inputs if isinstance(value, torch.Tensor) and not _is_written(value)]
    try:
        if large:
            _save(large, folder / BISECT_DATA)
        (folder / BISECT_SCRIPT).write_text(_text(program, reduction, configuration), encoding="utf-8")
    except Exception:  # Of a graph without a source, or a value that cannot be saved.
        return False
    return True


def _text(program: Program, reduction: str, configuration: Configuration) -> str:
    source, imports = _source(program.graph)
    backend_imports, backend = _backend(configuration)
    options = {"mode": configuration.mode, "dynamic": {"on": True, "off": False}.get(configuration.dynamic)}
    names = [operation_name(node) for node in program.operations]
    values = {
        "OPERATION": " and ".join(dict.fromkeys(names[-2:])).replace("`", "'") or "nothing",
        "REDUCTION": reduction,
        "TORCH": torch.__version__,
        "IMPORTS": "\n".join([*imports, *backend_imports]),
        "BACKEND": backend,
        "OPTIONS": repr({name: value for name, value in options.items() if value is not None}),
        "AUTOCAST": f"torch.{configuration.autocast}" if configuration.autocast else "None",
        "TRAIN": repr(program.train),
        "INPUTS": _inputs(program.inputs),
        "GRAPH": source,
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    return text


def _is_written(value: torch.Tensor) -> bool:
    plain = value.layout is torch.strided and not value.is_complex() and not value.is_quantized
    return plain and value.numel() <= _WRITTEN


def _save(values: Sequence[torch.Tensor], file: Path) -> None:
    tensors = [value.detach().cpu() for value in values]
    if sum(tensor.untyped_storage().nbytes() for tensor in tensors) > _MOST_BYTES:
        raise NoScript("its inputs are too large to be kept in a file")
    torch.save(tensors, file)


def _backend(configuration: Configuration) -> tuple[list[str], str]:
    """Lines that make the backend known, and the expression for it."""
    module, colon, function = configuration.backend.partition(":")
    if not colon:
        return [], repr(configuration.backend)
    file = getattr(sys.modules.get(module), "__file__", None)
    path = [f"sys.path.insert(0, {str(Path(file).resolve().parents[module.count('.')])!r})"] if file else []
    return [*path, f"from {module} import {function}"], function


def _inputs(inputs: Sequence[Any]) -> str:
    """`INPUTS = [...]`."""
    lines, saved = [], 0
    for value in inputs:
        made = repr(value)
        if isinstance(value, torch.Tensor):
            made = f"SAVED[{saved}].to({value.device.type!r})"
            if _is_written(value):
                form = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}, {value.device.type!r}"
                made = f"written({value.detach().flatten().tolist()}, {form})"
            else:
                saved += 1
            made += ".requires_grad_()" if value.requires_grad else ""
        lines.append(f"    {made},\n")
    head = f'SAVED = torch.load(Path(__file__).with_name("{BISECT_DATA}"), weights_only=True)\n' if saved else ""
    return f"{head}INPUTS = [\n{''.join(lines)}]"


def _source(root: torch.fx.GraphModule) -> tuple[str, list[str]]:
    """The body of a module whose forward this graph is, and the imports that it needs."""
    if any(node.op in ("get_attr", "call_module") for node in root.graph.nodes):
        raise NoScript("the graph holds constants or modules of its own")
    for node in root.graph.nodes:
        if node.op == "placeholder":
            node.target = node.name
    made = root.graph.python_code("self")
    found = _HEAD.search(made.src)
    if found is None:
        raise NoScript("the code of the graph has no forward")
    names = [name.partition(":")[0].strip() for name in found["names"].split(",") if name.strip()]
    text = _HEAD.sub(f"def forward({', '.join(['self', *names])}):", made.src, count=1).strip()
    used = {name: value for name, value in made.globals.items() if re.search(rf"\b{re.escape(name)}\b", text)}
    imports = [line for name, value in used.items() if (line := _import(name, value))]
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines()).strip(), imports


def _import(name: str, value: Any) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise NoScript(f"{name!r} is no name")
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
    raise NoScript(f"nothing can be imported for {name}")


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
