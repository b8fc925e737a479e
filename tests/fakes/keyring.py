import types


class Keyring(types.ModuleType):
    """As the package `keyring` behaves, in memory."""

    def __init__(self, secret: str, priority: float = 5.0) -> None:
        """`secret` stands in its errors, as a careless backend's would. `priority` 0: no backend that keeps anything."""
        super().__init__("keyring")
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False
        self._secret = secret
        self._priority = priority

    def _check(self) -> None:
        if self.locked:
            raise RuntimeError(f"the keyring is locked, and says {self._secret}")

    def get_keyring(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(priority=self._priority)

    def get_password(self, service: str, name: str) -> str | None:
        self._check()
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, password: str) -> None:
        self._check()
        self.kept[service, name] = password

    def delete_password(self, service: str, name: str) -> None:
        self._check()
        del self.kept[service, name]
