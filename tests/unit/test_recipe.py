"""The cookbook without torch: its form, and how a recipe is chosen and filled."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynalyze.rules.recipe import Recipe, fill, find, find_by_id, graph_break_page, match_text, recipes

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

# A line of user code with such a break, and the recipe it must get.
READS = [
    ("scale = x.max().item()", "tensor-item"),
    ("loss = losses[name].sum().item()", "tensor-item"),
    ("total = x.view(-1).sum().item()", "tensor-item"),
    ("if float(x.mean()) > 0.5:", "tensor-item"),
    ("x = x[:, : lengths.max().item()]", "data-dependent-slice"),
    ("return x[:n] * 2", "data-dependent-slice"),
    ("keep = torch.arange(lengths.max().item(), device=d)", "data-dependent-size"),
    ("return x.view(-1, int(n))", "data-dependent-size"),
    ("for i in range(steps.item()):", "tensor-range"),
    ("return self.experts[index](x)", "tensor-index-of-list"),
]
BRANCHES = [
    ("if x.sum() > 0:", "data-dependent-if"),
    ("while x.sum() > 0:", "data-dependent-while"),
    ("if torch.isinf(hidden_states).any():", "overflow-clamp"),
    ("if (mask == 0).any():", "data-dependent-raise"),
    ("assert not torch.isnan(x).any()", "tensor-assert"),
]
SHAPES = [
    ("rows = mask.nonzero()", "nonzero"),
    ("return losses[losses > 0].mean()", "boolean-mask"),
    ("i, j = torch.where(expert_mask[e])", "where-indices"),
]
CALLS = [
    ("module: _warnings, qualname: warn, skip reason:", "warnings.warn(text)", "warning"),
    ("module: _warnings, qualname: _filters_mutated, skip reason:", "", "warning-filter"),
    ("module: time, qualname: sleep, skip reason:", "time.sleep(1)", "clock"),
    ("module: posix, qualname: getpid, skip reason:", "os.getpid()", "operating-system"),
    ("module: sys, qualname: _getframe, skip reason:", "inspect.stack()", "call-stack"),
    ("module: fastops, qualname: run, skip reason:", "fastops.run(x)", "c-extension"),
]
BUILTINS = [
    ("builtin print [] False", "print(x)", "print"),
    ("builtin breakpoint [] False", "breakpoint()", "debugger"),
    ("builtin open [] False", "with open(path) as handle:", "open-file"),
    ("builtin str [] False", "name = str(x)", "tensor-text"),
    ("builtin globals [] False", "globals()", "builtin-function"),
]
CHOICES = [
    *[(ITEM, ITEM_WHY, ITEM_CONTEXT, code, name) for code, name in READS],
    *[(BRANCH, BRANCH_WHY, "attempted to jump with TensorVariable()", code, name) for code, name in BRANCHES],
    *[(SHAPE, "Operator `aten.nonzero.default`", "aten.nonzero.default", code, name) for code, name in SHAPES],
    *[(SKIPPED, C_WHY, context + " C extension or builtin", code, name) for context, code, name in CALLS],
    *[(BUILTIN, "Dynamo does not know how", context, code, name) for context, code, name in BUILTINS],
    (SKIPPED, "marked", "module: torch.nn.utils.rnn, qualname: pack", "pack(x)", "skipped-function"),
    ("Data dependent operator", "", "aten._local_scalar_dense.default", "sizes.tolist()", "tensor-tolist"),
]


@pytest.mark.parametrize(("gb_type", "explanation", "context", "code", "recipe_id"), CHOICES)
def test_most_specific_recipe_is_chosen(
    gb_type: str, explanation: str, context: str, code: str, recipe_id: str
) -> None:
    found = find(gb_type, match_text(gb_type, explanation, context, code, "/project/model.py"))

    assert found is not None
    assert found.id == recipe_id


@pytest.mark.parametrize(
    ("gb_type", "code"),
    [
        (SHAPE, "indices = torch.nonzero(attention_mask.flatten()).flatten()"),
        (SHAPE, "rows = torch.where(mask)[0]"),
        (ITEM, "max_seqlen_in_batch = seqlens_in_batch.max().item()"),
        (ITEM, "query = query[: lengths.max().item()]"),
    ],
)
def test_unpadding_for_flash_attention_is_known_by_its_file(gb_type: str, code: str) -> None:
    file = "/env/site-packages/transformers/modeling_flash_attention_utils.py"
    found = find(gb_type, match_text(gb_type, "", "aten.nonzero.default", code, file))

    assert found is not None
    assert found.id == "flash-attention-unpad"
    assert ".item()" not in found.action


def test_consequences_are_marked_as_such() -> None:
    for gb_type in ("graph break in loop", "Graph break under GenericContextWrappingVariable"):
        found = find(gb_type, match_text(gb_type, "", "", "print(x)", "model.py"))
        assert found is not None
        assert found.kind == "consequence"


def test_unknown_type_has_no_recipe() -> None:
    assert find("Nobody has seen this", "Nobody has seen this\n\n\n\n") is None


def test_find_by_id() -> None:
    assert [find_by_id(name) for name in IDS] == list(ALL)
    assert find_by_id("no-such-recipe") is None


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


def test_fill_cuts_long_expressions() -> None:
    filled = fill("Drop `{expression}`.", "(" + "argument, " * 40 + ")")

    assert len(filled) < 100
    assert filled.endswith(" ...`.")


def test_fill_leaves_an_action_without_placeholder() -> None:
    assert fill("Move the class out.", "class A: ...") == "Move the class out."


def test_ids_are_unique_sorted_slugs() -> None:
    assert sorted(set(IDS)) == IDS
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in IDS)


def test_every_recipe_is_found_from_its_module() -> None:
    assert len(ALL) >= 50
    assert recipes() is ALL


@pytest.mark.parametrize("recipe", ALL, ids=IDS)
def test_texts_are_complete(recipe: Recipe) -> None:
    assert recipe.title[0].isupper()
    assert not recipe.title.endswith(".")
    assert len(recipe.title) <= 80
    assert recipe.why.endswith(".")
    assert 1 <= len(re.findall(r"\.(\s|$)", recipe.why)) <= 3
    assert recipe.action.endswith(".")
    assert recipe.action[0].isupper()
    assert recipe.action.count("{expression}") == recipe.action.count("`{expression}`") <= 1
    assert recipe.link.startswith(("https://docs.pytorch.org/", "https://meta-pytorch.github.io/"))
    assert bool(recipe.config_note) == bool(recipe.config)
    re.compile(recipe.match)


@pytest.mark.parametrize("recipe", ALL, ids=IDS)
def test_examples_define_f(recipe: Recipe) -> None:
    for source in (recipe.before, recipe.after):
        names = {getattr(node, "name", None) for node in ast.parse(source).body}
        names |= {
            t.id
            for n in ast.parse(source).body
            if isinstance(n, ast.Assign)
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        assert "f" in names
        assert max(map(len, source.splitlines())) <= 110
    assert recipe.before != recipe.after


@pytest.mark.parametrize("recipe", ALL, ids=IDS)
def test_examples_declare_what_they_import(recipe: Recipe) -> None:
    imported = set()
    for node in ast.walk(ast.parse(recipe.before + recipe.after)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.split(".")[0])
    assert imported - set(sys.stdlib_module_names) - {"torch"} <= set(recipe.requires)


def test_types_are_those_of_the_installed_torch() -> None:
    spec = importlib.util.find_spec("torch")  # looks for the package, does not import it
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    if tuple(map(int, importlib.metadata.version("torch").split(".")[:2])) < (2, 13):
        pytest.skip("the cookbook speaks of torch 2.13 and later")
    registry = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text())
    known = {entry["Gb_type"] for entries in registry.values() for entry in entries}

    unknown = {gb_type: r.id for r in ALL for gb_type in r.gb_types if gb_type not in known}
    assert unknown == {}


def test_graph_break_page() -> None:
    assert graph_break_page("GB0059") == "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"


def test_the_cookbook_opens_without_torch() -> None:
    code = "import sys; from dynalyze.rules.recipe import recipes; recipes(); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert done.stdout.strip() == "False"
