"""The guard against compactions that lead nowhere: it counts what happened and says when no further one may start by itself.

Decision: a refill is an automatic compaction that comes within one reply of the one before it. A long piece of work that
fills the window again and again, but takes several steps for it each time, is none.
"""

_FAILURES = 3
_POOR = 2
_REFILLS = 3
_REFILL_STEPS = 1
_LEAST_SHARE = 5


class CompactionGuard:
    """One per session. `/compact` starts it anew; its own outcome is told like any other's."""

    def __init__(self) -> None:
        self._failures = 0
        self._poor = 0
        self._refills = 0
        self._steps: int | None = None  # replies since the newest compaction; None: there was none
        self._final = False
        self._overflow_handled = False

    def stopped(self) -> str | None:
        """Why no automatic compaction may start now, with advice where there is some, or None if one may."""
        if self._final:
            return "what always stays in the window is too large for a summary to help"
        if self._failures >= _FAILURES:
            return f"automatic compaction failed {_FAILURES} times in a row and is off until /compact works"
        if self._poor >= _POOR:
            return f"the last {_POOR} compactions freed too little, so another one would not help"
        if self._refills >= _REFILLS:
            return (
                f"the window was full again right after each of the last {_REFILLS} compactions; probably one file or "
                "output is too large for it: have it read in smaller parts, or choose a model with a larger window"
            )
        return None

    def may_handle_overflow(self) -> bool:
        """Whether a request that the provider found too long may be compacted: at most once until a reply comes."""
        return not self._overflow_handled and self.stopped() is None

    def failed(self, trigger: str, final: bool = False) -> None:
        """A compaction failed (`NotCompacted.failed`); `final`: trying again cannot help."""
        self._final = self._final or final
        if trigger != "manual":
            self._failures += 1
        if trigger == "overflow":
            self._overflow_handled = True

    def succeeded(self, before: int, after: int, floor: int, trigger: str = "auto") -> None:
        """A compaction took the window from `before` to `after` tokens, `floor` of which no compaction can remove."""
        self._failures, self._final = 0, False
        manual = trigger == "manual"
        poor = (before - after) * _LEAST_SHARE < before - floor
        self._poor = self._poor + 1 if poor and not manual else 0
        refilled = self._steps is not None and self._steps <= _REFILL_STEPS
        self._refills = self._refills + 1 if refilled and not manual else 0
        self._steps = None if manual else 0
        if trigger == "overflow":
            self._overflow_handled = True

    def answered(self) -> None:
        """A request of the conversation got its reply, so the next overflow is a new one."""
        self._overflow_handled = False
        if self._steps is not None:
            self._steps += 1

    def reset(self) -> None:
        """The user asked for a compaction, or model or prefix changed: automatic ones may be tried again."""
        self._failures = self._poor = self._refills = 0
        self._steps = None
        self._final = False
        self._overflow_handled = False
