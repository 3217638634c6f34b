"""The reference for a serving engine's acceptance: specviz's acceptance along the engine's texts.

Along each answer of the engine, the head drafts greedily, as vLLM and llama.cpp do by default.
Rounds then depend on the text alone, so the reference has no sampling noise. If an answer at
temperature 0 differs from the text that our target writes for the prompt, our target's text is used
instead of the answer. ``parity_findings.py`` compares the engine's counts with the reference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from specviz.errors import ConfigError
from specviz.record.run_config import RunConfig
from specviz.tune.doctor import Examining, head_of, setting_words
from specviz.tune.doctor_warnings import head_warnings
from specviz.tune.parity_findings import Reference, SettingCounts, report_of
from specviz.tune.parity_statistics import distance
from specviz.tune.parity_values import Counts, EngineMeasurement, EngineText, ParityReport, Unit
from specviz.tune.parity_values import total as summed
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.engine import Pair
    from specviz.engine.heads.following import ReadText
    from specviz.engine.heads.readings import Reading

_CLEAR = 0.5  # log-probability; a token this far below the first choice is not a near-tie
_NEAR = 0.02  # if counts differ by at most this per round, no other settings are tried
_SCREENED = 2  # prompts on which all settings are tried
_KEPT = 8  # settings that are compared on all prompts


class Parity(Value):
    """A study that compares the acceptance of one or two engines with that of specviz."""

    measured: tuple[EngineMeasurement, ...]
    config: RunConfig

    @property
    def label(self) -> str:
        return "comparing the engine with the reference"

    def find(self, pair: Pair) -> Iterator[ParityReport | Examining]:
        """Yield progress (``Examining``) and a report for each engine."""
        other: tuple[str, Reference] | None = None
        for measured in self.measured:
            engine = _EngineParity(measured, self.config)
            references = yield from engine.find(pair, other)
            other = f"{measured.title} at {measured.address}", references[0]


@dataclass(frozen=True, slots=True)
class _EngineParity:
    """Compares the acceptance of one engine with that of specviz along the engine's texts."""

    measured: EngineMeasurement
    config: RunConfig

    def find(
        self, pair: Pair, other: tuple[str, Reference] | None
    ) -> Generator[ParityReport | Examining, None, list[Reference]]:
        from specviz.engine.heads.readings import readings

        head, info = head_of(pair)
        self._check(head.most_candidates)
        found = readings(head, head.target.layers)
        places = sorted({place for each in found for place in each.head.states.places})
        planned = sum(len(each.units) for each in self.measured.samples) + len(found) - 1
        walked, known, done = list[list[_Walked]](), dict[tuple[Any, ...], _Text](), 0
        for sample in self.measured.samples:
            walked.append([])
            for unit in sample.units:
                yield Examining(doing="reading the engine's texts", done=done, planned=planned)
                for each in unit.texts:  # most conditions give the same text
                    if (key := (each, sample.temperature)) not in known:
                        known[key] = _Text.read(self, pair, each, sample.temperature, places)
                texts = tuple(known[each, sample.temperature] for each in unit.texts)
                walked[-1].append(_Walked(unit=unit, texts=texts))
                done += 1
        references = [
            Reference(sample=sample, counts=tuple(each.counts(found[0], self) for each in units))
            for sample, units in zip(self.measured.samples, walked, strict=True)
        ]
        settings = list[SettingCounts]()
        follow = sum(each.texts[0].departures == 0 for each in walked[0])
        if 2 * follow >= len(walked[0]) and not _explained(references[0], self.measured.gamma):
            for each in self._compare_settings(found, walked[0]):
                if isinstance(each, SettingCounts):
                    settings.append(each)
                else:
                    yield Examining(doing="trying all settings", done=done + each, planned=planned)
        yield report_of(
            self.measured, references, settings, tried=len(found), head=info.name,
            target=pair.info.target.name, other=other,
            notes=(*_notes(walked[0]), *head_warnings(pair, chat=self.measured.chat)),
            departures=[each.texts[0].departures for each in walked[0]],
        )  # fmt: skip
        return references

    def _check(self, most: int | None) -> None:
        if most is not None and most < self.measured.gamma:
            raise ConfigError(
                f"The engine drafts {self.measured.gamma} candidates per round; this head drafts "
                f"at most {most}.",
                remedy="Compare an engine that serves the same head.",
            )

    def _compare_settings(
        self, found: Sequence[Reading], walked: Sequence[_Walked]
    ) -> Iterator[SettingCounts | int]:
        """Yield counts for the files' settings, then for the settings that fit the engine best.

        The counts are the candidates that specviz's rounds draft and accept. Settings fit best if
        their counts are nearest to the engine's. Before the counts, yield the number of settings
        tried so far.
        """
        some, far = walked[:_SCREENED], dict[int, float]()
        for index, reading in enumerate(found[1:], 1):
            yield index
            far[index] = sum(
                distance(each.unit.counts, each.counts(reading, self), self.measured.gamma)
                for each in some
            )
        for index in (0, *sorted(far, key=far.__getitem__)[:_KEPT]):
            counts = tuple(each.counts(found[index], self) for each in walked)
            yield SettingCounts(words=setting_words(found[index].changes), counts=counts)


class _Text(Value, eq=False):
    """The engine's answer, or our target's own text instead, with our target's hidden states."""

    read_text: ReadText
    first: int  # index of its first token; the prompt comes before
    end: int
    departures: float  # share of tokens that our target clearly would not have chosen
    notes: tuple[str, ...]

    @staticmethod
    def read(
        parity: _EngineParity,
        pair: Pair,
        answer: EngineText,
        temperature: float,
        places: Sequence[int],
    ) -> _Text:
        from specviz.engine.model.chat import encode_prompt

        measured = parity.measured
        prompt = encode_prompt(pair, answer.prompt, chat=measured.chat)
        ids, notes = _ids_of(pair, answer)
        if answer.prompt_tokens not in (None, len(prompt)):
            notes.append(
                f"The engine counts {answer.prompt_tokens} tokens in prompt {answer.number + 1}, "
                f"our tokenizer {len(prompt)}: the engine's chat template or tokenizer differs "
                "from ours."
            )
        text = _extended(parity, pair, prompt, ids, temperature, places)
        departures = _departures(text, len(prompt), len(ids)) if temperature == 0 else 0.0
        if departures:
            settings = _greedy(parity.config, max_new_tokens=len(ids))
            ids = _written(pair, prompt, settings)
            text = _extended(parity, pair, prompt, ids, temperature, places)
        return _Text(
            read_text=text.without_probs(),
            first=len(prompt),
            end=len(prompt) + len(ids),
            departures=departures,
            notes=tuple(notes),
        )


class _Walked(Value, eq=False):
    """Answers that the engine wrote at the same time, and their texts with our hidden states."""

    unit: Unit
    texts: tuple[_Text, ...]

    def counts(self, reading: Reading, parity: _EngineParity) -> Counts:
        """Return how many candidates our rounds along the texts draft and accept."""
        from specviz.engine.heads.following import rounds_along

        gamma, counts = parity.measured.gamma, self.unit.counts
        shortened = counts.drafted < gamma * counts.drafts
        found = list[Counts]()
        for each in self.texts:
            limit = each.first + parity.measured.max_new_tokens if shortened else None
            rounds = rounds_along(
                reading.head, each.read_text, gamma, (each.first, each.end), limit
            )
            found.append(
                Counts(
                    drafts=len(rounds),
                    drafted=sum(drafted for drafted, _ in rounds),
                    accepted_at=tuple(
                        sum(accepted > place for _, accepted in rounds) for place in range(gamma)
                    ),
                )
            )
        return summed(found)


def _explained(reference: Reference, gamma: int) -> bool:
    """Return whether the settings in the head's files explain the engine's counts."""
    pairs = zip(reference.engine, reference.counts, strict=True)
    return fmean(distance(*each, gamma) for each in pairs) <= _NEAR


def _ids_of(pair: Pair, answer: EngineText) -> tuple[list[int], list[str]]:
    """Return the answer's token ids, and notes; compute missing ids from the answer's text."""
    ids, notes = list(answer.token_ids), list[str]()
    if len(ids) != answer.tokens:
        ids = list(pair.tokenizer(answer.text, add_special_tokens=False)["input_ids"])
        if len(ids) != answer.tokens:
            notes.append(
                f"Answer {answer.number + 1} has {answer.tokens} tokens, but our tokenizer gives "
                f"{len(ids)} tokens for its text. So the rounds along this text are not exactly "
                "those of the engine."
            )
    if any(not 0 <= each < pair.vocabulary for each in ids) or len(ids) < 2:
        raise ConfigError(
            f"Answer {answer.number + 1} of the engine cannot be a text of "
            f"{pair.info.target.name}: it has unknown tokens or fewer than two tokens.",
            remedy="Compare an engine that serves this target.",
        )
    return ids, notes


def _extended(
    parity: _EngineParity,
    pair: Pair,
    prompt: Sequence[int],
    ids: Sequence[int],
    temperature: float,
    places: Sequence[int],
) -> ReadText:
    """Return a text with hidden states, continued by γ tokens that our target writes.

    The engine's last round may have accepted candidates beyond the length limit. The answer does
    not contain these, so the continuation replaces them.
    """
    from specviz.engine.decoding.sampling import Sampler
    from specviz.engine.heads.following import ReadText

    settings = _greedy(parity.config, max_new_tokens=parity.measured.gamma)
    more = _written(pair, [*prompt, *ids], replace(settings, temperature=temperature))
    sampler = Sampler(RunConfig(temperature=1.0))
    return ReadText(pair, prompt, [*ids, *more], sampler, places)


def _written(pair: Pair, prompt: Sequence[int], settings: RunConfig) -> list[int]:
    from specviz.engine import decode_plainly

    return list(decode_plainly(pair, prompt, settings))


def _greedy(config: RunConfig, max_new_tokens: int) -> RunConfig:
    return replace(
        config, temperature=0.0, max_new_tokens=max_new_tokens, record=False, ignore_eos=True,
        stop=(), forks=(),
    )  # fmt: skip


def _departures(text: ReadText, first: int, count: int) -> float:
    """Return the share of tokens that are clearly not the target's first choice."""
    rows: Any = text.probs[first - 1 : first - 1 + count]
    chosen = rows.gather(1, text.ids[first : first + count, None])[:, 0]
    gaps = rows.max(1).values.log() - chosen.log()
    return float((gaps > _CLEAR).double().mean())


def _notes(walked: Sequence[_Walked]) -> tuple[str, ...]:
    """Return the notes on the texts, at most one of each kind."""
    kinds = dict[str, str]()
    for each in walked:
        for note in each.texts[0].notes:
            kinds.setdefault(note.split()[0], note)
    return tuple(kinds.values())
