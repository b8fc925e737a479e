import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.sdk_import import import_sdk

SOURCES = {
    "__init__.py": """
from .types import *
from ._client import Client
DEFAULT = 7
__all__ = ["Client", "TextBlock", "DEFAULT"]
""",
    "_client.py": """
from ._exceptions import APIError
from .types import HTTPToolV2
class Client: pass
""",
    "_exceptions.py": "class APIError(Exception): pass",
    "types/__init__.py": """
from .http_tool_v2 import HTTPToolV2
from .text_block import TextBlock
from .odd_place import Strange
__all__ = ["TextBlock", "Strange"]
""",
    "types/text_block.py": "class TextBlock: pass",
    "types/http_tool_v2.py": "class HTTPToolV2: pass",
    "types/odd_place.py": "class Strange: pass",
}


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An SDK built like the real ones."""
    for name, source in SOURCES.items():
        path = tmp_path / "vendor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "vendor"
    for name in [name for name in sys.modules if name.split(".")[0] == "vendor"]:
        del sys.modules[name]


def loaded(vendor: str) -> set[str]:
    return {name.removeprefix(f"{vendor}.") for name in sys.modules if name.startswith(f"{vendor}.")}


def test_an_sdk_brings_what_its_client_needs_and_no_other_type(vendor: str) -> None:
    sdk = import_sdk(vendor)
    assert sdk.Client.__module__ == "vendor._client"
    assert issubclass(sdk.APIError, Exception)
    assert loaded(vendor) == {"_client", "_exceptions", "types", "types.http_tool_v2"}


def test_a_type_is_found_in_its_own_file(vendor: str) -> None:
    types = import_sdk(vendor).types
    from_its_file = types.TextBlock
    assert from_its_file is sys.modules["vendor.types.text_block"].TextBlock
    assert "types.odd_place" not in loaded(vendor)


def test_a_name_found_nowhere_runs_the_whole_package(vendor: str) -> None:
    sdk = import_sdk(vendor)
    client = sdk.Client
    assert sdk.DEFAULT == 7
    assert sdk.Strange is sys.modules["vendor.types.odd_place"].Strange
    assert sdk.Client is client
    assert not hasattr(sdk, "__wrapped__")
    with pytest.raises(AttributeError, match="Missing"):
        _ = sdk.Missing


def test_a_star_import_gets_everything(vendor: str) -> None:
    import_sdk(vendor)
    names: dict[str, object] = {}
    exec("from vendor.types import *", names)
    assert {"TextBlock", "Strange"} <= set(names)


def test_threads_that_ask_at_once_run_a_package_once(vendor: str, tmp_path: Path) -> None:
    counted = tmp_path / "vendor" / "__init__.py"
    counted.write_text("import time\ntime.sleep(0.05)\nRUNS = globals().get('RUNS', 0) + 1\n")
    sdk = import_sdk(vendor)
    seen: list[int] = []
    asking = [threading.Thread(target=lambda: seen.append(sdk.RUNS)) for _ in range(4)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert seen == [1, 1, 1, 1]


def test_an_sdk_that_is_there_already_is_taken_as_it_is(vendor: str) -> None:
    whole = __import__(vendor)
    assert import_sdk(vendor) is whole
    assert "DEFAULT" in vars(whole)


def test_a_missing_sdk_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_vendor"):
        import_sdk("no_such_vendor")


@pytest.mark.parametrize(("sdk", "most"), [("anthropic", 1_400), ("openai", 260)])
def test_the_real_sdks_leave_most_of_their_modules_out(sdk: str, most: int) -> None:
    # 2,859 and 520 as a whole.
    code = (
        f"import sys; from providers.sdk_import import import_sdk; sdk = import_sdk({sdk!r})\n"
        "sdk.Omit, sdk.DefaultAsyncHttpxClient, sdk.APIStatusError\n"
        f"print(sum(name.startswith({sdk + '.'!r}) for name in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert 20 < int(ran.stdout) < most
