"""What the integration tests share: hundreds of processes, which compile our sources once and not each for itself."""

import os

# Where it is set, Python keeps no compiled sources: every start of dynalyze would compile a hundred modules again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
