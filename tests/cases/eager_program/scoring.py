from torch import nn


class Scorer(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, batch):
        hidden = self.body(batch).relu()
        if batch.shape[0] == 1:
            print("a single row")
        return hidden.sum(-1)
