"""The command line: one module a command, loaded when it is asked for."""
