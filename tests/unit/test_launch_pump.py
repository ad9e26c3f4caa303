"""Emptying the pipes, with ourselves in the place of the target."""

from __future__ import annotations

import io
import os
import threading

from dynalyze.launch.streams import Pump, Source, Streams


class SlowStreams(Streams):
    """Takes nothing until `released`, as a terminal does that somebody has stopped."""

    def __init__(self) -> None:
        super().__init__("m", stream=io.StringIO())
        self.busy = threading.Event()
        self.released = threading.Event()
        self.got: dict[Source, bytes] = {"stdout": b"", "stderr": b""}

    def feed(self, source: Source, data: bytes) -> None:
        self.busy.set()
        self.released.wait()
        self.got[source] += data


def test_what_is_left_in_the_pipes_at_the_end_comes_through_though_others_hold_them() -> None:
    streams = SlowStreams()
    with Pump(streams) as pump:
        somebody_else = [os.dup(pump.stdout), os.dup(pump.stderr)]
        os.write(pump.stdout, b"first ")
        streams.busy.wait()
        os.write(pump.stdout, b"second")
        os.write(pump.stderr, b"x" * 60_000)
        threading.Timer(0.2, streams.released.set).start()
    for descriptor in somebody_else:
        os.close(descriptor)
    assert streams.got == {"stdout": b"first second", "stderr": b"x" * 60_000}
