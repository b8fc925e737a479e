import tomllib

from agent.config.show import show_check, show_config, show_paths
from tests.agent.config.conftest import Bench


def test_show_is_toml_with_every_origin_and_without_secrets(bench: Bench) -> None:
    bench.write(
        user='model = "anthropic/m"\ninstructions = "one\\u001b"\n[providers.mine]\napi = "chat"\nbase_url = "https://h"\n'
        'headers = { Authorization = "Bearer sk-secret" }\n[models."a.b"]\nprice = { input = 1, output = 2 }\n',
        project='limits.max_turns = 3\npermissions.deny = ["write"]\n',
    )
    env = {"ANTHROPIC_API_KEY": "sk-other", "CLAW_CONTEXT_WINDOW": "9000"}
    loaded = bench.load("effort=high", env=env)
    shown = show_config(loaded, env, bench.paths)
    assert "sk-" not in shown
    assert all(line.isprintable() for line in shown.splitlines())
    values = tomllib.loads(shown)
    assert values["model"] == "anthropic/m" and values["limits"]["max_turns"] == 3
    assert values["providers"]["mine"]["headers"] == {"Authorization": "(hidden)"}
    assert values["models"]["a.b"]["price"] == {"input": 1.0, "output": 2.0}
    assert values["context"]["auto_compact"] is True
    lines = shown.splitlines()
    assert f'model = "anthropic/m"  # user {bench.user_file}:1: the model that answers, as PROVIDER/MODEL' in lines
    assert 'effort = "high"  # command line: how much the model thinks before it answers' in lines
    assert any(line.startswith(f"max_turns = 3  # project {bench.project_file}:1: ") for line in lines)
    assert any(line.startswith("preserve_recent = 4  # default: ") for line in lines)
    assert "# anthropic: from ANTHROPIC_API_KEY" in lines
    assert any(line.startswith("# openai: none; set OPENAI_API_KEY or write it to ") for line in lines)
    assert "# CLAW_CONTEXT_WINDOW = 9000" in lines


def test_paths_say_which_files_are_there(bench: Bench) -> None:
    bench.write(user="effort = 'low'\n", project="[broken")
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in show_paths(bench.load(), bench.paths).splitlines()}
    assert rows["user"] == f"read       {bench.user_file}"
    assert rows["project"] == f"damaged    {bench.project_file}"
    assert rows["local"] == f"not there  {bench.local_file}"
    assert rows["managed"] == f"not there  {bench.managed_file}"
    assert {"keys", "state", "sessions", "logs", "history", "cache"} <= set(rows)


def test_check_lists_problems_or_says_that_there_are_none(bench: Bench) -> None:
    bench.write(user="effort = 'low'\n")
    assert show_check(bench.load()) == "No problems (1 file read).\n"
    bench.write(project="permissions.mode = 'auto'\nefort = 1\n")
    loaded = bench.load()
    first, second = show_check(loaded).splitlines()
    assert first.startswith(f"notice: {bench.project_file}:1: permissions.mode: ignored")
    assert second.startswith(f"error: {bench.project_file}:2: efort: unknown key; did you mean")
