"""A script with options of its own, among them one that dynalyze also has."""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(depth))

    def forward(self, x, loud):
        for layer in self.layers:
            x = layer(x).relu()
        if loud:
            print("loud", x.dim())
        return x


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="where to write the answer")
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--loud", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    assert Path(sys.argv[0]).name == "run.py" and __name__ == "__main__"
    net = torch.compile(Net(options.depth).eval(), backend="eager")
    with torch.no_grad():
        answer = net(torch.ones(1, 4), options.loud)
    options.json.write_text(f"{options.names} {answer.shape[0]}")


if __name__ == "__main__":
    main()
