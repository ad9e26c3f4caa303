"""Sweeps written by hand, for the tests of what shows them."""

from __future__ import annotations

from typing import Any

from dynalyze.sweep.compare import SweepComparison, compare
from dynalyze.sweep.records import Row, RowBreak, Speed, Status, Sweep
from sample_reports import HOSTILE

LIBRARY = "/opt/venv/lib/python3.11/site-packages/"
GENERIC = "transformers/utils/generic.py"
NEWER = {"python": "3.11.7", "torch": "2.14.0", "transformers": "5.23.0", "device": "cpu"}
CAPTURING = "transformers/utils/output_capturing.py"


def modeling(name: str) -> str:
    return f"transformers/models/{name}/modeling_{name}.py"


def broken(path: str = GENERIC, line: int = 123, gb_type: str = "Data-dependent branching", **changes: Any) -> RowBreak:
    fields: dict[str, Any] = {
        "reason": f"Detected {gb_type.lower()} in user code",
        "function": "forward",
        "code": "if mask.all():",
        "gb_id": "GB0170",
        "effect": "split",
        **changes,
    }
    return RowBreak(gb_type=gb_type, file=LIBRARY + path, line=line, path=path, **fields)


def loop(path: str = GENERIC, line: int = 120, **changes: Any) -> RowBreak:
    """What PyTorch tells of the loop around a break."""
    fields: dict[str, Any] = {"gb_id": "GB7000", "effect": "eager", "code": "for layer in self.layers:", **changes}
    return broken(path, line, "graph break in loop", **fields)


def row(target: str, status: Status = "full_graph", *breaks: RowBreak, **changes: Any) -> Row:
    name = target.removeprefix("hf:")
    configuration = changes.get("configuration", "default")
    fields: dict[str, Any] = {
        "recompiles": 0, "seconds": 2.5, "report": f"reports/{name}-{configuration}.json", "error": None,
        "key": f"{target}|{configuration}", "page": f"reports/{name}-{configuration}.html", "family": "llama",
        "class_name": name, "parameters": 120_000, "graphs": 1 + len(breaks), "ops": 80, **changes,
    }  # fmt: skip
    return Row(target=target, status=status, graph_breaks=len(breaks), breaks=list(breaks), **fields)


def failed(target: str, status: Status, error: str, **changes: Any) -> Row:
    return row(target, status, **{"report": None, "page": None, "graphs": 0, "ops": 0, **changes, "error": error})


def sweep(*items: Row, **changes: Any) -> Sweep:
    fields: dict[str, Any] = {
        "dynalyze": "0.1.0", "created": "2026-11-21T09:00:00Z", "command": ["sweep", "hf:all"],
        "environment": {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0", "device": "cpu"},
        "seconds": 754.0, "planned": len(items), "workers": 2, **changes,
    }  # fmt: skip
    return Sweep(items=list(items), **fields)


def small_sweep() -> Sweep:
    """Eight models: three share a line, one of them has a loop around it; one of each thing that can go wrong."""
    shared = broken(caller=f"{modeling('llama')}:412")
    return sweep(
        row("hf:LlamaModel", "graph_break", shared, loop()),
        row("hf:LlamaForCausalLM", "graph_break", shared),
        row("hf:ReformerModel", "graph_break", broken(caller=f"{modeling('reformer')}:90"),
            broken(modeling("reformer"), 270, "Unsupported Tensor.item() call", gb_id="GB0124"), family="reformer"),
        row("hf:BertModel", family="bert"),
        row("hf:GPT2Model", family="gpt2", recompiles=2),
        failed("hf:UdopModel", "compile_error", "InternalTorchDynamoError: IndexError: list index out of range",
               error_at="torch/_dynamo/guards.py:88", family="udop"),
        failed("hf:KimiModel", "eager_error", "ValueError: grid_thw is required", error_at=f"{modeling('kimi')}:33",
               family="kimi"),
        failed("hf:HunYuanVLModel", "create_error", "TypeError: unsupported operand type(s) for //", family="hunyuan"),
    )  # fmt: skip


def matrix_sweep() -> Sweep:
    """Two models in two configurations each; one breaks only when training."""
    training = {"configuration": "train", "settings": {"train": True}}
    return sweep(
        row("hf:BertModel", family="bert", speeds=[Speed("default", "faster", 1.83, 1.79, 1.88)], peak_memory=9_000),
        row("hf:BertModel", "graph_break", broken(), family="bert", **training),
        row("hf:GPT2Model", family="gpt2", speeds=[Speed("default", "no difference shown", None)]),
        row("hf:GPT2Model", family="gpt2", speeds=[Speed("default", "slower", 0.8, 0.7, 0.9)], **training),
    )  # fmt: skip


def hostile_sweep() -> Sweep:
    """Every free text is an attack on the page, the terminal or the spreadsheet."""
    evil = HOSTILE + "\u2028line"
    found = RowBreak(evil, evil, evil, 3, evil, evil, evil, evil, evil, f"{evil}:4")
    return Sweep(
        dynalyze=evil, created=evil, command=["sweep", evil], environment={evil: evil, "nested": {"a": [evil]}},
        seconds=1.0, planned=9, notes=[evil],
        items=[
            Row(evil, "graph_break", 1, 0, 1.0, evil, None, evil, evil, {evil: evil},
                "javascript:window.pwned=1//x.html", evil, evil, breaks=[found],
                speeds=[Speed(evil, evil, 1.0)], node=evil, notes=[evil]),
            Row("=cmd|' /C calc'!A0", "eager_error", 0, 0, 1.0, None, evil, error_at=evil, page="//evil.test/a.html"),
            Row("@SUM(1)", "full_graph", 0, 0, 1.0, None, None, page="../../etc/passwd"),
        ],
    )  # fmt: skip


def empty_sweep() -> Sweep:
    return sweep()


def large_sweep(models: int = 200) -> Sweep:
    """Most models are clean; some share the lines that they break at, some have one of their own, a few fail."""
    items = []
    for at in range(models):
        target, more = f"hf:Made{at}Model", {"family": f"made{at % 40}", "seconds": (at * 37 % 113) / 10}
        if at % 25 == 0:
            items.append(failed(target, "crash", "killed by signal 9 (out of memory?)", **more))
        elif at % 3:
            items.append(row(target, recompiles=at % 2, **more))
        else:
            found = [broken(line=100 + at % 7), broken(modeling(f"made{at % 40}"), 100 + at, "Observed exception")]
            items.append(row(target, "graph_break", *found, **more))
    return sweep(*items)


def upgraded() -> SweepComparison:
    """After an upgrade the shared line is gone from two of three models; another line is new in two."""
    before = small_sweep()
    new = broken("transformers/masking_utils.py", 455, "Observed exception", code="raise StopIteration", gb_id="GB0088")
    items = [
        row("hf:LlamaModel"),
        row("hf:LlamaForCausalLM", "graph_break", new),
        before.items[2],
        row("hf:BertModel", "graph_break", new, family="bert"),
        failed("hf:GPT2Model", "compile_error", "RuntimeError: backend", family="gpt2"),
        before.items[5],
        row("hf:KimiModel", family="kimi"),
        row("hf:NewModel"),
    ]
    return compare(before, sweep(*items, environment=NEWER))
