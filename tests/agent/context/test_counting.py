import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.context.counting import CountingProcess
from agent.context.tokens import Counter, estimate


@pytest.fixture
def process() -> CountingProcess:
    return CountingProcess()


def test_it_counts_texts_of_any_size_and_any_characters(process: CountingProcess) -> None:
    assert process.count("hello world") == 2
    assert process.count("") == 0
    assert process.count("漢字 \ud800 \0") > 3
    assert process.count("a" * 300_000) == 37_500
    process.close()


def test_it_counts_for_several_threads_at_once(process: CountingProcess) -> None:
    counted: list[int] = []
    threads = [threading.Thread(target=lambda n=n: counted.append(process.count("hello " * n))) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counted) == [process.count("hello " * n) for n in range(1, 9)]
    process.close()


def test_closing_it_ends_the_process(process: CountingProcess) -> None:
    pid = process.pid
    process.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises((OSError, ValueError)):
        process.count("hello")


def test_a_counter_whose_process_was_killed_estimates_and_can_load_again() -> None:
    counter = Counter()
    counter.load()
    assert counter.count("hello world") == 2
    assert counter.pid is not None
    os.kill(counter.pid, signal.SIGKILL)
    assert counter.count("hello world, hello") == estimate("hello world, hello")
    assert not counter.ready
    counter.load()
    assert counter.count("hello world") == 2


def test_the_tokenizer_is_not_loaded_into_this_process() -> None:
    code = (
        "import sys\n"
        "from agent.context.tokens import Counter\n"
        "c = Counter(); c.load()\n"
        "assert c.count('hello world') == 2 and 'tiktoken' not in sys.modules\n"
    )
    root = str(Path(__file__).parents[3])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, check=True, timeout=50)


def test_it_does_not_see_the_environment_or_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiktoken.py").write_text("raise SystemExit('the project was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    process = CountingProcess()
    assert process.count("hello world") == 2
    process.close()
