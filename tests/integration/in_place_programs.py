"""Small programs that compile nothing, as real ones are built, and what torch says of them once they do.

A line that begins with `#: ` is a comment for dynalyze. In the truth it is code: `net = torch.compile(net)`, as the
owner of the program would write it at that place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from program import plain_python

# Runs each program as a module of its own, in one process. What is compiled for one is forgotten before the next, so
# that each is an epoch of the report and a part of torch's log.
DRIVER = """
import importlib, random, sys, torch

for number, name in enumerate(sys.argv[1:]):
    if number:
        torch._dynamo.reset()
    torch.manual_seed(0)
    random.seed(0)
    print(f"== {name}", file=sys.stderr, flush=True)
    with open(f"{name}.out", "w") as sys.stdout:
        importlib.import_module(name)
    sys.stdout = sys.__stdout__
"""

PROGRAMS: dict[str, str] = {}
PROGRAMS["greedy_decoding"] = """
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50)

        def forward(self, tokens):
            return self.head(self.words(tokens))

    decoder = Decoder().eval()
    #: decoder = torch.compile(decoder, backend="eager")
    tokens = torch.tensor([[7, 3, 9, 1]])
    with torch.inference_mode():
        decoder(tokens)
        for _ in range(6):
            # A slice of the last column: its storage begins elsewhere each time.
            tokens = torch.cat([tokens, decoder(tokens[:, -1:]).argmax(-1)], 1)
    print(tokens.tolist())
"""
PROGRAMS["hooks_for_a_while"] = """
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh()).eval()
    #: net = torch.compile(net, backend="eager")
    seen = {}

    def keep(module, inputs, output):
        output = torch.cat([seen[module], output]) if module in seen else output
        seen[module] = output.detach()
        print("kept", output.shape[0])
        return output

    with torch.no_grad():
        handles = [module.register_forward_hook(keep) for module in net.modules() if type(module) is torch.nn.Linear]
        for _ in range(3):
            result = net(torch.randn(2, 3))
        for handle in handles:
            handle.remove()
    print(result.shape)
"""
PROGRAMS["transform_of_a_dataset"] = """
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Standardize(torch.nn.Module):
        def forward(self, x):
            spread = x.std()
            if spread == 0:
                raise ValueError("all the same")
            return (x - x.mean()) / spread

    class Digits(Dataset):
        standardize = Standardize()

        def __len__(self):
            return 20

        def __getitem__(self, index):
            return self.standardize(torch.arange(6.0) + index), index % 2

    class Embedded(Digits):
        embed = torch.nn.Linear(6, 6).requires_grad_(False)

        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return self.embed(x), y

    net = torch.nn.Linear(6, 2)
    #: net = torch.compile(net, backend="eager")
    optimizer, loss = torch.optim.SGD(net.parameters(), 0.1), torch.nn.CrossEntropyLoss()
    for data, workers in ((Digits(), 0), (Embedded(), 1)):
        for x, y in DataLoader(data, batch_size=8, num_workers=workers):
            optimizer.zero_grad()
            found = loss(net(x), y)
            found.backward()
            optimizer.step()
            print(round(found.item(), 4))
"""
PROGRAMS["checkpointed"] = """
    import torch
    from torch.utils.checkpoint import checkpoint

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(6, 12), torch.nn.Linear(12, 6)

        def forward(self, x):
            return x + self.down(torch.relu(self.up(x)))

    class Stack(torch.nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.reentrant = reentrant
            self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
            return x.square().mean()

    for reentrant in (True, False):
        stack = Stack(reentrant)
        optimizer = torch.optim.SGD(stack.parameters(), 0.1)
        #: stack = torch.compile(stack, backend="eager")
        for _ in range(3):
            optimizer.zero_grad()
            found = stack(torch.ones(2, 6, requires_grad=True))
            found.backward()
            optimizer.step()
            print(round(found.item(), 4))
"""
PROGRAMS["own_call"] = """
    import torch

    class Kernel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.raw, self.positive = torch.nn.Parameter(torch.zeros(3)), torch.nn.Softplus()

        def forward(self, x):
            print("forward")
            return x * self.positive(self.raw)

        def __call__(self, x):
            return self.forward(x)

    class Scaled(torch.nn.Module):
        def __init__(self, kernel):
            super().__init__()
            self.kernel, self.last = kernel, torch.nn.Linear(3, 3)

        def __call__(self, x, scale=1.0):
            return super().__call__(x * scale)

        def forward(self, x):
            return self.last(self.kernel(x)).sum()

    kernel = Kernel().eval()
    scaled = Scaled(Kernel()).eval()
    #: kernel, scaled = torch.compile(kernel, backend="eager"), torch.compile(scaled, backend="eager")
    for size in (2, 2, 4):
        print(kernel(torch.ones(size, 3)).shape, round(scaled(torch.ones(size, 3), scale=2.0).item(), 4))
"""
PROGRAMS["gan"] = """
    import torch

    class Judge(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(4, 1)

        def forward(self, x):
            score = self.body(x)
            if score.mean().item() > 1e6:
                raise RuntimeError("diverged")
            return score

    generator, judge = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU()), Judge()
    mine, yours = torch.optim.SGD(generator.parameters(), 0.1), torch.optim.SGD(judge.parameters(), 0.1)
    #: generator, judge = torch.compile(generator, backend="eager"), torch.compile(judge, backend="eager")
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(3):
        made = generator(torch.randn(5, 2))
        yours.zero_grad()
        right = loss(judge(torch.ones(5, 4)), torch.ones(5, 1)) + loss(judge(made.detach()), torch.zeros(5, 1))
        right.backward()
        yours.step()
        mine.zero_grad()
        fooled = loss(judge(made), torch.ones(5, 1))
        fooled.backward()
        mine.step()
        print(round(right.item(), 4), round(fooled.item(), 4))
"""
PROGRAMS["methods_in_place_of_forward"] = """
    import torch

    class Codec(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = torch.nn.Linear(4, 2), torch.nn.Linear(2, 4)

        def encode(self, x):
            code = self.encoder(x)
            print("encoded")
            return code

        def decode(self, code):
            return self.decoder(code).relu()

    codec = Codec()
    #: codec.encoder = torch.compile(codec.encoder, backend="eager")
    #: codec.decoder = torch.compile(codec.decoder, backend="eager")
    for size in (2, 3):
        print(codec.decode(codec.encode(torch.ones(size, 4))).shape)
"""
PROGRAMS["train_and_validate"] = """
    import torch

    hidden = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5))
    net = torch.nn.Sequential(hidden, torch.nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    #: net = torch.compile(net, backend="eager")
    data = torch.randn(10, 4), torch.arange(10) % 2
    for epoch in range(2):
        net.train()
        for x, y in zip(data[0].split(4), data[1].split(4)):  # a last batch of two
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print([round(value, 4) for value in net(data[0]).sum(0).tolist()])
"""
PROGRAMS["autocast_and_not"] = """
    import torch

    net = torch.nn.Linear(4, 4)
    #: net = torch.compile(net, backend="eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        trained = net(torch.ones(2, 4))
        trained.sum().backward()
    with torch.no_grad():
        print(trained.dtype, net(torch.ones(2, 4)).dtype)
"""
PROGRAMS["own_exception"] = """
    import torch

    class Picky(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            if x.shape[0] > 2:
                raise ValueError(f"too many: {x.shape[0]}")
            return self.body(x)

    picky = Picky()
    #: picky = torch.compile(picky, backend="eager")
    for size in (2, 3, 4, 2):
        try:
            print(picky(torch.ones(size, 3)).shape)
        except ValueError as error:
            print("raised", error)
"""
PROGRAMS["inputs_that_do_not_fit"] = """
    import torch

    class Projection(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3, 2))

        def forward(self, x):
            return x @ self.weight

    projection = Projection()
    #: projection = torch.compile(projection, backend="eager")
    for rows, columns in ((2, 3), (2, 4), (5, 3)):
        try:
            print(projection(torch.ones(rows, columns)).shape)
        except RuntimeError:
            print("does not fit")
"""
PROGRAMS["call_is_forward"] = """
    import torch

    class Short(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            x = self.body(x)
            print("forward")
            return x

        __call__ = forward

    class Longer(Short):
        def __init__(self):
            super().__init__()
            self.short = Short()

        def forward(self, x):
            return self.short(super().forward(x)) + 1

        def __call__(self, *inputs):
            return torch.nn.Module.__call__(self, *inputs)

    short, longer = Short(), Longer()
    #: short, longer = torch.compile(short, backend="eager"), torch.compile(longer, backend="eager")
    for size in (2, 3):
        print(longer(short(torch.ones(size, 3))).shape)
"""
PROGRAMS["parameters_from_outside"] = """
    import torch

    net = torch.nn.Linear(3, 2)
    #: net = torch.compile(net, backend="eager")
    prefix = "" if type(net) is torch.nn.Linear else "_orig_mod."
    for scale in (1.0, 2.0):
        weights = {prefix + "weight": torch.full((2, 3), scale), prefix + "bias": torch.zeros(2)}
        print(torch.func.functional_call(net, weights, torch.ones(1, 3)).tolist())
"""
PROGRAMS["a_model_for_each_fold"] = """
    import torch

    class Fold(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.body = torch.nn.Linear(3, width)

        def forward(self, x):
            return self.body(x).sum(-1)

    for width in (2, 4, 4):
        fold = Fold(width)
        optimizer = torch.optim.SGD(fold.parameters(), 0.1, momentum=0.9)
        #: fold = torch.compile(fold, backend="eager")
        for _ in range(2):
            fold(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        print(fold(torch.ones(1, 3)).shape)
"""
PROGRAMS["threads"] = """
    import threading
    import torch

    class Loud(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            x = self.body(x)
            print("here")
            return x

    first, second = Loud(), torch.nn.Linear(3, 3)
    #: first, second = torch.compile(first, backend="eager"), torch.compile(second, backend="eager")
    for net in (first, second):
        thread = threading.Thread(target=lambda: [net(torch.ones(size, 3)) for size in (2, 2, 5)])
        thread.start()
        thread.join()
"""
PROGRAMS["hooks_of_all_modules"] = """
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    #: net = torch.compile(net, backend="eager")
    calls = []

    def count(module, inputs, output):
        calls.append(type(module).__name__)

    handle = torch.nn.modules.module.register_module_forward_hook(count)
    net(torch.ones(2, 3))
    net(torch.ones(2, 3))
    handle.remove()
    net(torch.ones(2, 3))
    print(sorted(set(calls)))
"""
PROGRAMS["attributes_that_change"] = """
    import torch

    class Annealed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.heat, self.mode = torch.nn.Linear(3, 3), 1, "cold"

        def forward(self, x):
            return self.body(x) * self.heat if self.mode == "warm" else self.body(x)

    net = Annealed()
    #: net = torch.compile(net, backend="eager")
    for _ in range(4):
        net(torch.ones(2, 3))
        net.mode, net.heat = "warm", net.heat * 3
"""
PROGRAMS["local_to_a_function"] = """
    import torch

    class Trainer:
        def __init__(self, net):
            self.net = net

        def step(self, x):
            return self.net(x).sum()

    def main():
        backbone = torch.nn.Linear(3, 3)
        #: backbone = torch.compile(backbone, backend="eager")
        for size in (2, 3, 4):
            backbone(torch.ones(size, 3))

    def fit():
        trainer = Trainer(torch.nn.Linear(3, 3).requires_grad_(False))
        #: trainer.net = torch.compile(trainer.net, backend="eager")
        print(trainer.step(torch.ones(2, 3)).shape)

    main()
    fit()
"""
PROGRAMS["modules_in_backward"] = """
    import torch

    helper = torch.nn.Linear(3, 3)

    class Through(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            print("backward")
            return helper(gradient)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.body(x)

    net = Net()
    #: net = torch.compile(net, backend="eager")
    for _ in range(2):
        Through.apply(net(torch.ones(2, 3))).sum().backward()
"""
PROGRAMS["made_by_torchscript"] = """
    import warnings
    import torch

    warnings.simplefilter("ignore")
    scripted = torch.jit.script(torch.nn.Linear(3, 3))
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU())
    #: lazy = torch.compile(lazy, backend="eager")
    for _ in range(2):
        print(lazy(scripted(torch.ones(2, 3))).shape)
"""
PROGRAMS["generate"] = """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=32
    )
    llama = LlamaForCausalLM(config).eval()
    #: llama.forward = torch.compile(llama.forward, backend="eager")
    prompt = torch.arange(3, 9)[None]
    written = llama.generate(prompt, max_new_tokens=6, min_new_tokens=6, do_sample=False, pad_token_id=0)
    print(written.tolist())
"""
# These are run by themselves: processes that the program starts, and more modules than are compiled.
PROGRAMS["forked_training"] = """
    import os
    import torch

    class Loud(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            x = self.body(x)
            print("here")
            return x

    net = Loud()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    #: net = torch.compile(net, backend="eager")
    child = os.fork()
    if child == 0:
        for size in (2, 3):
            net(torch.ones(size, 3)).sum().backward()
            optimizer.step()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
PROGRAMS["started_training"] = """
    import subprocess
    import sys
    import torch

    def train():
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        #: net = torch.compile(net, backend="eager")
        for size in (2, 3):
            net(torch.ones(size, 3)).sum().backward()
            optimizer.step()

    if __name__ == "__main__":
        train()
    else:
        subprocess.run([sys.executable, __file__], check=True)
"""
PROGRAMS["seventy_modules"] = """
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return x * self.weight

    layers = [Layer() for _ in range(70)]
    #: layers[:64] = [torch.compile(layer, backend="eager") for layer in layers[:64]]
    for _ in range(2):
        x = torch.ones(3)
        for layer in layers:
            x = layer(x)
    print(x.tolist())
"""
# And these need a command line of their own.
PROGRAMS["compiles_late"] = """
    import torch

    class Loud(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x):
            x = self.body(x)
            print("here")
            return x

    other = torch.nn.Sequential(torch.nn.Linear(3, 3), Loud())
    net = Loud()
    for size in (2, 4, 6):
        net(other(torch.ones(size, 3)))
    compiled = torch.compile(net, backend="eager")
    for size in (2, 3):
        compiled(torch.ones(size, 3))
    other(torch.ones(9, 3))
"""
PROGRAMS["called_in_constructors"] = """
    import torch
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten())
            self.head = nn.Linear(self.width(), 2)

        def width(self):
            with torch.no_grad():
                return self.features(torch.zeros(1, 3, 6, 6)).shape[1]

        def forward(self, x):
            y = self.features(x)
            print("classified", y.shape)
            return self.head(y)

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Conv2d(3, 4, 3, 2), nn.Conv2d(4, 4, 3, 2)])
            run = lambda image: self.forward(image)
            self.stride = 32 // run(torch.zeros(1, 3, 32, 32)).shape[-1]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            print("detected", x.shape)
            return x

    net = Classifier()
    #: net = torch.compile(net, backend="eager")
    detector = Detector()
    #: detector = torch.compile(detector, backend="eager")
    for _ in range(2):
        net(torch.randn(2, 3, 6, 6))
        detector(torch.randn(2, 3, 32, 32))
"""
PROGRAMS["chosen"] = """
    import torch

    class Loud(torch.nn.Module):
        def __init__(self, word):
            super().__init__()
            self.body, self.word = torch.nn.Linear(3, 3), word

        def forward(self, x):
            x = self.body(x)
            print(self.word)
            return x

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.backbone, self.head = Loud("backbone"), torch.nn.Linear(3, 1)

        def forward(self, x):
            x = self.backbone(x)
            print("model")
            return self.head(x)

        def score(self, x):
            x = self.head(x)
            print("score")
            return x.sum()

    def rescale(x):
        x = x * 2
        print("rescaled")
        return x + 1

    def main():
        net = Loud("net")
        #: net = torch.compile(net, backend="eager")
        other = Loud("other")
        for size in (2, 3):
            other(net(torch.ones(size, 3)))

    model = Model()
    #: model.backbone = torch.compile(model.backbone, backend="eager")
    #: model.score = torch.compile(model.score, backend="eager")
    #: rescale = torch.compile(rescale, backend="eager")
    for size in (2, 3, 4):
        print(rescale(model(torch.ones(size, 3))).shape, model.score(torch.ones(size, 3)).shape)
    main()
"""
PROGRAMS["hard_to_compile"] = """
    import torch

    class Wave(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Linear(3, 3)

        def forward(self, x, high=False):
            x = self.body(x)
            return torch.sin(x) if high else x

    torch.manual_seed(0)
    wave, net = Wave(), torch.nn.Linear(3, 3)
    with open("waves.out", "w") as out:
        for high in (False, True, False, True):
            print(net(wave(torch.ones(2, 3), high=high)).tolist(), file=out)
"""
# What the backend of the last one does: it has no sine.
BACKEND = """
def without_sine(graph, inputs):
    if "sin" in graph.code:
        raise NotImplementedError("no sine in this backend")
    return graph.forward
"""
APART = ("forked_training", "seventy_modules")
ALONE = ("compiles_late", "chosen", "hard_to_compile", "started_training")
TOGETHER = tuple(name for name in PROGRAMS if name not in APART + ALONE)


def written(name: str, *, truth: bool = False) -> str:
    """The source of a program, for dynalyze or for the truth: line by line the same but for what compiles."""
    source = dedent(PROGRAMS[name]).lstrip()
    return re.sub(r"^(\s*)#: ", r"\1", source, flags=re.MULTILINE) if truth else source


@dataclass
class Log:
    """What torch logged for a program, with TORCH_LOGS=graph_breaks,recompiles."""

    breaks: set[tuple[str, str]] = field(default_factory=set)
    """`file:line` and the id of each."""
    recompiles: list[tuple[str, str]] = field(default_factory=list)
    """The compile id and the `file:line` of the function."""
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """The failed guards of each recompile, as torch words them."""
    limits: int = 0


def torch_log(folder: Path, *arguments: str) -> str:
    """What plain Python writes to standard error, torch's own log included."""
    script, *others = arguments
    return plain_python(script, *others, cwd=folder, env={"TORCH_LOGS": "graph_breaks,recompiles"}).stderr


_RECORD = re.compile(r"^[VIWE]\d{4} .*?\] (?:\[(?P<id>\d+/\d+)(?:_\d+)?\] )?(?:\[__\w+\] ?)?(?P<text>.*)$")
_BREAK = re.compile(r"Graph break.*? in user code at (?P<place>\S+:\d+)")
_ID = re.compile(r"compile-graph-break-site/gb/gb(?P<number>\d+)\.html")
_RECOMPILE = re.compile(r"Recompiling function .* in (?P<place>\S+:\d+)")


def read_log(lines: Iterable[str]) -> Log:
    """The breaks and recompiles in torch's log."""
    log, place, again = Log(), "", ("", "")
    for line in lines:
        record = _RECORD.match(line)
        if record is None:
            continue
        text = record["text"]
        if found := _BREAK.match(text):
            place = _short(found["place"])
        elif (found := _ID.search(text)) and place:
            log.breaks.add((place, f"GB{found['number']}"))
            place = ""
        elif found := _RECOMPILE.match(text):
            again = (record["id"] or "", _short(found["place"]))
            log.recompiles.append(again)
            log.failures[again] = ""
        elif "recompile_limit" in text:
            log.limits += 1
        elif text.strip().startswith("- ") and again in log.failures:
            log.failures[again] += text.strip() + "\n"
    return log


def _short(place: str) -> str:
    file, _, line = place.rpartition(":")
    return f"{Path(file).name}:{line}"


def logs_of_programs(text: str) -> dict[str, Log]:
    """What torch logged for each program that the driver ran."""
    parts = re.split(r"^== (\w+)$", text, flags=re.MULTILINE)
    return {name: read_log(part.splitlines()) for name, part in zip(parts[1::2], parts[2::2], strict=True)}
