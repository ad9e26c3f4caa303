"""Which model a name means: a class of the installed transformers, a local folder, or an id on the hub.

Transformers imports lazily: its top module knows every public name and the module that holds it, so a list of all
architectures costs no import of any. What is a model is read from the class statements of these modules' sources.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import re
from pathlib import Path
from typing import Literal

from dynalyze.capture.inputs import Misuse
from dynalyze.capture.libraries.building import near

# What `all` lists: the bare architecture and the two heads that generate.
_ALL = re.compile(r"(Model|ForCausalLM|ForConditionalGeneration)$")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
_AUTO = ("AutoModel", "AutoBackbone", "AutoConfig")
_CLASS_STATEMENT = re.compile(r"^class (\w+)\(([^()]*)\):", re.MULTILINE)

# Bases from other modules: that of all models, models that architectures share, and the generic heads.
_FOREIGN_BASE = re.compile(r"Pre[Tt]rained\w*$|^[A-Z]\w*(Model|For[A-Z]\w+)$|^GenericFor")


def resolve(name: str) -> tuple[Literal["class", "folder", "hub"], str]:
    """A class, a model_type or a config of the installed transformers, a folder with a config.json, or a hub id.

    With it the class's name; else the path or the id, whose own config tells the class. Raises Misuse, with the nearest
    names, where there is nothing of that name.
    """
    if _is_model(name):
        return "class", name
    if name in _AUTO or re.match(r"AutoModel(For\w+)?$", name):
        raise Misuse(f"hf:{name} picks an architecture by a configuration; name the class itself, such as LlamaModel")
    base = base_model(name)
    if name.endswith("Config"):
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

        base = next((base_model(kind) for kind, config in CONFIG_MAPPING_NAMES.items() if config == name), base)
    if base is not None:
        return "class", base
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise Misuse(f"hf:{name}: the folder has no config.json")
        return "folder", str(folder)
    if _HUB_ID.match(name):
        return "hub", name
    hint = near(name, [*_models(), *_base_models()])
    raise Misuse(f"no model {name!r} in the installed transformers, and no such folder{hint}")


def listed(pattern: str) -> list[str]:
    """The names that `all` or a glob (`Llama*`, `*ForCausalLM`) stands for, sorted.

    `all` is every bare model and every one that generates. A class whose module needs a package that is not installed
    is listed like all others.
    """
    if pattern == "all":
        return [name for name in _models() if _ALL.search(name)]
    return [name for name in _models() if fnmatch.fnmatchcase(name, pattern)]


def family(name: str) -> str:
    """The folder of transformers that holds a class, which is its architecture's family; "" where there is none."""
    module = _modules().get(name, "")
    return module.split(".")[1] if module.startswith("models.") else ""


def base_model(model_type: str) -> str | None:
    """The class of an architecture's bare model: LlamaModel for llama."""
    return _base_models().get(model_type)


@functools.cache
def _models() -> list[str]:
    """The public model classes that can stand for themselves, sorted."""
    return sorted(filter(_is_model, _modules()))


def _is_model(name: str) -> bool:
    """Whether a public name is a model class; reads only its module."""
    module = _modules().get(name, "")
    return ".modeling_" in module and name in _models_in(module)


@functools.cache
def _modules() -> dict[str, str]:
    """The module of each public name, relative to transformers."""
    import transformers

    known = getattr(transformers, "_class_to_module", {})
    return {name: module for name, module in known.items() if not module.startswith("models.auto.")}


@functools.cache
def _models_in(module: str) -> frozenset[str]:
    """The classes of a modeling module that derive from PreTrainedModel and are not only bases, by its source alone."""
    import transformers

    try:
        source = Path(transformers.__path__[0], *module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    statements = list(_CLASS_STATEMENT.finditer(source))
    own = {statement[1] for statement in statements}
    derived: set[str] = set()
    models: set[str] = set()
    # In the order of the file: a base stands before what derives from it.
    for statement, following in zip(statements, [*statements[1:], None], strict=True):
        name = statement[1]
        parents = {parent.strip() for parent in statement[2].split(",")}
        if not parents & derived and not any(_FOREIGN_BASE.search(parent) for parent in parents - own):
            continue
        derived.add(name)
        body = source[statement.end() : following.start() if following else None]
        if "retrained" not in name.replace("T", "t") or "    def forward(" in body:
            models.add(name)
    return frozenset(models)


@functools.cache
def _base_models() -> dict[str, str]:
    """model_type -> the class of its bare model, "llama" -> "LlamaModel"."""
    spec = importlib.util.find_spec("transformers.models.auto.modeling_auto")
    if spec is None:
        return {}
    from transformers.models.auto import modeling_auto

    mapping = getattr(modeling_auto, "MODEL_MAPPING_NAMES", {}).items()
    firsts = {kind: names if isinstance(names, str) else names[0] for kind, names in mapping}
    return {kind: name for kind, name in firsts.items() if _is_model(name)}
