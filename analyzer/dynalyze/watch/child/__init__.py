"""What runs in every process of a watched job: standard library, torch and `capture` alone."""
