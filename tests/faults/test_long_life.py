"""What thousands of turns would add up to: looked at for a few of them, and at what must leave nothing behind."""

import asyncio
import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.permissions.opening import has_openat2, open_real
from agent.transcript import Compaction
from tests.agent.context.talk import Talk
from tests.faults.g18_soak import live
from tui.tuning import COLLECT_TURNS, Rest


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.slow
def test_T110_descriptors_threads_and_processes_are_as_many_after_many_turns() -> None:
    life = live(80)
    assert life.is_steady(), life.samples
    assert not life.left and not life.refusals and life.compactions >= 2


def test_T110_to_open_a_file_leaves_nothing_to_the_collector(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    has_openat2()
    os.close(open_real(tmp_path / "a", os.O_RDONLY))
    with without_collector():
        for _ in range(50):
            os.close(open_real(tmp_path / "a", os.O_RDONLY))
        assert gc.collect() < 50


def test_T110_what_left_the_window_is_measured_no_more() -> None:
    talk = Talk()
    first = talk.user("word " * 100)
    talk.reply("fact " * 100)
    last = talk.user("and now")
    assert talk.meter.own_tokens(first) > 0
    talk.append(Compaction("summary", "summary", last, "manual", 2, 1))
    assert (talk.meter.own_tokens(first), talk.meter.own_tokens(last) > 0) == (0, True)


async def test_T110_everything_is_collected_behind_every_few_turns() -> None:
    found = asyncio.Event()

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            found.set()

    rest = Rest()
    with without_collector():
        gc.callbacks.append(note)
        try:
            for _ in range(COLLECT_TURNS):
                assert not found.is_set()
                rest.turn_ended()
            await asyncio.wait_for(found.wait(), 40)
        finally:
            gc.callbacks.remove(note)
