"""`dynalyze mcp`: explain, fix, verify and diff as tools of an agent, over the Model Context Protocol."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from dynalyze.cli.options import seconds_option
from dynalyze.text.errors import UsageError

_SERVERS = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""The official SDK since version 2, and before."""


@click.command()
@click.option(
    "--root", default=".", show_default=True, metavar="DIR",
    help="The folder below which all paths lie; programs run in it.",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option("--python", metavar="PATH", help="Run programs under this interpreter.")
@seconds_option("--most-seconds", "End a call after this long.", 1800.0)
def mcp(root: Path, python: str | None, most_seconds: float) -> None:
    """Serve explain, fix, verify and diff to a coding agent as tools, over the Model Context Protocol on standard input
    and output. Each call runs one command of dynalyze in a process of its own, with --brief. An agent that may call
    these tools may run programs below --root.
    """
    from dynalyze.cli.mcp_tools import DATA, INSTRUCTIONS, Tools

    server_class, error_class = _sdk()
    server = server_class("dynalyze", instructions=INSTRUCTIONS, log_level="ERROR")
    tools = Tools(root, python, most_seconds)
    for tool in (tools.explain, tools.fix, tools.verify, tools.diff):  # Named, typed and described as they are.
        described = " ".join(f"{tool.__doc__} {DATA}".split())
        server.tool(description=described, structured_output=False)(_telling(tool, error_class))
    server.run("stdio")


def _telling(tool: Callable[..., Awaitable[str]], error_class: type[Exception]) -> Callable[..., Awaitable[str]]:
    """The tool, whose own line about a wrong call reaches the agent: the SDK keeps other errors to itself."""

    @functools.wraps(tool)
    async def told(*given: Any, **named: Any) -> str:
        try:
            return await tool(*given, **named)
        except UsageError as error:
            raise error_class(str(error)) from None

    return told


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
