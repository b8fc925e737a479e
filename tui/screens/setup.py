"""The set-up screen: from nothing to a model that answers, by keys alone. One step after the other; Esc goes back one.

It holds what was chosen so far and nothing else: asking and writing is done by the `SetUp` it is given. Errors stand in
place with what helps. Decisions: lists take no Enter before they have been seen for a moment; a server that refuses the key
leads back to the key; one that cannot be asked does not stop anybody who knows the model's name.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace
from textual import events
from textual.widgets import Input, OptionList

from agent.config.addresses import address_fault
from providers.errors import AuthenticationError, PermissionDeniedError
from providers.types import Secret
from tui.current import said
from tui.launch.listed_models import ModelChoice
from tui.screens.message import MessageScreen
from tui.screens.setup_steps import LISTS, SetupSteps
from tui.screens.setup_texts import (
    APIS,
    Line,
    by_hand_rows,
    typed_key_fault,
)
from tui.setup_seam import Candidate, FoundServer
from tui.widgets.choice_list import ChoiceList


class SetupScreen(SetupSteps):
    """Dismissed with PROVIDER/MODEL, with "demo" or "quit"; with None by Esc, unless it is the first screen."""

    # ------------------------------------------------------------------ keys

    def action_close(self) -> None:
        if self._phase != "keeping":  # files are being written
            self._back()

    def on_key(self, event: events.Key) -> None:
        lines = self.query_one(ChoiceList)
        if lines.display and (self._phase in LISTS or event.key not in ("home", "end")) and lines.move(event.key):
            event.stop()
            return
        # Esc goes on to the binding of every dialog.
        if self._phase not in LISTS or event.time < self.opens_at_s or event.key == "escape":
            return
        event.stop()
        if event.key == "enter" and lines.highlighted is not None:
            self._choose(self._lines[lines.highlighted])
        elif event.key == "r" and self._phase == "servers":
            self._look()
        else:
            chosen = next((line for line in self._lines if line.key and line.key == event.key), None)
            if chosen is not None:
                self._choose(chosen)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self._phase == "models":
            self._keep(self._shown[event.option_index].name.partition("/")[2])
        elif self._phase in LISTS:
            self._choose(self._lines[event.option_index])

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._phase == "models":
            self._filter(event.value)
        elif event.value:
            self._tell("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        match self._phase:
            case "address":
                self._take_address(event.value)
            case "key":
                self._take_key(event.value)
            case "models":
                self._take_model(event.value)
            case _:
                pass

    # ------------------------------------------------------------------ what was chosen

    def _choose(self, line: Line) -> None:
        match self._phase:
            case "start":
                self._begin(line.result)
            case "servers":
                self._take_server(self._found[int(line.result)])
            case _:
                for api, *_ in APIS:
                    if api == line.result and self._set_up is not None:
                        self._candidate = self._set_up.own(self._address, api)
                self._go("key")

    def _begin(self, choice: str) -> None:
        match choice.split():
            case ["look"]:
                self._look()
            case ["own"]:
                self._go("address")
            case ["at", name] if self._set_up is not None:
                self._candidate = self._set_up.offered(name)
                self._go("key")
            case ["hand"]:
                self.app.push_screen(MessageScreen("By hand", by_hand_rows(self._missing)))
            case _:
                self.finish(choice)

    def _take_address(self, text: str) -> None:
        if fault := address_fault(text):
            return self._tell(f"That cannot be used: {fault}.")
        self._address = text.strip()
        self._candidate = Candidate("own", self._address, "chat", self._address)
        return self._go("api")

    def _take_key(self, text: str) -> None:
        candidate = self._candidate
        if candidate is None:
            return None
        has_variable = candidate.key is not None and self._set_up is not None and self._from_variable(candidate)
        if fault := typed_key_fault(text, candidate, has_variable):
            return self._tell(fault)
        key = Secret(text.strip()) if text.strip() else candidate.key
        return self._ask(replace(candidate, key=key))

    def _from_variable(self, candidate: Candidate) -> bool:
        offers = self._set_up.offers if self._set_up is not None else ()
        return any(offer.name == candidate.name and offer.in_variable for offer in offers)

    def _take_server(self, server: FoundServer) -> None:
        self._candidate = server.candidate
        if server.wants_key:
            self._go("key", "It wants a key.")
        elif server.models:
            self._models = server.models
            self._go("models")
        else:
            self._ask(server.candidate)

    def _take_model(self, typed: str) -> None:
        marked = self.query_one(ChoiceList).highlighted
        if marked is not None and marked < len(self._shown):
            self._keep(self._shown[marked].name.partition("/")[2])
        elif typed.strip() and not any(c.isspace() for c in typed.strip()):
            self._keep(typed.strip())
        else:
            self._tell("Type the name of a model, as the server calls it.")

    # ------------------------------------------------------------------ work

    def _look(self) -> None:
        if (set_up := self._set_up) is None:
            return

        def found(servers: Sequence[FoundServer]) -> None:
            self._found = servers
            if servers:
                return self._show("servers")
            places = ", ".join(f"{title} ({address})" for title, address in set_up.local_places)
            return self._back(f"No model server answered at {places}. Start one and look again.")

        self._go("looking") if self._phase == "start" else self._show("looking")
        self._start(set_up.look, found, lambda error: self._back(said(error)))

    def _ask(self, candidate: Candidate) -> None:
        if (set_up := self._set_up) is None:
            return

        def listed(models: Sequence[ModelChoice]) -> None:
            self._candidate, self._models = candidate, models
            self._show("models", "" if models else "The server lists no models. Type the name of one.")

        def failed(error: BaseException) -> None:
            if isinstance(error, AuthenticationError | PermissionDeniedError):
                return self._back(said(error))
            self._candidate, self._models = candidate, ()
            why = "it does not answer" if isinstance(error, TimeoutError) else said(error)
            return self._show("models", f"The list could not be fetched: {why}\nEsc goes back; a typed name works.")

        self._go("asking")
        self._start(lambda: set_up.models(candidate), listed, failed)

    def _keep(self, model_id: str) -> None:
        set_up, candidate = self._set_up, self._candidate
        if set_up is None or candidate is None or self._phase == "keeping":
            return
        self._show("keeping")
        self._start(
            lambda: set_up.keep(candidate, model_id), self.finish, lambda error: self._show("models", said(error))
        )

    def _start(
        self,
        work: Callable[[], Awaitable[Any]],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Do something that takes its time; what comes of it counts unless Esc came first."""

        async def run() -> None:
            try:
                result = await work()
            except Exception as error:
                self._work = None
                return failed(error)
            self._work = None
            return done(result)

        self._work = self.run_worker(run(), exit_on_error=False)
