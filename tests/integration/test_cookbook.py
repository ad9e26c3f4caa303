"""Every recipe of the cookbook, tried on the installed torch.

The truth comes from torch alone: its own trace events, the exception it raises under fullgraph, the graphs it
hands to a backend. What a recipe promises is then checked against that.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import logging
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cookbook_statements import FITTING, NEAR, Fitting, Near

from dynalyze.facts.registry import registry
from dynalyze.facts.sources import Sources
from dynalyze.report import Location
from dynalyze.rules.recipe import BrokenStatement, Recipe, find, find_by_id, recipes
from dynalyze.rules.statement import read_statement
from slow_siblings import mostly_slow

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="the cookbook speaks of torch 2.13 and later"
)
TORCH = str(Path(torch.__file__).parent)
KNOWN = {entry.gb_type for entry in registry(TORCH).entries.values()}

# Their results are gradients themselves, or cut off from the inputs.
NO_GRADIENT = ("autograd-grad", "backward", "requires-grad")
WITH_CONFIG = [r for r in recipes() if r.config]
DIFFERENTIATED = [r for r in recipes() if "requires_grad=True" in r.inputs and r.id not in NO_GRADIENT]
# What they are about happens to numbers that are dynamic.
DYNAMIC = ("number-text", "symbolic-flag")
# From this version on torch traces what they are about.
TRACED = dict.fromkeys(("layer-drop", "python-random", "random-branch"), "2.15")
# For what no other recipe fits: they say what such a statement needs, and show no change of it.
GENERAL = ("data-dependent-branch", "dynamic-shape", "list-for-python", "number-for-python")
SECOND_BREAK = "*** While handling this graph break"


@dataclass
class Break:
    """A graph break as torch reported it: the root cause, and the type of what followed from it."""

    gb_type: str
    raised_type: str
    seen: BrokenStatement
    whole_frame: bool
    line: int


@dataclass
class Run:
    """What came out of compiling and calling `f` once."""

    result: Any = None
    error: BaseException | None = None
    breaks: list[Break] = field(default_factory=list)
    operations: int = 0


def ids(group: list[Recipe]) -> list[str]:
    return [r.id for r in group]


def named(group: list[Any]) -> list[Any]:
    return [pytest.param(each, id=f"{each.recipe}-{number}") for number, each in enumerate(group)]


@pytest.fixture(autouse=True)
def no_group_is_left() -> Iterator[None]:
    """A recipe about collectives makes the group of this process, which other tests would find."""
    yield
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.fixture(autouse=True)
def untouched_torch() -> Iterator[None]:
    """Give every test a fresh compiler, and put back what examples change: configuration, seed, hooks."""
    config = torch._dynamo.config
    touched = {name for r in WITH_CONFIG for name in re.findall(r"_dynamo\.config\.(\w+)", r.config)}
    breakpointhook = sys.breakpointhook
    torch.distributions.kl._KL_MEMOIZE.clear()  # Else an example breaks in the first test alone.
    with config.patch({name: copy.copy(getattr(config, name)) for name in touched}), torch.random.fork_rng():
        torch._dynamo.reset()
        yield
    torch._dynamo.reset()
    sys.breakpointhook = breakpointhook


@pytest.mark.parametrize("recipe", recipes(), ids=ids(list(recipes())))
def test_before_breaks_and_chooses_its_recipe_and_after_is_one_graph_that_does_the_same(
    recipe: Recipe, tmp_path: Path
) -> None:
    """Also on other values: the other side of every `if`, and what is refused stays refused. And its gradients."""
    before, after = ((lambda part=part: load(recipe, part, tmp_path)) for part in ("before", "after"))
    broken = compiled_run(before(), recipe)
    if recipe.kind == "cause":
        its_break_chooses(recipe, broken.breaks[0] if broken.breaks else None, before)
    else:
        its_break_follows_another(recipe, broken.breaks)

    expected = plain(eager_result(before(), recipe))
    torch.testing.assert_close(plain(eager_result(after(), recipe)), expected)
    torch.testing.assert_close(plain(broken.result), expected)
    run = compiled_run(after(), recipe, fullgraph=True)
    assert (run.error, run.breaks) == (None, []) and run.operations > 0
    torch.testing.assert_close(plain(run.result), expected)

    others = [on_other_values(part(), recipe) for part in (before, after)]
    if "refused" in others:
        assert others == ["refused", "refused"]
    else:
        torch.testing.assert_close(others[1], others[0], equal_nan=True)

    if recipe in DIFFERENTIATED:
        expected = gradients(before(), recipe, compiled=False)
        torch.testing.assert_close(gradients(after(), recipe, compiled=False), expected)
        torch.testing.assert_close(gradients(after(), recipe, compiled=True), expected)


def its_break_chooses(recipe: Recipe, first: Break | None, before: Callable[[], types.ModuleType]) -> None:
    if torch.torch_version.TorchVersion(torch.__version__) >= TRACED.get(recipe.id, "99"):
        return  # This torch traces it.
    first = first or refusal(before(), recipe)
    assert first.gb_type in recipe.gb_types
    assert chosen_id(first.seen) == recipe.id


def its_break_follows_another(recipe: Recipe, breaks: list[Break]) -> None:
    """One that has a recipe of its own."""
    last = breaks[-1]
    assert last.whole_frame
    if recipe.gb_types:
        assert last.raised_type in recipe.gb_types
        assert chosen_id(replace(last.seen, gb_type=last.raised_type)) == recipe.id
    assert chosen_id(breaks[0].seen) in {each.id for each in recipes() if each.kind == "cause"}


def on_other_values(module: types.ModuleType, recipe: Recipe) -> Any:
    """The result with the signs of all inputs turned."""
    try:
        return plain(eager_result(module, recipe, turned))
    except (ValueError, AssertionError):
        return "refused"


@pytest.mark.parametrize("recipe", WITH_CONFIG, ids=ids(WITH_CONFIG))
def test_config_removes_the_break(recipe: Recipe, tmp_path: Path) -> None:
    module = load(recipe, "before", tmp_path)
    exec(recipe.config, {**vars(module), "torch": torch})
    run = compiled_run(module, recipe, fullgraph=True)

    assert run.error is None, run.error
    assert run.breaks == []
    assert run.operations > 0
    torch.testing.assert_close(plain(run.result), plain(eager_result(load(recipe, "before", tmp_path), recipe)))


OPERATORS = [
    ("aten.nonzero.default", lambda x: x.nonzero() * 2),
    ("aten.masked_select.default", lambda x: x.masked_select(x > 1) * 2),
    ("aten.nonzero.default", lambda x: x[x > 1] * 2),
    ("aten._unique2.default", lambda x: x.unique() * 2),
    ("aten.unique_consecutive.default", lambda x: x.unique_consecutive() * 2),
    ("aten.bincount.default", lambda x: x.long().bincount() * 2),
    ("aten.repeat_interleave.Tensor", lambda x: x.repeat_interleave(x.long()) * 2),
    ("aten._ctc_loss.Tensor", lambda x: ctc_loss(x) * 2),
    ("aten.linalg_lstsq.default", lambda x: torch.linalg.lstsq(x[:, None], x[:, None]).solution * 2),
]


def ctc_loss(x: Any) -> Any:
    spoken = x.expand(6, 1, 4).log_softmax(-1)
    return torch.nn.functional.ctc_loss(spoken, torch.tensor([[1, 2]]), torch.tensor([6]), torch.tensor([2]))


@pytest.mark.parametrize(("operator", "f"), OPERATORS)
def test_the_setting_for_sizes_is_named_where_torch_can_capture_them(operator: str, f: Callable[[Any], Any]) -> None:
    x = torch.arange(4.0)
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    try:
        torch.compile(f, backend="eager", fullgraph=True)(x)
        captured = True
    except torch._dynamo.exc.Unsupported:
        captured = False
    found = find(BrokenStatement("Dynamic shape operator", "", operator))
    assert (found is not None) == captured


@pytest.mark.parametrize("each", mostly_slow(named(FITTING)))
def test_the_change_does_what_it_says_on_other_statements_of_its_shape(each: Fitting, tmp_path: Path) -> None:
    recipe = replaced(each.recipe, before=each.before, after=each.after, inputs=each.inputs)
    run = compiled_run(load(recipe, "before", tmp_path), recipe)
    if not run.breaks and each.recipe in TRACED:
        pytest.skip("this torch traces it")
    assert chosen_id(run.breaks[0].seen) == each.recipe

    followed = compiled_run(load(recipe, "after", tmp_path), recipe, fullgraph=True)
    assert followed.error is None and followed.breaks == [] and followed.operations > 0
    expected = plain(eager_result(load(recipe, "before", tmp_path), recipe))
    torch.testing.assert_close(plain(followed.result), expected)


@pytest.mark.parametrize("each", mostly_slow(named(NEAR)))
def test_no_change_is_shown_for_a_statement_of_another_shape(each: Near, tmp_path: Path) -> None:
    recipe = replaced(each.recipe, before=each.code, inputs=each.inputs)
    run = compiled_run(load(recipe, "before", tmp_path), recipe)
    if not run.breaks and each.recipe in TRACED:
        pytest.skip("this torch traces it")
    found = find(run.breaks[0].seen)
    assert (found.id if found is not None and found.id not in GENERAL else None) == each.chosen


def test_every_recipe_that_asks_for_a_shape_is_tried_on_other_statements_and_on_near_misses() -> None:
    shaped = {recipe.id for recipe in recipes() if recipe.shape} - {"data-pointer", "bincount"}
    assert shaped == {each.recipe for each in FITTING}
    assert shaped - {each.recipe for each in NEAR} <= {"boolean-mask-sum", "tensor-assert", "tensor-through-numpy"}


def replaced(recipe_id: str, **fields: str) -> Recipe:
    """The recipe on other statements."""
    found = find_by_id(recipe_id)
    assert found is not None
    return msgspec.structs.replace(found, **fields)


def chosen_id(seen: BrokenStatement) -> str:
    found = find(seen)
    assert found is not None, f"no recipe for {seen}"
    return found.id


def load(recipe: Recipe, part: str, folder: Path) -> types.ModuleType:
    """Import one side of a recipe from a file of its own, as a user's module would be. Nothing remembers its bytecode,
    which is taken for that of another text of the same length, written within the same second.
    """
    for name in recipe.requires:
        pytest.importorskip(name)
    if recipe.gb_types and recipe.gb_types[0] not in KNOWN:  # The type of its example.
        pytest.skip(f"torch {torch.__version__} does not break with {recipe.gb_types[0]!r}")
    path = folder / f"{recipe.id.replace('-', '_')}_{part}.py"
    path.write_text(source := getattr(recipe, part))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with quiet():
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def eager_result(module: types.ModuleType, recipe: Recipe, change: Callable[[Any], Any] = lambda value: value) -> Any:
    with quiet():
        return materialized(module.f(*map(change, arguments(recipe))))


def turned(value: Any) -> Any:
    """The same input with its sign turned, where it is a tensor of floats or a list of such."""
    if isinstance(value, list):
        return [turned(item) for item in value]
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return (-value.detach()).requires_grad_(value.requires_grad)
    return value


def gradients(module: types.ModuleType, recipe: Recipe, compiled: bool) -> list[Any]:
    """What reaches the inputs when the result is differentiated; empty where nothing can be."""
    torch._dynamo.reset()
    inputs = arguments(recipe)
    leaves = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    with quiet():
        result = (torch.compile(module.f, backend="eager") if compiled else module.f)(*inputs)
        if not leaves or not isinstance(result, torch.Tensor) or not result.requires_grad:
            return []
        return list(torch.autograd.grad(result.sum(), leaves))


def compiled_run(module: types.ModuleType, recipe: Recipe, fullgraph: bool = False) -> Run:
    """Compile and call `f`, listening to torch's trace."""
    torch._dynamo.reset()
    run = Run()

    def backend(graph: Any, inputs: Any) -> Any:
        run.operations += sum(node.op.startswith("call_") for node in graph.graph.nodes)
        return graph.forward

    with quiet(), listening(run.breaks):
        try:
            dynamic = True if recipe.id in DYNAMIC else None
            compiled = torch.compile(module.f, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
            run.result = materialized(compiled(*arguments(recipe)))
        except torch._dynamo.exc.TorchDynamoException as error:
            run.error = error
    return run


def refusal(module: types.ModuleType, recipe: Recipe) -> Break:
    """The break that fullgraph reports where the plain run says nothing (functions left alone as a whole)."""
    error = compiled_run(module, recipe, fullgraph=True).error
    assert isinstance(error, torch._dynamo.exc.Unsupported), error
    return parse_break(str(error), error)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Swallow what examples print, and allow the warnings they are about."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def listening(breaks: list[Break]) -> Iterator[None]:
    """Collect graph breaks from torch's trace log. First in the list: torch's own handler removes itself."""
    logger = logging.getLogger("torch.__trace")
    handler = _Breaks(breaks)
    before = logger.level, logger.propagate
    logger.handlers.insert(0, handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


class _Breaks(logging.Handler):
    def __init__(self, breaks: list[Break]) -> None:
        super().__init__()
        self.breaks = breaks

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        if metadata.get("artifact", {}).get("name") == "dynamo_graph_break_reason":
            payload = record.payload  # type: ignore[attr-defined]
            self.breaks.append(parse_break(payload() if callable(payload) else payload, sys.exc_info()[1]))


def parse_break(payload: str, error: BaseException | None) -> Break:
    """Read torch's report of a break: its first part is the root cause."""
    root = payload.split(SECOND_BREAK)[0].split("User code traceback")[0]
    found = re.search(
        r"^(?:Graph Break Reason: )?(?P<type>\S.*)\n(?:  Higher Order.*\n)?  Explanation: (?P<why>.*)$",
        root,
        re.M,
    )
    assert found, payload
    context = re.search(r"Developer debug context: (.*)", root)
    place = user_line(error, payload)
    sources = Sources()
    location = sources.location(*place) if place is not None else Location("", 1)
    gb_type = found["type"].removesuffix(" ")
    return Break(
        gb_type=gb_type,
        raised_type=getattr(error, "gb_type", None) or gb_type,
        seen=BrokenStatement(
            gb_type,
            found["why"],
            context[1] if context else "",
            f"{location.file}:{location.function}\n:{innermost(error)}",
            read_statement(sources.block(location), sources.expression(location)),
        ),
        whole_frame="Failed to handle graph break gracefully" in payload,
        line=location.line,
    )


def innermost(error: BaseException | None) -> str:
    """The function of the line that breaks, which may be torch's own."""
    stack = getattr(error, "real_stack", None)
    return stack[-1].name if stack else ""


def user_line(error: BaseException | None, payload: str) -> tuple[str, int, str, int | None, int | None] | None:
    """File, line, function and columns of the innermost line outside torch."""
    stack = getattr(error, "real_stack", None) or []
    lines = [
        (f.filename, f.lineno, f.name, getattr(f, "colno", None), getattr(f, "end_colno", None))
        for f in stack
        if not f.filename.startswith(TORCH)
    ]
    if not lines:
        traceback = re.findall(r'File "([^"]+)", line (\d+)', payload.split("Traceback (most recent call last)")[0])
        lines = [(f, int(n), "", None, None) for f, n in traceback if not f.startswith(TORCH)]
    return lines[-1] if lines else None


def arguments(recipe: Recipe) -> tuple[Any, ...]:
    torch.manual_seed(0)
    values = eval(recipe.inputs, {"torch": torch})
    assert isinstance(values, tuple)
    return values


def materialized(result: Any) -> Any:
    """Read a generator to its end, while the compiler still listens."""
    return list(result) if isinstance(result, types.GeneratorType) else result


def plain(result: Any) -> Any:
    """A result as tensors without history, so that numbers, tensors and lists of them compare."""
    if isinstance(result, torch.Tensor):
        return result.detach().as_subclass(torch.Tensor).double()
    if isinstance(result, (list, tuple)):
        return [plain(value) for value in result]
    return torch.tensor(result).double()
