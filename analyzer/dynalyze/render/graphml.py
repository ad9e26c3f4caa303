"""The map of a run as GraphML, for Gephi, yEd, Cytoscape and networkx."""

from __future__ import annotations

import io
import re

import networkx as nx

from dynalyze.render.map import compile_map
from dynalyze.report import Report

# XML 1.0 has no way to write these, escaped or not.
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report) -> str:
    """One GraphML document."""
    graph = compile_map(report)
    writable: nx.DiGraph[str] = nx.DiGraph()
    for name, attributes in graph.nodes(data=True):
        writable.add_node(_text(name), **{key: _value(value) for key, value in attributes.items()})
    for source, end, attributes in graph.edges(data=True):
        writable.add_edge(_text(source), _text(end), **{key: _value(value) for key, value in attributes.items()})
    file = io.BytesIO()
    nx.write_graphml_xml(writable, file, encoding="utf-8", prettyprint=True)
    return file.getvalue().decode("utf-8") + "\n"


def _value(value: str | float) -> str | float:
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
