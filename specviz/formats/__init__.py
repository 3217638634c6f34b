"""Files of models: read and write the headers and tensors of GGUF and safetensors files.

Nothing here loads torch or runs code from a file. Every fault of a file raises ``ModelFileError``.
"""
