"""What can be run: reads TARGET from the command line and asks the child for it."""
