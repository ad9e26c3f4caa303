"""The diagnoses: a file has one `Rule`, or a family that shares code. Order does not matter."""
