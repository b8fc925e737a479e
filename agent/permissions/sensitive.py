"""Which files are likely to hold secrets, by their names alone: reading one asks, a search leaves them out.

A wide net for what everyone calls so, and no boundary: a secret in a file of another name is redaction's to find. Examples
made to be shared (`.env.example`) and public keys are not meant.
"""

import fnmatch
import functools
import re
from pathlib import Path

_NAMES = r"""
    \.env(\..+)? | .+\.env | \.envrc
    | id_(rsa|dsa|ecdsa|ed25519)(_sk)?([._-].+)?
    | .+\.(pem|key|p12|pfx|p8|jks|keystore|kdbx|ppk)
    | [._]netrc | \.pgpass | \.my\.cnf | \.htpasswd | \.pypirc | \.npmrc | \.git-credentials | \.vault-token
    | credentials(\.(json|toml|ya?ml|ini|xml))? | secrets?\.(json|toml|ya?ml|ini)
    | client_secret.*\.json | service[-_]?account.*\.json | application_default_credentials\.json
    | terraform\.tfstate(\..+)?
    """
NAME_GLOBS = (
    *("*.env", "*.env.*", ".envrc", "id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", "*.p8", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("?netrc", ".pgpass", ".my.cnf", ".htpasswd", ".pypirc", ".npmrc", ".git-credentials", ".vault-token"),
    *("credentials*", "secret*.*", "client_secret*", "service*account*.json"),
    *("application_default_credentials.json", "terraform.tfstate*"),
)
"""What narrows a listing of files down to few that are worth to be tested, letter by letter as most people write them."""
_SHARED = r".*[._-](example|sample|template|tmpl|dist|schema)([._-].*)? | .*[._-]defaults?(\.\w+)? | .*\.(pub|md)"
_FOLDERS = frozenset((".ssh", ".gnupg", ".aws", ".password-store"))
_PAIRS = frozenset(((".config", "gh"), (".config", "gcloud"), (".docker", "config.json"), (".kube", "config")))


def is_sensitive(path: Path) -> bool:
    """Whether a real path has the name of a file for secrets, or is or lies in a folder of such files."""
    name = path.name
    if _fits(_NAMES, name) or any(_is_for_secrets(path.parts, at) for at in range(1, len(path.parts))):
        return not _fits(_SHARED, name)
    return False


def names_itself(pattern: str, path: Path) -> bool:
    """Whether the path pattern of a rule means such a file as itself (`.env`, `*.pem`, `~/.ssh`), not as one among all."""
    parts = [part for part in pattern.split("/") if part]
    if not parts:
        return False
    names = (re.sub(r"[*?]+", instead, parts[-1]) for instead in ("", "x"))
    is_by_name = any(_fits(_NAMES, name) for name in names) and fnmatch.fnmatch(path.name, parts[-1])
    return is_by_name or any(_is_for_secrets(tuple(parts), at) for at in range(len(parts)))


def _fits(pattern: str, name: str) -> bool:
    return _compiled(pattern).fullmatch(name.casefold()) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """When it is first needed: it takes longer than many a start."""
    return re.compile(pattern, re.VERBOSE | re.DOTALL)


def _is_for_secrets(parts: tuple[str, ...], at: int) -> bool:
    part = parts[at].casefold()
    return part in _FOLDERS or (at > 0 and (parts[at - 1].casefold(), part) in _PAIRS)
