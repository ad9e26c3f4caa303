"""What all tests share: nothing is timed, so no example of a property test has a deadline."""

import os

from hypothesis import settings

settings.register_profile("dynalyze", deadline=None)
settings.load_profile("dynalyze")

# With empty caches Inductor first compiles six probes of the instruction sets, which costs a run more than all else it
# does. The processor's own flags still decide. Export it empty where your C++ compiler is older than your processor.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
