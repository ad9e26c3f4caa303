"""The options for models of libraries on the command line: what they ask for, and where they are refused."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
import pytest

from dynalyze.capture.libraries import library_facts
from dynalyze.capture.settings import MODEL_OPTIONS, ModelBuild, ModelOptions, names_of
from dynalyze.cli.bench import bench
from dynalyze.cli.explain import explain
from dynalyze.cli.options import with_model_options
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.text.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("")


def asked(command: click.Command, *words: str, names: tuple[str, ...] = MODEL_OPTIONS) -> TargetSpec:
    """What the command would run, without running it."""
    context = command.make_context(command.name, list(words))
    return with_model_options(context, read_target(context.params["target"], None, ()), names)


def test_every_option_is_asked_for() -> None:
    words = (
        "hf:LlamaModel --full-size --weights --trust-remote-code --init real --attn-implementation sdpa --batch 3 "
        "--sequence 40 --phase decode --static-cache --new-tokens 5 --cold"
    )
    expected = ModelOptions(
        full_size=True, weights=True, trust_remote_code=True, init="real", attn_implementation="sdpa", batch=3,
        sequence=40, phase="decode", static_cache=True, new_tokens=5, cold=True,
    )  # fmt: skip
    assert asked(explain, *words.split()).asked == expected
    changed = {name for name, value in asdict(expected).items() if value != getattr(ModelOptions(), name)}
    assert changed == library_facts("hf").options


def test_a_library_takes_its_own_options_alone() -> None:
    assert asked(
        explain, *["timm:resnet18", "--features", "--size", "64", "--size", "96", "--batch", "3"]
    ).asked == ModelOptions(features=True, size=(64, 96), batch=3)
    for words, takers in ("timm:resnet18 --sequence 8", "hf:NAME"), ("hf:LlamaModel --features", "timm:NAME"):
        option = words.split()[1]
        with pytest.raises(UsageError) as refused:
            asked(explain, *words.split())
        assert str(refused.value) == f"{option} is for {takers} alone"
    with pytest.raises(UsageError, match=r"--phase decode is not for timm:resnet18: it has forward, train"):
        asked(explain, *["timm:resnet18", "--phase", "decode"])


def test_a_benchmark_asks_for_what_builds_the_model() -> None:
    words = "hf:LlamaModel --full-size --init real --batch 1,4 --phase prefill,decode"
    assert asked(bench, *words.split(), names=names_of(ModelBuild)).asked == ModelOptions(full_size=True, init="real")


@pytest.mark.parametrize(
    "words",
    [
        "--full-size", "--weights", "--trust-remote-code", "--init fast", "--attn-implementation eager", "--batch 2",
        "--sequence 8", "--phase forward", "--static-cache", "--new-tokens 16", "--cold",
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["model.py", "model.py:Net"])
def test_other_targets_have_none_of_them(target: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        asked(explain, target, *words.split())
    assert f"{words.split()[0]} is for " in str(refused.value) and "hf:NAME" in str(refused.value)


def test_other_targets_of_a_benchmark_keep_phases_and_sizes() -> None:
    words = "model.py:Net --batch 2 --phase decode --static-cache"
    assert asked(bench, *words.split(), names=names_of(ModelBuild)).asked is None
    with pytest.raises(UsageError, match=r"--full-size is for .*hf:NAME"):
        asked(bench, "model.py:Net", "--full-size", names=names_of(ModelBuild))
