"""The typed part of the report that says what was compiled: its modules, their layers and adapters, its attention.

Rules about what goes together with torch.compile read these records. What could not be seen is None or empty, and a
rule has to say "unknown" then.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from dynalyze.report.sensitivity import Dtype, FilePath, Message, Name, Operation, Quote, Settings, Word

AttentionOp = Literal["sdpa", "flex_attention", "flash_attn", "other"]
AttentionBackend = Literal["flash", "efficient", "cudnn", "math", "cpu_flash", "overrideable", "flex", "external", ""]


class LayerGroup(msgspec.Struct):
    """Layers of one class with the same facts, in one module: those of a quantiser, of PEFT, caches.

    `library` is the package ("bitsandbytes", "peft"), `kind` the class, `first` the path of the first of them. `facts`
    are read from the layers themselves, e.g. `compute_dtype`, `threshold`, `bits`, `rank`.
    """

    library: Name
    kind: Name
    count: int
    first: Quote = ""
    facts: Settings = {}


class Adapters(msgspec.Struct):
    """The LoRA or other PEFT adapters of a module. `switches` counts changes of the active ones while it ran; there may
    have been more. `layers` is how many layers hold them, `ranks` those of their weights, padded ones included.
    """

    library: Name = "peft"
    names: list[Quote] = []
    active: list[Quote] = []
    merged: bool = False
    disabled: bool = False
    ranks: dict[Quote, int] = {}
    prepared_for_hotswap: bool = False
    switches: int = 0
    layers: int = 0


class ModuleFacts(msgspec.Struct):
    """A module given to torch.compile, by the program or by dynalyze, as it was when the run ended.

    `file` and `line` are the call of torch.compile in the program; empty where dynalyze compiled. `parameters` are
    counts of elements, by dtype and by device. `attention` and `quantization` are the names in its transformers
    configuration. `wrappers` are the classes of distributed training in the order from the outermost inwards;
    `inside_wrapper`: what was compiled is inside of them, else they are inside of what was compiled. `compiled_parts`
    counts submodules with a torch.compile of their own. `options` are those arguments of torch.compile that are its own
    words ("custom" is a backend of the program's). `count` modules are alike. `compiled_unwrapped`: a wrapper was put
    around it only after its graphs had been compiled.
    """

    id: Word
    class_name: Name
    file: FilePath = ""
    line: int = 0
    family: Name = ""
    training: bool = False
    parameters: dict[Name, int] = {}
    devices: dict[Name, int] = {}
    attention: Name = ""
    quantization: Name = ""
    config: Settings = {}
    layers: list[LayerGroup] = []
    adapters: Adapters | None = None
    wrappers: list[Name] = []
    inside_wrapper: bool = False
    compiled_parts: int = 0
    cache: Name = ""
    notes: list[Message] = []
    options: Settings = {}
    count: int = 1
    compiled_unwrapped: bool = False


class AttentionInput(msgspec.Struct):
    """A tensor that attention got: symbols stand for dimensions that may change."""

    dtype: Dtype = ""
    shape: list[int | Word] = []
    stride: list[int | Word] = []


class AttentionCall(msgspec.Struct):
    """A place in a compiled graph where attention is computed. `count` places are alike.

    `backend` is what computes it, read from the ATen graph; "" where that cannot be told. `why_not` are torch's own
    words on why a better backend was not taken, by backend; only known on CUDA. `file` and `line` are the line that
    called it; where torch names only a line of its own, the compiled function. For `other` see `name`, the operation;
    one that Inductor found in hand-written code has the name of the kernel. `mask_made`: flex_attention's block mask
    is made in the same graph. `dropout` is None where it is not written in the graph.
    """

    id: Word
    graph: Word
    op: AttentionOp
    backend: AttentionBackend = ""
    file: FilePath = ""
    line: int = 0
    function: Name = ""
    query: AttentionInput | None = None
    key: AttentionInput | None = None
    value: AttentionInput | None = None
    mask: AttentionInput | None = None
    causal: bool | None = None
    device: Name = ""
    count: int = 1
    why_not: dict[Word, Quote] = {}
    name: Operation = ""
    dropout: float | None = None
    mask_made: bool = False
