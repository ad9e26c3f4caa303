"""Why functions were left in eager without a graph break, and why nothing was compiled: in a sentence or two that say
what to do; and what is known of the model of `hf:`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dynalyze.capture import events
from dynalyze.events.log import RunLog
from dynalyze.facts.sources import Sources
from dynalyze.facts.stacks import Places, is_file, is_resume
from dynalyze.report import Candidate, FailedStage, SkippedFrame, SkipReason, TargetModel, UncompiledMethod

_NOT_BUILT = {
    "config": "its configuration cannot be had",
    "weights": "its weights cannot be had",
    "inputs": "no inputs could be made for it",
}


def target_model(run: RunLog) -> TargetModel | None:
    """The model that was built; None for targets of another kind, or where it never was."""
    built, eager = run.last(events.ModelBuilt), run.last(events.EagerCall)
    if built is None:
        return None
    seconds = None if eager is None else round(eager.seconds, 3)
    return TargetModel(built.class_name, built.family, built.parameters, built.inputs, eager is not None, seconds)


def failed_stage(run: RunLog) -> FailedStage | None:
    """Why there was nothing to compile; None where it came to that."""
    failed = run.last(events.StageFailed)
    if failed is None:
        return None
    return FailedStage(failed.stage, failed.exception, failed.message, failed.file, failed.line, failed.out_of_memory)  # type: ignore[arg-type]


def why_never_compiled(name: str, failed: FailedStage) -> str:
    """The failure in one sentence: `LlamaModel could not be built: ValueError: ... (modeling_llama.py:12).`"""
    if failed.stage == "eager":
        what = "runs out of memory in eager already" if failed.out_of_memory else "fails in eager already"
    elif failed.out_of_memory:
        what = "could not be built: out of memory"
    else:
        what = f"could not be built{', ' + _NOT_BUILT[failed.stage] if failed.stage in _NOT_BUILT else ''}"
    place = f" ({Path(failed.file).name}:{failed.line})" if failed.file else ""
    return f"{name} {what}: {failed.message.rstrip('.')}{place}."


def doing(run: RunLog, name: str) -> str:
    """What was going on with a model before it was compiled, as a clause; empty once it was."""
    if run.last(events.ObjectStarted) is not None:
        return ""
    return f"while {name} ran in eager" if run.last(events.ModelBuilt) is not None else f"while {name} was being built"


def reason_for_silence(
    silence: events.NothingCompiled | None,
    definitions: events.Definitions | None,
    torch: events.TorchLoaded | None,
    skipped: Sequence[SkippedFrame] = (),
    methods: Sequence[UncompiledMethod] = (),
    *,
    ended: bool,
) -> str:
    """The reason as far as it can be known; each case ends with the step that mends it."""
    if silence is not None:
        return _by_torch(silence, skipped) or _wrapped(silence.wrapped, methods)
    if torch is None:
        return "The program never imported torch."
    if definitions is not None:
        return _only_definitions(definitions)
    if not ended:
        return "The program left by os._exit before anything was compiled."
    return "No call of torch.compile and no nn.Module call was seen."


def reason_for_candidates(seen: Sequence[Candidate]) -> str:
    """Why nothing of what the program called was compiled in its own calls."""
    failed = next((each for each in seen if each.error), None)
    if failed is not None:
        return f"{failed.name or failed.class_name} raised under torch.compile at its first call: {failed.error}"
    named = next((each.name for each in seen if each.name), "")
    what = ", ".join(dict.fromkeys(each.class_name or each.name for each in seen if each.kind == "module"))
    if all(each.reason == "constructor" for each in seen):
        return f"Modules were called in the constructor of {what} alone. Call what is constructed."
    choose = f" `--compile {named}` compiles one all the same." if named else ""
    return f"No module with parameters of its own was called, only {what or 'functions'}, left in eager.{choose}"


def reason_for_model(name: str, silence: events.NothingCompiled | None, skipped: Sequence[SkippedFrame] = ()) -> str:
    """Why a model that dynalyze compiled and called itself did not reach the compiler."""
    reason = _by_torch(silence, skipped)
    return reason or f"{name} was compiled and called, but torch compiled none of its functions."


def reason_for_block(
    silence: events.NothingCompiled | None, skipped: Sequence[SkippedFrame], compiled_before: int
) -> str:
    """Why a block of a program compiled nothing, as `dynalyze.record()` heard it."""
    if reason := _by_torch(silence, skipped):
        return reason
    if compiled_before:
        return (
            "What had been compiled before the block served it, or nothing in it was compiled: have the first call "
            "inside of the block, or call torch.compiler.reset() before it."
        )
    return "No compiled function was called in it, or torch skipped its code. Call what torch.compile returns."


def _by_torch(silence: events.NothingCompiled | None, skipped: Sequence[SkippedFrame]) -> str:
    """The switch that turns the compiler off, or what torch itself says of the function that it was given."""
    if silence is not None and silence.variable:
        return f"The environment variable {silence.variable} turns torch.compile off: unset it."
    if silence is not None and silence.stance == "force_eager":
        return 'torch.compiler.set_stance("force_eager") is in force: every compiled function runs in eager. Remove it.'
    if silence is not None and silence.disabled:
        return "torch._dynamo.config.disable is True: torch.compile does nothing. Remove that setting."
    entry = next((frame for frame in skipped if frame.entry), None)
    if entry is None:
        return ""
    place = entry.location
    said = f"torch was given {place.function}() ({place.short}) and left it in eager. {entry.explanation}"
    return f"{said} {NEXT_STEPS[entry.reason].replace('`', '')}".strip()


def _wrapped(wrapped: list[events.Wrapped], methods: Sequence[UncompiledMethod]) -> str:
    if (skipped := next((each for each in wrapped if each.in_place_of_torch), None)) is not None:
        return (
            f"{_name(skipped)} was compiled by its own compile() at {_place(skipped)}: its forward is torch's own "
            "code, which torch compiles from outside alone. Use model = torch.compile(model), and call what that "
            "returns."
        )
    if (bypassed := next((each for each in wrapped if each.bypassed), None)) is not None:
        called = ", ".join(f"{each.method}()" for each in methods if each.class_name == bypassed.name)
        runs = f": {called} of what torch.compile returned is the original's" if called else ""
        return (
            f"{_name(bypassed)} was compiled at {_place(bypassed)}, but the program called the original module{runs}. "
            "Use model.compile() in the place of torch.compile(model)."
        )
    idle = next((each for each in wrapped if not each.called), None)
    if idle is not None and idle.kind == "module":
        return (
            f"{_name(idle)} was given to torch.compile at {_place(idle)}, and the result was never called. "
            "Call what torch.compile returns."
        )
    if wrapped:
        first = wrapped[0]
        return (
            f"{_name(first)} was given to torch.compile at {_place(first)}, but no frame was compiled: the result was "
            "never called, or torch skipped its code (a C function, a library that Dynamo does not trace)."
        )
    return "torch.compile was not called."


def _only_definitions(definitions: events.Definitions) -> str:
    """With the command to try: with the first class that needs no arguments, else through a factory."""
    if not definitions.modules:
        hint = " It has a `model`: give it `example_inputs` too, or use --input." if definitions.has_model else ""
        return "The program compiled nothing and called no nn.Module." + hint
    names = ", ".join(f"{module.name}{module.init}" for module in definitions.modules)
    module = next((each for each in definitions.modules if each.ready), definitions.modules[0])
    tensors = ", ".join(["torch.randn(2, 3)"] * max(module.inputs, 1))
    inputs = f'--input "({tensors})"' if module.inputs > 1 else f'--input "{tensors}"'
    made, target = "Try: ", module.name
    if not module.ready:
        made, target = f"{target} needs arguments: write a function make() that returns the module, then try ", "make"
    return (
        f"The program only defines {names} and calls nothing. {made}dynalyze explain {definitions.spec}:{target} "
        f"{inputs}, with the shapes that its forward{module.forward} takes."
    )


def _name(wrapped: events.Wrapped) -> str:
    return wrapped.name if wrapped.kind == "module" else f"{wrapped.name}()"


def _place(wrapped: events.Wrapped) -> str:
    return f"{Path(wrapped.file).name}:{wrapped.line}" if wrapped.file else "an unknown place"


# What torch 2.13 says, in part, and what it means. Without a meaning: another fact tells of it.
_KINDS: tuple[tuple[str, SkipReason | None], ...] = (
    ("dispatch mode", "dispatch_mode"),
    ("skipfiles list", "skip_list"),
    ("marked with torch.compiler.disable", "disabled"),
    ("disabled for this frame", "disabled"),
    ("Dynamo tracing is disabled", "switched_off"),
    ("generated by exec", "generated"),
    ("no tensor-related objects", "no_tensors"),
    ("No ops traced", "no_tensors"),
    ("an error was suppressed", None),  # A graph break, or a failed compile.
    ("compilation failed with a custom", None),  # The recompile limit.
    ("frame is already Dynamo-generated code", None),
)
EXPLANATIONS: dict[SkipReason, str] = {
    "dispatch_mode": "It was called inside a TorchDispatchMode (FlopCounterMode, say, or another tool that watches "
    "operations). torch compiles nothing there, and from then on it runs the function in eager, even where it had "
    "compiled it before.",
    "skip_list": "Its file is on torch's skip list: code of Python's standard library and of some packages, which are "
    "known by their names.",
    "disabled": "It is marked with torch.compiler.disable.",
    "switched_off": "torch._dynamo.config.disable was True when it was called.",
    "generated": "Its code was made by exec.",
    "no_tensors": "It does nothing with tensors, so there was nothing to compile.",
    "other": "torch gave another reason.",
}
"""Why, in our own words alone."""
NEXT_STEPS: dict[SkipReason, str] = {
    "dispatch_mode": 'Put `with torch.compiler.set_stance("force_eager"):` around that mode: torch is not asked there '
    "then, and later calls run compiled. Or call `torch._dynamo.reset()` after the mode has ended.",
    "skip_list": "If the file is yours, rename it: a module called like one of those packages (`tree`, `tabulate`, "
    "`tqdm`) is taken for it. Otherwise move the tensor code into a file of your own and compile that.",
    "disabled": "Remove the `torch.compiler.disable`, or do not pass the function to torch.compile.",
    "switched_off": "Remove that setting before the first call.",
    "generated": "Put the function into a file and import it.",
    "no_tensors": "",
    "other": "Run with TORCH_LOGS=+dynamo: the line that begins with `skipping` tells more.",
}
"""What the user can do, in a sentence or two."""


def skipped_frames(run: RunLog, places: Places, sources: Sources) -> list[SkippedFrame]:
    """Each function and reason once. Helpers of libraries are left out, unless one was given to torch.compile."""
    found: dict[tuple[str, int, str, SkipReason], SkippedFrame] = {}
    for process, event in run.all():
        if not isinstance(event, events.SkippedSeen):
            continue
        reason: SkipReason | None = next((kind for words, kind in _KINDS if words in event.reason), "other")
        if reason is None or (is_resume(event.code.name) and reason == "no_tensors"):
            continue
        # Whether the owner of the program can do something about it.
        if not event.entry and not (is_file(event.code.file) and places.origin(event.code.file) == "user"):
            continue
        code = event.code
        key = (code.file, code.line, code.name, reason)
        if (known := found.get(key)) is None:
            function = f"{event.owner}.{code.name}" if event.owner else code.name
            location = sources.location(code.file, sources.definition(code.file, code.line), function)
            said = f" PyTorch says: {event.reason}." if reason == "other" and event.reason else ""
            name, explanation = f"s{len(found) + 1}", EXPLANATIONS[reason] + said
            known = SkippedFrame(name, location, reason, explanation, count=event.count, process=process)
            found[key] = known
        known.count = max(known.count, event.count)
        known.entry, known.tensors = known.entry or event.entry, known.tensors or event.tensors
    return list(found.values())


def costly(frames: Iterable[SkippedFrame]) -> list[SkippedFrame]:
    """Those that do something with tensors, which a compiled function would do faster."""
    return [frame for frame in frames if frame.tensors and frame.reason != "no_tensors"]
