"""Exports a model as a spec: readable YAML, and large tensors in a safetensors file. It loads to
the same graph.
"""

from xlac.exporters.spec.document import text
from xlac.exporters.spec.files import write

__all__ = ["text", "write"]
