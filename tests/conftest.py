"""What all tests share: nothing is timed, so no example of a property test has a deadline."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A hundred examples of each property cost the suite minutes. Properties of secrets and of written files ask for them.
settings.register_profile("dynalyze", deadline=None, max_examples=30)
settings.load_profile("dynalyze")

# With empty caches Inductor first compiles six probes of the instruction sets, which costs a run more than all else it
# does. The processor's own flags still decide. Export it empty where your C++ compiler is older than your processor.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# Hundreds of processes, and the next run, compile our sources once and not each for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests run side by side: threads of one that wait for each other leave the processors to the others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell lets a job in the background ignore Ctrl-C, with all that the job starts; the tests of it would wait in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """The workers of pytest-xdist share the processes off which they, dynalyze and its targets are forked."""
    from warm_starts import can_fork, forked_workers, share_servers

    several = config.getoption("numprocesses", None) and not hasattr(config, "workerinput")
    if several:
        gc.enable()  # Nothing is collected here, but by the workers.
    if several and can_fork({}) and any("unit" not in Path(argument).parts for argument in config.args):
        share_servers()
        forked_workers(config)


# Importing torch and transformers makes millions of objects that stay: a collection would look at each again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # capture/fixing/swap.py looks through all objects, what tests import too: half a second a change, and then each
    # collection does the same. No program of a test was imported before.
    gc.unfreeze = lambda: None


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """What one test compiles in this process is nothing to the next."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pytest_runtest_setup() -> None:
    """What a test compiles in this process costs it no look at the guards' speed."""
    from warm_starts import spare_guard_profiles

    spare_guard_profiles()
