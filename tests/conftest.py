"""What all tests share: nothing is timed, so no example of a property test has a deadline."""

from hypothesis import settings

settings.register_profile("dynalyze", deadline=None)
settings.load_profile("dynalyze")
