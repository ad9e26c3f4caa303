"""`dynalyze mcp`: explain, fix, verify and diff as tools of an agent, over the Model Context Protocol."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from dynalyze import __version__
from dynalyze.cli.options import seconds_option
from dynalyze.launch.interrupts import SIGNALS
from dynalyze.text.errors import DynalyzeError, UsageError

_SERVERS = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""The official SDK since version 2, and before."""
_HALF_OF_A_PAIR = re.compile("[\ud800-\udfff]")
# What a signal's sender and whoever passes it on (uv run, timeout) send at once is one.
_ONE_SIGNAL_SECONDS = 0.5


@click.command()
@click.option(
    "--root", default=".", show_default=True, metavar="DIR",
    help="The folder below which all paths lie; programs run in it.",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option("--python", metavar="PATH", help="Run programs under this interpreter.")
@seconds_option("--most-seconds", "End a call after this long.", 1800.0)
def mcp(root: Path, python: str | None, most_seconds: float) -> int:
    """Serve explain, fix, verify and diff to a coding agent as tools, over the Model Context Protocol on standard input
    and output. Each call runs one command of dynalyze in a process of its own, with --brief. An agent that may call
    these tools may run programs below --root. The server writes nothing outside of --root; programs can.
    """
    from dynalyze.cli.mcp_tools import DATA, INSTRUCTIONS, Tools

    server_class, error_class = _sdk()
    tools = Tools(root, python, most_seconds)
    named = {each.__name__: each for each in (tools.explain, tools.fix, tools.verify, tools.diff)}
    server = _strict(server_class, named, error_class)("dynalyze", INSTRUCTIONS)
    for tool in named.values():  # Named, typed and described as they are.
        described = " ".join(f"{tool.__doc__} {DATA}".split())
        server.tool(description=described, structured_output=False)(_with_errors(tool, error_class))
    return _served(server, tools.ending)


def _strict(server_class: Any, tools: dict[str, Callable[..., Any]], error_class: type[Exception]) -> Any:
    """The SDK's server with our version, which refuses arguments that a tool does not have."""
    from dynalyze.cli.mcp_tools import check_arguments

    class StrictServer(server_class):  # type: ignore[misc]
        def __init__(self, name: str, instructions: str) -> None:
            versioned = "version" in inspect.signature(server_class).parameters
            more = {"version": __version__} if versioned else {}
            super().__init__(name, instructions=instructions, log_level="ERROR", **more)
            if not versioned:
                self._mcp_server.version = __version__  # The SDK before version 2 has no public name for it.

        async def list_tools(self) -> Any:
            listed = await super().list_tools()
            for each in listed:
                (getattr(each, "input_schema", None) or each.inputSchema)["additionalProperties"] = False
            return listed

        async def call_tool(self, name: str, arguments: dict[str, Any], *more: Any, **named: Any) -> Any:
            try:
                if name in tools:
                    check_arguments(arguments, list(inspect.signature(tools[name]).parameters))
                return await super().call_tool(name, arguments, *more, **named)
            except UsageError as error:
                raise error_class(str(error)) from None

    return StrictServer


def _with_errors(tool: Callable[..., Awaitable[str]], error_class: type[Exception]) -> Callable[..., Awaitable[str]]:
    """The tool with our errors as the SDK's: it passes no others on to the agent."""
    from dynalyze.cli.mcp_tools import check_arguments

    @functools.wraps(tool)
    async def checked(**named: Any) -> str:
        try:
            check_arguments(named, list(named))  # Once more: the SDK reads a list out of a text that holds one.
            return await tool(**named)
        except DynalyzeError as error:
            raise error_class(str(error)) from None

    return checked


def _served(server: Any, ending: threading.Event) -> int:
    """Serve until the client closes its end, or a signal comes; returns the exit status.

    The SDK reads from `_feed`: reading standard input itself, it would never notice a signal.
    """
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    came: list[tuple[int, float]] = []

    def end(number: int) -> None:
        if came and time.monotonic() - came[0][1] > _ONE_SIGNAL_SECONDS:
            os._exit(128 + number)  # What runs ends with this process.
        came.append((number, time.monotonic()))
        if not ending.is_set():
            ending.set()
            os.dup2(nothing, writing)  # The SDK comes to the end of what it reads.

    _on_signals(end)
    threading.Thread(target=_feed, args=(writing, ending), daemon=True).start()
    sys.stdin = io.TextIOWrapper(open(reading, "rb"), encoding="utf-8")  # noqa: SIM115, PTH123
    server.run("stdio")
    if sys.stdout.closed:  # By the SDK before version 2.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    return 128 + came[0][0] if came else 0


def _on_signals(end: Callable[[int], None]) -> None:
    """Have a thread call `end` with each of SIGNALS that is not ignored.

    Python's own handlers run in the main thread. One that comes when that thread is about to wait for the SDK's
    threads, or in another thread, would run after the next message, which may never come.
    """
    arrived, arrives = socket.socketpair()
    arrives.setblocking(False)

    def wait() -> None:
        while numbers := arrived.recv(64):
            for number in numbers:
                if number in SIGNALS:
                    end(number)

    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(arrives.detach(), warn_on_full_buffer=False)
    threading.Thread(target=wait, daemon=True).start()


def _feed(writing: int, ending: threading.Event) -> None:
    """Pass messages on; after the last one calls end too."""
    with contextlib.suppress(OSError), open(writing, "wb") as sdk, open(0, "rb", closefd=False) as wire:
        for line in wire:
            sdk.write(readable(line))
            sdk.flush()
        ending.set()


def readable(line: bytes) -> bytes:
    """The message with NUL for half of a surrogate pair, which the SDK would drop without an answer."""
    try:
        text = json.dumps(json.loads(line.decode(errors="surrogateescape")), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return _HALF_OF_A_PAIR.sub(r"\\u0000", text).encode() + b"\n" if _HALF_OF_A_PAIR.search(text) else line


def _sdk() -> tuple[Any, type[Exception]]:
    for module, name in _SERVERS:
        try:
            server = getattr(importlib.import_module(module), name)
            return server, importlib.import_module(f"{module}.exceptions").ToolError
        except ImportError:
            continue
    raise UsageError(
        'mcp needs the SDK of the Model Context Protocol, version 1.10 or later: pip install "dynalyze[mcp]"'
    )
