"""The document inside a report's page."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def document_of(html: str) -> dict[str, Any]:
    """The document that `page` put into a page, decompressed."""
    data = html.split('id="document">', 1)[1].split("</script>", 1)[0]
    read: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(data)))
    return read
