"""Load sweeps that follow a known law, as the generator would record them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from specviz.record.load_run import LoadBlock, LoadLane, LoadRequest, LoadSettings, LoadSweep
from specviz.record.server_run import Capabilities, Counters, ServerInfo

TAU = 3.0  # tokens per round
GAMMA = 4
BREAK_EVEN = 4.0  # users
Law = Callable[[float], float]


def halving(users: float) -> float:
    """Return a speedup that is 2 for one user and 1 for ``BREAK_EVEN`` users."""
    return 2.0 / math.sqrt(users)


def engine_info(port: int = 8000, gamma: int | None = GAMMA) -> ServerInfo:
    return ServerInfo(
        address=f"http://127.0.0.1:{port}", engine="vllm", version="0.32.0", model="tiny",
        gamma=gamma, capabilities=Capabilities(totals=True, counters=True, speculates=True),
    )  # fmt: skip


def lanes_with(gammas: Sequence[int]) -> tuple[LoadLane, ...]:
    alone = LoadLane(kind="alone", info=engine_info(8001, None), baseline=True)
    return (
        alone,
        *(
            LoadLane(kind="speculative", info=engine_info(8000 + 10 * each, each), gamma=each)
            for each in gammas
        ),
    )


def sweep_of(
    levels: Sequence[float] = (1, 2, 4, 8, 16),
    laws: Sequence[Law] = (halving,),
    *,
    units: int = 3,
    noise: float = 0.02,
    seed: int = 0,
    complete: bool = True,
    failures: int = 0,
) -> LoadSweep:
    """Return a sweep with one speculative lane per law, whose speedup follows the law.

    Args:
        noise: Standard deviation of a block's log throughput.
        failures: The number of failed requests in each block.
    """
    random = Random(seed)
    lanes = lanes_with([GAMMA + 2 * place for place in range(len(laws))])
    settings = LoadSettings(
        levels=tuple(levels), seconds=4.0, ramp=1.0, max_new_tokens=32, suite="the presets",
        prompts=12,
    )  # fmt: skip
    speeds: list[Law] = [lambda _: 1.0, *laws]
    order = [*range(len(lanes)), *reversed(range(len(lanes)))]
    blocks = [
        _block(
            lane,
            level,
            unit,
            settings,
            failures=failures,
            rate=_rate_alone(level) * speeds[lane](level) * math.exp(random.gauss(0, noise)),
        )
        for unit in range(units)
        for level in levels
        for lane in order
    ]
    return LoadSweep(
        id=f"sweep{seed}", created="2026-01-01T00:00:00+00:00", lanes=lanes, settings=settings,
        blocks=tuple(blocks), planned_units=units, shared_cores=2, complete=complete,
    )  # fmt: skip


def _rate_alone(users: float) -> float:
    """Return the tokens per second of each user without speculation."""
    return 40.0 / (1 + users / 16)


def _block(
    lane: int, level: float, unit: int, settings: LoadSettings, *, rate: float, failures: int
) -> LoadBlock:
    end = 2 * settings.ramp + settings.seconds
    requests: list[LoadRequest] = []
    for user in range(round(level)):
        at = 0.0
        while at < end:
            requests.append(_request(len(requests), user, at, rate, settings.max_new_tokens))
            at = requests[-1].ended
    for _ in range(failures):
        requests.append(
            LoadRequest(
                number=len(requests),
                user=0,
                prompt=0,
                scheduled=2.0,
                sent=2.0,
                ended=2.1,
                failure="The engine answered 429.",
            )
        )
    tokens = sum(each.tokens for each in requests)
    drafts = round(tokens / TAU) if lane else 0
    last = max(each.ended for each in requests)
    return LoadBlock(
        lane=lane, level=level, unit=unit, begin=settings.ramp, end=end - settings.ramp,
        seconds=last, requests=tuple(requests), before=_counters(0.0, 0, 0),
        after=_counters(last, drafts, tokens),
    )  # fmt: skip


def _request(number: int, user: int, at: float, rate: float, tokens: int) -> LoadRequest:
    chunks = tokens // 2
    arrivals = tuple(at + 2 * (place + 1) / rate for place in range(chunks))
    return LoadRequest(
        number=number, user=user, prompt=number % 12, scheduled=at, sent=at, ended=arrivals[-1],
        arrivals=arrivals, chunk_tokens=(2.0,) * chunks, tokens=tokens, prompt_tokens=20,
        finish="length",
    )  # fmt: skip


def _counters(at: float, drafts: int, tokens: int) -> Counters:
    accepted = tokens - drafts if drafts else 0
    shares = (0.8, 0.6, 0.4, 0.2)
    return Counters(
        at=at, drafts=drafts, drafted=GAMMA * drafts, accepted=accepted,
        accepted_at=tuple(accepted * each / sum(shares) for each in shares), generated=tokens,
    )  # fmt: skip
