"""A server of `dynalyze mcp` in a folder of its own, and the SDK's own client of it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from warm_starts import can_fork, start_dynalyze

_Answer = TypeVar("_Answer")
COMMAND = (sys.executable, "-m", "dynalyze", "mcp", "--root")


def run_apart(ask: Callable[..., Awaitable[_Answer]], *arguments: Any) -> _Answer:
    """Run it to its end in a thread of its own: browser tests leave a loop running in the one of the tests."""
    import anyio

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, ask, *arguments).result()


def environment(temporary: Path | None = None) -> dict[str, str]:
    """Where our modules are, and where temporary folders go."""
    paths = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    return paths if temporary is None else {**paths, "TMPDIR": str(temporary)}


@asynccontextmanager
async def connected(root: Path, temporary: Path | None = None, *, forks: bool = True) -> AsyncIterator[tuple[Any, Any]]:
    """The client, and how the server introduced itself; it and what it runs may be forks."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    (command, *arguments), env = [*COMMAND, str(root)], environment(temporary)
    if forks and can_fork({}):
        (command, *arguments), variables = start_dynalyze(["mcp", "--root", str(root)], {})
        env = {**os.environ, **variables, **({} if temporary is None else {"TMPDIR": str(temporary)})}
    server = StdioServerParameters(command=command, args=arguments, env=env, cwd=root)
    async with stdio_client(server) as streams, ClientSession(*streams) as client:
        yield client, await client.initialize()


def text_of(answer: Any) -> str:
    (content,) = answer.content
    return str(content.text)


def is_error(answer: Any) -> bool:
    return bool(getattr(answer, "is_error", None) or getattr(answer, "isError", None))
