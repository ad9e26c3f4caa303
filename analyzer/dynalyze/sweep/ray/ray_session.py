"""Connects to a Ray cluster, or starts one here for the time of a sweep, and ships it dynalyze and the sweep's folder.

The only module that imports ray, which is quiet: its messages would stand between rows, and what they tell of lost
workers is in the rows.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dynalyze
from dynalyze.files.temporary import TemporaryFolder
from dynalyze.text.errors import DynalyzeError, UsageError

LOCAL = "local"
_PROBE_SECONDS = 5.0
# Reports pass through the object store one by one; Ray would take 30% of the memory for it.
_STORE_BYTES = 256 * 1024 * 1024
_VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # `ray job submit` gives a job files of its own; ours are the same and more.
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
}
# Ray would wait two minutes for an open port that is not Ray's.
_IMPATIENT = {"RAY_py_gcs_connect_timeout_s": "5", "RAY_NUM_REDIS_GET_RETRIES": "1"}
# Without this a cluster on one machine listens on all of its addresses.
_LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_PACKAGE = Path(dynalyze.__file__).resolve().parent
# The wheel carries the templates inside the package; a checkout keeps them in reports/.
_CHECKOUT_TEMPLATES = _PACKAGE.parents[1] / "reports" / "templates"
_SWITCHES = ("TORCH", "PYTORCH_", "TRANSFORMERS_", "HF_HUB_OFFLINE")


@contextlib.contextmanager
def connected(address: str, folder: Path | None, cores: int | None) -> Iterator[Any]:
    """The module ray, connected to a cluster, which gets `folder` and dynalyze, or to one of `cores` that is started
    here and ends with the block.
    """
    _check_reachable(address)
    variables = _IMPATIENT
    if address == LOCAL:
        # Left to itself Ray would write a token into the user's home folder, and keep it.
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        variables = {**_LOOPBACK, **({} if "RAY_AUTH_MODE" in os.environ else token)}
    # Ray reads them when it is imported. What the user has set stays.
    for name, value in {**_VARIABLES, **variables}.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise UsageError(f'--cluster needs Ray: pip install "dynalyze[ray]" ({error})') from error
    # Messages of lost workers and nodes go to whatever is sys.stdout, at any time.
    with Path(os.devnull).open("w") as quiet, contextlib.redirect_stdout(quiet), contextlib.ExitStack() as connection:
        with contextlib.ExitStack() as shipping:
            if address == LOCAL:
                # Ray's sockets lie deep in it, and the path of a socket has at most 107 bytes.
                own = str(connection.enter_context(TemporaryFolder("ray", longest=12)))
                place: dict[str, Any] = {
                    "address": LOCAL, "num_cpus": cores, "include_dashboard": False,
                    "object_store_memory": _STORE_BYTES, "_temp_dir": own,
                }  # fmt: skip
            else:
                stage = shipping.enter_context(TemporaryFolder("shipped"))
                place = {"address": address, "runtime_env": runtime_env(stage, folder)}
            connection.callback(ray.shutdown)
            try:
                with _undisturbed():
                    ray.init(log_to_driver=False, logging_level="ERROR", **place)
            except SystemExit as error:  # Ray ends the program where the cluster does not answer.
                raise UsageError(f"--cluster {address}: it does not answer as a Ray cluster does") from error
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise _refused(address, error, folder) from error
        yield ray


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps Ray, while it connects, from taking SIGTERM, which would end us without our summary, and from writing
    warnings to descriptor 2: what went wrong comes as an exception.
    """
    before, kept = signal.getsignal(signal.SIGTERM), os.dup(2)
    try:
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGTERM, before)
        os.dup2(kept, 2)
        os.close(kept)


def _check_reachable(address: str) -> None:
    """Raise UsageError where nobody listens: Ray itself takes two minutes to say so."""
    if address in (LOCAL, "auto"):
        return
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None or parts.scheme not in ("", "ray"):
        raise UsageError(f"--cluster {address}: give auto, local, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host, port), _PROBE_SECONDS).close()
    except OSError as error:
        raise UsageError(f"--cluster {address}: {error.strerror or error}") from error


def _refused(address: str, error: Exception, folder: Path | None) -> DynalyzeError:
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip()
    if folder is not None and ("size" in text and "exceed" in text.lower()):
        return UsageError(
            f"--cluster {address}: the current folder, {folder}, is too large to ship. Run in a smaller one, name what "
            "is not needed in .rayignore, or use --shared-disk where the nodes see it under the same path"
        )
    if any("AuthToken" in str(each) or "Unauthenticated" in str(each) for each in (error, error.__cause__)):
        return UsageError(
            f"--cluster {address}: the cluster asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or "
            "RAY_AUTH_TOKEN_PATH where it is not in Ray's own place"
        )
    if address == "auto" and isinstance(error, ConnectionError):
        return UsageError(
            "--cluster auto: no Ray cluster is running here; start one (ray start --head), or give its address"
        )
    lines = text.splitlines()
    return UsageError(f"--cluster {address}: {lines[0] if lines else type(error).__name__}")


def runtime_env(stage: Path, folder: Path | None) -> dict[str, Any]:
    """Ray's description of what to ship: dynalyze, copied to the empty folder `stage`, and the user's `folder`."""
    package = stage / "dynalyze"  # A copy, as a wheel has it.
    shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    if not (package / "templates").is_dir():
        shutil.copytree(_CHECKOUT_TEMPLATES, package / "templates")
    # What of our environment decides how torch compiles. Paths are of this machine, and stay.
    switches = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_SWITCHES) and not os.path.isabs(value) and "TOKEN" not in name  # noqa: PTH117  text
    }
    shipped: dict[str, Any] = {"py_modules": [str(package)], "env_vars": switches}
    return shipped if folder is None else {**shipped, "working_dir": str(folder)}
