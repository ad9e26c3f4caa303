"""The cookbook without torch: its form, and how a recipe is chosen and filled."""

from __future__ import annotations

import ast
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

# What PyTorch 2.13 says about breaks, as its messages have it, and the recipe that must be chosen.
ITEM = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
SKIPPED = "Attempted to call function marked as skipped"
BUILTIN = "Failed to trace builtin operator"
ITEM_WHY = "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False."
ITEM_CONTEXT = "call_method TensorVariable() item () {}"
NONZERO_WHY = "Operator `aten.nonzero.default`'s output shape depends on input Tensor data."
CHOICES = [
    ("tensor-item", ITEM, ITEM_WHY, ITEM_CONTEXT, "scale = x.max().item()"),
    ("tensor-item", ITEM, ITEM_WHY, ITEM_CONTEXT, "loss = losses[name].sum().item()"),
    ("tensor-item", ITEM, ITEM_WHY, ITEM_CONTEXT, "total = x.view(-1).sum().item()"),
    ("tensor-item", ITEM, ITEM_WHY, ITEM_CONTEXT, "if float(x.mean()) > 0.5:"),
    ("data-dependent-slice", ITEM, ITEM_WHY, ITEM_CONTEXT, "x = x[:, : lengths.max().item()]"),
    ("data-dependent-slice", ITEM, ITEM_WHY, ITEM_CONTEXT, "return x[:n] * 2"),
    ("data-dependent-size", ITEM, ITEM_WHY, ITEM_CONTEXT, "m = torch.arange(lengths.max().item(), device=d)"),
    ("data-dependent-size", ITEM, ITEM_WHY, ITEM_CONTEXT, "return x.view(-1, int(n))"),
    ("tensor-range", ITEM, ITEM_WHY, ITEM_CONTEXT, "for i in range(steps.item()):"),
    ("tensor-index-of-list", ITEM, ITEM_WHY, ITEM_CONTEXT, "return self.experts[index](x)"),
    ("tensor-tolist", "Data dependent operator", "", "aten._local_scalar_dense.default", "a, b = sizes.tolist()"),
    ("data-dependent-if", "Data-dependent branching", "", "attempted to jump with TensorVariable()", "if x.sum() > 0:"),
    ("data-dependent-while", "Data-dependent branching", "", "", "while x.sum() > 0:"),
    ("overflow-clamp", "Data-dependent branching", "", "", "if torch.isinf(hidden_states).any():"),
    ("data-dependent-raise", "Data-dependent branching", "", "", "if (mask == 0).any():"),
    ("tensor-assert", "Data-dependent branching", "", "", "assert not torch.isnan(x).any()"),
    ("nonzero", "Dynamic shape operator", NONZERO_WHY, "aten.nonzero.default", "rows = mask.nonzero()"),
    ("boolean-mask", "Dynamic shape operator", NONZERO_WHY, "aten.nonzero.default", "return losses[losses > 0].mean()"),
    ("where-indices", "Dynamic shape operator", NONZERO_WHY, "aten.nonzero.default", "i, j = torch.where(expert_mask[e])"),
    ("print", BUILTIN, "Dynamo does not know how to trace builtin operator `print`", "builtin print [] False", "print(x)"),
    ("debugger", BUILTIN, "", "builtin breakpoint [] False", "breakpoint()"),
    ("open-file", BUILTIN, "", "builtin open [ConstantVariable] False", "with open(path) as handle:"),
    ("builtin-function", BUILTIN, "", "builtin vars [] False", "vars()"),
    ("warning", SKIPPED, "", "module: _warnings, qualname: warn, skip reason: C extension or builtin", "warnings.warn(m)"),
    ("clock", SKIPPED, "", "module: time, qualname: sleep, skip reason: C extension or builtin", "time.sleep(1)"),
    ("c-extension", SKIPPED, "", "module: fastops, qualname: run, skip reason: C extension or builtin", "fastops.run(x)"),
    ("skipped-function", SKIPPED, "", "module: concurrent.futures, qualname: wait, skip reason: MOD_SKIPLIST", "wait(x)"),
    ("call-stack", SKIPPED, "", "module: sys, qualname: _getframe, skip reason: C extension or builtin", "inspect.stack()"),
]  # fmt: skip


@pytest.mark.parametrize(("recipe_id", "gb_type", "explanation", "context", "code"), CHOICES)
def test_most_specific_recipe_is_chosen(
    recipe_id: str, gb_type: str, explanation: str, context: str, code: str
) -> None:
    found = find(gb_type, match_text(gb_type, explanation, context, code, "/project/model.py"))

    assert found is not None
    assert found.id == recipe_id


@pytest.mark.parametrize("gb_type", ["Dynamic shape operator", ITEM])
def test_unpadding_for_flash_attention_is_known_by_its_file(gb_type: str) -> None:
    file = "/env/site-packages/transformers/modeling_flash_attention_utils.py"
    found = find(gb_type, match_text(gb_type, "", "", "max_seqlen = seqlens.max().item()", file))

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
    ],
)
def test_fill(expression: str | None, filled: str) -> None:
    assert fill("Replace `{expression}` by y.", expression) == filled


def test_fill_cuts_long_expressions() -> None:
    filled = fill("Drop `{expression}`.", "f(" + "argument, " * 40 + ")")

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
    registry = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text())
    known = {entry["Gb_type"] for entries in registry.values() for entry in entries}

    unknown = {gb_type: r.id for r in ALL for gb_type in r.gb_types if gb_type not in known}
    assert unknown == {}


def test_graph_break_page() -> None:
    assert (
        graph_break_page("GB0059") == "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html"
    )


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
