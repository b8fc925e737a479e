import pytest

from agent.context.tokens import Counter


@pytest.fixture(scope="session")
def o200k() -> Counter:
    counter = Counter()
    counter.load()
    return counter
