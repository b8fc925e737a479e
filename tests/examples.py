"""How many examples a property is tried with: few in the usual run, `pytest --hypothesis-profile=thorough` tries twenty times
as many.
"""

from hypothesis import settings

SUITE = 15
THOROUGH = 20 * SUITE


def examples(usually: int) -> int:
    """For properties that want another number than most."""
    return usually * settings().max_examples // SUITE
