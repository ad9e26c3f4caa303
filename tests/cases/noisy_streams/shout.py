"""Writes on both streams in every way there is: before, while and after it compiles."""

import atexit
import os
import subprocess
import sys

import torch

RACKET = "-".join(["din", "and", "clamour"])


@torch.compile(backend="eager")
def quiet(x):
    y = x + 1
    sys.stdout.write("hush\n")
    return y * 2


print(RACKET, "{not json}")
print(RACKET.upper(), file=sys.stderr)
os.write(1, f"{RACKET} by descriptor\n".encode())
atexit.register(print, RACKET, "at exit")
quiet(torch.ones(2))
sys.stdout.flush()
subprocess.run([sys.executable, "-c", f"print('{RACKET} of a child')"], check=True)
