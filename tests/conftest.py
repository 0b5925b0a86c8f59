"""What holds for all tests."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # the first example also imports
settings.load_profile("any machine")
