"""Trains with gradient accumulation and reads the loss, saves the best and prints: all outside compiled code."""

import copy

import torch
from torch import nn

from nets import Autoencoder


def batches(steps):
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        yield torch.rand(6, 10, generator=generator)


def main(steps=4, accumulate=2):
    torch.manual_seed(0)
    model = Autoencoder(10, 3)
    forward = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    best, kept = float("inf"), None
    for step, batch in enumerate(batches(steps), start=1):
        loss = nn.functional.mse_loss(forward(batch), batch) / accumulate
        loss.backward()
        if loss.item() < best:
            best, kept = loss.item(), copy.deepcopy(model.state_dict())
        if step % accumulate == 0:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            print(step, round(best, 4), [round(v, 3) for v in norm.reshape(1).tolist()])
    assert kept is not None


if __name__ == "__main__":
    main()
