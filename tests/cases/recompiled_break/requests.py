"""One print in forward, compiled again for each new mode: one break, found many times."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 4)

    def forward(self, ids, language):
        h = self.embed(ids)
        print("into", language)
        if language == "fr":
            h = -h
        return h.mean(1)


if __name__ == "__main__":
    translator = torch.compile(Translator().eval(), backend="eager")
    with torch.no_grad():
        for language in ("de", "fr", "it", "de"):
            translator(torch.arange(6).view(2, 3), language)
