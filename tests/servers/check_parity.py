"""Real engines that serve the embedded EAGLE-3 head: ``python -m tests.servers.check_parity``.

vLLM and llama.cpp serve the head as it is, then with a wrong entry in its files. Served as it is,
vLLM must accept exactly as many candidates as specviz's loop, and llama.cpp, too, with one request
at a time; with several at once it drafts badly in all slots but one, which must be found. A wrong
entry must be found. ``--record`` stores the exchanges with llama.cpp for the tests. Prints the
reports; exits with 1 if one is wrong.
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
from specviz.training.drafts.export import How, export
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
_STARTS: dict[str, tuple[Any, str, How]] = {  # start, method, and format of the export
    "vllm": (real_engines.vllm, "eagle3", "speculators"),
    "llamacpp": (real_engines.llamacpp, "draft-eagle3", "gguf"),
}
_KEYS = ("draft_vocab_size", "norm_before_residual", "norm_before_fc", LAYERS)
# What is wrong with the served head's configuration, and words that the findings must have. In
# vLLM, the head as it is must have no finding.
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
def serving(
    changes: dict[str, Any], at_once: int = AT_ONCE, engine: str = "llamacpp"
) -> Iterator[str]:
    """Start an engine with the embedded target and its head, whose configuration is changed."""
    start, method, how = _STARTS[engine]
    with TemporaryDirectory(prefix="specviz-") as temporary:
        head, place = Path(temporary, "head"), Path(temporary, "made")
        write_in_authors_layout(head, changes)
        made = export(head, how, place, target=SPEC.target_place)
        drafting = Drafting(method=method, place=made.files[0] if how == "gguf" else made.folder)
        with start(drafting=drafting, gamma=GAMMA, at_once=at_once) as address:
            yield address


def report_of(measurement: EngineMeasurement, pair: Pair) -> ParityReport:
    found = Parity(measured=(measurement,), config=RunConfig()).find(pair)
    (report,) = (each for each in found if isinstance(each, ParityReport))
    return report


def main(record: bool, names: list[str], engines: list[str]) -> int:
    findings, pair = Findings(), load_pair(SPEC)
    for engine in engines or _STARTS:
        if reason := real_engines.missing(engine):
            print(reason)
            continue
        for name in names or CASES:
            check(engine, name, pair, findings, record=record and engine == "llamacpp")
    return findings.wrong


def check(engine: str, name: str, pair: Pair, findings: Findings, *, record: bool) -> None:
    changes, words = CASES[name]
    with serving(changes, engine=engine) as address, recorded_parity(address) as (server, tape):
        measurement = measured(server.address)
    report = report_of(measurement, pair)
    print(f"\n{engine}, {name}")
    print("\n".join(_lines(Painter(False, 100), report)), flush=True)
    sentences = " ".join(each.sentence for each in report.findings)
    if engine == "vllm" and not changes:
        findings.check("reports without a finding", int(not sentences), 1)
    else:
        findings.check("reports with the expected finding", int(words in sentences), 1)
    if record:
        save_parity(tape, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--engine", action="append", default=[], choices=_STARTS)
    given = parser.parse_args()
    sys.exit(bool(main(given.record, given.names, given.engine)))
