"""Compiles, starts a helper in a session of its own, then waits for ever; SIGTERM does not end it."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def forward(self, x):
        y = self.fc(x)
        print("asking", y.shape)
        return y + 1


def wait():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path("helper.pid").write_text(str(helper.pid))
    torch.compile(Net().eval(), backend="eager")(torch.ones(1, 2))
    wait()
