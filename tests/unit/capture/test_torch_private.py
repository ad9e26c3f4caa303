"""Private parts of torch: heard and read where they are, and what is done where a version lacks them."""

from __future__ import annotations

import importlib
import logging
import logging.config
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._logging._internal as internal

from dynalyze.capture.torch_private import (
    compiled_calls,
    compiled_code,
    dynamo,
    failed_guards,
    numerics,
    runtime,
    trace,
    watching,
)


class Unsupported(Exception):
    pass


def newer(exc: Exception) -> BaseException | None:
    def log_graph_break(exc: Exception) -> BaseException | None:
        return dynamo.live_break()

    return log_graph_break(exc)


def older(reason_str: str) -> BaseException | None:
    def log_graph_break(reason_str: str) -> BaseException | None:
        return dynamo.live_break()

    return log_graph_break(reason_str)


def test_the_exception_behind_a_break_is_an_argument_since_2_9() -> None:
    error = Unsupported("print")
    assert newer(error) is error


def test_torch_2_8_logs_from_within_the_except_block() -> None:
    with pytest.raises(Unsupported) as caught:
        try:
            raise Unsupported("print")
        except Unsupported as error:
            assert older("print") is error
            raise
    assert str(caught.value) == "print"


def test_outside_of_any_except_block_there_is_none() -> None:
    assert older("a branch on data") is None


Heard = list[tuple[dict[str, Any], Any]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    told: Heard = []
    end = trace.listen(lambda metadata, payload: told.append((metadata, payload)))
    yield told
    end()


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    manager = logging.root.manager
    kept = {name: state(logger) for name, logger in manager.loggerDict.items()}
    root, disabled, known = state(logging.root), manager.disable, dict(manager.loggerDict)
    yield
    manager.loggerDict.clear()
    manager.loggerDict.update(known)
    for name, was in kept.items():
        vars(known[name]).clear()
        vars(known[name]).update(was)
    vars(logging.root).update(root)
    manager.disable = disabled


def state(logger: object) -> dict[str, Any]:
    """What a logger holds, without the lists that a set-up may change in place."""
    return {name: list(value) if isinstance(value, list) else value for name, value in vars(logger).items()}


def all_loggers(change: Callable[[logging.Logger], object]) -> Callable[[], None]:
    def act() -> None:
        for name in list(logging.root.manager.loggerDict):
            change(logging.getLogger(name))

    return act


SET_UPS = {
    "nothing": lambda: None,
    "dictConfig": lambda: logging.config.dictConfig({"version": 1}),
    "levels": all_loggers(lambda logger: logger.setLevel(logging.CRITICAL)),
    "debug levels": all_loggers(lambda logger: logger.setLevel(logging.DEBUG)),
    "handlers replaced": all_loggers(lambda logger: setattr(logger, "handlers", [])),
    "handlers cleared": all_loggers(lambda logger: logger.handlers.clear()),
    "disabled": all_loggers(lambda logger: setattr(logger, "disabled", True)),
    "filters": all_loggers(lambda logger: logger.addFilter(lambda record: False)),
    "logging.disable": lambda: logging.disable(logging.CRITICAL),
    "no loggers": lambda: logging.root.manager.loggerDict.clear(),
    "torch's own reset": internal._init_logs,
    "torch's logger itself": lambda: internal.trace_log.handlers.clear(),
    "its debug": lambda: setattr(logging.Logger, "debug", lambda *args, **kwargs: None),
}


@pytest.mark.parametrize("set_up", SET_UPS)
def test_a_record_is_heard_whatever_became_of_logging(
    set_up: str, heard: Heard, logging_as_it_was: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.Logger, "debug", logging.Logger.debug)  # Put back what a set-up replaces.
    SET_UPS[set_up]()
    internal.trace_structured("artifact", lambda: {"name": "x"}, payload_fn=lambda: "text", expect_trace_id=False)
    payloads = [payload for metadata, payload in heard if metadata.get("artifact") == {"name": "x"}]
    assert payloads == ["text"]


def test_the_users_own_handlers_get_what_they_would_without_us(heard: Heard) -> None:
    class Keeping(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append((record.metadata, record.pathname))  # type: ignore[attr-defined]

    kept: list[Any] = []
    handler = Keeping()
    internal.trace_log.addHandler(handler)
    assert handler in logging.getLogger(trace.TRACE_LOGGER).handlers
    internal.trace_structured("artifact", lambda: {"name": "x"}, expect_trace_id=False)
    internal.trace_log.removeHandler(handler)
    assert handler not in logging.getLogger(trace.TRACE_LOGGER).handlers
    assert [(record["artifact"], path) for record, path in kept] == [({"name": "x"}, __file__)]


def test_torch_is_left_as_it_was_when_the_last_one_ends() -> None:
    before = internal.trace_log
    ends = [trace.listen(lambda metadata, payload: None) for _ in range(2)]
    assert internal.trace_log is not before
    ends[0]()
    assert internal.trace_log is not before
    ends[1]()
    assert internal.trace_log is before


def test_without_the_name_in_torch_a_handler_hears_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._logging._internal", types.ModuleType("moved"))
    told: Heard = []
    end = trace.listen(lambda metadata, payload: told.append((metadata, payload)))
    logger = logging.getLogger(trace.TRACE_LOGGER)
    logger.debug("", extra={"metadata": {"artifact": 1}, "payload": "text"})
    end()
    logger.debug("", extra={"metadata": {"artifact": 2}, "payload": "text"})
    assert told == [({"artifact": 1}, "text")]


def test_counts_are_torchs_own() -> None:
    before = trace.counted()

    @torch.compile(backend="eager")
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x + 2

    broken(torch.ones(3))
    after = trace.counted()
    assert (after.graphs - before.graphs, after.breaks - before.breaks) == (2, 1)


def test_where_dynamo_is_not_imported_nothing_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert trace.counted() == trace.Counted()


def test_inductors_switches_hold_inside_and_not_after() -> None:
    config = torch._inductor.config
    before = config.fallback_random, config.emulate_precision_casts
    with numerics.comparable_code(emulate=True):
        assert config.fallback_random and config.emulate_precision_casts
    with numerics.comparable_code():
        assert config.fallback_random and not config.emulate_precision_casts
    assert (config.fallback_random, config.emulate_precision_casts) == before
    assert numerics.can_emulate("inductor")
    assert not numerics.can_emulate("aot_eager")


def test_without_inductors_settings_nothing_is_emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics, "_inductor_config", lambda: None)
    assert not numerics.can_emulate("inductor")
    with numerics.comparable_code(emulate=True):
        pass


def test_without_decompositions_that_take_part_in_autograd_its_own_kernels_are_traced() -> None:
    """Dropout that is off gives back its input, as a change of it shows; the decomposition of torch 2.13 copies it."""

    def traced() -> torch.Tensor:
        dynamo_of_torch = importlib.import_module("torch._dynamo")
        dynamo_of_torch.reset()
        x = torch.ones(2)
        torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5, False).mul_(3), backend="aot_eager")(x)
        return x

    kernels = dict(torch.ops.aten.dropout.default.py_kernels)
    with numerics.own_kernels() as there:
        assert there and traced().tolist() == [3, 3]
    assert torch.ops.aten.dropout.default.py_kernels == kernels


def test_a_part_of_inductor_is_switched_off_after_so_many_inside_alone() -> None:
    bisector = importlib.import_module("torch._inductor.compiler_bisector").CompilerBisector
    names: list[str] = []

    def is_off(part: str, name: str) -> bool:
        return bool(bisector.disable_subsystem("inductor", part, lambda: name))

    enabled = bisector.bisection_enabled
    with numerics.part_off("lowerings", 1, names):
        assert [is_off("lowerings", "add"), is_off("post_grad_passes", "a pass"), is_off("lowerings", "div")] == [
            False, False, True,
        ]  # fmt: skip
        assert bisector.bisection_enabled
    assert names == ["add", "div"] and not is_off("lowerings", "mul") and bisector.bisection_enabled == enabled


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Inductor's own imports.
def test_without_lowerings_and_without_a_pass_inductor_is_right_where_these_are_wrong() -> None:
    """1.0 // 0.1 is 9 in eager; the lowering of torch 2.13 gives 10. A bool of ones summed up as half is half."""
    importlib.import_module("torch._dynamo").reset()
    with numerics.part_off("lowerings", 0, names := []):
        divided = torch.compile(lambda x, y: x // y)(torch.tensor([1.0]), torch.tensor([0.1]))
    assert divided.item() == 9 and names
    importlib.import_module("torch._dynamo").reset()
    with numerics.part_off("post_grad_passes", 0, names := []):
        summed = torch.compile(lambda: torch.ones(2, 5, dtype=torch.bool).cumsum(1, dtype=torch.float16))()
    assert summed.dtype == torch.float16 and names


def test_float32_is_multiplied_in_float32_inside_alone() -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with numerics.full_float32():
            assert torch.get_float32_matmul_precision() == "highest"
            assert not torch.backends.cudnn.allow_tf32
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision(before)


def test_which_operations_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    aten = torch.ops.aten
    assert numerics.draws_random_numbers(aten.native_dropout.default)
    assert numerics.draws_random_numbers(aten.bernoulli_.float)
    assert not numerics.draws_random_numbers(aten.mul.Tensor)
    assert not numerics.draws_random_numbers(aten._scaled_dot_product_flash_attention.default)
    monkeypatch.setattr(numerics, "_DRAWS", None)
    assert not numerics.draws_random_numbers(aten.native_dropout.default)


def test_compiled_parts_run_in_eager() -> None:
    calls: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[object]) -> object:
        def run(x: torch.Tensor) -> list[torch.Tensor]:
            calls.append(1)
            return [x + 1]

        return run

    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend=backend)
    x = torch.ones(2)
    before = numerics.compiled_frames()
    with numerics.nothing_compiled():
        assert torch.equal(compiled(x), torch.sin(x) + 1)
    assert not calls and numerics.compiled_frames() == before
    assert torch.equal(compiled(x), x + 1) and calls
    assert numerics.compiled_frames() == (before or 0) + 1
    torch._dynamo.reset()


def test_dynamos_switch_is_read_and_dynamo_imported_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch._dynamo.config as config

    with config.patch(disable=True):
        assert dynamo.dynamo_disabled() is True
        monkeypatch.delitem(sys.modules, "torch._dynamo.config")
        assert dynamo.dynamo_disabled() is None
        monkeypatch.setattr(importlib, "import_module", lambda name: sys.modules.update({name: config}))
        assert dynamo.dynamo_disabled(load=True) is True
        monkeypatch.undo()


def test_a_module_that_compiled_itself_is_known_without_running_code_of_it() -> None:
    class Odd(torch.nn.Linear):
        def __getattribute__(self, name: str) -> Any:
            assert name != "_compiled_call_impl"
            return super().__getattribute__(name)

    module = Odd(2, 2)
    assert not runtime.compiled_in_place(module) and not runtime.compiled_in_place(len)
    module.compile(backend="eager")
    assert runtime.compiled_in_place(module)


def test_modes_are_inductors_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "max-autotune" in runtime.mode_names()
    monkeypatch.delattr(torch._inductor, "list_mode_options")
    assert runtime.mode_names() == []


def test_compiled_code_and_its_guards_are_found_where_torch_has_them() -> None:
    def double(x: torch.Tensor, times: list[int]) -> torch.Tensor:
        return x * times[0]

    torch._dynamo.reset()
    x = torch.ones(2)
    torch.compile(double, backend="eager")(x, [2])
    (version,) = [each for each in compiled_code.versions() if each.original is double.__code__]
    assert version.names(runtime.GRAPH_PREFIX)
    checks = {name: checks for name, _, checks in compiled_code.guard_sources(version.guards)}
    assert "LENGTH_CHECK" in checks["L['times']"] and "TENSOR_MATCH" in checks["L['x']"]
    every = compiled_code.guards_without(version.guards, ())
    others = compiled_code.guards_without(version.guards, {"L['times']"})
    assert every is not None and others is not None
    assert every({"x": x, "times": [2]}) and others({"x": x, "times": [2]})
    assert not every({"x": x, "times": [3]}), "another value"
    assert others({"x": x, "times": [3]}), "nobody looks at it any more"
    assert (compiled_code.guards_run(version.guards, {"x": x, "times": [2]}) or 0) > 3
    torch._dynamo.reset()


def test_a_torch_without_these_parts_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        ("torch._C._dynamo.eval_frame", "_debug_get_cache_entry_list"), ("torch._dynamo.eval_frame", "skip_code"),
    ):  # fmt: skip
        monkeypatch.delattr(importlib.import_module(module), name)
    monkeypatch.delattr(importlib.import_module("torch._dynamo.convert_frame"), "input_codes")
    assert dynamo.tried_codes() == [] == compiled_code.versions()
    assert not compiled_code.leave_in_eager(newer.__code__)
    monkeypatch.setattr(torch.compiler, "set_stance", lambda stance="default": None)
    with compiled_code.without_guards() as skipped:
        assert not skipped
    nothing = object()
    assert compiled_code.guards_without(nothing, ()) is None
    assert compiled_code.guard_sources(nothing) == []
    assert compiled_code.guards_run(nothing, {}) is None


def test_what_dynamo_knows_of_the_arguments_of_functions_is_forgotten() -> None:
    def taking(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def taking_more(x: torch.Tensor, *, size: int | None = None) -> torch.Tensor:
        return x + (size or 0)

    def calls(x: torch.Tensor, more: dict[str, int]) -> Any:
        return taking(x, **more)

    one = torch.ones(1)
    assert torch.compile(calls, backend="eager", fullgraph=True)(one, {}).item() == 2
    taking.__code__, taking.__kwdefaults__ = taking_more.__code__, taking_more.__kwdefaults__
    dynamo.forget_compiled()
    assert torch.compile(calls, backend="eager", fullgraph=True)(one, {"size": 3}).item() == 4


def test_functions_that_are_constants_for_dynamo_are_those_that_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("planted_constants")
    made.asked = torch.compiler.assume_constant_result(lambda: 1)  # type: ignore[attr-defined]
    made.plain = lambda: 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted_constants", made)
    found = dynamo.constant_functions()
    assert "asked" in found and "plain" not in found


def test_why_a_graph_has_no_cuda_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    heard: list[tuple[str, str]] = []
    home = importlib.import_module("torch._inductor.cudagraph_utils")
    user: Any = types.ModuleType("cudagraph_trees")
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", user)
    say = said.append  # One object, as the function that the second module took over from the first.
    for module in (home, user):
        monkeypatch.setattr(module, "log_cudagraph_skip_and_bump_counter", say, raising=False)
    watching.watch_cudagraph_skips(lambda *each: heard.append(each))
    user.log_cudagraph_skip_and_bump_counter("due to mutated inputs")
    home.log_cudagraph_skip_and_bump_counter("due to cpu device")
    assert said == [reason for _, reason in heard] == ["due to mutated inputs", "due to cpu device"]
    assert {compile_id for compile_id, _ in heard} == {""}


def test_a_version_without_that_function_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("torch._inductor.cudagraph_utils.log_cudagraph_skip_and_bump_counter")
    watching.watch_cudagraph_skips(lambda *each: pytest.fail("nobody can say it"))


def test_work_at_run_time_is_no_end_of_a_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, recorded = types.SimpleNamespace(is_runtime=False), types.SimpleNamespace(is_runtime=True)
    utils = importlib.import_module("torch._dynamo.utils")
    monkeypatch.setattr(utils, "get_compilation_metrics", lambda: [compiled, recorded, types.SimpleNamespace()])
    assert trace.counted().ends == 2


def test_the_call_whose_compile_failed_can_be_made_again() -> None:
    """torch's wrapper has it in its frame; where it is not there, as in another error, no call is claimed."""
    compiled = torch.compile(lambda x, *, size: x.view(size), backend="eager")
    with pytest.raises(Exception) as failed:
        compiled(torch.ones(3), size=7)
    again = compiled_calls.call_that_failed(failed.value)
    assert again is not None
    with pytest.raises(RuntimeError, match="invalid for input of size 3"):
        again()
    assert compiled_calls.call_that_failed(failed.value.with_traceback(None)) is None
    assert compiled_calls.call_that_failed(ValueError()) is None


def test_an_error_without_a_jump_has_torchs_own_stack() -> None:
    """Of an error that came up elsewhere, and where the tracer's names are others, nothing is put in its place."""
    error: Any = Unsupported("print")
    error.real_stack = [traceback.FrameSummary("/m.py", 3, "f", lookup_line=False)]
    assert [(each.file, each.line, each.column) for each in dynamo.inner_stack(error)] == [("/m.py", 3, None)]

    def jumps(self: Any, inst: Any) -> None:
        raise error

    unlike = types.SimpleNamespace(opname="POP_JUMP_IF_FALSE")
    with pytest.raises(Unsupported):
        jumps(types.SimpleNamespace(), unlike)
    assert [(each.file, each.line, each.column) for each in dynamo.inner_stack(error)] == [("/m.py", 3, None)]


def test_hooks_on_modules_are_seen_as_they_are_registered_and_dynamo_traces_torchs_own_code() -> None:
    import torch._dynamo

    seen: list[tuple[Any, str, Callable[[], bool]]] = []
    made = torch.utils.hooks.RemovableHandle.__init__
    end = watching.watch_registrations(lambda *hook: seen.append(hook))
    net = torch.nn.Linear(2, 2)
    net.register_forward_hook(lambda *rest: None).remove()
    net.register_full_backward_hook(lambda *rest: None)
    torch.ones(1, requires_grad=True).register_hook(lambda grad: grad)
    assert [(module is net, method, is_there()) for module, method, is_there in seen] == [
        (True, "register_forward_hook", False), (True, "register_full_backward_hook", True),
    ]  # fmt: skip
    end()
    net.register_forward_pre_hook(lambda *rest: None)
    assert len(seen) == 2 and torch.utils.hooks.RemovableHandle.__init__ is made


def test_where_no_code_can_be_kept_from_dynamo_no_registration_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    made = torch.utils.hooks.RemovableHandle.__init__
    monkeypatch.setattr(compiled_code, "leave_in_eager", lambda code: False)
    watching.watch_registrations(lambda *hook: None)()
    monkeypatch.setattr(compiled_code, "frame_callback_setter", lambda: None)
    watching.watch_registrations(lambda *hook: None)()
    assert torch.utils.hooks.RemovableHandle.__init__ is made


def test_every_guard_that_fails_is_told_of_each_version() -> None:
    """torch itself names the first one of each version."""
    torch._dynamo.reset()
    seen: list[list[failed_guards.NearVersion]] = []

    def notice(metadata: dict[str, Any], payload: Any) -> None:
        if metadata.get("artifact", {}).get("name") == "recompile_reasons":
            seen.append(failed_guards.versions())

    stop = trace.listen(notice)
    try:
        function = torch.compile(lambda x, y, n: x * n + y["b"], backend="eager", dynamic=False)
        function(torch.ones(3), {"b": torch.ones(3)}, 2)
        with torch.no_grad():
            function(torch.ones(4), {"b": torch.ones(4)}, 3)
            function(torch.ones(4), {"b": torch.ones(4)}, 2)
    finally:
        stop()
    first, second = seen
    assert [each.id.partition("/")[2] for each in first] == ["0"]
    assert sorted(re.split(" mismatch|  #", text)[0].strip() for text in first[0].failed) == [
        "GLOBAL_STATE changed: grad_mode", "n == 2", "tensor 'x' size", "tensor 'y['b']' size",
    ]  # fmt: skip
    assert [each.id.partition("/")[2] for each in second] == ["1", "0"]
    assert [text.partition("  #")[0].strip() for text in second[0].failed] == ["n == 3"]
    assert first[0].modes["grad_mode"] is True


def test_outside_a_recompile_no_version_is_told() -> None:
    assert failed_guards.versions() == []
