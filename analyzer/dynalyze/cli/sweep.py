"""`dynalyze sweep`: many targets and configurations at once."""

from __future__ import annotations

from typing import Any

import click

from dynalyze.cli.options import (
    Sectioned,
    compile_options,
    count_option,
    library_options,
    seconds_option,
    shown_options,
)


class _WithArguments(Sectioned):
    """What follows -- goes to the programs, and is no target."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta["arguments"] = tuple(args[at + 1 :])
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS...]"]


@click.command(cls=_WithArguments, context_settings={"default_map": {"backend": "eager"}})
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@compile_options
@library_options
@click.option(
    "--input", "inputs", multiple=True, metavar="EXPR", help="Inputs of every FILE:NAME, as explain takes them."
)
@click.option("--configs", metavar="LIST", help="Configurations that each target is run in, separated by commas.")
@click.option("--matrix", is_flag=True, help="The configurations default,fullgraph,dynamic=on,dynamic=mark,train.")
@click.option("--bench", is_flag=True, help="Measure each item's speed against eager too; one item at a time then.")
@seconds_option("--bench-seconds", "The most that measuring an item may take.", 60.0)
@count_option("--workers", "Items at once. [default: as many as cores]")
@click.option("--memory", metavar="SIZE", help="The most that one item may hold, e.g. 4G. [default: its share]")
@seconds_option("--timeout", "End an item, and all it started, after this long.", 300.0)
@click.option("--spawn", is_flag=True, help="Fork nothing: each item imports torch in a process of its own.")
@click.option("--python", metavar="PATH", help="Run the items under this interpreter.")
@click.option(
    "--out", default="dynalyze-sweep", show_default=True, metavar="DIR", help="Write rows, reports and index into DIR."
)
@click.option("--resume", is_flag=True, help="Go on with the sweep in DIR: what is done there is not done again.")
@click.option("--json", "json_file", metavar="FILE", help="Write all rows as one JSON; - for standard output.")
@click.option("--html", "html_file", metavar="FILE", help="Write the index to FILE too.")
@click.option(
    "--fail-on", metavar="LEVEL", default="none", show_default=True,
    help="Exit 1 where a finding reaches error, warning or info or has this rule's id, or where an item has this "
    "status; several, separated by commas.",
)  # fmt: skip
@shown_options()
@click.option("--quiet-target", is_flag=True, help="Do not show what items print.")
@click.option("--cluster", metavar="ADDRESS", help="Run the items on this Ray cluster; auto: the one of this machine.")
@click.option("--gpus-per-item", type=click.FloatRange(min=0), metavar="N", help="GPUs of the cluster for each item.")
@click.option("--shared-disk", is_flag=True, help="The cluster's nodes see your files under the same paths: ship none.")
@click.pass_context
def sweep(context: click.Context, /, **options: Any) -> int:
    """Run every TARGET under torch.compile, many at once, and write one index of what became of each.

    \b
    TARGET is what dynalyze explain takes, and
      hf:all, hf:Llama*    architectures of transformers, built small
      timm:all, timm:vit*, diffusers:all, diffusers:*Pipeline
                           models of timm and of diffusers
      models/              the Python files of a folder
      'models/*.py:Net'    a glob of files
      plan.toml            a file of targets and configurations, see docs/how-to/sweep.md

    The backend is eager: Dynamo alone decides what breaks a graph, and costs least. --backend inductor goes the
    whole road.

    \b
    A configuration is one of these, or several joined by + (train+dynamic=on):
      default, fullgraph, train, eval, dynamic=on|off|mark, backend=NAME,
      reduce-overhead, max-autotune, max-autotune-no-cudagraphs (with Inductor)

    A failure, hang or crash costs its own item. Ctrl-C keeps what is done; --resume goes on from there.
    """
    from dynalyze.cli.sweeping import run_sweep

    return run_sweep(context, options)
