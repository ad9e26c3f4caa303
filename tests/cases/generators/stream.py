"""A generator used by a compiled function, and a generator that was compiled itself."""

import torch


def windows(signal, size):
    for start in range(0, len(signal) - size + 1, size):
        print("window", start)
        yield signal[start : start + size].mean()


@torch.compile(backend="eager")
def envelope(signal):
    signal = signal.abs()
    return torch.stack(list(windows(signal, 2)))


@torch.compile(backend="eager")
def halves(signal):
    for part in signal.chunk(2):
        yield part * 2


if __name__ == "__main__":
    signal = torch.arange(6.0)
    print(envelope(signal))
    print(list(halves(signal)))
