"""Recorded calls, made again compiled, compile what the program's own loop would have compiled."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dynalyze.capture.calls import Recorder
from dynalyze.capture.replay import mark_dynamic_inputs, replay

Events = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class CountingBackend:
    """The eager backend; every graph it is handed is one entry of `graphs`."""

    def __init__(self) -> None:
        self.graphs: list[int] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(sum(node.op == "call_function" for node in graph.graph.nodes))
        return graph.forward


def recorded(program: Callable[[], Any], **caps: int) -> tuple[Recorder, Any]:
    recorder = Recorder(**caps)
    recorder.install()
    try:
        return recorder, program()
    finally:
        recorder.stop()


def replayed(recorder: Recorder, **options: Any) -> tuple[dict[str, Any], list[int], Events]:
    backend, events = CountingBackend(), []
    summary = replay(
        recorder,
        lambda module: torch.compile(module, backend=backend),
        lambda kind, **fields: events.append({"kind": kind, **fields}),
        **options,
    )
    return summary, backend.graphs, events


@pytest.mark.slow
def test_a_llama_generates_with_the_cache_it_had() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=64
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, 60, (1, 16))

    def generate() -> Any:
        return model.generate(prompt, max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0)

    backend, plain_forward = CountingBackend(), model.forward
    model.forward = torch.compile(plain_forward, backend=backend)
    truth = generate()
    del model.forward
    torch._dynamo.reset()

    recorder, tokens = recorded(generate)
    assert torch.equal(tokens, truth)
    assert recorder.total == 12
    caches = [call.kept.inputs.thaw()[1]["past_key_values"] for call in recorder.calls if call.kept]
    assert [cache.get_seq_length() for cache in caches] == [0, *range(16, 27)]
    summary, graphs, events = replayed(recorder)
    assert summary["replayed"] == 12 and not summary["errors"]
    assert graphs == backend.graphs
    assert [event["index"] for event in events] == list(range(12))


class Branches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        print("", end="")
        return self.linear(x)


def graphs_of(compile_it: Callable[[torch.nn.Module, CountingBackend], Callable[..., Any]], hooks: bool) -> list[Any]:
    """The sizes of the graphs, and the functions that were compiled: none of ours may be among them."""
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    model, backend = Branches(), CountingBackend()
    if hooks:
        model.linear.register_forward_hook(lambda module, args, output: output + 1)
        model.register_forward_hook(lambda module, args, output: output * 2)
    run = compile_it(model, backend)
    for size in (2, 2, 5):
        run(torch.ones(size, 4))
    compiled = [(metrics.co_name, metrics.co_firstlineno) for metrics in torch._dynamo.utils.get_compilation_metrics()]
    return [*backend.graphs, *compiled]


def _by_function(model: torch.nn.Module, backend: CountingBackend) -> Callable[..., Any]:
    @torch.compile(backend=backend)
    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x) + 1

    return step


def _in_place(model: torch.nn.Module, backend: CountingBackend) -> Callable[..., Any]:
    model.compile(backend=backend)
    return model


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo's own, with or without the recorder.
@pytest.mark.parametrize("hooks", [False, True], ids=["plain", "hooks"])
@pytest.mark.parametrize(
    "compile_it",
    [
        lambda model, backend: torch.compile(model, backend=backend),
        pytest.param(_in_place, marks=pytest.mark.slow),
        pytest.param(_by_function, marks=pytest.mark.slow),
    ],
    ids=["torch.compile", "module.compile", "decorator"],
)
def test_a_program_that_compiles_sees_the_same_graphs_while_recorded(compile_it: Any, hooks: bool) -> None:
    plain = graphs_of(compile_it, hooks)
    _, while_recorded = recorded(lambda: graphs_of(compile_it, hooks))
    assert plain and while_recorded == plain
    assert graphs_of(compile_it, hooks) == plain


def test_training_is_replayed_with_its_buffers_and_backward_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.MSELoss()

    def train() -> None:
        for batch in (6, 6, 3):
            optimizer.zero_grad()
            loss(model(torch.randn(batch, 4)), torch.zeros(batch, 4)).backward()
            optimizer.step()
        with torch.no_grad():
            model.eval()
            model(torch.ones(2, 4))

    recorder, _ = recorded(train)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad for parameter in model.parameters()]
    values = [gradient.clone() for gradient in gradients if gradient is not None]
    state = torch.get_rng_state()

    seen = []
    summary = replay(
        recorder,
        lambda module: lambda x: (seen.append((module[1].num_batches_tracked.item(), module.training)), module(x))[1],
        lambda kind, **fields: None,
    )
    assert seen == [(0, True), (1, True), (2, True), (3, False)]
    assert summary["replayed"] == 4 and summary["backwards"] == 3 and summary["recorded"] == 7
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    assert all(parameter.grad is kept for parameter, kept in zip(model.parameters(), gradients, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(values, [g for g in gradients if g is not None], strict=True))
    assert torch.equal(torch.get_rng_state(), state) and not model.training

    _, graphs, _ = replayed(recorder)
    assert len(graphs) == 3  # training, another batch size, eval


def test_replayed_outputs_are_the_recorded_ones() -> None:
    class Noisy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.dropout(x) @ x.t() + torch.rand(1) + random.random()

    model = Noisy()
    outputs, again = [], []

    def program() -> None:
        for dtype in (torch.float32, torch.bfloat16):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16), torch.inference_mode():
                outputs.append(model(torch.ones(3, 3)))

    recorder, _ = recorded(program)

    def keep(module: torch.nn.Module) -> Callable[..., Any]:
        return lambda *args: again.append((module(*args), torch.is_inference_mode_enabled()))

    replay(recorder, keep, lambda kind, **fields: None)
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, (b, _) in zip(outputs, again, strict=True))
    assert all(inference for _, inference in again)


def test_a_gan_whose_inputs_carry_a_graph_runs_backward_through_both() -> None:
    generator, judge = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)

    def program() -> None:
        judge(generator(torch.ones(3, 2))).sum().backward()

    recorder, _ = recorded(program)
    summary, graphs, events = replayed(recorder)
    assert [event["module"] for event in events] == ["Linear", "Linear"] and len(graphs) == 2
    assert summary["backwards"] == 2 and summary["errors"] == []


class OnlyInEager(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_compiling():
            raise RuntimeError("not here")
        return x


def test_errors_are_told_and_three_of_a_kind_end_a_module() -> None:
    bad, good = OnlyInEager(), torch.nn.Linear(2, 2)
    recorder, _ = recorded(lambda: [module(torch.ones(2)) for _ in range(5) for module in (bad, good)])

    def refuse(module: torch.nn.Module) -> Callable[..., Any]:
        def fail(*args: Any) -> Any:
            raise RuntimeError("not here")

        return fail if module is bad else module

    events: Events = []
    summary = replay(recorder, refuse, lambda kind, **fields: events.append(fields))
    assert [event["error"] for event in events if event["module"] == "OnlyInEager"] == ["RuntimeError: not here"] * 3
    assert summary["replayed"] == 5 and summary["skipped_after_errors"] == 2 and len(summary["errors"]) == 3


def test_an_overridden_call_is_not_applied_twice() -> None:
    class Scaled(torch.nn.Module):
        def __call__(self, x: torch.Tensor) -> Any:
            return super().__call__(x * 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x.tolist())
            return x

    seen: list[Any] = []
    model = Scaled()
    recorder, _ = recorded(lambda: model(torch.ones(1)))
    summary = replay(recorder, lambda callable_: callable_, lambda kind, **fields: None)
    assert seen == [[2.0], [2.0]] and summary["replayed"] == 1


def test_lazy_modules_and_calls_before_an_exit() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d())

    def program() -> None:
        model(torch.ones(2, 5))
        model(torch.ones(2, 5))
        raise SystemExit(3)

    recorder = Recorder()
    recorder.install()
    with pytest.raises(SystemExit):
        program()
    summary, graphs, _ = replayed(recorder)
    assert summary["replayed"] == 2 and len(graphs) == 1, summary


def test_marked_inputs_compile_once_for_all_sizes() -> None:
    model, backend = torch.nn.Linear(4, 4), CountingBackend()
    run = torch.compile(model, backend=backend)
    for size in (3, 5, 7):
        inputs: tuple[Any, dict[str, Any]] = ((torch.ones(size, 4),), {})
        mark_dynamic_inputs(*inputs)
        run(*inputs[0], **inputs[1])
    assert len(backend.graphs) == 1
