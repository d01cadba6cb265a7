"""A model as a spec: readable YAML, and what is large in a safetensors file beside it. It loads to
the same graph.
"""

from xlac.exporters.spec.document import text
from xlac.exporters.spec.files import write

__all__ = ["text", "write"]
