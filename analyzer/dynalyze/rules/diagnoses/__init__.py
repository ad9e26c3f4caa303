"""The diagnoses, one file each: a module with `RULE`. Order of files does not matter."""
