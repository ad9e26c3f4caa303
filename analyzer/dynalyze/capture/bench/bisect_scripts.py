"""Writes scripts that show a wrong program alone. Whether they do is found out by running them.

There are three: inputs that are written down where they are few and else drawn from a seed; the values themselves, kept
in a file beside the script; and with the program's own file imported first, for what it sets up.
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
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.protocol import Configuration

_MOST_BYTES = 256 << 20
_WRITTEN = 64
_TEMPLATE = Path(__file__).with_name("bisect_script.txt")
_HEAD = re.compile(r"^def forward\(self(?:, )?(?P<names>.*?)\)(?: -> .*?)?:", re.MULTILINE | re.DOTALL)
_BUILTINS = {"_operator": "operator"}


class NoScript(Exception):
    """There is no source for it: it names something that no import gives, or an input is no tensor and no number."""


def write_scripts(program: Program, reduction: str, configuration: Configuration, folder: Path) -> list[dict[str, str]]:
    """Write every script that may show it into `folder`, the plainest first; `data` is "" where there is none. What
    cannot be written is a `problem`. `reduction` is a line for its head.
    """
    main = Path(sys.argv[0] if sys.argv else "")
    prelude = f"import_program({str(main.resolve())!r})" if main.suffix == ".py" and main.is_file() else ""
    ways = [("seeded.py", "", ""), ("saved.py", "saved.pt", "")]
    ways += [("in_program.py", "saved.pt", prelude)] if prelude else []
    written = []
    for name, data, lines in ways:
        try:
            text = _text(program, reduction, configuration, data, lines)
            if data:
                _save(program.inputs, folder / data)
            (folder / name).write_text(text, encoding="utf-8")
            written.append({"script": name, "data": data})
        except Exception as error:  # A value that cannot be saved; another way may do without it.
            written.append({"problem": one_line(error)})
    return written


def _text(program: Program, reduction: str, configuration: Configuration, data: str, prelude: str) -> str:
    source, imports = _source(program.graph)
    backend_imports, backend = _backend(configuration)
    options = {"mode": configuration.mode, "dynamic": {"on": True, "off": False}.get(configuration.dynamic)}
    names = [operation_name(node) for node in program.operations]
    values = {
        "OPERATION": " and ".join(dict.fromkeys(names[-2:])).replace("`", "'") or "nothing",
        "REDUCTION": reduction,
        "TORCH": torch.__version__,
        "IMPORTS": "\n".join([*imports, *backend_imports, prelude]).strip(),
        "BACKEND": backend,
        "OPTIONS": repr({name: value for name, value in options.items() if value is not None}),
        "AUTOCAST": f"torch.{configuration.autocast}" if configuration.autocast else "None",
        "TRAIN": repr(program.train),
        "INPUTS": _inputs(program.inputs, data),
        "GRAPH": source,
    }
    text = _TEMPLATE.read_text(encoding="utf-8")
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    return text


def _save(inputs: Sequence[Any], file: Path) -> None:
    tensors = [value.detach().cpu() for value in inputs if isinstance(value, torch.Tensor)]
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


def _inputs(inputs: Sequence[Any], data: str) -> str:
    """`INPUTS = [...]`, of tensors out of the file `data` where there is one."""
    head = f'SAVED = torch.load(Path(__file__).with_name("{data}"), weights_only=True)\n' if data else ""
    lines, number = [], 0
    for value in inputs:
        if isinstance(value, torch.Tensor):
            made = f"SAVED[{number}].to({str(value.device.type)!r})" if data else _drawn(value, number)
            number += 1
            lines.append(f"    {made}{'.requires_grad_()' if value.requires_grad else ''},")
        else:
            lines.append(f"    {value!r},")
    return f"{head}INPUTS = [\n" + "\n".join(lines) + "\n]"


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
        raise NoScript("complex inputs are not drawn")
    return f"integers({seed}, {shape}, {int(value.min())}, {int(value.max())})"


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
