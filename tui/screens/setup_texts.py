"""What the set-up screen says at each of its steps. Pure: texts and lines in, nothing drawn."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from providers.types import WireApi
from tui.bridge import NoKey
from tui.exact import Row, spell_out
from tui.launch.listed_models import short_name
from tui.sanitize import one_line
from tui.setup_seam import Candidate, FoundServer, Offer, SetUp
from tui.widgets.keys_row import Keys

Phase = Literal["start", "looking", "servers", "address", "api", "key", "asking", "models", "keeping"]
Doing = Literal["look", "own", "demo", "hand", "quit"]

APIS: tuple[tuple[WireApi, str, str], ...] = (
    ("chat", "OpenAI Chat Completions", "most servers and gateways"),
    ("anthropic", "Anthropic Messages", "in place of Anthropic's own server"),
    ("responses", "OpenAI Responses", "in place of OpenAI's own server"),
)


class Line(Struct, frozen=True):
    """One line that can be chosen. Texts are clean."""

    result: str
    label: str
    detail: str = ""
    key: str = ""
    """A letter that chooses it at once."""


def start_lines(set_up: SetUp | None, *, is_first: bool) -> list[Line]:
    lines: list[Line] = []
    if set_up is not None:
        titles = ", ".join(title for title, _ in set_up.local_places)
        lines.append(Line("look", "A server on this machine", titles, "l"))
        lines += [_offer_line(offer) for offer in set_up.offers]
        lines.append(Line("own", "Another server", "by its address", "o"))
    lines.append(Line("demo", "The demo", "scripted: no key, no network", "d"))
    lines.append(Line("hand", "By hand", "which variable or file does it", "h"))
    if is_first:
        lines.append(Line("quit", "Quit", "", "q"))
    return lines


def _offer_line(offer: Offer) -> Line:
    return Line(f"at {offer.name}", offer.title, "has a key" if offer.has_key else f"a key, else {offer.variable}")


def server_lines(found: Sequence[FoundServer]) -> list[Line]:
    return [Line(str(place), server.candidate.title, _server_detail(server)) for place, server in enumerate(found)]


def _server_detail(server: FoundServer) -> str:
    address = one_line(server.candidate.base_url or "", 40)
    if server.wants_key:
        return f"{address}  wants a key"
    if server.fault:
        return f"{address}  {one_line(server.fault, 50)}"
    first = one_line(short_name(server.models[0].name.partition("/")[2]), 40) if server.models else ""
    more = f" and {len(server.models) - 1} more" if len(server.models) > 1 else ""
    return f"{address}  {first}{more}"


def api_lines() -> list[Line]:
    return [Line(api, title, detail) for api, title, detail in APIS]


def lead(
    phase: Phase, set_up: SetUp | None, candidate: Candidate | None, detail: str = "", *, is_first: bool = False
) -> str:
    """What is said above the lines or the field. `detail`: why the set-up is shown; foreign text."""
    title = one_line(candidate.title, 60) if candidate is not None else ""
    match phase:
        case "start":
            why = f"{one_line(detail, 120)} " if detail else ""
            what = "claw needs a model to talk to." if is_first else "Which provider's model shall answer?"
            return f"{why}{what} Nothing is sent before you have chosen."
        case "looking":
            return "Asking the usual ports of this machine…"
        case "servers":
            return "These answered. Which one?"
        case "address":
            return "The server's address, for instance http://127.0.0.1:8080 or https://models.example.org/v1"
        case "api":
            return f"Which API does {title} speak?"
        case "key":
            return _key_lead(candidate, title, set_up.key_place if set_up is not None else "")
        case "asking":
            return f"Asking {title} what it offers…"
        case "models":
            return f"Which model of {title}?"
        case _:
            return "Writing it down…"


def _key_lead(candidate: Candidate | None, title: str, key_place: str) -> str:
    where = f"It is kept in {spell_out(key_place)}."
    if candidate is not None and candidate.key is not None:
        return f"There is a key for {title}. Enter alone keeps it; another one takes its place. {where}"
    if candidate is not None and may_lack_key(candidate):
        return f"A key for {title}, if it wants one; Enter alone goes on without. {where}"
    return f"Paste your key for {title}. {where}"


def may_lack_key(candidate: Candidate) -> bool:
    """Whether requests are sent to the server without a key, as to any on this machine."""
    from providers.models import is_loopback

    return is_loopback(candidate.base_url)


def keys_of(phase: Phase, *, is_first: bool) -> Keys:
    back = ("Esc", "back")
    match phase:
        case "start":
            return (("Enter", "chooses"), ("↑↓", "move"), *(() if is_first else (("Esc", "closes"),)))
        case "servers":
            return (("Enter", "chooses"), ("r", "looks again"), back)
        case "api":
            return (("Enter", "chooses"), ("↑↓", "move"), back)
        case "address" | "key":
            return (("Enter", "goes on"), back)
        case "models":
            return (("Enter", "takes it"), ("↑↓", "move"), ("letters", "filter, or any name"), back)
        case "keeping":
            return ()
        case _:
            return (("Esc", "stops"),)


def typed_key_fault(text: str, candidate: Candidate, has_variable: bool) -> str:
    """Why what was typed cannot be the key; empty if it can. Never repeats it."""
    from agent.config.auth import key_fault

    key = text.strip()
    if not key:
        return "" if candidate.key is not None or may_lack_key(candidate) else "There is no key yet: paste it here."
    if key[0] in "\"'`“”‘’" or key[-1] in "\"'`“”‘’":
        return "There are quotes around the key. Paste it without them."
    if "=" in key and key.partition("=")[0].replace("export ", "").strip().isupper():
        return "That is a whole assignment. Paste only what stands behind the = sign."
    if fault := key_fault(key):
        return f"{fault[0].upper()}{fault[1:]}. Copy it once more."
    if has_variable:
        return (
            f"{candidate.variable} is set, and goes before any key that is kept. Leave the field empty to use it, "
            "or unset it and start claw again."
        )
    return ""


def by_hand_rows(missing: NoKey) -> list[Row]:
    """How it is done with an editor."""
    rows = [Row("Any one of these will do; then start claw again.", "title"), Row("")]
    rows.append(Row("1. a key in the environment", "title"))
    rows += [Row(f"   export {spell_out(name)}=…", "command", exact=True) for name in missing.variables]
    return [
        *rows,
        Row(""),
        Row("2. a key in a file that only you can read (chmod 600), or `claw login`", "title"),
        Row(f"   {spell_out(missing.auth_file)}", "command", exact=True),
        Row('   {"anthropic": {"key": "…"}}', "command", exact=True),
        Row(""),
        Row("3. a server of your own", "title"),
        Row(f"   {spell_out(missing.config_file)}", "command", exact=True),
        Row('   model = "mine/MODEL"', "command", exact=True),
        Row("   [providers.mine]", "command", exact=True),
        Row('   api = "chat"    # or "anthropic", "responses"', "command", exact=True),
        Row('   base_url = "http://localhost:8080"', "command", exact=True),
    ]
