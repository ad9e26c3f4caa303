"""The user's own check raises while fullgraph traces it."""

import torch


def check(batch):
    if batch.shape[-1] != 8:
        raise ValueError(f"expected 8 features, got {batch.shape[-1]}")
    return batch


@torch.compile(backend="eager", fullgraph=True)
def encode(batch):
    batch = check(batch * 2)
    return batch.sigmoid()


if __name__ == "__main__":
    try:
        encode(torch.zeros(2, 5))
    except Exception as error:
        print("refused:", type(error).__name__)
    print(encode(torch.zeros(2, 8)).shape)
