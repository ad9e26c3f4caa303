"""Settings that findings name, tried on the recorded calls of a program: what ends by them, and what does not."""
