"""What runs in the processes that measure: no listener, only the standard library and torch."""
