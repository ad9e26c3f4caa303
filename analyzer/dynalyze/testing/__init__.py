"""Assertions about torch.compile for tests: what the pytest fixture `dynalyze` gives."""
