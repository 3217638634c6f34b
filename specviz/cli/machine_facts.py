"""Collect the facts about an installation and its machine that a bug report needs.

Nothing heavy is imported: versions come from the installed packages' metadata, and the build of
torch from its small version file. A fact that cannot be found is None or empty.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil

from specviz import IS_INSTALLED, __version__
from specviz.cli.without_names import short_path
from specviz.folders import data_folder
from specviz.installation import DISTRIBUTION
from specviz.kernels.kept_code import is_complete
from specviz.local_models.added_folders import added_folders
from specviz.local_models.finding import find_models
from specviz.record.numbers import COUNT

_PACKAGES = (
    "torch", "transformers", "streamlit", "numba", "numpy", "huggingface_hub", "gguf",
    "accelerate", "ray",
)  # fmt: skip
# Vector features of x86 and ARM processors that the kernels or torch use.
_FEATURES = (
    "sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    "asimd", "asimddp", "asimdhp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip
_GPU_SECONDS, _FOLDER_SECONDS = 1.0, 0.5  # at most
_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", re.MULTILINE)
_HIP = re.compile(r"^hip\b[^=]*=\s*['\"]([\w.-]+)['\"]", re.MULTILINE)


def machine_facts(*, load_torch: bool = False) -> dict[str, Any]:
    """Return the facts as values for JSON; ``load_torch`` also asks torch for its devices."""
    return {
        "specviz": __version__,
        "installation": f"package {DISTRIBUTION}" if IS_INSTALLED else "checkout",
        "python": f"{platform.python_version()} {platform.python_implementation()}",
        "system": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "torch_build": torch_build(),
        "torch_devices": _torch_devices() if load_torch else None,
        "processor": _processor(),
        "gpus": _gpus(),
        "kernels_compiled": is_complete(),
        "memory": _memory(),
        "data": _data(),
        "settings": sorted(name for name in os.environ if name.startswith("SPECVIZ_")),
        "models": _models(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def torch_build() -> str | None:
    """Return "CPU", or the version of CUDA or ROCm for which torch was built; None without torch.

    Importing torch takes seconds, so its version file is read as text.
    """
    with suppress(OSError, ValueError, ImportError):
        spec = find_spec("torch")
        if spec is not None and spec.origin is not None:
            text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
            if found := _CUDA.search(text):
                return f"CUDA {found[1]}"
            return f"ROCm {found[1]}" if (found := _HIP.search(text)) else "CPU"
    return None


def _torch_devices() -> list[str]:
    try:
        import torch
    except Exception as error:  # a damaged installation may raise anything
        return [f"torch cannot be imported: {type(error).__name__}: {error}"]
    devices = [f"CPU with {torch.get_num_threads()} threads"]
    if torch.cuda.is_available():
        devices += [
            f"cuda:{index} {torch.cuda.get_device_name(index)}"
            for index in range(torch.cuda.device_count())
        ]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def _processor() -> dict[str, Any]:
    name, flags = platform.processor() or platform.machine(), set[str]()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n"):
            key, _, text = line.partition(":")
            if key.strip() == "model name":
                name = text.strip()
            elif key.strip() in ("flags", "Features"):
                flags = set(text.split())
                break
    usable = getattr(os, "process_cpu_count", None) or _allowed_cores
    return {
        "name": name,
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "usable_threads": usable(),
        "vector_features": [each for each in _FEATURES if each in flags],
    }


def _allowed_cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _gpus() -> list[dict[str, Any]]:
    """Return the NVIDIA GPUs as the driver lists them, and Apple's GPU."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return [{"name": "Apple GPU", "memory_bytes": None, "driver": None}]
    return list(_asked_gpus()) or list(_listed_gpus())


def _asked_gpus() -> Iterator[dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return
    query = ["--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [program, *query], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_GPU_SECONDS, check=True,
        )  # fmt: skip
        for line in done.stdout.splitlines():
            name, memory, driver = (each.strip() for each in f"{line},,".split(",")[:3])
            size = int(memory) * 2**20 if memory.isdigit() else None
            yield {"name": name, "memory_bytes": size, "driver": driver or None}


def _listed_gpus() -> Iterator[dict[str, Any]]:
    """Yield the GPUs in the driver's files, for a machine without ``nvidia-smi``."""
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        with suppress(OSError):
            found = re.search(r"^Model:\s*(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            if found:
                yield {"name": found[1].strip(), "memory_bytes": None, "driver": None}


def _memory() -> dict[str, int]:
    memory = psutil.virtual_memory()
    return {"free_bytes": memory.available, "total_bytes": memory.total}


def _data() -> dict[str, Any]:
    """Return facts about the data folder, which is neither created nor changed."""
    try:
        folder = data_folder()
    except RuntimeError:
        return {"folder": None, "bytes": None, "complete": True, "runs": None, "free_bytes": None}
    size, complete = _folder_size(folder)
    existing = next((each for each in (folder, *folder.parents) if each.is_dir()), None)
    free = None
    with suppress(OSError):
        free = shutil.disk_usage(existing).free if existing else None
    return {
        "folder": short_path(folder),
        "bytes": size,
        "complete": complete,  # whether all files were counted
        "runs": _runs(folder / "runs.db"),
        "free_bytes": free,
    }


def _folder_size(folder: Path) -> tuple[int, bool]:
    """Return the bytes in a folder, and whether there was enough time to count all of its files."""
    deadline, size = time.monotonic() + _FOLDER_SECONDS, 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size
        if time.monotonic() > deadline:
            return size, False
    return size, True


def _runs(library: Path) -> int | None:
    """Return the number of stored runs; None if the file is not a library.

    The file is opened for reading only, so that a library of another version is not migrated.
    """
    if not library.is_file():
        return 0
    with suppress(sqlite3.Error, OSError, ValueError):
        uri = f"{library.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=0.5)) as db:
            found = db.execute("SELECT count(*) FROM runs WHERE deleted_at IS NULL").fetchone()
            return int(found[0])
    return None


def _models() -> list[dict[str, Any]] | None:
    """Return the models on this machine, without their folders; None if the search fails."""
    try:
        found = find_models(added_folders())
    except (OSError, RuntimeError):
        return None
    return [
        {
            "name": Path(each.short).name if os.path.isabs(each.short) else each.short,
            "family": each.facts.family,
            "size": COUNT.shown(each.facts.parameters),
            "weights": f"{each.facts.format} {each.facts.quantization}".strip(),
            "from": Path(each.origin).name if os.path.isabs(each.origin) else each.origin,
        }
        for each in found.models
    ]
