"""The environment of commands: an allow-list of what builds and tests need, and settings that keep programs from asking.

A key or token of claw's own environment never reaches a command, however it is called.
"""

import re
from collections.abc import Iterable, Mapping

_ALLOWED_TEXT = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TMPDIR TZ
    VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV PYENV_ROOT PYENV_VERSION PYTHONPATH UV_CACHE_DIR PIP_CACHE_DIR PIPX_HOME
    NVM_DIR NVM_BIN VOLTA_HOME FNM_DIR NODE_PATH NODE_ENV PNPM_HOME BUN_INSTALL DENO_DIR DENO_INSTALL
    CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN GOPATH GOROOT GOBIN GOCACHE GOMODCACHE GOFLAGS GOPROXY
    JAVA_HOME JDK_HOME MAVEN_HOME M2_HOME GRADLE_HOME GRADLE_USER_HOME ANDROID_HOME ANDROID_SDK_ROOT DOTNET_ROOT
    GEM_HOME GEM_PATH RBENV_ROOT RUBYLIB PERL5LIB LUA_PATH
    CC CXX CPP LD AR CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH CPATH
    C_INCLUDE_PATH CPLUS_INCLUDE_PATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH CMAKE_GENERATOR MAKEFLAGS CCACHE_DIR
    HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES NIX_SSL_CERT_FILE
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS
    MANPATH INFOPATH CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES
"""
_ALLOWED = frozenset(_ALLOWED_TEXT.split())
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_USERINFO = re.compile(r"://[^/@\s]+@")

_SETTINGS = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    # Vim waits for ever when its input is no terminal. Commands given with -c still run first.
    "VIMINIT": 'autocmd VimEnter * call feedkeys(":cq\\r", "n")',
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
"""`CI` is not set: it changes what many tools do, not only whether they ask."""


def without_secrets(source: Mapping[str, str]) -> dict[str, str]:
    """All of `source` but what sounds or looks like a secret, for programs that claw runs for itself."""
    return {name: value for name, value in source.items() if not _SECRET.search(name) and not _USERINFO.search(value)}


def command_environment(source: Mapping[str, str], extra: Iterable[str] = ()) -> dict[str, str]:
    """What of `source` a command may see, with the settings on top. `extra` names further variables.

    A name that sounds like a secret is left out, also if `extra` names it, and so is an address with a password in it. Of
    PATH only absolute entries stay: in any other lies whatever the project has there.
    """
    named = _ALLOWED.union(name for name in extra if not variable_fault(name))
    kept = {
        name: value
        for name, value in source.items()
        if (name in named or name.startswith("LC_")) and not _SECRET.search(name) and not _USERINFO.search(value)
    }
    if "PATH" in kept:
        kept["PATH"] = ":".join(f for f in kept["PATH"].split(":") if f.startswith("/")) or "/usr/bin:/bin"
    return kept | _SETTINGS


def variable_fault(name: str) -> str:
    """Why commands will not see the variable `name`, also if the user wants it; empty: they will."""
    if not _NAME.fullmatch(name):
        return "it is no name of a variable"
    if name in _SETTINGS:
        return "it has a value of its own in commands, which keeps them from asking"
    return "its name sounds like a secret, and those never reach a command" if _SECRET.search(name) else ""
