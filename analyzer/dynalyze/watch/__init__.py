"""`dynalyze watch`: a flight recorder for long jobs. Tells recompiles by rank and step while they happen."""
