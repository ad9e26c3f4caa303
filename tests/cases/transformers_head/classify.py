"""A tiny BERT body from transformers under a head of the user's that reads its mask back."""

import torch
from torch import nn
from transformers import BertConfig, BertModel


class Classifier(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.head = nn.Linear(body.config.hidden_size, 3)

    def forward(self, input_ids, attention_mask):
        states = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        length = int(attention_mask.sum(1).max())
        return self.head(states[:, :length].mean(1))


def build():
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    return Classifier(BertModel(config, add_pooling_layer=False)).eval()


if __name__ == "__main__":
    classifier = torch.compile(build(), backend="eager")
    ids = torch.arange(10).view(2, 5)
    with torch.no_grad():
        print(classifier(ids, torch.ones_like(ids)).shape)
