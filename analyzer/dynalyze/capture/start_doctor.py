"""The first lines of what `dynalyze doctor` runs in the target's interpreter: `PYTHON start_doctor.py WHAT FILE`.

Like start.py it loads the package by its path.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from start import load_package  # type: ignore[import-not-found]  # The folder of this script is on sys.path.

    load_package()
    del sys.path[0]
    from dynalyze.capture.doctor_probe import main

    sys.exit(main(*sys.argv[1:]))
