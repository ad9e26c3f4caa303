"""The gate before production: everything that is known of a target, judged by a policy."""
