"""Exceptions as ordinary control flow inside compiled code, raised and caught there: nothing breaks."""

import torch


class UnknownUnit(KeyError):
    pass


SCALES = {"mm": 1e-3, "cm": 1e-2}


def scale_of(unit):
    if unit not in SCALES:
        raise UnknownUnit(unit)
    return SCALES[unit]


@torch.compile(backend="eager")
def to_metres(lengths, unit):
    lengths = lengths.double()
    try:
        factor = scale_of(unit)
    except UnknownUnit:
        factor = 1.0
    return lengths * factor


if __name__ == "__main__":
    print(to_metres(torch.ones(2), "cm"), to_metres(torch.ones(2), "mile"))
