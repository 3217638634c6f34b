"""Model files: read the headers of GGUF and safetensors files, and write GGUF files.

Nothing here loads torch or runs code from a file. An invalid file raises ``ModelFileError``.
"""
