"""The one `match` from event to widget: what each fact of a session changes on the screen. It decides words and order,
never looks at a session, and draws nothing itself.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from agent import events
from providers.types import TextBlock, ThinkingBlock
from tui.init_command import typed_for
from tui.launch.listed_models import short_name
from tui.money import money
from tui.tuning import Rest
from tui.widgets.banner import Banner
from tui.widgets.queue import QueueView
from tui.widgets.status import StatusLine, short_tokens
from tui.widgets.transcript import TranscriptView
from tui.widgets.working import WorkingLine

_END_WORDS = {
    "interrupted": ("info", "Interrupted."),
    "max_turns": ("warning", "The limit of steps was reached."),
    "max_cost": ("warning", "The limit of cost was reached."),
    "provider_error": ("error", "The model could not be reached."),
    "context_full": ("error", "The context window is full."),
    "refusal": ("warning", "The model refused to answer."),
    "no_answer": ("warning", "The model gave no answer."),
}
_STILL_WAITS = "Enter sends what waits, alone or before your next message; Up takes it back."
_TRIGGERS = {"auto": "automatic", "manual": "by hand", "overflow": "overflow"}
_COMPACTED_MORE = (
    "/undo compact takes it back, also after more talk and after a restart. Nothing is deleted: /history WORDS finds what "
    "was replaced, and the model finds it too."
)


class Presenter:
    """Shows events. One is enough for the life of the screen; `reset` starts it anew for another session."""

    def __init__(
        self,
        transcript: TranscriptView,
        status: StatusLine,
        working: WorkingLine,
        queue: QueueView,
        banner: Banner,
        on_turn_end: Callable[[], None],
        on_summary_news: Callable[[str], None] = lambda news: None,
    ) -> None:
        """`on_summary_news` hears how a summary gets on that a dialog waits for; foreign text."""
        self._transcript = transcript
        self._status = status
        self._working = working
        self._queue = queue
        self._banner = banner
        self._on_turn_end = on_turn_end
        self._rest = Rest()
        self._on_summary_news = on_summary_news
        self._compaction = ""
        """Trigger of the compaction under way."""
        self._streamed = False
        """Whether the running step has shown text or thinking."""
        self._model = ""
        self._in_turn = False
        self._running_tools: dict[str, str] = {}
        transcript.on_frame = working.in_step

    def reset(self) -> None:
        """Nothing of the last session stays on the screen."""
        self._streamed = False
        self._in_turn = False
        self._compaction = ""
        self._running_tools.clear()
        self._working.end()
        self._queue.texts = ()
        self._banner.text = ""
        self._transcript.clear()

    def show_all(self, past: Iterable[events.Event]) -> None:
        """Draw a session that is resumed. Tools that never finished are shown as they were."""
        for event in past:
            self.show(event)

    def show(self, event: events.Event) -> None:
        match event:
            case events.TextStreamed(text=text, opens_block=opens):
                self._streamed = True
                self._working.say("writing")
                self._transcript.feed(text, opens)
            case events.ThinkingStreamed(text=text, opens_block=opens):
                self._streamed = True
                self._working.say("thinking")
                self._transcript.feed_thinking(text, opens)
            case events.ToolCallStreamed(name=name, arguments_chars=chars):
                self._working.say(f"writing a call of {name}" + (f" ({chars:,} characters)" if chars > 400 else ""))
            case events.ToolProgress(call_id=call_id, text=text):
                self._transcript.tool_progress(call_id, text)
            case events.ToolStarted() | events.ToolFinished():
                self._show_tool(event)
            case events.GaugeChanged():
                self._show_gauge(event)
            case events.QueueChanged(texts=texts, after_turn=after_turn):
                self._queue.after_turn, self._queue.texts = after_turn, tuple(map(typed_for, texts))
            case events.Notice(level=level, text=text, remedy=remedy):
                self._transcript.add_notice(level, f"{text}\n{remedy}" if remedy else text)
            case events.SettingChanged():
                self._show_setting(event)
            case events.UserMessageAdded(key=key, text=text):
                self._transcript.add_user(key, text, typed_for(text))
            case events.CompactionStarted() | events.CompactionProgress() | events.CompactionFinished():
                self._show_compaction(event)
            case _:
                self._show_turn(event)

    def _show_turn(self, event: events.Event) -> None:
        match event:
            case events.TurnStarted():
                self._in_turn = True
                self._working.begin("starting")
            case events.StepStarted(model=model):
                self._streamed = False
                self._model = short_name(model)
                self._working.say(f"waiting for {self._model}")
            case events.MessageCompleted():
                self._show_message(event)
            case events.RetryScheduled():
                self._show_retry(event)
            case events.TurnEnded(reason=reason, error=error):
                self._rest.turn_ended()
                self._transcript.end_message()
                self._in_turn = False
                self._working.end()
                self._running_tools.clear()
                self._show_end(reason, error)
                self._on_turn_end()
            case events.RecordingChanged(fault=fault, remedy=remedy):
                self._show_recording(fault, remedy)
            case _:
                pass

    def _show_retry(self, event: events.RetryScheduled) -> None:
        attempt, most = event.attempt, event.max_attempts
        if self._in_turn or self._compaction:
            self._streamed = False
            self._transcript.discard_stream()
            self._working.retry(event.reason, event.delay_s, attempt, most)
        else:
            self._on_summary_news(f"{event.reason}; next try in {round(event.delay_s)} s ({attempt}/{most})")

    def _show_message(self, event: events.MessageCompleted) -> None:
        if not self._streamed:  # replayed, or a provider that does not stream
            for block in event.blocks:
                if isinstance(block, TextBlock):
                    self._transcript.add_assistant(block.text)
                elif isinstance(block, ThinkingBlock):
                    self._transcript.add_thinking(block.text)
        self._transcript.end_message()
        self._streamed = False

    def _show_tool(self, event: events.ToolStarted | events.ToolFinished) -> None:
        alone = event.tool in ("!", "!!") and not self._in_turn  # a command of the user's own
        if isinstance(event, events.ToolStarted):
            self._running_tools[event.call_id] = event.tool
            self._transcript.start_tool(event.call_id, event.tool, event.title)
            if alone:
                self._working.begin("running your command")
        else:
            self._running_tools.pop(event.call_id, None)
            self._transcript.finish_tool(event.call_id, event.is_error, event.details, event.text, event.redacted)
            if alone:
                self._working.end()
        if alone:
            return
        if self._running_tools:
            self._working.say(f"running {', '.join(self._running_tools.values())}")
        else:
            self._working.say(f"waiting for {self._model or 'the model'}")

    def _show_gauge(self, event: events.GaugeChanged) -> None:
        self._status.facts = replace(
            self._status.facts,
            used_tokens=event.used_tokens,
            is_estimate=event.is_estimate,
            effective_window_tokens=event.effective_window_tokens,
            gauge_level=event.level,
            cost_usd=event.cost_usd,
        )

    def _show_setting(self, event: events.SettingChanged) -> None:
        self._status.facts = replace(
            self._status.facts, model=f"{event.provider}/{event.model}", mode=event.mode, effort=event.effort
        )

    def _show_recording(self, fault: str, remedy: str) -> None:
        """What is wrong stays in sight for as long as it is."""
        if self._banner.text and not fault:
            self._transcript.add_notice("info", "The session is written again, with all that was kept in memory.")
        self._banner.text = f"{fault} {remedy}".rstrip()

    def _show_compaction(
        self, event: events.CompactionStarted | events.CompactionProgress | events.CompactionFinished
    ) -> None:
        match event:
            case events.CompactionStarted(trigger=trigger):
                self._compaction = trigger
                if self._in_turn:
                    self._working.say("compacting")
                else:
                    self._working.begin("compacting")
            case events.CompactionProgress(done=done, calls=calls):
                if calls > 1:
                    news = f"summarising {min(done + 1, calls)} of {calls}"
                    if self._compaction:
                        self._working.say(f"compacting: {news}")
                    else:
                        self._on_summary_news(news)
            case events.CompactionFinished():
                self._show_compacted(event)

    def _show_compacted(self, event: events.CompactionFinished) -> None:
        trigger, self._compaction = self._compaction, ""
        if not self._in_turn:
            self._working.end()
        if event.key is None:
            message = event.message or "Nothing to compact."
            return self._transcript.add_notice("info", message[0].upper() + message[1:])
        before, after = short_tokens(event.tokens_before), short_tokens(event.tokens_after)
        facts = [_TRIGGERS[trigger]] if trigger in _TRIGGERS else []
        if event.cost_usd is not None:
            facts.append(money(event.cost_usd))
        more = f" ({', '.join(facts)})" if facts else ""
        title = f"Compacted {before} → {after}{more} · /undo compact"
        return self._transcript.add_compaction(f"{title}\n{_COMPACTED_MORE}")

    def _show_end(self, reason: str, error: str) -> None:
        if (said := _END_WORDS.get(reason)) is not None:
            level, words = said
            text = f"{error or words}\n{_STILL_WAITS}" if self._queue.texts else error or words
            match level:
                case "error":
                    self._transcript.add_notice("error", text)
                case "warning":
                    self._transcript.add_notice("warning", text)
                case _:
                    self._transcript.add_notice("info", text)
