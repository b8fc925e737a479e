"""A sample of gate G16: whole runs of the program over a project full of keys, and a search for them in all that it leaves."""

import sys

import pytest

from tests.faults.g16_secrets import one

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.mark.parametrize("kind", ["print", "refused", pytest.param("screen", marks=pytest.mark.slow)])
def test_T101_no_key_is_left_anywhere(kind: str) -> None:
    found = one(kind, 16)
    assert found.kinds > 60 and found.searched > 5
    assert (found.leaks, found.loose, found.unseen) == ([], [], [])
