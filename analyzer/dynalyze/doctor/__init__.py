"""`dynalyze doctor`: what an environment can and cannot compile, and the line that mends it."""
