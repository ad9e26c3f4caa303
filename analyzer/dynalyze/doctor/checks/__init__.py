"""The checks, one file each: a module with `check(facts)`. Their order is that of `diagnose.CHECKS`."""
