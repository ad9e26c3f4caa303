"""Operators whose output size depends on values: nonzero, a boolean mask, unique."""

import torch


@torch.compile(backend="eager")
def spike_times(trace):
    above = trace > trace.mean()
    times = torch.nonzero(above).flatten()
    return times.float() / len(trace)


@torch.compile(backend="eager")
def kept(trace, threshold):
    scaled = trace / trace.abs().amax()
    strong = scaled[scaled > threshold]
    return strong.square()


@torch.compile(backend="eager")
def codebook(codes):
    shifted = codes + 1
    values = shifted.unique()
    return values * 2


def main():
    trace = torch.tensor([0.1, 3.0, -0.2, 2.5, 0.0])
    print(spike_times(trace), kept(trace, 0.3), codebook(torch.tensor([4, 4, 7])))


if __name__ == "__main__":
    main()
