"""dynalyze as on Windows, as far as that can be had elsewhere: what Python lacks there is taken away before it starts.

    python as_on_windows.py COMMANDS.json

runs each command line of the list and prints its exit status, on standard error.
"""

import concurrent.futures  # noqa: F401 - Python's own, which has its ways without what is taken away here.
import importlib.abc
import json
import logging.handlers  # noqa: F401
import multiprocessing  # noqa: F401
import os
import select
import shutil  # noqa: F401
import signal
import socket
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import uuid  # noqa: F401
from pathlib import Path

MODULES = {"fcntl", "pwd", "grp", "resource", "termios", "pty", "tty", "syslog", "readline"}
NAMES = {
    os: "fork forkpty killpg setsid setpgid getpgid getuid geteuid getgid getegid statvfs O_NOFOLLOW O_CLOEXEC "
        "O_DIRECTORY O_NONBLOCK sched_getaffinity WNOHANG mkfifo uname getpriority nice chown fchown wait3 wait4 pread "
        "pwrite fwalk posix_spawn register_at_fork getloadavg sysconf",
    signal: "SIGHUP SIGQUIT SIGKILL SIGALRM SIGCHLD SIGPIPE SIGXFSZ SIGUSR1 SIGUSR2 alarm setitimer pthread_sigmask",
    select: "poll epoll",
    socket: "AF_UNIX",
}  # fmt: skip


class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


for name in MODULES:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Missing())
for module, names in NAMES.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

from dynalyze.cli.group import run  # noqa: E402

for command in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
    print("exit status", run(command), file=sys.stderr)
