"""Copy a GGUF file, and quantise the matrices of the copy to another type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from specviz.formats.block_quantising import quantise_rows, stored_type

_OWN = "general.architecture"  # the GGUF writer adds this key itself
_TYPE = "general.file_type"


def write_requantised(source: Path, kind: str, path: Path) -> None:
    """Copy a GGUF file, and quantise the matrices of the copy to ``kind``, such as "Q8_0".

    A matrix is copied unchanged if its width fits neither ``kind`` nor the type that replaces
    ``kind`` (see ``stored_type``). As in llama.cpp, the old weights are dequantised and then
    quantised.
    """
    reader: Any = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, str(reader.fields[_OWN].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in (_OWN, _TYPE):
            continue
        nested = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], nested)
    for tensor in reader.tensors:
        matrix = len(tensor.shape) == 2
        new = stored_type(kind, int(tensor.shape[0])) if matrix else None
        data: np.ndarray = tensor.data
        if new is not None:
            data = quantise_rows(gguf.quants.dequantize(data, tensor.tensor_type), new)
        number = gguf.GGMLQuantizationType[new] if new else tensor.tensor_type
        writer.add_tensor(tensor.name, data, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
