"""Imports a vendor's SDK without its thousands of type modules, which raw requests never touch.

An SDK's top package and its `types` packages import everything they export. Here these `__init__` files are put off: an
exported name is looked for where it is defined, and only a name that is not found there runs the file as it stands. So
whoever asks for anything gets the same object as ever, at worst as late as ever.
"""

import contextlib
import importlib
import importlib.util
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_HOMES = ("_client", "_base_client", "_exceptions", "_types")
"""Where both vendors define what their top package exports and an adapter uses."""
_EXPORTED = ("__all__", "__version__")
"""Names of this form that are a package's own; the others are asked by Python."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_running = threading.RLock()


def import_sdk(name: str) -> ModuleType:
    """The vendor's top package.

    Raises:
        ImportError: it is not installed, or broken.
    """
    if (known := sys.modules.get(name)) is not None:
        return known
    with _deferring(name):
        sdk = importlib.import_module(name)
        importlib.import_module(f"{name}.{_HOMES[0]}")
    return sdk


@contextlib.contextmanager
def _deferring(name: str) -> Iterator[None]:
    finder = _Deferring(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Deferring(MetaPathFinder):
    """Finds the packages of one SDK whose `__init__` can wait."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._types = f"{root}.types"

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._root and fullname != self._types and not fullname.startswith(f"{self._types}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None and spec.submodule_search_locations is not None:
            spec.loader = _Late(spec.loader, _homes_of_root if fullname == self._root else _home_of_type)
        return spec


class _Late(Loader):
    """Runs a package's `__init__` with the first name that is asked of it and found nowhere else."""

    def __init__(self, loader: Loader, homes: Callable[[str], Sequence[str]]) -> None:
        self._loader = loader
        self._homes = homes
        self._has_begun = False

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        def missing(name: str) -> Any:
            if name.startswith("__") and name not in _EXPORTED:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            if name not in _EXPORTED:
                for home in self._homes(name):
                    found = _import_if_there(f"{module.__name__}.{home}")
                    if hasattr(found, name):
                        return vars(module).setdefault(name, getattr(found, name))
                if (submodule := _import_if_there(f"{module.__name__}.{name}")) is not None:
                    return submodule
            self._run(module)
            if name not in vars(module):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            return vars(module)[name]

        vars(module)["__getattr__"] = missing

    def _run(self, module: ModuleType) -> None:
        with _running:  # a second thread waits here; the same one is inside the package itself
            if not self._has_begun:
                self._has_begun = True
                self._loader.exec_module(module)
                vars(module).pop("__getattr__", None)


def _homes_of_root(name: str) -> Sequence[str]:
    return _HOMES


def _home_of_type(name: str) -> Sequence[str]:
    """Both vendors keep `TextBlockParam` in `text_block_param`."""
    return (_HUMP.sub("_", name).lower(),)


def _import_if_there(name: str) -> ModuleType | None:
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name)
