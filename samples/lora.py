"""A small Llama with two LoRA adapters: each switch to an adapter that was not active before compiles again.

Needs peft and transformers.

Try:

    dynalyze explain samples/lora.py
"""

import torch
from peft import LoraConfig, get_peft_model
from peft.peft_model import PeftModel
from torch import nn
from transformers import LlamaConfig, LlamaModel


class Reader(nn.Module):
    """Sums up what the language model makes of a text; the adapter decides on its language."""

    def __init__(self, language_model: PeftModel) -> None:
        super().__init__()
        self.language_model = language_model

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # recompiles: module_attribute module_attribute
        return self.language_model(input_ids=tokens, use_cache=False).last_hidden_state.mean(1)


def adapter(rank: int) -> LoraConfig:
    return LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)


def tiny_llama() -> PeftModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    model = get_peft_model(LlamaModel(config), adapter(rank=4), adapter_name="french")
    model.add_adapter("german", adapter(rank=8))
    return model


@torch.inference_mode()
def main() -> None:
    llama = tiny_llama().eval()
    reader = torch.compile(Reader(llama), backend="eager")
    tokens = torch.arange(2, 18).view(2, 8)
    for name in ("french", "german", "french", "german"):
        llama.set_adapter(name)
        reader(tokens)
    with llama.disable_adapter():
        reader(tokens)


if __name__ == "__main__":
    main()
