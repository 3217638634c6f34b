"""When the player leaves the processor to the models, by its own store without a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.node import ROOT, run_node


def calm(run: dict[str, Any], *, growing: bool, cores: int) -> list[bool]:
    """Return whether nothing moves between two steps, and whether whole rounds appear at once."""
    module = (ROOT / "assets/player/run_store.js").as_uri()
    script = f"""
        import {{ RunStore }} from "{module}";
        Object.defineProperty(globalThis, "navigator", {{
          value: {{ hardwareConcurrency: {cores} }}, configurable: true,
        }});
        const store = new RunStore();
        store.data = {json.dumps({"run": run, "growing": growing})};
        console.log(JSON.stringify([store.calm, store.quiet]));
    """
    return json.loads(run_node("--input-type=module", "--eval", script))


@pytest.mark.parametrize(("cores", "expected"), [(2, [True, False]), (16, [False, False])])
def test_nothing_moves_while_a_run_is_timed_on_few_cores(cores: int, expected: list[bool]) -> None:
    timed = {"state": "running", "decoded": True}
    assert calm(timed, growing=True, cores=cores) == expected
    assert calm({"state": "done", "decoded": True}, growing=False, cores=cores) == [False, False]
    assert calm({"state": "running", "decoded": False}, growing=True, cores=cores) == [True, True]
