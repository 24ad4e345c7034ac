"""A plugin of pytest: who initializes CUDA at import, in which line; docs/pytest.md describes it.

Importing this package loads no library and makes no call of CUDA or NVML.
"""
