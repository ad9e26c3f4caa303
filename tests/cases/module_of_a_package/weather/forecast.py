import sys

import torch

from .nets import Forecaster


def main():
    days = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    forecaster = torch.compile(Forecaster().eval(), backend="eager")
    with torch.no_grad():
        print(forecaster(torch.zeros(1, 4), days).shape)


if __name__ == "__main__":
    main()
