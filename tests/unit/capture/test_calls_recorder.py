"""What the recorder keeps, and that the program cannot tell that it is there."""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import pickle
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dynalyze.capture.calls import FEW, Recorder, choose
from dynalyze.capture.in_place import InPlace

ORIGINAL = torch.nn.Module.__call__


class Watched:
    """A recorder of the calls of modules, as a benchmark has it: nothing is compiled."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._modules = InPlace(lambda _: None, None, recorder)
        self._modules.install()

    def stop(self) -> None:
        self._modules.remove()


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched(Recorder())
    yield made
    made.stop()
    assert torch.nn.Module.__call__ is ORIGINAL


@pytest.fixture
def recorder(watched: Watched) -> Recorder:
    return watched.recorder


class Double(torch.nn.Module):
    """Modules without parameters are left alone, so it has one."""

    def __init__(self) -> None:
        super().__init__()
        self.two = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.two


class Fails(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(str(self.inner(x).sum()))


def test_only_outermost_calls_count_also_after_an_exception(recorder: Recorder) -> None:
    model = torch.nn.Sequential(Double(), Double())
    x = torch.ones(2)
    model(x)
    with pytest.raises(ValueError, match="4"):
        Fails()(x)
    model(x)
    assert [(type(c.module).__name__, c.raised) for c in recorder.calls] == [
        ("Sequential", ""),
        ("Fails", "ValueError"),
        ("Sequential", ""),
    ]
    assert [c.kept is not None for c in recorder.calls] == [True, False, True]
    assert recorder.cut == ["1 call of Fails raised ValueError and will not be made again."]


def test_interleaved_coroutines_and_generators_leave_the_depth_right(recorder: Recorder) -> None:
    model = torch.nn.Sequential(Double())
    x = torch.ones(1)

    async def use() -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            model(x)

    def generate() -> Iterator[torch.Tensor]:
        while True:
            yield model(x)

    async def both() -> None:
        await asyncio.gather(use(), use())

    asyncio.run(both())
    endless = generate()
    next(endless)
    with pytest.raises(KeyError):
        endless.throw(KeyError())
    model(x)
    assert recorder.total == 8


def test_threads_share_one_order(recorder: Recorder) -> None:
    model = torch.nn.Sequential(Double())
    threads = [threading.Thread(target=lambda: [model(torch.ones(2)) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [call.index for call in recorder.calls] == list(range(20))
    assert len(recorder.signatures) == 1 and recorder.signatures[0].calls == 20


def test_many_calls_keep_the_first_of_each_signature_and_its_neighbours(recorder: Recorder) -> None:
    model = torch.nn.Linear(2, 2)
    batches = [4] * (FEW + 10) + [3] + [4] * 10
    for batch in batches:
        model(torch.ones(batch, 2))
    odd = FEW + 10
    assert [call.index for call in choose(recorder)] == [0, 1, odd - 1, odd, odd + 1]
    assert recorder.total == len(batches) and [s.calls for s in recorder.signatures] == [len(batches) - 1, 1]
    shapes = [call.kept.inputs.thaw()[0][0].shape[0] for call in choose(recorder) if call.kept]
    assert shapes == [4, 4, 4, 3, 4]
    assert len(recorder.calls) <= 6


def test_a_call_before_which_the_program_set_something_is_kept(recorder: Recorder) -> None:
    model, odd = Double(), FEW + 20
    model.mode = "plain"
    for number in range(FEW + 40):
        if number == odd:
            model.mode = "other"
        model(torch.ones(2))
    assert [call.index for call in choose(recorder)] == [0, 1, odd]


def test_a_schedule_that_is_set_before_each_call_keeps_few_of_them(recorder: Recorder) -> None:
    model = Double()
    for number in range(4 * FEW):
        model.rate = number / FEW
        model(torch.ones(2))
    assert len(choose(recorder)) <= FEW / 2


def test_caps_are_reported() -> None:
    recorder = Recorder(byte_cap=10_000, call_cap=3)
    watched = Watched(recorder)
    model = torch.nn.Sequential(Double())
    for size in (10_000, 1, 2, 3, 4):
        model(torch.ones(size))
    watched.stop()
    assert [call.kept is not None for call in recorder.calls] == [False, True, True, True, False]
    assert recorder.cut == [
        "1 call of Sequential were not kept: over the limit of 0.0 MiB for all copies.",
        "1 call were not kept: 3 others are.",
    ]


def test_backward_is_seen_and_losses_have_nothing_to_compile(recorder: Recorder) -> None:
    model, loss = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    x = torch.ones(3, 2)
    loss(model(x), torch.zeros(3, 1)).backward()
    model(x)
    assert [(c.module, c.backward) for c in recorder.calls] == [(model, True), (model, False)]
    assert len(choose(recorder)) == 2


def test_a_gradient_of_a_gradient_is_seen(recorder: Recorder) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Softplus())
    for create_graph in (True, False):
        torch.autograd.grad(model(torch.ones(3, 2)).sum(), list(model.parameters()), create_graph=create_graph)
    assert [(each.backward, each.backward_twice) for each in recorder.calls] == [(True, True), (True, False)]


def _train() -> list[Any]:
    torch.manual_seed(0)
    random.seed(0)
    fired: list[str] = []
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    model[0].register_forward_pre_hook(lambda module, args: fired.append("pre"))
    model.register_forward_hook(lambda module, args, output: fired.append("post"))
    model.register_full_backward_hook(lambda module, got, given: fired.append("backward"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in (4, 3):
        output = model(torch.randn(batch, 4, requires_grad=True))
        fired.append(str(output._backward_hooks))
        output.square().sum().backward()
        optimizer.step()
    state = [value.clone() for value in model.state_dict().values()]
    return [fired, *[value.tolist() for value in state], torch.rand(2).tolist(), random.random()]


def test_training_comes_out_bit_for_bit_the_same(watched: Watched) -> None:
    recorded = _train()
    assert watched.recorder.total == 2
    watched.stop()
    assert recorded == _train()


def test_modules_stay_what_they_were(recorder: Recorder) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Double())
    before = set(vars(model))
    x = torch.ones(1, 2)
    expected = model(x)
    assert set(vars(model)) == before
    assert inspect.signature(torch.nn.Module.__call__) == inspect.signature(ORIGINAL)
    assert torch.equal(copy.deepcopy(model)(x), expected)
    assert torch.equal(pickle.loads(pickle.dumps(model))(x), expected)
    assert torch.equal(torch.fx.symbolic_trace(model)(x), expected)
    assert recorder.total == 4


@pytest.mark.filterwarnings("ignore")
def test_tracers_are_left_alone(recorder: Recorder) -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(2, 2), Double()), torch.ones(1, 2)
    expected = model(x)
    traced, scripted = torch.jit.trace(model, (x,)), torch.jit.script(model)
    exported = torch.export.export(model, (x,))
    strict = torch.export.export(model, (x,), strict=True)
    torch.func.vmap(model)(torch.ones(3, 2))
    # Tracers make ordinary calls too, to compare; nothing that was recorded may hold a tensor of theirs.
    inputs = [call.kept.inputs.thaw()[0][0] for call in recorder.calls if call.kept]
    assert len(inputs) == recorder.total and recorder.cut == []
    assert all(type(value) is torch.Tensor and value.tolist() == [[1.0, 1.0]] for value in inputs)
    recorder.stop()
    for other in (traced, scripted, exported.module(), strict.module()):
        assert torch.equal(other(x), expected)


def test_stop_puts_torchs_own_copies_right() -> None:
    import torch._dynamo.variables.nn_module as held

    watched = Watched(Recorder())
    assert held.unpatched_nn_module_call is torch.nn.Module.__call__ is not ORIGINAL
    thread = threading.Thread(target=watched.stop)
    thread.start()
    thread.join()
    assert held.unpatched_nn_module_call is sys.modules["torch._dynamo.utils"].unpatched_nn_module_call is ORIGINAL


def test_somebody_elses_patch_survives_stop() -> None:
    watched = Watched(Recorder())
    ours = torch.nn.Module.__call__

    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        return ours(self, *args, **kwargs)

    try:
        torch.nn.Module.__call__ = theirs
        watched.stop()
        assert torch.nn.Module.__call__ is theirs
        torch.nn.Linear(1, 1)(torch.ones(1))
        assert watched.recorder.total == 0
    finally:
        torch.nn.Module.__call__ = ORIGINAL


def test_a_module_with_a_finalizer_goes_when_the_program_lets_go_of_it() -> None:
    class Locked(torch.nn.Linear):
        def __del__(self) -> None:
            gone.append(True)

    gone: list[bool] = []
    recorder, module = Recorder(), Locked(2, 2)
    assert recorder.begin(torch.nn.Sequential(module), (torch.ones(2),), {}) is None
    assert [each for each in recorder.cut if "__del__" in each]
    del module
    gc.collect()
    assert gone == [True]


class Passing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x)
        return result

    forward = step


@pytest.mark.parametrize("called", [lambda module: module, lambda module: module.step], ids=["module", "method"])
@pytest.mark.parametrize("is_large", [True, False])
def test_a_large_model_goes_with_the_program_once_another_is_made(
    monkeypatch: pytest.MonkeyPatch, called: Callable[[Any], Any], is_large: bool
) -> None:
    monkeypatch.setattr("dynalyze.capture.held.MOST_BYTES", 10 if is_large else 1 << 30)
    recorder, gone, stays = Recorder(), Passing(), Passing()
    for each in (gone, stays):
        recorder.begin(called(each), (torch.ones(2, 4),), {})
    left = weakref.ref(gone)
    del gone, each
    gc.collect()
    assert left() is not None and len(choose(recorder)) == 2, "no other model is made yet"
    copy.deepcopy(stays)
    gc.collect()
    assert (left() is None) == is_large
    assert [call.module in (stays, stays.step) for call in choose(recorder)] == [True] if is_large else [False, True]
    assert bool(recorder.cut) == is_large
    assert choose(recorder)[-1].kept is not None and choose(recorder)[-1].kept.state.parts == [stays, stays.norm]
