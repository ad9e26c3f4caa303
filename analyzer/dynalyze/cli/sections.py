"""Help in sections: the options of a command by what they are about, and at the end those that few people need."""

from __future__ import annotations

import click

_OWN, _MORE = "Options", "More"
_SECTIONS = {
    "Target": "module inputs chosen python quiet_target",
    "Compile": "backend mode dynamic fullgraph train device dtype autocast configs matrix",
    "Models of libraries": "batch batches sequence sequences size phase phases full_size weights",
    "Output": "html_file json_file outs brief artifacts patch verbose fail_on csv_file",
    "Privacy": "no_source redact show_values",
    "Limits": "timeout stop_after no_bench bench_seconds search_seconds seconds pairs sandbox allow_effects memory",
    _MORE: "attn_implementation static_cache new_tokens features steps lora cold init trust_remote_code provenance "
    "vary_inputs threads seed no_memory no_accuracy prices rerun spawn shared_disk gpus_per_item show_output",
}
_SECTION_OF = {name: title for title, names in _SECTIONS.items() for name in names.split()}


class Sectioned(click.Command):
    """A command whose help lists its own options first, then those that it shares with others, by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in (_OWN, *_SECTIONS)}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx) if isinstance(each, click.Option) else None
            if record is not None and "--help" not in each.opts:
                rows[_SECTION_OF.get(each.name or "", _OWN)].append(record)
        for title, found in rows.items():
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)


class Renamed(click.Option):
    """An option that answers to older names too, which its help leaves out, with the range of a number."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        known, self.opts = self.opts, self.opts[:1]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = known

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        extra.pop("range", None)
        if "default" in extra:
            extra["default"] = extra["default"].removesuffix(".0")
        return extra
