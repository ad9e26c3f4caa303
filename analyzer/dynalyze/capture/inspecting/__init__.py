"""What a module given to torch.compile looks like, and how torch is set up: facts for rules, read without a trace."""
