"""Turns nested graph breaks on in every process that imports torch and has this folder on PYTHONPATH."""

import sys
from importlib.machinery import PathFinder


class _Config:
    """Finds torch._dynamo.config as Python does, and changes the setting once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch._dynamo.config":
            return None
        spec = PathFinder.find_spec(name, path, target)
        load = spec.loader.exec_module

        def loaded(module):
            load(module)
            module.nested_graph_breaks = True

        spec.loader.exec_module = loaded
        return spec


sys.meta_path.insert(0, _Config())
