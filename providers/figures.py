"""The figures of a usage report, as servers really write them."""

import math
from typing import Any


def tokens(value: Any) -> int:
    """A count of tokens; 0 for whatever is none (null, text, a negative or infinite number)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return max(int(value), 0)
