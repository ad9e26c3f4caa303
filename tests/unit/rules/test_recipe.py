"""The cookbook without torch: its form, how a recipe is chosen and filled; and what the catalogue shows of a rule."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from dynalyze.facts.registry import newest
from dynalyze.report import GraphBreak, Location
from dynalyze.rules.captured_numbers import needing_a_number
from dynalyze.rules.catalogue import entry
from dynalyze.rules.recipe import (
    COOKBOOK,
    BrokenStatement,
    Recipe,
    config_of,
    fill,
    find,
    find_by_id,
    read_recipe,
    reasons_without_recipe,
    recipe_of,
    recipes,
    setting_of,
)
from dynalyze.rules.rule import Rule, judge, rules
from dynalyze.rules.statement import read_statement
from dynalyze.text.errors import DynalyzeError
from sample_reports import empty_report

ALL = recipes()
IDS = [r.id for r in ALL]

# What PyTorch 2.13 says about breaks, in the words of its own messages.
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
ITEM_WHY = "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False."
ITEM_CONTEXT = "call_method TensorVariable() item () {}"
BRANCH = "Data-dependent branching"
BRANCH_WHY = "Detected data-dependent branching (e.g. `if my_tensor.sum() > 0:`). Dynamo does not support"
SHAPE = "Dynamic shape operator"
SKIPPED = "Attempted to call function marked as skipped"
C_WHY = "This function is either a Python builtin (e.g. _warnings.warn) or a third-party C/C++ Python extension"
BUILTIN = "Failed to trace builtin operator"

NONZERO = "aten.nonzero.default"

# Statements with such a break, the expression that torch points at, and the recipe that they must get; None: none fits.
READS = [
    ("scale = x.max().item()", "x.max().item()", "tensor-item"),
    ("total = total + x.view(-1).sum().item() * 2", "x.view(-1).sum().item()", "tensor-item"),
    ("if float(x.mean()) > 0.5:\n    x = x + 1", "float(x.mean())", "number-decides"),
    ("n = x.max().item()\nif n > 1:\n    x = x / n", "x.max().item()", "number-decides"),
    ("n = x.max().item()\nif n > 1:\n    x = x / n\nprint(n)", "x.max().item()", "number-for-python"),
    ("n = x.max().item()\nx = x * n\nself.log(f'{n:.2f}')", "x.max().item()", "number-for-python"),
    ("history.append(loss.item())", "loss.item()", "number-for-python"),
    ("return x.sum().item()", "x.sum().item()", "number-for-python"),
    ("total = x[:, : lengths.max().item()].sum()", "lengths.max().item()", "number-for-python"),
    ("total = x[: lengths.max().item()].sum()", "lengths.max().item()", "data-dependent-slice"),
    ("x = x[:, : lengths.max().item()]", "lengths.max().item()", "number-for-python"),
    ("keep = torch.arange(n.max().item()) < n[:, None]", "n.max().item()", "data-dependent-size"),
    ("keep = torch.arange(n.max().item(), device=d)", "n.max().item()", "number-for-python"),
    ("return x.view(-1, int(n))", "int(n)", "number-for-python"),
    ("for i in range(steps.item()):\n    x = x * 2", "steps.item()", "tensor-range"),
    ("for i in range(steps.item()):\n    out.append(x)", "steps.item()", "number-for-python"),
    ("return x * scales[index]", "scales[index]", "tensor-index-of-list"),
    ("return self.experts[index](x)", "self.experts[index]", None),
]
BRANCHES = [
    ("if x.sum() > 0:\n    y = x\nelse:\n    y = -x", "x.sum() > 0", "data-dependent-if"),
    ("if x.sum() > 0:\n    return x\nreturn -x", "x.sum() > 0", "data-dependent-if"),
    ("y = x if x.sum() > 0 else -x", "x.sum() > 0", "data-dependent-if"),
    ("if x.sum() > 0:\n    return None\nreturn x", "x.sum() > 0", None),
    ("if x.sum() > 0:\n    print('positive')", "x.sum() > 0", "check-that-tells"),
    ("if x.sum() > 0:\n    self.seen = x", "x.sum() > 0", None),
    ("if (x > 1).any():\n    x = step(x)", "(x > 1).any()", "conditional-update"),
    ("while x.sum() > 0:\n    x = x - 1", "x.sum() > 0", "data-dependent-while"),
    ("while x.sum() > 0:\n    x = x - 1\n    if done:\n        break", "x.sum() > 0", None),
    ("if torch.isinf(h).any():\n    h = torch.clamp(h, max=9)", "torch.isinf(h).any()", "overflow-clamp"),
    ("if torch.isinf(h).any():\n    raise ValueError(h)", "torch.isinf(h).any()", "data-dependent-raise"),
    ("if (mask == 0).any():\n    raise ValueError('empty')", "(mask == 0).any()", "data-dependent-raise"),
    ("if (mask == 0).any():\n    raise ValueError\nelse:\n    x = 1", "(mask == 0).any()", None),
    ("if (mask == 0).any():\n    report(mask)\n    raise ValueError", "(mask == 0).any()", None),
    ("assert not torch.isnan(x).any()", "torch.isnan(x).any()", "tensor-assert"),
    ("", "", None),  # The source is not known.
]
SHAPES = [
    (NONZERO, "return losses[losses > 0].mean()", "losses[losses > 0]", "boolean-mask"),
    (NONZERO, "return losses[keep].sum()", "losses[keep]", "boolean-mask-sum"),
    (NONZERO, "return losses[keep].mean(dim=0)", "losses[keep]", None),
    (NONZERO, "x[mask] += w", "x[mask]", "masked-update"),
    (NONZERO, "x[mask] *= w", "x[mask]", None),
    (NONZERO, "x[mask] += w[mask]", "x[mask]", None),
    (NONZERO, "x[mask] = y[mask]", "y[mask]", "masked-copy"),
    (NONZERO, "x[mask] = y[other]", "y[other]", None),
    (NONZERO, "rows = mask.nonzero()\nx = x.index_fill(0, rows, 0)", "mask.nonzero()", "nonzero"),
    (NONZERO, "rows = mask.nonzero()\nreturn x[rows]", "mask.nonzero()", None),
    (NONZERO, "r = torch.where(m)[0]\nout.index_add_(0, r, x[r] @ w)", "torch.where(m)", "where-indices"),
    (NONZERO, "keep = torch.where(iou <= 0.5)[0]\norder = order[keep + 1]", "torch.where(iou <= 0.5)", None),
    ("aten.linalg_lstsq.default", "return torch.linalg.lstsq(a, b).solution", "torch.linalg.lstsq(a, b)", ""),
    ("torchvision.nms.default", "keep = nms(boxes, scores, 0.5)", "nms(boxes, scores, 0.5)", None),
    ("aten._unique2.default", "n = torch.unique(x).numel()", "torch.unique(x)", "unique"),
    ("aten._unique2.default", "values = torch.unique(x)", "torch.unique(x)", None),
    ("aten.bincount.default", "n = torch.bincount(x, minlength=4)", "torch.bincount(x, minlength=4)", "bincount"),
    ("aten.repeat_interleave.Tensor", "y = x.repeat_interleave(n)", "x.repeat_interleave(n)", "repeat-interleave"),
]
CALLS = [
    ("module: _warnings, qualname: warn, skip reason:", "warnings.warn(text)", "warning"),
    ("module: _warnings, qualname: _filters_mutated, skip reason:", "", "warning-filter"),
    ("module: time, qualname: sleep, skip reason:", "time.sleep(1)", "clock"),
    ("module: posix, qualname: getpid, skip reason:", "os.getpid()", "operating-system"),
    ("module: sys, qualname: _getframe, skip reason:", "inspect.stack()", "call-stack"),
    ("module: fastops, qualname: run, skip reason:", "fastops.run(x)", "c-extension"),
    ("module: fastops, qualname: tqdm_like, skip reason:", "hashlib_of(pickle_gc_inspect)", "c-extension"),
]
TENSOR = "[<class 'torch._dynamo.variables.tensor.TensorVariable'>] False"
NUMBER = "[<class 'torch._dynamo.variables.tensor.SymNodeVariable'>] False"
BUILTINS = [
    ("builtin print [] False", "print(x)", "print"),
    ("builtin breakpoint [] False", "breakpoint()", "debugger"),
    ("builtin open [] False", "with open(path) as handle:", "open-file"),
    (f"builtin str {TENSOR}", "name = str(x)", "tensor-text"),
    (f"builtin str {NUMBER}", "name = str(n)", "number-text"),
    (f"builtin sorted {TENSOR}", "y = sorted(x)[0]", "sorted-tensor"),
    (f"builtin sorted {TENSOR}", "y = sorted(x, key=f)[0]", None),
    ("builtin globals [] False", "globals()", None),
]
TOLIST = "for row, n in zip(x, sizes.tolist()):\n    total += row[:n].sum()"
CHOICES = [
    *[(ITEM, ITEM_WHY, ITEM_CONTEXT, *each) for each in READS],
    *[(BRANCH, BRANCH_WHY, "attempted to jump with TensorVariable()", *each) for each in BRANCHES],
    *[(SHAPE, f"Operator `{operator}`'s output shape depends", operator, *each) for operator, *each in SHAPES],
    *[(SKIPPED, C_WHY, context + " C extension or builtin", code, code, name) for context, code, name in CALLS],
    *[(BUILTIN, "Dynamo does not know how", context, code, "", name) for context, code, name in BUILTINS],
    (SKIPPED, "marked", "module: torch.nn.utils.rnn, qualname: pack", "pack(x)", "", "skipped-function"),
    ("Data dependent operator", "", "aten._local_scalar_dense.default", TOLIST, "sizes.tolist()", "tensor-tolist"),
    ("Data dependent operator", "", "aten._local_scalar_dense.default", "x.split(n.tolist())", "n.tolist()",
     "list-for-python"),
    ("Data dependent operator", "", "aten.equal.default", "if torch.equal(a, b):\n    a = b", "torch.equal(a, b)",
     "data-dependent-result"),
]  # fmt: skip


# What is said of the commonest types where no recipe knows the statement, in the place of PyTorch's text.
GENERAL = {BRANCH: "data-dependent-branch", SHAPE: "dynamic-shape"}


@pytest.mark.parametrize(("gb_type", "explanation", "context", "code", "expression", "recipe_id"), CHOICES)
def test_a_recipe_fits_by_types_operation_and_how_the_statement_is_written(
    gb_type: str, explanation: str, context: str, code: str, expression: str, recipe_id: str | None
) -> None:
    found = find(
        BrokenStatement(gb_type, explanation, context, "/project/unique/model.py:f", read_statement(code, expression))
    )

    general = GENERAL.get(gb_type, "") if recipe_id is None else recipe_id
    assert (found.id if found is not None else "") == general


@pytest.mark.parametrize(
    ("gb_type", "code"),
    [
        (SHAPE, "indices = torch.nonzero(attention_mask.flatten()).flatten()"),
        (SHAPE, "rows = torch.where(mask)[0]"),
        (ITEM, "max_seqlen_in_batch = seqlens_in_batch.max().item()"),
        (ITEM, "query = query[: lengths.max().item()]"),
    ],
)
def test_unpadding_for_flash_attention_is_known_by_its_place(gb_type: str, code: str) -> None:
    for place in ("/env/transformers/modeling_flash_attention_utils.py:f", "/hub/modeling_own.py:_get_unpad_data"):
        found = find(BrokenStatement(gb_type, "", "aten.nonzero.default", place, read_statement(code, "")))

        assert found is not None
        assert found.id == "flash-attention-unpad"
        assert ".item()" not in found.action


@pytest.mark.parametrize(
    ("expression", "filled"),
    [
        ("x.sum()", "Replace `x.sum()` by y."),
        ("x.sum(\n    dim=0,\n)", "Replace `x.sum( dim=0, )` by y."),
        ("", "Replace this expression by y."),
        (None, "Replace this expression by y."),
        ("{expression}", "Replace `{expression}` by y."),
        ("if torch.isnan(x).any():", "Replace `torch.isnan(x).any()` by y."),
        ("elif x > 0:", "Replace `x > 0` by y."),
        ("while x.sum() < 1:  # slowly", "Replace `x.sum() < 1` by y."),
        ("assert x.ok, 'no'", "Replace `x.ok` by y."),
        ("else:", "Replace `else:` by y."),
        (f"log.warn({'x' * 80!r})", "Replace `log.warn(...)` by y."),
        ("log.warn('`x` is odd')", "Replace `log.warn(...)` by y."),
        ("s == '`'", "Replace `s == '''` by y."),
    ],
)
def test_fill(expression: str | None, filled: str) -> None:
    assert fill("Replace `{expression}` by y.", expression) == filled


def test_every_file_of_the_cookbook_is_a_recipe() -> None:
    assert len(ALL) >= 50
    assert {path.name for path in COOKBOOK.iterdir()} == {f"{name}.md" for name in IDS}
    assert recipes() is ALL


RECIPE = """\
---
gb_types:
  - Data-dependent branching
  - 'autograd.grad: what''s new'
match: '\\bany\\b: `x`'
shape: updates
rank: 2
link: https://docs.pytorch.org/docs/stable/
---

# Choose with torch.where

The condition is
a tensor.

It has no value yet.

## What to do

Choose instead of `{expression}`.

## Before

```python
def f(x):
    ## no section
    return x
```

## After

```python
def f(x): return x + 0
```

## Inputs

```python
(torch.ones(3),)
```
"""


def written_recipe(folder: Path, text: str) -> Path:
    path = folder / "some-id.md"
    path.write_text(text)
    return path


def test_a_recipe_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_recipe(written_recipe(tmp_path, RECIPE)) == Recipe(
        id="some-id",
        title="Choose with torch.where",
        gb_types=("Data-dependent branching", "autograd.grad: what's new"),
        match=r"\bany\b: `x`",
        shape="updates",
        rank=2,
        link="https://docs.pytorch.org/docs/stable/",
        why="The condition is a tensor. It has no value yet.",
        action="Choose instead of `{expression}`.",
        before="def f(x):\n    ## no section\n    return x\n",
        after="def f(x): return x + 0\n",
        inputs="(torch.ones(3),)",
    )


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("---\ngb_types", "gb_types", "begins with a head between two lines ---"),
        ("# Choose with torch.where\n", "", "a title after #"),
        ("rank: 2", "rank = 2", "the line 'rank = 2' of the head is neither"),
        ("rank: 2", "rank: high", "Expected `int`, got `str` - at `$.rank`"),
        ("rank: 2", "rnak: 2", "'rnak' in the head is none of gb_types, kind, match"),
        ("rank: 2", "shape: updates", "'shape' is twice in the head"),
        ("rank: 2", "kind: effect", "Invalid enum value 'effect' - at `$.kind`"),
        ("rank: 2\n", "rank: 2\n  - 3\n", "the line '  - 3' of the head is neither"),
        ("`x`'\n", "`x`\n", "has no quote at its end"),
        ("shape: updates", "shape: upsets", "the shape 'upsets' is none of asks_for_address"),
        ("link: https://docs.pytorch.org/docs/stable/\n", "", "missing required field `link`"),
        ("## What to do", "## Remedy", "the section 'Remedy' is none of What to do, Before"),
        ("```python\ndef f(x): return x + 0\n```\n", "", "missing required field `after`"),
        ("def f(x): return x + 0\n```\n", "def f(x): return x + 0\n", "'After' has text that is not read: '```python'"),
        ("## After\n", "", "'Before' has code that is not read"),
        ("## Inputs\n", "## Inputs\n\nThree ones.\n", "'Inputs' has text that is not read: 'Three ones.'"),
    ],
)
def test_a_file_that_is_no_recipe_is_told_in_one_line(right: str, wrong: str, said: str, tmp_path: Path) -> None:
    assert RECIPE.count(right) == 1
    path = written_recipe(tmp_path, RECIPE.replace(right, wrong))

    with pytest.raises(DynalyzeError) as error:
        read_recipe(path)

    told = str(error.value)
    assert told.startswith(f"{path}: ") and said in told and "\n" not in told


@pytest.mark.parametrize("recipe", ALL, ids=IDS)
def test_examples_declare_what_they_import(recipe: Recipe) -> None:
    imported = set()
    for node in ast.walk(ast.parse(recipe.before + recipe.after)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) - {"torch"} <= set(recipe.requires)


def installed_types() -> set[str]:
    """The types that the registry of the installed torch has."""
    spec = importlib.util.find_spec("torch")  # looks for the package, does not import it
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    registry = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text())
    return {entry["Gb_type"] for entries in registry.values() for entry in entries[:1]}


def test_types_are_those_of_the_newest_torch_or_of_the_installed_one() -> None:
    known = installed_types()
    for each in newest().entries.values():
        known |= {each.gb_type, *each.former}

    unknown = {gb_type: r.id for r in ALL for gb_type in r.gb_types if gb_type not in known}
    assert unknown == {}


def unanswered(types: Iterable[str]) -> list[str]:
    answered = {gb_type.strip() for recipe in ALL for gb_type in recipe.gb_types} | set(reasons_without_recipe())
    return sorted({gb_type.strip() for gb_type in types} - answered)


def test_every_type_of_the_newest_torch_has_a_recipe_or_a_reason() -> None:
    assert unanswered(entry.gb_type for entry in newest().entries.values()) == []


def test_a_type_of_the_installed_torch_without_an_answer_is_told() -> None:
    """Not a failure: a new torch brings new types, and somebody has to be told of them."""
    if lacking := unanswered(installed_types()):
        version = importlib.metadata.version("torch")
        pytest.skip(f"torch {version} has {len(lacking)} types that the cookbook does not answer: {lacking}")


def test_a_reason_is_for_a_type_that_no_recipe_answers() -> None:
    reasons = reasons_without_recipe()
    assert not [r.id for r in ALL for gb_type in r.gb_types if gb_type in reasons]
    assert len(reasons) > 300 and all(reason.endswith(".") for reason in reasons.values())


def broken(statement: str, gb_type: str, hints: list[str], context: str = "") -> GraphBreak:
    return GraphBreak("b1", None, gb_type, "split", Location("/model.py", 3, function="forward"), [], "", hints,
                      context=context, block=statement)  # fmt: skip


def test_a_setting_that_any_program_can_take_is_the_recipes_or_else_torchs_own_hint() -> None:
    scalars = "torch._dynamo.config.capture_scalar_outputs = True"
    hints = [f"Set `{scalars}` or `export TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1` to include these operations."]
    assert setting_of(broken("history.append(loss.item())", ITEM, hints)) == scalars
    assert setting_of(broken("print(x)", BUILTIN, [], "builtin print")) == (
        "torch._dynamo.config.reorderable_logging_functions.add(print)"
    )
    assert setting_of(broken("x = y[z]", "A type that nobody knows", ["Change `config.this` to `that`."])) == ""


@pytest.mark.parametrize(
    ("recipe", "expression", "setting"),
    [
        ("logger", 'log.info("shape %s", x.shape)', "torch._dynamo.config.ignore_logging_functions.add(log.info)"),
        ("logger", "self.log.warning(x)", "torch._dynamo.config.ignore_logging_functions.add(self.log.warning)"),
        ("logger", "", "torch._dynamo.config.ignore_logging_functions.add(logger.debug)"),
        ("print", "print(x)", "torch._dynamo.config.reorderable_logging_functions.add(print)"),
    ],
)
def test_a_setting_names_the_method_that_the_program_calls(recipe: str, expression: str, setting: str) -> None:
    place = Location("/model.py", 3, function="forward")
    found, known = GraphBreak("b1", None, "t", "split", place, [], expression=expression), find_by_id(recipe)
    assert known is not None and config_of(known, found) == setting


def test_no_setting_is_offered_where_it_is_known_to_end_nothing() -> None:
    def config(gb_type: str, block: str, expression: str, context: str = "", explanation: str = "") -> str:
        found = broken(block, gb_type, [], context)
        found.expression, found.explanation = expression, explanation
        recipe = recipe_of(found)
        return config_of(recipe, found) if recipe is not None else "no recipe"

    item, count, bins = "n = x.item()", "c = torch.bincount(x)", "aten.bincount.default"
    assert "capture_scalar_outputs" in config(ITEM, f"{item}\nreturn x * n", "x.item()")
    assert config(ITEM, f"{item}\nif n > 1:\n    print(n)", "x.item()") == "", "the `if` breaks then"
    for below in (
        "for i in range(n):\n    x = x + i",
        "y = math.log(n)",
        "a = x.split(n)",
        "y = x[n - 1 : n + 2]",
        "k = max(n, 1)\nif k > 2: x = -x",
    ):
        assert config(ITEM, f"{item}\n{below}", "x.item()") == "", "torch was asked: it cannot"
    for below in ("k = min(3 * n, 9)\ny = x.topk(k)", "y = x[:n]", "y = torch.arange(n)", "assert n > 1"):
        assert "capture_scalar_outputs" in config(ITEM, f"{item}\n{below}", "x.item()"), "and this it can"
    assert config(ITEM, "p = math.exp(min(loss.item(), 20))", "loss.item()") == "", "so does `exp`"
    assert "capture_dynamic" in config(SHAPE, count, "torch.bincount(x)", bins)
    assert config(SHAPE, f"{count}.tolist()", "torch.bincount(x)", bins) == "", "with both captured torch raises"
    assert config(BUILTIN, "print(n)", "print(n)", "builtin print", "argument types ['float']") == ""
    assert config(BUILTIN, "print(s)", "print(s)", "builtin print", "argument types ['str', 'tuple']") == ""


def test_a_slice_that_needs_no_decision_is_told_and_only_emptiness_is_left_out() -> None:
    def said(below: str) -> str:
        return fill("{sized}", "x", read_statement(f"rows = torch.where(c)[0]\n{below}", "torch.where(c)"))

    cut = said("if rows.numel() > most:\n    rows, other = rows[:most], other[:most]")
    assert "`if rows.numel() > most`" in cut and "`rows[:most]` needs no `if`" in cut and "eave" not in cut
    assert "eave `if len(rows) == 0` out" in said("if len(rows) == 0:\n    y = y * 0")
    assert "eave" not in said("if len(rows) > 3:\n    y = y * 0")
    for kind in ("isinstance(rows, Edges)", "not isinstance(rows, Edges)", "rows is not None"):
        assert said(f"if {kind}:\n    y = y * 0") == ""


def test_of_different_values_nothing_is_masked() -> None:
    recipe = find_by_id("dynamic-shape")
    assert recipe is not None
    assert "torch.where" not in fill(recipe.action, "torch.unique(x)") and "torch.where" in fill(recipe.action, "x[m]")


def test_what_is_computed_of_a_number_needs_it_too() -> None:
    code = read_statement("n = int(p.sum())\nk = min(3 * n, 9)\nhard, _ = x.topk(k)", "int(p.sum())")
    assert "x.topk(k)" in needing_a_number(code)
    computed = read_statement("n = int(p.sum())\ny = x * n\nz = y.view(4, 2)", "int(p.sum())")
    assert needing_a_number(computed) == "", "a tensor is no number"


def test_a_line_of_pythons_own_library_is_told_at_the_line_that_leads_there() -> None:
    # GIVEN `logger.info`, whose own code is traced behind another break
    own = Location("/net.py", 7, function="forward", code='    logger.info("took %.3f", seconds)')
    within = Location(
        "/usr/lib/python3.11/logging/__init__.py", 1488, function="info", code="if self.isEnabledFor(INFO):"
    )
    found = GraphBreak(
        "b1", None, "logging.Logger method not supported for non-export cases", "split", within, [own, within]
    )
    found.expression = "self.isEnabledFor(INFO)"
    report = empty_report()
    report.graph_breaks = [found]
    # THEN nothing names `self`, which the program does not have
    (told,) = judge(report)
    assert told.location == own and told.detail is not None
    assert told.detail.config == "torch._dynamo.config.ignore_logging_functions.add(logger.info)"
    assert "self" not in told.advice and 'logger.info("took %.3f", seconds)' in told.advice


def test_a_backend_that_fails_at_a_mask_is_told_at_the_innermost_function() -> None:
    # GIVEN a method and the one around it, for both of which the backend failed at the same line
    around, within = Location("/net.py", 3, function="forward"), Location("/net.py", 9, function="pad")
    said = "Backend compiler `inductor` failed with aten.nonzero.default. Adding a graph break."
    report = empty_report()
    report.graph_breaks = [
        GraphBreak("b1", "GB0219", "Backend compiler exception", "eager", around, [around], said),
        GraphBreak("b2", "GB0219", "Backend compiler exception", "eager", within, [around, within], said),
    ]
    found = {each.evidence[0]: each for each in judge(report)}
    assert (found["b1"].after, found["b2"].after) == ("b2", "")
    for each in found.values():
        assert each.detail is not None and "mask.nonzero()" in each.advice
        assert each.detail.config == "torch._dynamo.config.capture_dynamic_output_shape_ops = True"


def test_a_sparse_tensor_is_no_function_of_c_to_wrap() -> None:
    said = "Dynamo does not know how to trace the builtin `torch._VariableFunctionsClass.sparse_coo_tensor.` C/C++"
    found = broken("adj = torch.sparse_coo_tensor(index, ones)", "Attempted to call function marked as skipped", [], "")
    found.explanation = said
    recipe = recipe_of(found)
    assert recipe is not None and recipe.id == "sparse-tensor"
    found.explanation = said.replace("sparse_coo_tensor", "pack")
    other = recipe_of(found)
    assert other is not None and other.id != "sparse-tensor"


def test_what_a_scheduler_adds_to_a_step_is_told_with_the_step() -> None:
    place = Location("/train.py", 7, function="step", code="opt.step()")
    within = Location("/env/lib/python3.11/site-packages/torch/optim/optimizer.py", 79, function="wrapper")
    wrapped = "the function `Adam.step` in file `/env/lib/python3.11/site-packages/torch/optim/lr_scheduler.py`"
    report = empty_report()
    report.graph_breaks = [
        GraphBreak("b1", None, "Attempted to call function marked as skipped", "split", place, [place], wrapped),
        GraphBreak("b2", None, "Call to `torch._dynamo.graph_break()`", "split", place, [place, within]),
    ]
    for each in report.graph_breaks:
        each.expression = "opt.step()"
    (told,) = judge(report)
    assert (told.rule, told.evidence) == ("optimizer-step", ["b1", "b2"])


def test_breaks_in_what_a_tensor_subclass_does_at_each_operation_are_told_once_where_it_is_passed() -> None:
    call = Location("/train.py", 7, function="step", code="loss = compiled(image)")
    hook = Location("/env/lib/python3.11/site-packages/monai/data/meta_tensor.py", 9, function="__torch_function__")
    within = Location("/env/lib/python3.11/site-packages/monai/data/meta_obj.py", 20, function="copy_meta")
    of_torch = Location("/env/lib/python3.11/site-packages/torch/utils/_device.py", 5, function="__torch_function__")
    report = empty_report()
    report.graph_breaks = [
        GraphBreak("b1", None, "Unsupported attribute", "eager", within, [call, hook, within]),
        GraphBreak("b2", None, "Unsupported iterator", "split", hook, [call, hook]),
        GraphBreak("b3", None, "Unsupported attribute", "split", of_torch, [call, of_torch]),
    ]
    told = {each.rule: each for each in judge(report)}
    assert (told["tensor-subclass"].evidence, told["tensor-subclass"].location) == (["b1", "b2"], call)
    assert told["graph-break"].evidence == ["b3"]


def test_a_loop_over_values_has_no_setting() -> None:
    found = broken(
        "for i in batch.unique():\n    out.append(x[batch == i].mean(0))", SHAPE, [], "aten._unique2.default"
    )
    found.expression = "batch.unique()"
    recipe = recipe_of(found)
    assert (
        recipe is not None
        and config_of(recipe, found) == ""
        and "`batch.unique()`" in fill(recipe.action, "batch.unique()")
    )


def test_the_decision_on_the_size_that_a_setting_allows_is_named() -> None:
    made = "rows, slot = torch.where(chosen == i)\nif rows.numel() == 0:\n    continue\nout[rows] += expert(flat[rows])"
    found = broken(made, "Dynamic shape operator", [], "aten.nonzero.default")
    found.expression = "torch.where(chosen == i)"
    recipe = recipe_of(found)
    assert recipe is not None and recipe.id == "dynamic-shape"
    action = fill(recipe.action, found.expression, read_statement(found.block, found.expression))
    assert "`if rows.numel() == 0`" in action and "{" not in action
    other = read_statement(made.replace("rows.numel()", "flat.numel()"), found.expression)
    assert "below" not in fill(recipe.action, found.expression, other)


WITH_EXAMPLE = [rule for rule in rules() if rule.example is not None]


@pytest.mark.parametrize("rule", WITH_EXAMPLE, ids=lambda rule: rule.id)
def test_an_example_is_python_and_is_shown(rule: Rule) -> None:
    assert rule.example is not None
    for source in (rule.example.before, rule.example.after):
        ast.parse(source)
    shown = entry(rule.id)
    assert shown is not None and "What to do:" in shown
    assert rule.example.after.strip().splitlines()[0] in shown


def test_a_recipe_is_shown_beside_a_finding_of_its_id() -> None:
    for recipe in recipes():
        shown = entry(recipe.id) or ""
        assert " ".join(recipe.why.split()) in " ".join(shown.split()), recipe.id
