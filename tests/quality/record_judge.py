"""Record a real judge: SmolLM2-135M-Instruct in llama.cpp's server, which `make engines` installs.

``python -m tests.quality.record_judge`` writes a tape of its pages and ``judged_pairs.json``: pairs
of texts of the embedded pair, under the lossless rule and under typical acceptance.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from specviz.engine import load_pair, speculate
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.quality.judge import Judge
from specviz.quality.scorers import AnswerText
from specviz.record.pairs import PairSpec, chat_file
from specviz.record.prompts import read_presets
from specviz.record.run_config import RunConfig
from tests.servers import real_engines
from tests.servers.tapes import Tape, recorded_tape

TAPE = "judge"
PAIRS = Path(__file__).with_name("judged_pairs.json")
_PROMPTS = 10
_CONFIG = RunConfig(temperature=1.0, max_new_tokens=40)


def answer(prompt: str, text: str) -> AnswerText:
    """Return the text for a judge, which reads no token ids."""
    return AnswerText(prompt=prompt, prompt_ids=(), token_ids=(), text=text, chat=False)


def _texts(pair: Pair, prompt: str) -> list[str]:
    configs = (_CONFIG, replace(_CONFIG, rule="typical", epsilon=0.4))
    ids = encode_prompt(pair, prompt, chat=False)
    return [
        pair.token_table.join([t for entry in speculate(pair, ids, config) for t in entry.emitted])
        for config in configs
    ]


def main() -> None:
    model, reason = chat_file(), real_engines.missing("llamacpp")
    if model is None or reason:
        print(reason or "The chat model is missing: make chat installs it.")
        sys.exit(1)
    pair = load_pair(PairSpec(threads=1))
    prompts = [each.text for each in read_presets()][:_PROMPTS]
    pairs = [[prompt, *_texts(pair, prompt)] for prompt in prompts]
    tape = Tape()
    with (
        real_engines.llamacpp(model=model, speculative=False) as address,
        recorded_tape(address, tape) as served,
    ):
        judge = Judge(served.address)
        for at, (prompt, first, second) in enumerate(pairs):
            print(judge.judge(at, answer(prompt, first), answer(prompt, second)))
    tape.save(TAPE)
    PAIRS.write_text(json.dumps(pairs, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
