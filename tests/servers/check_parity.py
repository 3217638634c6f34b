"""A real llama.cpp that serves the embedded EAGLE-3 head: ``python -m tests.servers.check_parity``.

The head is served as it is, then with a wrong entry in its files. Served as it is, one request at a
time must accept as many candidates as specviz's loop, and several at once fewer: llama.cpp drafts
badly in all slots but one. A wrong entry must be found. ``--record`` stores the exchanges for the
tests. Prints the reports; exits with 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load_file

from specviz.cli.parity import _lines
from specviz.cli.terminal_text import Painter
from specviz.engine import Pair, load_pair
from specviz.record.pairs import PairSpec
from specviz.record.run_config import RunConfig
from specviz.record.server_run import ServerSettings
from specviz.servers import find_server
from specviz.servers.acceptance import AcceptanceMeter, MeasuringPlan, default_prompts
from specviz.training.drafts.export import export
from specviz.tune.parity import Parity
from specviz.tune.parity_values import EngineMeasurement, ParityReport
from tests.engine.heads.tiny_heads import write_folder
from tests.servers import real_engines
from tests.servers.check_real import Findings
from tests.servers.parity_tapes import recorded_parity, save_parity
from tests.servers.real_engines import Drafting

SPEC = PairSpec(name="tinystories-eagle3", threads=1)
GAMMA, AT_ONCE, TOKENS = 3, 4, 48
PROMPTS = default_prompts(16, chat=False)
LAYERS = "eagle_aux_hidden_state_layer_ids"
SEVERAL_AT_ONCE = "lower when several requests run at once"
_KEYS = ("draft_vocab_size", "norm_before_residual", "norm_before_fc", LAYERS)
# What is wrong with the served head's configuration, and words that the findings must have.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "healthy": ({}, SEVERAL_AT_ONCE),
    "layers": ({LAYERS: [3, 7, 10]}, "layers 3, 7, 10"),
    "one layer": ({LAYERS: [2, 6, 3]}, "more causes are possible: other layers"),
    "residual": ({"norm_before_residual": True}, "residual"),
}


def plan(tokens: int = TOKENS) -> MeasuringPlan:
    return MeasuringPlan(
        prompts=PROMPTS, settings=ServerSettings(max_new_tokens=tokens, temperature=0.0)
    )


def measured(address: str) -> EngineMeasurement:
    info = find_server(address)
    return AcceptanceMeter(info, plan(), allow_remote=False).measure()


def write_in_authors_layout(folder: Path, changes: dict[str, Any]) -> None:
    """Write the embedded head, with changed settings, in the layout that exports to GGUF."""
    place = Path(str(SPEC.draft_place))
    stated = json.loads((place / "config.json").read_text())
    config = stated["transformer_layer_config"] | {key: stated[key] for key in _KEYS} | changes
    tensors = {
        name.replace("layers.0.", "midlayer."): each
        for name, each in load_file(place / "model.safetensors").items()
    }
    write_folder(folder, config | {"architectures": ["LlamaForCausalLMEagle3"]}, tensors)


@contextmanager
def serving(changes: dict[str, Any], at_once: int = AT_ONCE) -> Iterator[str]:
    """Start llama.cpp with the embedded target and its head, whose configuration is changed."""
    with TemporaryDirectory(prefix="specviz-") as temporary:
        head, place = Path(temporary, "head"), Path(temporary, "gguf")
        write_in_authors_layout(head, changes)
        made, *_ = export(head, "gguf", place, target=SPEC.target_place).files
        drafting = Drafting(method="draft-eagle3", place=made)
        with real_engines.llamacpp(drafting=drafting, gamma=GAMMA, at_once=at_once) as address:
            yield address


def report_of(measurement: EngineMeasurement, pair: Pair) -> ParityReport:
    found = Parity(measured=(measurement,), config=RunConfig()).find(pair)
    (report,) = (each for each in found if isinstance(each, ParityReport))
    return report


def main(record: bool, names: list[str]) -> int:
    findings, pair = Findings(), load_pair(SPEC)
    if reason := real_engines.missing("llamacpp"):
        print(reason)
        return 0
    for name in names or CASES:
        changes, words = CASES[name]
        with serving(changes) as address, recorded_parity(address) as (server, tape):
            measurement = measured(server.address)
        report = report_of(measurement, pair)
        print(f"\n{name}")
        print("\n".join(_lines(Painter(False, 100), report)), flush=True)
        sentences = " ".join(each.sentence for each in report.findings)
        findings.check("reports with the expected finding", int(words in sentences), 1)
        if record:
            save_parity(tape, name)
    return findings.wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    given = parser.parse_args()
    sys.exit(bool(main(given.record, given.names)))
