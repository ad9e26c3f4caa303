"""The one place that touches private APIs of torch: where a new torch breaks something, it is mended here.

Each part says on which versions it was run, and what it does where a version lacks something: it answers None, 0 or
nothing, and the caller reads the same fact from the text of the event or does not claim it. `dynamo`, `trace` and
`runtime` import nothing of torch by themselves; `compiled_calls` and `numerics` need it imported.
"""
