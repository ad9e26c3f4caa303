"""Passes notices on to a command, or to an address on the machine's own network, without ever blocking."""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from typing import Any

import msgspec

from dynalyze.text.errors import UsageError
from dynalyze.text.escape import say
from dynalyze.watch.records import Notice

_SECONDS = 10.0
_MOST_WAITING = 100
_END_SECONDS = 5.0


class Alerts:
    """Sends each notice with its line as JSON: to the standard input of a shell command, and as the body of a POST.

    Raises UsageError for an address outside of the machine's own network.
    """

    def __init__(self, command: str | None = None, url: str | None = None) -> None:
        self._command, self._url = command, url
        if url is not None:
            _check_address(url)
        self._queue: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._thread = threading.Thread(target=self._run, name="dynalyze-alerts", daemon=True)
        self._failed = False
        if command or url:
            self._thread.start()

    def send(self, notice: Notice, line: str) -> None:
        """Queue a notice; drop it where too many wait."""
        if self._thread.is_alive():
            body = msgspec.json.encode({"line": line, **msgspec.to_builtins(notice)}) + b"\n"
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(body)

    def close(self) -> None:
        """Wait a few seconds for what is queued."""
        if self._thread.is_alive():
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(None)
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        while (body := self._queue.get()) is not None:
            for act in (self._call, self._post):
                try:
                    act(body)
                except (OSError, subprocess.SubprocessError, UsageError, ValueError) as error:
                    if not self._failed:  # Once: a broken alert must not fill the log of a long job.
                        say(f"the alert failed: {error}")
                    self._failed = True

    def _call(self, body: bytes) -> None:
        if self._command is not None:
            subprocess.run(
                self._command, shell=True, input=body, stdout=subprocess.DEVNULL, timeout=_SECONDS, check=True
            )

    def _post(self, body: bytes) -> None:
        if self._url is not None:
            _check_address(self._url)
            request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"}, method="POST")
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
            with opener.open(request, timeout=_SECONDS):
                pass


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _check_address(url: str) -> None:
    """Raise UsageError for an address outside the machine's own network."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--alert-url {url}: an address begins with http:// and names a host")
    try:
        found = socket.getaddrinfo(parts.hostname, None)
    except OSError as error:
        raise UsageError(f"--alert-url {url}: {parts.hostname} is not known here") from error
    for *_, address in found:
        if not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_private:
            raise UsageError(f"--alert-url {url}: {address[0]} is outside of this machine's own network; use --alert")
