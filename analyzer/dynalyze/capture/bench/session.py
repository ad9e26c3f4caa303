"""The orders of a measuring process, carried out: what it has loaded, and what it has compiled since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dynalyze.capture.bench.failures import Failed, answer_of, kind_of, one_line, reset_traceback
from dynalyze.capture.bench.load import Loaded, load
from dynalyze.capture.bench.validity import Compiles, look, reason_against
from dynalyze.capture.bench.warming import warm
from dynalyze.capture.bench.wire import AS_WRITTEN, Configuration, Failure, WorkerRequest
from dynalyze.capture.torch_private import runtime

_MEMORY_PASSES = 3
_FIRST_PASSES = 4  # The first compiles, the second warms up a CUDA graph, the third records it.
_MOST_PASSES = 1000
_MOST_SECONDS = 60.0

Order = dict[str, Any]
Answer = dict[str, Any]


class Session:
    """One configuration of one workload in this process."""

    def __init__(self, request: WorkerRequest) -> None:
        self._request = request
        self._configuration = request.configuration
        self._compiles = Compiles()
        self._loaded: Loaded | None = None
        self._device = ""
        self._steps: list[Any] = []
        self._timer: Any = None
        self._recent: list[float] = []
        self._actions: dict[str, Callable[[Order], Answer]] = {
            "load": self._load, "warm": self._warm, "block": self._block, "check": self._check,
            "memory": self._memory, "accuracy": self._accuracy, "attention": self._attention,
            "bisect": self._bisect,
        }  # fmt: skip

    def obey(self, order: Order) -> Answer:
        """Carry out an order; whatever goes wrong becomes the answer, for this process has to live on."""
        action = self._actions.get(order["do"])
        try:
            if action is None:
                raise Failed("internal", f"unknown order {order['do']!r}")
            return {"ok": True, **action(order)}
        except BaseException as error:
            answer = answer_of(error, "load" if order["do"] == "load" else self._blame())
            reset_traceback(error)
            return answer

    def _load(self, _: Order) -> Answer:
        is_program = self._request.source["kind"] == "program"
        if not is_program:
            self._attend()
        self._loaded = load(self._request)
        if is_program:  # Torch is imported by the program, as it would be without us; nothing compiles until here.
            self._attend()
        facts = self._loaded.facts()
        self._device = facts["device"]
        self._check_others()
        return facts

    def _attend(self) -> None:
        """Hear of every compile from here on; in the eager arm there is to be none."""
        self._compiles.listen()
        if not self._configuration.compile:
            runtime.stay_eager()

    def _warm(self, order: Order) -> Answer:
        self._configure()
        try:
            warmed = warm(
                self._one_pass,
                lambda: self._compiles.activity,
                order.get("seconds", _MOST_SECONDS),
                order.get("most", _MOST_PASSES),
            )
        except (Exception, SystemExit) as error:
            raise self._judged(error) from None
        self._recent = warmed.calls_ms[-5:]
        self._compiles.mark()
        return {
            "calls_ms": warmed.calls_ms,
            "steady_after": warmed.steady_after,
            "counts": self._compiles.counts(),
            "phases": runtime.phases(),
            "cache": runtime.cache_counts(),
        }

    def _block(self, order: Order) -> Answer:
        from dynalyze.capture.bench.timing import block, clocks, lead_in

        self._configure()
        samples = block(self._timer, self._steps, order.get("passes"), order.get("seconds"), lead_in(self._recent))
        return {"samples_ms": samples, "clocks": clocks()}

    def _check(self, _: Order) -> Answer:
        self._configure()
        while_timing = self._compiles.since_mark()
        evidence = look(self._steps, self._compiles)
        replays = evidence.replays if self._device == "cuda" else None
        counts = {
            **self._compiles.counts(),
            "recompiles_while_timing": while_timing,
            "cudagraph_replays": replays,
        }
        return {
            "counts": counts,
            "recompiles_while_timing": while_timing,
            "cudagraph_replays": replays,
            "steps_in_eager": evidence.steps_in_eager,
            "invalid": reason_against(self._configuration, counts, evidence, self._device),
        }

    def _memory(self, _: Order) -> Answer:
        from dynalyze.capture.bench.memory import peaks

        def run(passes: int) -> None:
            for _ in range(passes):
                self._pass_untimed()

        if not self._steps:
            self._configure()
            run(_FIRST_PASSES)
        return peaks(self._device, lambda: run(_MEMORY_PASSES))

    def _accuracy(self, _: Order) -> Answer:
        from dynalyze.capture.bench.accuracy import accuracy

        return dict(accuracy(self._workload(), self._target, self._configuration, self._device))

    def _attention(self, order: Order) -> Answer:
        from dynalyze.capture.bench.attention import attention_of

        return attention_of(self._workload(), order.get("names") or [], order.get("dtypes") or [])

    def _bisect(self, order: Order) -> Answer:
        from dynalyze.capture.bench.bisect import Bisector

        return Bisector(self._workload(), self._configuration, self._device).take(order["step"], order)

    def _check_others(self) -> None:
        """A configuration that torch does not know is told before anything is measured."""
        from dynalyze.capture.bench.configure import check

        for fields in self._request.extra.get("check", ()):
            check(Configuration(**fields))

    def _configure(self) -> None:
        """Make the steps of the configured target, once."""
        if self._steps:
            return
        from dynalyze.capture.bench.timing import timer_for

        self._steps = self._workload().steps(self._target())
        self._timer = timer_for(self._device)

    def _target(self) -> Callable[..., Any]:
        """What is called in place of the model, made anew."""
        from dynalyze.capture.bench.configure import configured

        workload = self._workload()
        if self._configuration.name != AS_WRITTEN:
            return configured(workload.model, self._configuration, self._device)
        return configured(workload.as_written(), replace(self._configuration, compile=False), self._device)

    def _workload(self) -> Any:
        if self._loaded is None:
            raise Failed("internal", "nothing is loaded yet")
        return self._loaded.workload

    def _one_pass(self) -> float:
        # Without a flush: its buffer would count as the model's memory.
        return float(self._timer.passes(self._steps, 1, flush=False)[0])

    def _pass_untimed(self) -> None:
        for step in self._steps:
            step.prepare()
            step.run()

    def _blame(self) -> Failure:
        return "compile" if self._configuration.compile else "eager"

    def _judged(self, error: BaseException) -> Failed:
        """What failed: the compiled run alone, or the model in eager as well."""
        kind, message = kind_of(error, self._blame()), one_line(error)
        reset_traceback(error)
        if kind == "compile":
            workload = self._workload()
            try:
                for step in workload.steps(workload.model):
                    step.prepare()
                    step.run()
            except (Exception, SystemExit) as again:
                kind, message = kind_of(again, "eager"), one_line(again)
        return Failed(kind, message)
