"""The process of a local model for tests. With `grammar` its answers follow that GBNF grammar, so that a small model ends."""

import json
import sys
from typing import Any

from providers import local_server


def main(settings: dict[str, Any]) -> int:
    def adapt(params: Any) -> None:
        if settings["grammar"]:
            grammar = params.sampling.grammar
            grammar.grammar = settings["grammar"]
            params.sampling.grammar = grammar

    return local_server.main(settings, adapt)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
