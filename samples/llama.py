"""A small Llama with random weights, compiled for one forward pass and for text generation.

Try:

    dynalyze explain samples/llama.py
    dynalyze explain samples/llama.py -- --backend eager
"""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@torch.inference_mode()
def main(backend: str, tokens: int) -> None:
    model = tiny_llama()
    prompt = torch.arange(2, 18).view(2, 8)

    logits = torch.compile(model, backend=backend)(prompt).logits
    print("next tokens", logits[:, -1].argmax(-1).tolist())

    # torch.compile(model).generate() would compile nothing: generate calls the forward of the module inside.
    model.forward = torch.compile(model.forward, backend=backend)
    print("generated", model.generate(prompt, max_new_tokens=tokens, do_sample=False)[0, 8:].tolist())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--tokens", type=int, default=4)
    options = parser.parse_args()
    main(options.backend, options.tokens)
