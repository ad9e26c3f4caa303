"""Small programs, each with one thing in it that does not go together with torch.compile, under drawn names.

Real libraries, but for flash-attn, CUDA graphs and autocast for a GPU: there are no such kernels on a CPU. Stand-ins
take the place of flash-attn's binding (tests/stand_ins); for CUDA graphs torch's own message is raised.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from textwrap import dedent

MARK = "# here"
_NAMES = ("harbour", "lantern", "meadow", "orchard", "pebble", "quarry", "saddle", "timber", "willow", "yonder")
_HEADER = """
import tempfile
import torch
import torch.nn.functional as F
from torch import nn


def tiny_llama(**config):
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, **config,
    )).eval()


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))
"""


@dataclass(frozen=True)
class Plant:
    """`code` is a template over NAME, OTHER, THIRD, WIDTH and LENGTH. The finding stands at the line with the mark,
    where there is one. `says` are words of its advice, `beside` the rules that rightly speak too. One that is `alone`
    changes what the whole process is like, or ends it.
    """

    name: str
    rule: str
    code: str
    says: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    alone: bool = False
    beside: tuple[str, ...] = ()

    def drawn(self, chance: random.Random) -> Plant:
        """The same fault under other names and in other sizes."""
        values: dict[str, str | int] = dict(zip(("NAME", "OTHER", "THIRD"), chance.sample(_NAMES, 3), strict=True))
        values |= {"WIDTH": chance.choice((16, 32, 48)), "LENGTH": chance.randint(4, 9)}
        code, says = dedent(self.code).strip(), self.says
        for word, value in values.items():
            code = code.replace(word, str(value))
            says = tuple(each.replace(word, str(value)) for each in says)
        return replace(self, code=code, says=says)


def program(plants: list[Plant]) -> str:
    """One program with all of them, one after another."""
    return "\n\n".join([_HEADER, *(f"{plant.code}\ntorch._dynamo.reset()" for plant in plants)]) + "\n"


# FlashAttention on a batch of one and on a padded one: the comprehension is transformers', up to Python 3.11.
_PLANTS = """
=== an adapter of another rank, swapped in
rule: lora-hotswap
says: target_rank=8
needs: transformers | peft
---
def NAME(rank):
    from peft import LoraConfig, get_peft_model

    lora = LoraConfig(r=rank, target_modules=["down"], init_lora_weights=False)
    return get_peft_model(Net(WIDTH), lora).eval()

with tempfile.TemporaryDirectory() as folder, torch.no_grad():
    from peft.utils.hotswap import hotswap_adapter

    NAME(8).save_pretrained(folder)
    OTHER = NAME(4)
    THIRD = torch.compile(OTHER, backend="eager")
    THIRD(torch.ones(LENGTH, WIDTH))
    hotswap_adapter(OTHER, folder, adapter_name="default")
    THIRD(torch.ones(LENGTH, WIDTH))  # here
=== a cache that grows with each token
rule: dynamic-cache
says: cache_implementation="static"
needs: transformers
beside: prefill-and-decode
---
def NAME():
    model = tiny_llama()
    model.forward = torch.compile(model.forward, backend="eager")
    with torch.no_grad():
        model.generate(torch.ones(1, LENGTH, dtype=torch.long), max_new_tokens=4, do_sample=False)

NAME()
=== FlashAttention on a padded batch
rule: flash-attention-padding
says: cu_seq_lens_q | flash_attention_2
needs: transformers
beside: comprehension-apart | compile-a-part
---
def NAME():
    model = tiny_llama(attn_implementation="flash_attention_2").to(torch.bfloat16)
    tokens = torch.ones(2, LENGTH, dtype=torch.long)
    padding = torch.tensor([[0, 0] + [1] * (LENGTH - 2), [1] * LENGTH])
    with torch.no_grad():
        OTHER = torch.compile(model, backend="eager")
        OTHER(input_ids=tokens, attention_mask=padding, use_cache=False)  # here

NAME()
=== FlashAttention on a batch of one
rule: flash-attention-padding
says: cu_seq_lens_q
needs: transformers
beside: comprehension-apart | compile-a-part
---
def NAME():
    OTHER = torch.compile(tiny_llama(attn_implementation="flash_attention_2").bfloat16(), backend="eager")
    with torch.no_grad():
        OTHER(input_ids=torch.ones(1, LENGTH, dtype=torch.long), use_cache=False)  # here

NAME()
=== FlashAttention in float32
rule: flash-attention-float32
says: bfloat16
---
@torch.compile(backend="eager")
def NAME(OTHER):  # here
    from flash_attn import flash_attn_func

    return flash_attn_func(OTHER, OTHER, OTHER, causal=True)

try:
    NAME(torch.randn(1, LENGTH, 2, WIDTH))
except RuntimeError:
    pass
=== a norm that leaves query and key in another type
rule: attention-mixed-dtypes
says: query.to(value.dtype)
---
@torch.compile(backend="eager")
def NAME(q, k, v):  # here
    from flash_attn import flash_attn_func

    return flash_attn_func(q.float(), k.float(), v)

try:
    NAME(*(torch.randn(1, LENGTH, 2, WIDTH, dtype=torch.bfloat16) for _ in range(3)))
except RuntimeError:
    pass
=== kernels of an old flash-attn
rule: flash-attention-builtin
says: custom_op
---
@torch.compile(backend="eager")
def NAME(q, k, v):
    import flash_attn_2_cuda

    return flash_attn_2_cuda.fwd(q, k, v) + 1  # here

NAME(*(torch.randn(1, 2, LENGTH, WIDTH) for _ in range(3)))
=== FlashAttention with a static cache
rule: static-cache-attention
says: attn_implementation="sdpa"
needs: transformers
---
def NAME():
    model = tiny_llama(attn_implementation="flash_attention_2").to(torch.bfloat16)
    model.generation_config.cache_implementation = "static"
    OTHER = torch.compile(model, backend="eager")  # here
    with torch.no_grad():
        OTHER(input_ids=torch.ones(2, LENGTH, dtype=torch.long), use_cache=False)

NAME()
=== heads of two widths
rule: sdpa-math
says: Pad value
---
@torch.compile(backend="aot_eager")
def NAME(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)  # here

OTHER = torch.randn(1, 2, LENGTH, WIDTH)
NAME(OTHER, OTHER, torch.randn(1, 2, LENGTH, WIDTH + 8))
=== flex_attention outside of a graph
rule: flex-attention
says: torch.compile(flex_attention)
---
def NAME(q, k, v):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(q, k, v)  # here

with torch.no_grad():
    NAME(*(torch.randn(1, 2, LENGTH, WIDTH) for _ in range(3)))
=== autocast to the dtype that is there already
rule: autocast
says: torch.autocast("cpu")
alone: yes
---
NAME = torch.compile(Net(WIDTH).to(torch.bfloat16), backend="eager")  # here
with torch.autocast("cpu", dtype=torch.bfloat16):
    NAME(torch.ones(LENGTH, WIDTH, dtype=torch.bfloat16))
=== autocast for another device
rule: autocast
says: torch.autocast("cpu")
alone: yes
---
torch.set_autocast_enabled("cuda", True)  # What torch.autocast("cuda") does where there is a GPU.
NAME = torch.compile(Net(WIDTH), backend="eager")  # here
NAME(torch.ones(LENGTH, WIDTH))
=== an output of a CUDA graph that is kept
rule: cudagraph-overwritten
says: .clone()
alone: yes
---
from torch._inductor.cudagraph_trees import CUDAGraphTreeManager

NAME = torch.compile(Net(WIDTH), backend="eager")
NAME(torch.ones(LENGTH, WIDTH))
stack = 'File "/srv/OTHER.py", line LENGTH, in THIRD\\n    return x + 1'
raise RuntimeError(CUDAGraphTreeManager.format_dealloc_msg(stack))
"""


def _plant(text: str) -> Plant:
    head, _, code = text.partition("\n---\n")
    name, *lines = head.splitlines()
    given = dict(line.split(": ", 1) for line in lines)
    says, needs, beside = (
        tuple(given[key].split(" | ")) if key in given else () for key in ("says", "needs", "beside")
    )
    return Plant(name, given["rule"], code.strip(), says, needs, "alone" in given, beside)


PLANTS = [_plant(text) for text in _PLANTS.split("\n=== ")[1:]]
