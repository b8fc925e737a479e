"""The log of CLAW_LOG: where it lies, who may read it, how long it gets, and that no secret stands in it."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from agent.events import Event, GaugeChanged, Notice, ToolFinished, TurnStarted
from agent.tools.details import TextDetails
from providers.types import ProviderConfig, Secret
from tests.fakes.claw_process import run
from tests.fakes.secret_keys import made_keys
from tests.fakes.session_kit import Desk
from tests.tui.in_process import Place
from tui.launch.log import MOST_BYTES, OLD_FILES, keep_log, logged
from tui.launch.startup import SetupError, Startup

KEYS = made_keys(11)


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    logger = logging.getLogger()
    before, level, raises = list(logger.handlers), logger.level, logging.raiseExceptions
    yield logger
    for handler in [handler for handler in logger.handlers if handler not in before]:
        logger.removeHandler(handler)
        handler.close()
    logger.setLevel(level)
    logging.raiseExceptions = raises


def started(desk: Desk, level: str) -> Startup:
    startup = desk.startup()
    return replace(startup, env={**startup.env, "CLAW_LOG": level, "MY_TOKEN": "opaque-9-value"})


def test_T102_a_log_is_private_and_holds_no_secret(desk: Desk, root: logging.Logger) -> None:
    startup = started(desk, "debug")
    startup.providers["x"] = ProviderConfig("x", "chat", key=Secret("own-key-of-x"), headers={"x-auth": "head-er-9"})
    umask = os.umask(0)
    try:
        keep_log(startup)
        log = logging.getLogger("openai._base_client")
        log.debug(
            "Request options: %s", {"headers": {"Authorization": f"Bearer {KEYS['OpenAI']}", "x-auth": "head-er-9"}}
        )
        try:
            raise ValueError(f"401: own-key-of-x is wrong; opaque-9-value\n{KEYS['GitHub']}")
        except ValueError:
            log.exception("it failed")
    finally:
        os.umask(umask)
    path = startup.paths.logs / "claw.log"
    text = path.read_text()
    for secret in (KEYS["OpenAI"], "head-er-9", "own-key-of-x", "opaque-9-value", KEYS["GitHub"]):
        assert secret not in text
    assert "it failed\\nTraceback" in text and "[redacted " in text and len(text.splitlines()) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_info_tells_what_happened_and_no_text_of_it(desk: Desk, root: logging.Logger) -> None:
    keep_log(startup := started(desk, "info"))
    told: list[Event] = []
    emit = logged(told.append)
    events: list[Event] = [
        TurnStarted("s", 3), ToolFinished("1", "bash", 4, True, TextDetails("x"), "the output", 2),
        GaugeChanged(1, False, 2, 3, 4, None), Notice("error", "it broke", "mend it"),
    ]  # fmt: skip
    for event in events:
        emit(event)
    text = (startup.paths.logs / "claw.log").read_text()
    assert told == events and "'tool': 'bash'" in text and "'redacted': 2" in text and "the output" not in text
    assert "ERROR claw: {'type': 'notice', 'level': 'error', 'text': 'it broke'" in text and "gauge" not in text


def test_what_is_painted_fills_no_log(desk: Desk, root: logging.Logger) -> None:
    keep_log(startup := started(desk, "debug"))
    MarkdownIt().parse("# A title\n\nand a text\n")
    assert "markdown_it" not in (startup.paths.logs / "claw.log").read_text()


def test_a_log_is_rotated_and_old_ones_go(desk: Desk, root: logging.Logger) -> None:
    keep_log(startup := started(desk, "debug"))
    for number in range(80 * (OLD_FILES + 2)):
        logging.getLogger("x").debug("%d %s", number, "words " * 3_000)  # of which 16,000 characters are kept
    files = sorted(path.name for path in startup.paths.logs.iterdir())
    assert files == ["claw.log", "claw.log.1", "claw.log.2", "claw.log.3"]
    assert all(
        path.stat().st_size <= MOST_BYTES and path.stat().st_mode & 0o777 == 0o600
        for path in startup.paths.logs.iterdir()
    )


def test_no_other_level_and_no_link_are_taken(desk: Desk, root: logging.Logger, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"CLAW_LOG='loud' is no level.\nSet it to error, info, debug"):
        keep_log(started(desk, "loud"))
    startup = started(desk, "info")
    startup.paths.logs.mkdir(parents=True)
    (startup.paths.logs / "claw.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="cannot be written"):
        keep_log(startup)
    assert not (tmp_path / "elsewhere").exists()


def test_a_wrong_level_ends_claw_with_2(place: Place) -> None:
    place.set("CLAW_LOG", "loud")
    done = place.claw("config", "path")
    assert done.code == 2 and "CLAW_LOG='loud' is no level" in done.err


async def test_T102_a_refusal_that_repeats_the_key_at_the_most_talkative_level(desk: Desk) -> None:
    key = "wr0ng-" + KEYS["Groq"][4:40]
    env = {"OPENAI_API_KEY": key, "CLAW_LOG": "debug", "OPENAI_LOG": "debug"}
    done = await run(desk, "-p", "hello", "-m", desk.model, "--output-format", "stream-json", env=env)
    log = (desk.home / "state" / "logs" / "claw.log").read_text()
    assert done.code == 1 and "401" in done.out + done.err + log
    assert key[6:30] not in done.out + done.err + log
    assert desk.wire.requests[-1].headers["authorization"] == f"Bearer {key}"
