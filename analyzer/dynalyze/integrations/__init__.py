"""dynalyze inside of other libraries: each module here is for one of them, and imports it."""
