"""Changes that end graph breaks, each verified by running it: `dynalyze fix` and `dynalyze verify`."""
