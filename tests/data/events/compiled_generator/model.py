"""A generator given to torch.compile is refused before tracing begins; no event of torch's tells of it."""

import torch


def squares(x):
    for factor in (1, 2):
        yield x * factor


list(torch.compile(squares, backend="eager")(torch.ones(4)))
