from pathlib import Path

import pytest

from agent.permissions.catastrophe import catastrophe
from agent.permissions.precious import Places
from agent.permissions.shell import scan

PLACES = Places(Path("/home/me/work/project"), Path("/home/me/work/project/sub"), Path("/home/me"))


def judge(command: str) -> str:
    return catastrophe(command, scan(command), PLACES)


def let_through(commands: list[str]) -> list[str]:
    return [command for command in commands if not judge(command)]


def stopped(commands: list[str]) -> list[str]:
    return [command for command in commands if judge(command)]


def rows(text: str) -> list[str]:
    return text.strip().splitlines()


TARGETS = rows(r"""
/
/*
//
/.
~
~/
~/*
~root
.
./
..
../..
*
./*
.*
[a-z]*
/etc
/usr/
/home
/home/me
/home/me/work
/home/me/work/project
/home/me/work/project/
/home/me/work/project/sub/..
/home/me/work/project/.git
../.git
../.git/objects
../.git/*
$X
"$X"
"$X/"
${X}/*
./$X
$(pwd)
`pwd`
{/,x}
{/,{}}
{~,x}
{..,x}
{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}
{a,{b,{c,~}}}
{{x},~}
{${x},~}
x{,{y}}{/../..,}
{{{{{{{{{{{{{{{{{{{{{{x}}}}}}}}}}}}}}}}}}}}}}
ok /
/u*
/home/m?
../../proj*
../.g*
/[a]*/..
""")
REMOVALS = rows(r"""
rm -rf
rm -r
rm -fR
rm -f -r
rm -{r,f}
rm -{p..s}
rm -$x
rm --recursive
rm --recurs -f
sudo rm -rf
/bin/rm -rf --
env A=1 rm -rf
""")
OTHERS = ["chmod -R 777", "chown -R me", "chgrp -R me", "setfacl -R x", "sudo chown --recursive me:me"]


@pytest.mark.parametrize("removal", [*REMOVALS, *OTHERS])
def test_R21_recursive_on_what_matters(removal: str) -> None:
    assert let_through([f"{removal} {target}" for target in TARGETS]) == []


@pytest.mark.parametrize("removal", REMOVALS)
def test_R21_ordinary_removals_are_not_in_the_list(removal: str) -> None:
    targets = ["build", "*.pyc", "build/*", "./dist", "../build", "/home/me/work/project/build", "/tmp/x", "/tmp/x*"]
    targets += ["x.{a,b}", "x{,y}", "build/{a,b}", "{build,dist/{x,y}}", "{a}/b"]
    if removal.startswith(("sudo", "env")):  # behind a wrapper a pattern may be the program
        targets = [target for target in targets if not set("*{") & set(target)]
    assert stopped([f"{removal} {target}" for target in targets]) == []


def test_T31_a_link_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "home")
    places = Places(tmp_path / "a", tmp_path / "a", tmp_path / "home")
    for command, stops in (("rm -r link", True), ("rm -r link/.", True), ("rm -r other", False)):
        assert bool(catastrophe(command, scan(command), places)) is stops, command


def test_R21_other_ways_to_ruin_a_machine() -> None:
    commands = rows(r"""
cd / && rm -rf etc
cd ~; rm -rf *
cd; rm -rf work
pushd /; rm -rf etc
cd $X && rm -rf build
cd a* && rm -rf build
cd - && rm -rf build
cd a; cd b; cd c; cd d; cd e; cd f; cd g; cd h; rm -rf x
bash -c 'rm -rf /'
echo $(rm -rf ~)
ls | xargs rm -rf
find / -delete
find . -delete
find -delete
find -type f -delete
find \( -type f \) -delete
find ! -type d -delete
find build . -delete
find ~ -name '*' -delete
find ~ -path '*/*' -delete
find ~ ! -name x -delete
find ~ -not -iname x -delete
find . -exec rm -rf {} +
find . -type f -exec rm {} +
find . -type f -execdir /bin/rm {} +
find ~ -ok shred {} ;
find ~ -okdir sudo unlink {} ;
fd . -x rm -rf
rm $X
rm "$X" ~
rm "$(echo -rf)" ~
rm {-rf,~}
rm {-rf,{x},~}
rm {-rf,${x},~}
find . -type f | xargs rm -f
find ~ -print0 | xargs -0 unlink
find ~ -name '*' -exec rm -rf {} +
find . -name x -exec rm -rf {} ~ ;
ls | xargs -I % rm -rf %
uv run rm -rf ~
npm exec rm -rf ~
tmux new -d 'rm -rf ~'
{rm,-rf,~}
rm --no-preserve-root x
rm -rf --no-preserve-root x
x=rm; $x -rf build
echo cm0gLXJmIC8K | base64 -d | sh; rm
mv ~ /tmp
mv * /tmp
mv a ~ /tmp
mv -t b ~
mv --target-directory=b ~
mv {~,/tmp}
rsync -a --delete x/ .
rsync -a --delete-after x/ ~/
mkfs.ext4 x
mkfs -t ext4 /dev/sda1
cat x > /dev/sda
cat x 2>/dev/sda
cat x &> /dev/sda
cat x >| /dev/sda
cat x > //dev/sda
cat x > /dev/./sda
cat x > /dev/../dev/sda
cat x > ../../../../../dev/sda
cd /dev && cat x > sda
cd / && cat x > dev/sda
echo b > /proc/sysrq-trigger
echo 1 > /sys/block/sda/device/delete
systemctl poweroff
systemctl -i reboot
loginctl halt
sudo reboot
init 0
telinit S
init $x
kill -9 -1
kill -1
kill -s KILL -- -1
kill -KILL -1 77
crontab -r
crontab -u me -r
crontab -ir
:(){ :|:& };:
b() { b | b & }; b
f(){ f|f& };f
""")
    tools = (
        "mke2fs mkswap wipefs fdisk sfdisk cfdisk gdisk sgdisk parted blkdiscard cryptsetup lvremove vgremove pvremove zpool"
        " hdparm badblocks flashrom shutdown reboot poweroff halt"
    )
    writers = ("tee", "cp x", "mv x", "shred", "truncate -s 0", "install x", "dd if=x", "dd of=x")
    assert let_through(commands) == []
    assert let_through([f"{tool} x" for tool in tools.split()]) == []
    assert let_through([f"{writer} /dev/nvme0n1" for writer in writers]) == []
    assert let_through(["dd if=x of=/dev/sda", "dd of=/dev//disk2", "dd {if=x,of=/dev/sda}"]) == []
    assert let_through([f"{name} x; $y z" for name in ("rm", "dd", "shred")]) == []
    assert let_through([f"echo {name} | sh" for name in ("rm", "dd", "shred", "wipefs", "mkfs", "blkdiscard")]) == []


def test_R21_settings_that_run_a_program() -> None:
    commands = rows(r"""
git -c alias.x='!rm -rf ~' x
git -c alias.x='push -f' x
git -c ALIAS.x='!git push -f' x
git -C a -c core.pager='rm -rf ~' log
git -c core.sshCommand='rm -rf ~' fetch
git -c pager.log='rm -rf ~' log
git -c diff.x.textconv='rm -rf ~' diff
git -c credential.helper='!rm -rf ~' fetch
git -c alias.x="!f() { rm -rf ~; }; f" x
git clone --config=core.fsmonitor='rm -rf ~' x
git config alias.x '!rm -rf ~'
git config --global core.editor 'rm -rf ~'
V='!rm -rf ~' git --config-env=alias.x=V x
V='!rm -rf ~' git --config-env alias.x=V x
V='!rm -rf ~'; git -c alias.x="$V" x
env git -c alias.x='!rm -rf ~' x
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!rm -rf ~' git x
GIT_SSH_COMMAND='rm -rf ~' git fetch
export GIT_PAGER='rm -rf ~'; git log
env PAGER='rm -rf ~' man ls
LESSOPEN='|rm -rf ~' less x
alias ls='rm -rf ~'; ls
""")
    harmless = rows(r"""
git -c core.pager=cat diff
git -c user.name=x -c user.email=y commit -m z
git -c alias.x='!f() { echo "$1"; }; f' x
git -c color.ui=false log
git config core.editor vim
git config alias.st status
git config --get alias.st
git --config-env=http.extraHeader=H fetch
GIT_EDITOR=true git commit
GIT_PAGER= git log
GIT_SSH_COMMAND='ssh -i key' git fetch
PAGER=cat rm x
alias ll='ls -l'
MESSAGE='rm -rf ~' make
""")
    assert let_through(commands) == []
    assert stopped(harmless) == []


def test_T28_too_much_to_judge_is_asked_about() -> None:
    few, many = "rm x\n" * 500, "rm x\n" * 501
    assert not judge(few) and judge(many)
    few, many = "rm" + " x" * 1_000, "rm" + " x" * 1_001
    assert not judge(few) and judge(many)


def test_R21_git_that_drops_work_or_history() -> None:
    commands = rows(r"""
git push --force
git push -f
git push -uf origin x
git push origin +main
git push origin :main
git push --force-with-lease
git push --forc
git push --f
git push --mirror
git push --delete origin x
git push -d origin x
git push --prune origin
git push {-f,origin}
git {push,-f}
git push origin {,+}x
git --no-pager push --force
git --bare --no-pager push --force
git --git-dir=x push --force
git submodule foreach git push -f
git submodule foreach --recursive 'git clean -fdx'
git bisect run git reset --hard
/usr/bin/git push -f
git clean -fdx
git clean -xfd
git clean --force -d
git clean -f -- -n
git reset --hard
git reset --h
git reset --hard HEAD~3
git reset --merge
git filter-branch --all
git filter-repo
git replace a b
git prune
git rebase -i HEAD~3
git rebase main -- --abort
git commit --amend
git branch -D x
git branch -M x
git branch -C x y
git branch -f main x
git branch --force main x
git checkout -f
git checkout --force
git checkout -B main x
git checkout .
git checkout -- .
git checkout HEAD -- ./
git checkout :/
git checkout -- '*'
git checkout -- ..
git checkout -- ':!x'
git switch -f x
git switch --discard-changes x
git switch -C main x
git restore .
git restore ../..
git rm -rf .
git rm --force x
git checkout-index -fa
git checkout-index --force -a
git read-tree --reset -u HEAD
git stash drop
git stash clear
git reflog expire --expire=now --all
git reflog delete x
git gc --prune=now
git update-ref -d x
git tag -d v1
git tag -f v1
git tag --delete v1
git tag --force v1
git worktree remove -f x
git worktree remove --force x
git $X
true && git push -f
""")
    options = (
        "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --shallow-file"
    )
    assert let_through(commands) == []
    assert let_through([f"git {option} x push -f" for option in options.split()]) == []


def test_ordinary_commands_are_not_catastrophic() -> None:
    commands = rows(r"""
git
git --version
git -C
git -C push
git push
git push origin main
git push origin off:
git push -u origin $(git branch --show-current)
git commit -- --amend
git clean
git clean -n
git clean -fdn
git clean -f --dry-run
git clean -d
git reset x.py
git cherry-pick -x $X
git rebase --abort
git rebase --quit
git rebase --show-current-patch
git commit -m 'push --force'
git checkout -b x
git checkout offline
git checkout main
git checkout x.py
git switch main
git restore x.py
git branch x
git branch -d x
git stash
git stash pop
git stash list drop
git reflog
git worktree add x
git worktree remove x
git worktree list -f
git gc
git tag v1
git rm x.py
git show x:y
git log --all
git status
rm x.py
rm -f a b
rm "$f"
rm x$f
rm a.{o,d}
rm {-r,x}
rm -r '{a/b}'
rm -rf ~/notes/old
rm -rf .x*
rm -rf *t
cd - && rm -rf ~/notes/old
cd - && rm -rf /tmp/x
rm '{-rf,~}' {a,b}
chmod 777 .
chmod +x run.sh
chmod -R u+w build
chmod -R u+w build/*
chown -R $USER build
setfacl -R build
find . -name '*.pyc' -delete
find . ! -path './x/*' -name '*.pyc' -delete
find . -name '*.pyc' -exec rm {} +
find . -name __pycache__ -type d -exec rm -rf {} +
find . -name __pycache__ -type d -exec rm -rf {} ;
find build -type d -exec rm -r {} \;
find . -type f -exec cat {} +
find . -type f | xargs grep x
find . -name '*.py' | xargs rm -f
find build -type f | xargs rm
npm test
npm init -y
time npm init
timeout 60 git init
uv run pytest
rm -rf target/{debug,release}
mv build/{a,b} c
find . -name rm
find . -empty -delete
find build -type f -delete
find build ! -type d -delete
find build \( -type f \) -delete
dd if=/dev/zero of=file bs=1 count=1
echo x > /dev/null 2>&1
echo x >/dev/stderr
cd /dev; echo x > null
cat x > dev/sda
mv a b
mv a ..
mv a -f /tmp
rsync -a x/ .
rsync -a --delete x/ build
kill -9 1234
kill -1 1234
kill
crontab -l
crontab file
systemctl status poweroffs
echo reboot
make clean
for f in *.txt; do echo $f; done
f() { echo hi | cat; }; f
$x y
pytest -q && git diff
cd $X && echo x > out
cd a && rm -rf b
cd a; cd b; cd c; rm -rf x
cd a -- && ls
""")
    devices = "/dev/null /dev/stdout /dev/stderr /dev/stdin /dev/tty /dev/zero /dev/full /dev/fd/2"
    filters = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -samefile -inum"
    assert stopped(commands) == []
    assert stopped([f"echo x > {device}" for device in devices.split()]) == []
    assert stopped([f"find . {test} x -delete" for test in filters.split()]) == []
