import os
import stat
from pathlib import Path

import pytest

from agent.config.paths import HomeError, Paths, ensure_private_dir, git_branch, project_root
from agent.config.trust import is_trusted


def test_xdg_defaults_below_home() -> None:
    paths = Paths.from_env({"HOME": "/home/u"})
    assert paths.config_file == Path("/home/u/.config/claw/config.toml")
    assert paths.sessions == Path("/home/u/.local/share/claw/sessions")
    assert paths.auth_file == Path("/home/u/.local/share/claw/auth.json")
    assert paths.state_file == Path("/home/u/.local/state/claw/state.toml")
    assert paths.logs == Path("/home/u/.local/state/claw/logs")
    assert paths.history_file == Path("/home/u/.local/state/claw/history")
    assert paths.spills == Path("/home/u/.cache/claw/spills")
    assert paths.managed_config_file == Path("/etc/claw/config.toml")


def test_xdg_variables_replace_single_folders_and_relative_ones_count_as_unset() -> None:
    paths = Paths.from_env({"HOME": "/h", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "rel", "XDG_CACHE_HOME": ""})
    assert (paths.config, paths.data, paths.cache) == (
        Path("/c/claw"),
        Path("/h/.local/share/claw"),
        Path("/h/.cache/claw"),
    )


def test_claw_home_replaces_all_four() -> None:
    paths = Paths.from_env({"HOME": "/h", "CLAW_HOME": "/x", "XDG_CONFIG_HOME": "/c"})
    assert (paths.config, paths.data, paths.state, paths.cache) == tuple(
        Path("/x") / name for name in ("config", "data", "state", "cache")
    )


def test_T03_relative_claw_home_is_refused_and_no_variable_moves_managed_policy() -> None:
    with pytest.raises(HomeError, match="CLAW_HOME must be an absolute path"):
        Paths.from_env({"HOME": "/h", "CLAW_HOME": "./.claw"})
    moved = Paths.from_env({"HOME": "/h", "CLAW_MANAGED": "/tmp", "CLAW_HOME": "/x", "XDG_CONFIG_DIRS": "/tmp"})
    assert moved.managed == Path("/etc/claw")


def test_without_home_the_account_of_the_user_decides() -> None:
    assert Paths.from_env({}).config.is_absolute()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_private_folders_are_0700_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    target = tmp_path / "a" / "b" / "c"
    before = os.umask(umask)
    try:
        ensure_private_dir(target)
    finally:
        os.umask(before)
    made = (target, target.parent, target.parent.parent)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in made] == [0o700] * 3


def test_an_existing_private_folder_is_tightened_and_a_file_is_an_error(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o755)
    ensure_private_dir(loose)
    assert stat.S_IMODE(loose.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="move it away"):
        ensure_private_dir(tmp_path / "file")


def test_project_root_is_the_git_root_above_for_folders_and_worktree_files(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    inner = tmp_path / "repo" / "a" / "b"
    inner.mkdir(parents=True)
    assert project_root(inner) == tmp_path / "repo"
    (inner / ".git").write_text("gitdir: elsewhere\n")
    assert project_root(inner) == inner


def test_project_root_without_git_is_the_real_current_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert project_root(tmp_path / "link") == tmp_path / "real"


def test_git_branch_from_head(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    assert git_branch(tmp_path) is None
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    assert git_branch(tmp_path) == "feature/x"
    (git / "HEAD").write_text("1a2b3c4d" * 5 + "\n")
    assert git_branch(tmp_path) == "detached at 1a2b3c4d"
    (git / "HEAD").write_text("ref: refs/heads/\x1b[31m\n")
    assert git_branch(tmp_path) is None


def test_git_branch_of_a_worktree(tmp_path: Path) -> None:
    real = tmp_path / "main" / ".git" / "worktrees" / "w"
    real.mkdir(parents=True)
    (real / "HEAD").write_text("ref: refs/heads/w\n")
    tree = tmp_path / "w"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/w\n")
    assert git_branch(tree) == "w"


def test_git_branch_never_waits_for_a_fifo_or_device(tmp_path: Path) -> None:
    git = tmp_path / ".git"
    git.mkdir()
    os.mkfifo(git / "HEAD")
    assert git_branch(tmp_path) is None
    (git / "HEAD").unlink()
    (git / "HEAD").symlink_to("/dev/zero")
    assert git_branch(tmp_path) is None
    assert git_branch(tmp_path / "missing") is None


def test_every_folder_is_trusted_for_now(tmp_path: Path) -> None:
    assert is_trusted(tmp_path, Paths.from_env({"HOME": "/h"}))
