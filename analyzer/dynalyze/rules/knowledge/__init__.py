"""The cookbook: one module a cause of graph breaks, or a small family of causes."""
