"""A target run and measured under two interpreters, and what differs."""
