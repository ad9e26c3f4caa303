"""From words, globs, folders and TOML to the items of a sweep. The interpreter's answer is given, not asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dynalyze.capture.settings import CompileOptions, ModelOptions
from dynalyze.launch.spec import TargetSpec, read_target
from dynalyze.sweep import expand as expanding
from dynalyze.sweep.expand import Expanded, Interpreter, Request, expand
from dynalyze.sweep.records import Item, with_key
from dynalyze.sweep.settings import configurations, read_toml
from dynalyze.text.errors import UsageError

LLAMAS = ["hf:LlamaForCausalLM", "hf:LlamaModel"]
NAMES = {"hf:all": ["hf:BertModel", *LLAMAS], "hf:Llama*": LLAMAS, "timm:all": ["timm:resnet18"]}
OPTIONS = CompileOptions(backend="eager")
VERSIONS = {"python": "3.11.7", "torch": "2.13.0", "transformers": "5.23.0"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("models/b.py", "models/a.py", "models/notes.txt", "models/deep/c.py", "models/__init__.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("model = None\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(expanding, "inquire", _inquire)
    return tmp_path


def _inquire(python: Any, options: Any, patterns: Any, names: Any) -> Interpreter:
    listed = {pattern: NAMES.get(pattern, []) for pattern in patterns}
    return Interpreter(dict(VERSIONS), listed)


def items(*targets: str, **request: Any) -> Expanded:
    return expand(Request(targets, request.pop("options", OPTIONS), lambda spec: spec, **request))


def shown(*targets: str, **request: Any) -> list[tuple[str, str]]:
    return [(item.target, item.configuration) for item in items(*targets, **request).items]


def plain(*names: str) -> list[tuple[str, str]]:
    return [(name, "default") for name in names]


def test_a_folder_is_its_python_files_in_order(folder: Path) -> None:
    assert shown("models") == plain("models/a.py", "models/b.py")


def test_architectures_are_listed_by_the_interpreter(folder: Path) -> None:
    assert shown("hf:all") == plain("hf:BertModel", "hf:LlamaForCausalLM", "hf:LlamaModel")
    assert shown("timm:all", "hf:Llama*") == plain("timm:resnet18", *LLAMAS)
    assert shown("hf:Llama*", "pack.mod:Net") == plain("hf:LlamaForCausalLM", "hf:LlamaModel", "pack.mod:Net")


@pytest.mark.parametrize("target", ["nothing.py", "models/*.pyx", "models/deep/none", "empty", "hf:Nothing*", "hf:"])
def test_what_stands_for_nothing_is_refused(folder: Path, target: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises(UsageError):
        items(target)


def test_an_item_named_twice_runs_once(folder: Path) -> None:
    found = items("hf:Llama*", "hf:LlamaModel", "hf:BertModel")
    assert [item.target for item in found.items] == ["hf:LlamaForCausalLM", "hf:LlamaModel", "hf:BertModel"]


def test_each_target_in_each_configuration(folder: Path) -> None:
    found = items("hf:LlamaModel", "models/a.py", configurations=configurations("default,dynamic+train"))
    assert [(item.target, item.configuration) for item in found.items] == [
        ("hf:LlamaModel", "default"),
        ("hf:LlamaModel", "dynamic=on+train"),
        ("models/a.py", "default"),
        ("models/a.py", "dynamic=on+train"),
    ]
    assert found.items[1].settings == {"dynamic": "on", "train": True}
    assert found.items[1].options == CompileOptions(backend="eager", dynamic="on", train=True)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("fullgraph", {"fullgraph": True}),
        ("train+dynamic=mark", {"train": True, "dynamic": "mark"}),
        ("backend=inductor", {"backend": "inductor"}),
        ("max-autotune", {"mode": "max-autotune", "backend": "inductor"}),
        ("static", {"dynamic": "off"}),
    ],
)
def test_configurations_by_name(text: str, settings: dict[str, Any]) -> None:
    assert list(configurations(text).values()) == [settings]


@pytest.mark.parametrize("text", ["", "regional", "dynamic=on+static", "fulgraph", "train+eval", "backend="])
def test_configurations_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        configurations(text)


class TestKeys:
    """The key holds all that decides a row, and nothing else."""

    def key(self, item: Item, versions: dict[str, Any] = VERSIONS, **shown: Any) -> str:
        return with_key(item, versions, shown).key

    def test_same_item_same_key(self, folder: Path) -> None:
        assert self.key(self.item("models/a.py")) == self.key(self.item("models/a.py"))

    def item(self, target: str = "hf:LlamaModel", **options: Any) -> Item:
        return Item(target, read_target(target, None, ()), CompileOptions(**{"backend": "eager", **options}))

    @pytest.mark.parametrize(
        "options", [{"dynamic": "on"}, {"backend": "inductor"}, {"train": True}, {"train": False}, {"fullgraph": True}]
    )
    def test_each_option_counts(self, options: dict[str, Any]) -> None:
        assert self.key(self.item(**options)) != self.key(self.item())

    def test_the_names_of_given_options_do_not_count(self) -> None:
        assert self.key(self.item(given=("--dynamic",))) == self.key(self.item())

    def test_each_way_of_building_a_model_counts(self) -> None:
        spec = TargetSpec("library", "hf:LlamaModel", name="LlamaModel", library="hf", asked=ModelOptions())
        keys = {
            self.key(Item("hf:LlamaModel", replace(spec, asked=asked), OPTIONS))
            for asked in (
                ModelOptions(),
                ModelOptions(batch=4),
                ModelOptions(init="real"),
                ModelOptions(cold=True),
                ModelOptions(phase="decode"),
            )
        }
        assert len(keys) == 5

    @pytest.mark.parametrize("name", list(VERSIONS))
    def test_each_version_counts(self, name: str) -> None:
        assert self.key(self.item(), {**VERSIONS, name: "other"}) != self.key(self.item())

    def test_the_content_of_a_file_counts_and_its_place_on_a_node_does_not(self, folder: Path) -> None:
        item = with_key(self.item("models/a.py"), VERSIONS, {})
        assert item.at("/elsewhere/a.py", "/elsewhere").key == item.key
        (folder / "models/a.py").write_text("model = 1\n", encoding="utf-8")
        assert self.key(self.item("models/a.py")) != item.key

    def test_what_may_be_shown_counts(self) -> None:
        assert self.key(self.item(), no_source=True) != self.key(self.item(), no_source=False)

    def test_files_of_items_have_readable_and_distinct_names(self) -> None:
        one = with_key(self.item(dynamic="on"), VERSIONS, {})
        named = replace(one, configuration="dynamic=on")
        assert named.file_stem == f"LlamaModel-dynamic=on-{one.key[:8]}"
        assert replace(one, target="../../etc/x y.py:Net").file_stem == f"etc_x_y.py_Net-{one.key[:8]}"


PLAN = """
[[item]]
target = "hf:Llama*"
batch = 4
attn-implementation = "eager"

[[item]]
target = "models/a.py:Net"
name = "long"
input = "torch.randn(2, 512)"
configurations = ["fast"]
eval = true

[configurations.fast]
dynamic = "on"
fullgraph = true

[configurations.plain]
"""


class TestToml:
    def write(self, folder: Path, text: str) -> str:
        (folder / "plan.toml").write_text(text, encoding="utf-8")
        return "plan.toml"

    def test_items_and_their_configurations(self, folder: Path) -> None:
        found = items(self.write(folder, PLAN)).items
        assert [(item.target, item.configuration) for item in found] == [
            ("hf:LlamaForCausalLM", "fast"),
            ("hf:LlamaForCausalLM", "plain"),
            ("hf:LlamaModel", "fast"),
            ("hf:LlamaModel", "plain"),
            ("models/a.py:Net", "long+fast"),
        ]
        assert found[0].spec.asked == ModelOptions(batch=4, attn_implementation="eager")
        assert found[0].options == CompileOptions(backend="eager", dynamic="on", fullgraph=True)
        assert found[-1].spec.inputs == ("torch.randn(2, 512)",)
        assert found[-1].options.train is False

    def test_configurations_of_the_command_line_take_the_place_of_the_files(self, folder: Path) -> None:
        found = shown(self.write(folder, PLAN), configurations=configurations("train"))
        assert found == [
            ("hf:LlamaForCausalLM", "train"), ("hf:LlamaModel", "train"), ("models/a.py:Net", "long+train"),
        ]  # fmt: skip

    def test_paths_are_relative_to_the_file(self, folder: Path) -> None:
        (folder / "models/plan.toml").write_text('[[item]]\ntarget = "a.py"\n', encoding="utf-8")
        assert shown("models/plan.toml") == plain("models/a.py")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[[items]]\ntarget = 'x'", "'items' is not known; did you mean item?"),
            ("[[item]]\ntarget = 'x'\nbatchs = 2", "item 1: 'batchs' is not known; did you mean batch?"),
            ("[[item]]\nname = 'x'", "item 1: it needs a target"),
            ("[[item]]\ntarget = 'x'\nbatch = 0", "batch is a whole number above zero, not 0"),
            ("[[item]]\ntarget = 'x'\nbatch = true", "batch is a whole number above zero, not True"),
            ("[[item]]\ntarget = 'x'\ndynamic = 'of'", "dynamic is one of auto, on, off, mark, not 'of'"),
            ("[[item]]\ntarget = 'x'\nfullgraph = 1", "fullgraph is true or false, not 1"),
            ("[[item]]\ntarget = 'x'\ntrust-remote-code = true", "given on the command line alone"),
            ("[[item]]\ntarget = 'x'\nconfigurations = ['no']", "no configuration is called 'no'"),
            ("[[item]]\ntarget = 'x'\n[configurations.a]\nbackends = 'x'", "configurations.a: 'backends' is not known"),
            ("", "it names no target"),
            ("[[item", "plan.toml: "),
        ],
    )
    def test_mistakes_are_one_line_with_their_place(self, folder: Path, text: str, said: str) -> None:
        with pytest.raises(UsageError) as raised:
            read_toml(Path(self.write(folder, text)))
        assert said in str(raised.value)

    def test_a_target_that_is_not_there_names_its_entry(self, folder: Path) -> None:
        with pytest.raises(UsageError, match=r"item 1: no such file: gone\.py"):
            items(self.write(folder, '[[item]]\ntarget = "gone.py"\n'))
