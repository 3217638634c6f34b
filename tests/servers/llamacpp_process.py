"""Run llama.cpp's server from its wheel.

Arguments: chat template (or nothing), port, number of slots, target and, to speculate, draft, γ and
method. It runs in the environment of that wheel and imports nothing of this project.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module

_METHODS = {
    "draft-simple": "COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE",
    "draft-eagle3": "COMMON_SPECULATIVE_TYPE_DRAFT_EAGLE3",
}


def main(
    template: str,
    port: str,
    slots: str,
    target: str,
    draft: str | None = None,
    gamma: str = "0",
    method: str = "draft-simple",
) -> None:
    library = import_module("xllamacpp")
    params = library.CommonParams()
    params.model.path = target
    params.model_alias = {"tiny"}
    params.hostnames, params.port = ["127.0.0.1"], int(port)
    if template:
        params.chat_template, params.use_jinja = template, True
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 1024 * int(slots), int(slots), 0
    params.fit_params, params.cache_ram_mib = False, 0
    params.endpoint_metrics, params.endpoint_slots = True, True
    whole = library.ggml_type.GGML_TYPE_F32
    params.cache_type_k = params.cache_type_v = whole
    # Its attention in one kernel rounds to half precision.
    params.flash_attn_type = library.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    if draft is not None:
        kinds = library.common_speculative_type
        params.speculative.types = [getattr(kinds, _METHODS[method])]
        drafting = params.speculative.draft
        drafting.mparams.path = draft
        drafting.n_max, drafting.n_min, drafting.p_min = int(gamma), 0, 0.0
        drafting.n_gpu_layers = 0
        drafting.cache_type_k = drafting.cache_type_v = whole
        drafting.cpuparams.n_threads = drafting.cpuparams_batch.n_threads = 1
    server = library.Server(params)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
