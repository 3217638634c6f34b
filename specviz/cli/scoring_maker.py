"""Choose where a command scores texts: in this process, on a cluster or on servers.

Scoring computes the probability of every token of a text. If a model is given as an address, the
server at this address scores for the model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from specviz.cli.makers import maker_for
from specviz.cli.option_kinds import add_flag
from specviz.cli.progress_lines import progress_in_lines, say
from specviz.comparison.plan import Lane

if TYPE_CHECKING:
    from specviz.measure.run_makers import RunMaker


def add_remote(parser: argparse.ArgumentParser) -> None:
    add_flag(
        parser, "allow-remote",
        "allow a --target or --draft on another machine, which then receives the texts",
    )  # fmt: skip


@contextmanager
def scorer_for(lanes: Sequence[Lane], options: argparse.Namespace) -> Iterator[RunMaker]:
    if options.on is None:
        yield scoring_maker(lanes, options)
        return
    with maker_for(options, say, timed=False) as maker:
        yield maker


def scoring_maker(lanes: Sequence[Lane], options: argparse.Namespace) -> RunMaker:
    from specviz.measure.run_makers import InProcessMaker

    local = InProcessMaker(progress_in_lines(say))
    if not any(each.spec.served for each in lanes):
        return local
    from specviz.servers.endpoint_maker import EndpointMaker

    return EndpointMaker(local, allow_remote=options.allow_remote)
