"""What lives in the child: it needs the standard library and torch, nothing else, and writes events."""
