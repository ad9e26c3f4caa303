"""Changes that end graph breaks, each proved by running it: `dynalyze fix` and `dynalyze verify`."""
