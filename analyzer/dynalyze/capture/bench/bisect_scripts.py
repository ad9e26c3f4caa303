"""Writes scripts that show one wrong operation alone. Whether they do is found out by running them.

There are several: the operation by itself, or with the graph before it; inputs drawn from a seed, or the values
themselves, kept in a file beside the script; and with the program's own file imported first, for what it sets up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dynalyze.capture.bench.bisect_code import CannotWrite, Form, alone, backward, within
from dynalyze.capture.bench.bisect_local import OperationFault
from dynalyze.capture.bench.bisect_names import operation_name
from dynalyze.capture.bench.failures import one_line
from dynalyze.capture.bench.wire import Configuration

_MOST_BYTES = 256 << 20
_TEMPLATE = Path(__file__).with_name("bisect_script.txt")


@dataclass(frozen=True)
class _Way:
    """How a script is made, and the names of its files."""

    form: Form
    seeded: bool
    prelude: str
    stem: str


def write_scripts(fault: OperationFault, configuration: Configuration, folder: Path) -> list[dict[str, str]]:
    """Write every script that may show the fault into `folder`, the plainest first; `data` is "" where there is none.

    What cannot be written is left out.
    """
    written = []
    for way in _ways(fault):
        try:
            written.append(_written(way, fault, configuration, folder))
        except Exception as error:  # A value that cannot be saved; another way may do without it.
            written.append({"problem": one_line(error)})
    return written


def _ways(fault: OperationFault) -> Iterator[_Way]:
    makers = (("gradient", backward),) if fault.gradient else (("operation", alone), ("graph", within))
    for name, make in makers:
        try:
            form = make(fault)
        except CannotWrite:
            continue
        yield _Way(form, True, "", f"{name}_seeded")
        yield _Way(form, False, "", f"{name}_saved")
        if prelude := _prelude():
            yield _Way(form, False, prelude, f"{name}_in_program")


def _written(way: _Way, fault: OperationFault, configuration: Configuration, folder: Path) -> dict[str, str]:
    data = "" if way.seeded else f"{way.stem}.pt"
    path = folder / f"{way.stem}.py"
    path.write_text(_text(way, fault, configuration, data), encoding="utf-8")
    if data:
        tensors = [value.detach().cpu() for value in way.form.inputs if isinstance(value, torch.Tensor)]
        if sum(tensor.untyped_storage().nbytes() for tensor in tensors) > _MOST_BYTES:
            raise CannotWrite("its inputs are too large to be kept in a file")
        torch.save(tensors, folder / data)
    return {"script": path.name, "data": data, "problem": ""}


def _text(way: _Way, fault: OperationFault, configuration: Configuration, data: str) -> str:
    setup, backend = _backend(configuration)
    return _filled(
        _TEMPLATE.read_text(encoding="utf-8"),
        {
            "OPERATION": f"{'the gradient of ' if fault.gradient else ''}{operation_name(fault.operation)}".replace(
                "`", "'"
            ),
            "WHERE": way.form.description,
            "TORCH": torch.__version__,
            "IMPORTS": "\n".join([*way.form.imports, *setup, *([way.prelude] if way.prelude else [])]),
            "BACKEND": backend,
            "OPTIONS": repr(_options(configuration)),
            "AUTOCAST": f"torch.{fault.autocast}" if fault.autocast else "None",
            "GRAPH": way.form.graph,
            "ALONE": way.form.operation,
            "TOWARDS": repr(way.form.towards),
            "INCOMING": str(way.form.incoming),
            "INPUTS": _inputs(way.form.inputs, data),
        },
    )


def _filled(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(f"<<{name}>>", value)
    return template


def _options(configuration: Configuration) -> dict[str, Any]:
    dynamic = {"on": True, "off": False}.get(configuration.dynamic)
    given = {"mode": configuration.mode, "dynamic": dynamic}
    return {name: value for name, value in given.items() if value is not None}


def _backend(configuration: Configuration) -> tuple[list[str], str]:
    """Lines that make the backend known, and the expression for it."""
    module, colon, function = configuration.backend.partition(":")
    if not colon:
        return [], repr(configuration.backend)
    lines = [f"from {module} import {function}"]
    file = getattr(sys.modules.get(module), "__file__", None)
    if file:
        root = Path(file).resolve().parents[module.count(".")]
        lines.insert(0, f"sys.path.insert(0, {str(root)!r})")
    return lines, function


def _prelude() -> str:
    """Imports the program's own file, where the model was taken from one."""
    main = sys.argv[0] if sys.argv else ""
    path = Path(main)
    return f"import_program({str(path.resolve())!r})" if main.endswith(".py") and path.is_file() else ""


def _inputs(values: tuple[Any, ...], data: str) -> str:
    """The list of inputs as Python; from `data`, or drawn with the moments that they had."""
    lines, number = [], 0
    for value in values:
        if not isinstance(value, torch.Tensor):
            lines.append(f"    {value!r},")
            continue
        lines.append(f"    {_saved(value, number) if data else _drawn(value, number)},")
        number += 1
    head = f'SAVED = torch.load(Path(__file__).with_name("{data}"), weights_only=True)\n' if data else ""
    return f"{head}INPUTS = [\n" + "\n".join(lines) + "\n]"


def _saved(value: torch.Tensor, number: int) -> str:
    return f"SAVED[{number}].to({str(value.device.type)!r})"


def _drawn(value: torch.Tensor, seed: int) -> str:
    shape = f"{tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}, {value.device.type!r}"
    if value.is_floating_point():
        finite = value.detach().double()
        finite = finite[torch.isfinite(finite)]
        mean = float(finite.mean()) if finite.numel() else 0.0
        spread = float(finite.std(correction=0)) if finite.numel() else 1.0
        return f"floats({seed}, {shape}, {mean:.6g}, {spread:.6g})"
    if value.is_complex():
        raise CannotWrite("complex inputs are not drawn")
    low, high = (int(value.min()), int(value.max())) if value.numel() else (0, 0)
    return f"integers({seed}, {shape}, {low}, {high})"
