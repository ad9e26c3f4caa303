"""The diagnoses: a file has one `RULE`, or the `RULES` of a family that share code. Order does not matter."""
