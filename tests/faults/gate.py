"""What a release gate is: a number that claw must reach under faults, and the run that measures it."""

from collections.abc import Callable
from typing import NamedTuple


class Reading(NamedTuple):
    """What one run of a gate found."""

    reached: str
    """Figures in words, the number of trials first: "1,000 of 1,000 resumed"."""
    holds: bool


class Gate(NamedTuple):
    """`measure` takes the share of the full run that is wanted (1.0 is all of it, at least one trial of each kind is made)
    and cleans up behind itself. `needs` says what is missing on this machine, or nothing."""

    id: str
    title: str
    goal: str
    reference: str
    """What others reach, or what the naive way gives."""
    measure: Callable[[float], Reading]
    needs: Callable[[], str] = lambda: ""
