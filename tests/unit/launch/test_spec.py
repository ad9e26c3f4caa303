"""TARGET on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynalyze.capture.settings import ModelOptions
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.text.errors import UsageError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with some programs, as the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("")
    (tmp_path / "a:b.py").write_text("")
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "net é.py").write_text("")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("")
    (tmp_path / "data").mkdir()
    (tmp_path / "package").mkdir()
    for name in ("__init__", "__main__", "part"):
        (tmp_path / "package" / f"{name}.py").write_text("")
    return tmp_path


def refused(*args: object) -> str:
    with pytest.raises(UsageError) as error:
        read_target(*args)  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("text", ["model.py", "./model.py", "my models/net é.py", "a:b.py"])
def test_a_path_is_kept_as_it_was_written(text: str) -> None:
    found = read_target(text, None, ())
    assert (found.mode, found.spec, found.path) == ("script", text, text)


def test_a_module_with_its_arguments() -> None:
    found = read_target(None, "package.sub", ("a", "b"))
    assert (found.mode, found.module, found.spec, found.arguments) == (
        "module",
        "package.sub",
        "package.sub",
        ("a", "b"),
    )


def test_what_stands_where_target_would_is_the_modules_first_argument() -> None:
    assert read_target("first", "package", ("second",)).arguments == ("first", "second")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none.py", "no such file: none.py"),
        ("none.py:Net", "no such file: none.py"),
        ("", "no such file"),
        (":Net", "no such file"),
        ("data", "is a directory; name a Python file in it"),
        ("package", "package is a directory; run the package with -m package"),
        ("package.part", "no such file: package.part; to run the module: -m package.part"),
        ("package.gone", "no such file: package.gone"),
        ("app", "__main__.py"),
        ("model.py:", "after the colon"),
        ("model.py:2nd", "after the colon"),
        ("model.py:a b", "after the colon"),
        ("model.py:Net()", "after the colon"),
        ("model.py:Net.", "after the colon"),
        ("hf:", "hf: needs a name"),
        ("hf:  ", "hf: needs a name"),
        ("hf:all", "names many models"),
        ("hf:Llama*", "names many models"),
        ("hf:[AB]Model", "names many models"),
    ],
)
def test_what_cannot_be_run(text: str, says: str) -> None:
    assert says in refused(text, None, ())


@pytest.mark.parametrize("module", ["", "a b", "a..b", ".a", "a.", "model.py:x", "a-b", "../a"])
def test_what_is_no_name_of_a_module(module: str) -> None:
    assert "not the name of a module" in refused(None, module, ())


@pytest.mark.parametrize(
    ("expression", "says"),
    [("", "empty"), ("  ", "empty"), ("x = 1", "x = 1"), ("torch.(", "torch.("), ("\x00", "null")],
)
def test_inputs_that_are_none(expression: str, says: str) -> None:
    assert says in refused("model.py:Net", None, (), (expression,))


@pytest.mark.parametrize(("text", "module"), [("model.py", None), (None, "package")])
def test_inputs_belong_to_objects(text: str | None, module: str | None) -> None:
    assert "--input" in refused(text, module, (), ("torch.ones(3)",))


@pytest.mark.parametrize("name", ["LlamaModel", "llama", "org/name", "./checkpoint", "data"])
def test_a_model_of_transformers(name: str) -> None:
    found = read_target(f"hf:{name}", None, ())
    assert found == TargetSpec("library", f"hf:{name}", name=name, library="hf", asked=ModelOptions())
    assert found.rebuilt


def test_a_model_of_transformers_brings_its_own_inputs_and_takes_no_arguments() -> None:
    assert "--input is not for hf:LlamaModel" in refused("hf:LlamaModel", None, (), ("torch.ones(2)",))
    assert "hf:LlamaModel takes no arguments" in refused("hf:LlamaModel", None, ("--epochs",))
    assert "-m pkg and hf:LlamaModel exclude each other" in refused("hf:LlamaModel", "pkg", ())


@pytest.mark.parametrize(
    ("text", "module", "stem"),
    [
        ("hf:LlamaModel", None, "LlamaModel"),
        ("hf:org/name-1.5b", None, "org_name-1.5b"),
        ("hf:./data", None, "data"),
        ("hf:../x/y", None, "_x_y"),
        ("hf:...", None, "model"),
        ("model.py", None, "model"),
        ("my models/net é.py", None, "net_é"),
        ("model.py:Net", None, "model.Net"),
        ("model.py:nets.Net", None, "model.nets.Net"),
        ("package.sub:Net", None, "package.sub.Net"),
        (None, "package.sub", "package.sub"),
    ],
)
def test_the_stem_is_a_name_for_files(text: str | None, module: str | None, stem: str) -> None:
    found = read_target(text, module, ()).stem
    assert found == stem
    assert "/" not in found
