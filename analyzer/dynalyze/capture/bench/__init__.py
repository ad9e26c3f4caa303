"""The processes that measure: no listener, only the standard library and torch."""
