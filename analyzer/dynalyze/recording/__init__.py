"""`dynalyze.record()`: what torch.compile does in a block of the user's own process, as the same report."""
