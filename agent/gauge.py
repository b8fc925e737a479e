"""What is told of the window's fullness: the gauge, the parts, and the text where nothing fits any more.

It only reads. Before the first message the record is empty; then the request that a first message would make is shown.
"""

from typing import Literal

from agent.context.breakdown import biggest, breakdown, fixed_tokens
from agent.context.budget import Thresholds, gauge_state
from agent.context.meter import Meter, Used
from agent.context.tokens import Counter
from agent.events import GaugeChanged
from agent.transcript import Prefix, Setting, Transcript
from agent.window import Window
from providers.models import ModelFacts


def gauge_changed(used: Used, limits: Thresholds, cost_usd: float | None) -> GaugeChanged:
    """The gauge as an event. `cost_usd` is the whole session's."""
    state = gauge_state(used.tokens, limits)
    level: Literal["calm", "warning", "full"] = "warning" if state.above_warning else "calm"
    if state.above_trigger or state.at_blocking:
        level = "full"
    return GaugeChanged(
        used.tokens, used.is_estimate, limits.effective, limits.context_window, limits.trigger, cost_usd, level
    )


def change_text(before: Used, after: Used, freed_tokens: int) -> str:
    """What an edit did to the gauge, to stand behind what it did. `freed_tokens`: estimated alike before and after.

    An edit that breaks the prefix leaves an estimate where a report stood. The two are not compared: their difference has
    more in it than what the edit moved.
    """
    if before.measured_tokens and not after.measured_tokens:
        moved = f"frees about {freed_tokens:,}" if freed_tokens >= 0 else f"adds about {-freed_tokens:,}"
        return f", which {moved} tokens; until the next reply the gauge is an estimate (≈{after.tokens:,})"
    return f": about {before.tokens:,} → {after.tokens:,} tokens" if before.tokens != after.tokens else ""


def first_request(prefix: Prefix, facts: ModelFacts, counter: Counter) -> tuple[Window, Meter]:
    """Window and meter of a session that has begun and says nothing yet."""
    transcript = Transcript()
    transcript.append(Setting(facts.provider, facts.id, facts.family, facts.api), 0)
    transcript.append(prefix, 0)
    window, meter = Window(transcript.branch), Meter(counter)
    meter.rebuild(transcript.branch, window)
    return window, meter


def full_text(window: Window, meter: Meter, limits: Thresholds) -> str:
    """Why the next request cannot be sent, what fills it, and, in a second line, what to do."""
    used, parts = meter.used().tokens, breakdown(window, meter)
    compacting = "Use /compact, start over" if limits.can_compact else "Start over"
    remedy = f"{compacting} with /new, or choose a model with a larger window."
    if fixed_tokens(parts) * 2 > used:
        shorter = "Shorten the instruction files or use --no-instructions"
        fewer = shorter if window.prefix.instruction_files else "Give it fewer tools (--tools)"
        remedy = f"{fewer}, or choose a model with a larger context window."
    elif sum(part.tokens for part in parts if part.kind == "user") * 2 > used:
        remedy = (
            "Put long text into a file and name the file, start over with /new, or choose a model with a larger window."
        )
    return (
        f"The context window is full: about {used:,} of {limits.effective:,} usable tokens. "
        f"The biggest parts, in tokens: {biggest(parts, window)}.\n{remedy}"
    )
