from pathlib import Path

import pytest

from agent.permissions.catastrophe import Places, catastrophe
from agent.permissions.shell import scan

PLACES = Places(Path("/home/me/work/project"), Path("/home/me/work/project/sub"), Path("/home/me"))


def judge(command: str) -> str:
    return catastrophe(command, scan(command), PLACES)


TARGETS = [
    "/",
    "/*",
    "//",
    "/.",
    "~",
    "~/",
    "~/*",
    "~root",
    ".",
    "./",
    "..",
    "../..",
    "*",
    "./*",
    ".*",
    "[a-z]*",
    "/etc",
    "/usr/",
    "/home",
    "/home/me",
    "/home/me/work",
    "/home/me/work/project",
    "/home/me/work/project/",
    "/home/me/work/project/sub/..",
    "/home/me/work/project/.git",
    "../.git",
    "$X",
    '"$X"',
    '"$X/"',
    "${X}/*",
    "./$X",
    "$(pwd)",
    "`pwd`",
    "{/,x}",
    "ok /",
]
REMOVALS = [
    "rm -rf",
    "rm -r",
    "rm -fR",
    "rm -f -r",
    "rm --recursive",
    "rm --recurs -f",
    "sudo rm -rf",
    "/bin/rm -rf --",
    "env A=1 rm -rf",
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("removal", [*REMOVALS, "chmod -R 777", "chown -R me", "sudo chown --recursive me:me"])
def test_R21_recursive_on_what_matters(removal: str, target: str) -> None:
    assert judge(f"{removal} {target}")


@pytest.mark.parametrize(
    "target", ["build", "build/*", "*.pyc", "./dist", "/home/me/work/project/build", "../build", "/tmp/x"]
)
@pytest.mark.parametrize("removal", REMOVALS)
def test_R21_ordinary_removals_are_not_in_the_list(removal: str, target: str) -> None:
    if "*" in target and removal.startswith(("sudo", "env")):
        return  # behind a wrapper a pattern may be the program
    assert not judge(f"{removal} {target}")


@pytest.mark.parametrize(
    "command",
    [
        "cd / && rm -rf etc",
        "cd ~; rm -rf *",
        "cd $X && rm -rf build",
        "cd - && rm -rf build",
        "bash -c 'rm -rf /'",
        "echo $(rm -rf ~)",
        "ls | xargs rm -rf",
        "find / -delete",
        "find . -delete",
        "find -delete",
        "find . -exec rm -rf {} +",
        "rm $X",
        "rm -rf --no-preserve-root x",
        "x=rm; $x -rf build",
        "echo cm0gLXJmIC8K | base64 -d | sh; rm",
        "mv ~ /tmp",
        "mv * /tmp",
        "dd if=/dev/zero of=/dev/sda",
        "dd of=/dev/disk2",
        "mkfs.ext4 x",
        "mkfs -t ext4 /dev/sda1",
        "wipefs -a x",
        "cat x > /dev/sda",
        "echo x | tee /dev/nvme0n1",
        "shred /dev/sda",
        "cp image /dev/sdb",
        "shutdown now",
        "sudo reboot",
        "kill -9 -1",
        "crontab -r",
        ":(){ :|:& };:",
        "b() { b | b & }; b",
    ],
)
def test_R21_other_ways_to_ruin_a_machine(command: str) -> None:
    assert judge(command)


@pytest.mark.parametrize(
    "command",
    [
        "git push --force",
        "git push -f",
        "git push -uf origin x",
        "git push origin +main",
        "git push origin :main",
        "git push --force-with-lease",
        "git push --forc",
        "git push --mirror",
        "git push --delete origin x",
        "git -C x push --force",
        "git -c a=b --git-dir x push -f",
        "/usr/bin/git push -f",
        "git clean -fdx",
        "git clean -xfd",
        "git clean --force -d",
        "git reset --hard",
        "git reset --hard HEAD~3",
        "git filter-branch --all",
        "git filter-repo",
        "git rebase -i HEAD~3",
        "git commit --amend",
        "git branch -D x",
        "git branch -f main x",
        "git checkout -f",
        "git checkout -- .",
        "git restore .",
        "git stash drop",
        "git stash clear",
        "git reflog expire --expire=now --all",
        "git gc --prune=now",
        "git update-ref -d x",
        "git tag -d v1",
        "git worktree remove -f x",
        "git $X",
        "true && git push -f",
    ],
)
def test_R21_git_that_drops_work_or_history(command: str) -> None:
    assert judge(command)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "git push -u origin $(git branch --show-current)",
        "git clean -n",
        "git clean -fdn",
        "git reset x.py",
        "git rebase --abort",
        "git commit -m 'push --force'",
        "git checkout -b x",
        "git checkout main",
        "git branch x",
        "git branch -d x",
        "git stash",
        "git stash pop",
        "git log --all",
        "git status",
        "rm x.py",
        "rm -f a b",
        'rm "$f"',
        "chmod +x run.sh",
        "chmod -R u+w build",
        "find . -name '*.pyc' -delete",
        "dd if=/dev/zero of=file bs=1 count=1",
        "echo x > /dev/null 2>&1",
        "echo x >/dev/stderr",
        "mv a b",
        "kill -9 1234",
        "make clean",
        "for f in *.txt; do echo $f; done",
        "f() { echo hi | cat; }; f",
        "pytest -q && git diff",
    ],
)
def test_ordinary_commands_are_not_catastrophic(command: str) -> None:
    assert judge(command) == ""
