"""Copy a GGUF file, and quantise the matrices of the copy to another type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

_OWN = "general.architecture"  # the GGUF writer adds this key itself
_TYPE = "general.file_type"


def write_requantised(source: Path, kind: str, path: Path) -> None:
    """Copy a GGUF file, and quantise the matrices of the copy to ``kind``, such as "Q8_0".

    A matrix is copied unchanged if its width is not a multiple of the type's block size. As in
    llama.cpp, the old weights are dequantised and then quantised to the new type.
    """
    number = gguf.GGMLQuantizationType[kind]
    block, _ = gguf.GGML_QUANT_SIZES[number]
    reader: Any = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(path, str(reader.fields[_OWN].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in (_OWN, _TYPE):
            continue
        nested = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], nested)
    for tensor in reader.tensors:
        matrix = len(tensor.shape) == 2 and int(tensor.shape[0]) % block == 0
        if matrix:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            data: np.ndarray = gguf.quants.quantize(values, number)
        else:
            data = tensor.data
        writer.add_tensor(tensor.name, data, raw_dtype=number if matrix else tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
