"""Runs items one at a time in this process, with a fork server of its own: what each node of a cluster does."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from dynalyze.fleet.items import Item
from dynalyze.fleet.work import Finished, RunSettings, lost_item, run_item
from dynalyze.launch.forkserver import ForkServer, ServerLost
from dynalyze.text.errors import UsageError

_ATTEMPTS = 2
# numpy's library would start its threads when it is imported, which is before the fork.
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}


def start_server(settings: RunSettings) -> ForkServer:
    """A fork server as these settings need it.

    Raises:
        UsageError: torch or transformers cannot be imported.
    """
    backends = ("inductor",) if settings.inductor else ()
    environment = {**_ONE_THREAD, **os.environ, **settings.env}
    return ForkServer(settings.python or sys.executable, environment, ["serve", *backends])


class Runner:
    """Starts its fork server with the first item that is forked, and again when it died. One item at a time."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._server: ForkServer | None = None

    def run(self, item: Item) -> Finished:
        """The results of one item; whatever it does, this comes back."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                finished = run_item(item, self._settings, self._address(item))
            except ServerLost:
                continue
            except UsageError as error:
                return lost_item(item, str(error), attempt, "create_error")
            finished.row.attempts = attempt
            return finished
        return lost_item(item, "it ended the fork server, twice", _ATTEMPTS)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _address(self, item: Item) -> str | None:
        if not self._settings.forks(item):
            return None
        if self._server is not None and not self._server.alive:
            self.close()
        if self._server is None:
            self._server = start_server(self._settings)
        return self._server.address
