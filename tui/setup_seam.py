"""The seam between the set-up screen and what it sets up: what can be chosen, asked and kept. Knows no widget and no file."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from providers.types import Secret, WireApi
from tui.launch.listed_models import ModelChoice

OWN = "own"
"""The name of a server that the user gives the address of; with a number where it is taken."""


class Offer(Struct, frozen=True):
    """A provider known by name that needs a key."""

    name: str
    title: str
    variable: str
    """Where its key is looked for first."""
    has_key: bool = False
    in_variable: bool = False
    """Whether its key comes from there, which goes before any that is kept."""


class Candidate(Struct, frozen=True):
    """A server as it would be used."""

    name: str
    """Of the provider; models are called NAME/MODEL."""
    title: str
    api: WireApi
    base_url: str | None = None
    """None: the vendor's own."""
    key: Secret | None = None
    """None: none is needed, or the one that is found already."""
    is_written: bool = False
    """Whether its address has to be written into the configuration."""
    variable: str = ""


class FoundServer(Struct, frozen=True):
    """A server on this machine that answered."""

    candidate: Candidate
    models: tuple[ModelChoice, ...] = ()
    wants_key: bool = False
    fault: str = ""
    """What it said instead of a list; foreign text."""


class SetUp(Protocol):
    """What the screen may do. Nothing is sent but by `look` and `models`, nothing is written but by `keep`."""

    @property
    def offers(self) -> Sequence[Offer]: ...

    @property
    def local_places(self) -> Sequence[tuple[str, str]]:
        """(title, address) of the servers that `look` asks."""
        ...

    @property
    def key_place(self) -> str:
        """Where keys are kept: the words behind "It is kept in"."""
        ...

    @property
    def config_file(self) -> str: ...

    def offered(self, name: str) -> Candidate:
        """The provider of that name as a candidate."""
        ...

    def own(self, address: str, api: WireApi) -> Candidate:
        """A server at an address that `address_fault` found nothing against."""
        ...

    async def look(self) -> Sequence[FoundServer]:
        """Ask the usual ports of this machine."""
        ...

    async def models(self, candidate: Candidate) -> Sequence[ModelChoice]:
        """What the server offers; empty where it has no listing.

        Raises:
            ProviderError: it refused, or could not be asked.
            TimeoutError: it does not answer.
        """
        ...

    async def keep(self, candidate: Candidate, model_id: str) -> str:
        """Write key, address and model down and put them in force; PROVIDER/MODEL.

        Raises:
            Exception: it could not be written; the text says why and what to do.
        """
        ...
