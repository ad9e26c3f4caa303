"""Python runs this at the start of every process that the target starts: it attaches the listener there too.

The folder is on PYTHONPATH of the target only. It takes itself off sys.path at once and hands over to the
sitecustomize that would have run without it.
"""

import contextlib
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _attach() -> None:
    loaded_by_python = frozenset(sys.modules)
    start = os.path.join(os.path.dirname(_here), "start.py")
    spec = importlib.util.spec_from_file_location("_dynalyze_start", start)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_package()
    if "DYNALYZE_WATCH" in os.environ:
        from dynalyze.watch.child.start import begin

        begin()
    else:
        from dynalyze.capture.attach import attach_to_descendant

        attach_to_descendant()
    import pathlib

    from dynalyze.capture import shadows

    # The program finds its own platform.py, not the library's that we have imported.
    shadows.loaded_by_python = loaded_by_python
    shadows.leave_out(pathlib.Path(sys.argv[0] if sys.argv else "").parent)


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _here]
_own = sys.modules.pop("sitecustomize", None)
with contextlib.suppress(Exception):  # Listening must never keep a worker of the target from starting.
    _attach()
try:
    import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
except ImportError:
    if _own is not None:
        sys.modules["sitecustomize"] = _own  # Where there is no other: the import in progress expects one.
