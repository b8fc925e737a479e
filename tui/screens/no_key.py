"""The first screen where no model can be reached: what to set, and the demo one key away."""

from typing import Literal

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from tui.bridge import NoKey
from tui.exact import Row, spell_out
from tui.screens.dialog import Dialog
from tui.widgets.pager import Pager

NoKeyChoice = Literal["demo", "quit"]


def no_key_rows(missing: NoKey) -> list[Row]:
    rows = [Row("claw needs a model to talk to. Any one of these will do:", "title")]
    if missing.detail:
        rows.append(Row(spell_out(missing.detail), "warning"))
    rows.append(Row(""))
    rows.append(Row("1. a key in the environment", "title"))
    rows += [Row(f"   export {spell_out(name)}=…", "command", exact=True) for name in missing.variables]
    rows += [
        Row(""),
        Row("2. a key in a file that only you can read (chmod 600)", "title"),
        Row(f"   {spell_out(missing.auth_file)}", "command", exact=True),
        Row('   {"anthropic": {"key": "…"}}', "command", exact=True),
        Row(""),
        Row("3. a server of your own, without a key", "title"),
        Row(f"   {spell_out(missing.config_file)}", "command", exact=True),
        Row('   model = "mine/MODEL"', "command", exact=True),
        Row("   [providers.mine]", "command", exact=True),
        Row('   api = "anthropic"    # or "responses"', "command", exact=True),
        Row('   base_url = "http://localhost:8080"', "command", exact=True),
        Row(""),
        Row("d  see the demo first: scripted, no key, no network", "title"),
        Row("q  quit", "title"),
    ]
    return rows


class NoKeyScreen(Dialog[NoKeyChoice]):
    """Dismissed with what the user chose; Esc does nothing, since nothing could be sent behind it."""

    def __init__(self, missing: NoKey) -> None:
        super().__init__()
        self._missing = missing

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Pager(no_key_rows(self._missing), id="text")

    def on_mount(self) -> None:
        box = self.query_one("#box")
        box.border_title = Content("No key yet")
        box.border_subtitle = Content("d demo · q quit")

    def action_close(self) -> None:
        return

    def on_key(self, event: events.Key) -> None:
        pager = self.query_one(Pager)
        steps = {"up": -1, "down": 1, "pageup": -5, "pagedown": 5, "space": 5}
        if event.time < self.opens_at_s:
            return
        if event.key == "d":
            self.finish("demo")
        elif event.key == "q":
            self.finish("quit")
        elif event.key in steps:
            pager.scroll_to(y=pager.scroll_offset.y + steps[event.key], animate=False)
        else:
            return
        event.stop()
