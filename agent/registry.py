"""What was loaded for the model's context, each thing with its lifetime: one table, with explicit invalidation.

`session` values stay until they are invalidated. `turn` values are looked at again in the next turn; where the paths that
they were made from are named, an unchanged status of these keeps them, so that nothing is read twice for nothing.
"""

from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent.instructions.stamps import Stamps

T = TypeVar("T")
Lifetime = Literal["session", "turn"]


class _Kept:
    def __init__(self, lifetime: Lifetime, value: Any, stamps: Stamps | None) -> None:
        self.lifetime = lifetime
        self.value = value
        self.stamps = stamps
        self.is_fresh = True


class Registry:
    """Holds each loaded value under its name."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def get(
        self,
        name: Hashable,
        lifetime: Lifetime,
        load: Callable[[], T],
        made_from: Callable[[T], Iterable[Path]] | None = None,
    ) -> T:
        """The value of this name, loaded if there is none or its lifetime is over.

        `made_from` names the paths that a `turn` value depends on, those that do not exist included. The type is that of
        the first `load` under this name.
        """
        kept = self._kept.get(name)
        if kept is not None and (kept.is_fresh or (kept.stamps is not None and kept.stamps.hold())):
            kept.is_fresh = True
            value: T = kept.value
            return value
        value = load()
        self._kept[name] = _Kept(lifetime, value, None if made_from is None else Stamps(made_from(value)))
        return value

    def new_turn(self) -> None:
        """From now on every `turn` value is looked at again before it is used."""
        for kept in self._kept.values():
            if kept.lifetime == "turn":
                kept.is_fresh = False

    def invalidate(self) -> None:
        """Forget everything, whatever its lifetime."""
        self._kept.clear()
