from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, width, code):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(width, code), nn.Tanh())
        self.decode = nn.Linear(code, width)

    def forward(self, x):
        return self.decode(self.encode(x)).sigmoid()
