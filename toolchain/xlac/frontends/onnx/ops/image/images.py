"""ImageDecoder: decodes a picture that is constant at import."""

from __future__ import annotations

import io

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ops import build

PIXELS = 1 << 26
FORMATS = ("RGB", "BGR", "Grayscale")


@operator("ImageDecoder", since=20)
def image_decoder(call: OperatorCall) -> Node:
    """Operator set 20: (height, width, channels) of u8. The output's size is in the picture, so it
    is decoded at import, by Pillow.
    """
    format = call.attr("pixel_format", "RGB")
    if format not in FORMATS:
        call.fail(f"pixel_format is one of {', '.join(FORMATS)}, not '{format}'")
    encoded = call.value(0)
    try:
        from PIL import Image
    except ImportError:
        call.fail("decoding pictures needs Pillow", hint="pip install pillow")
    try:
        with Image.open(io.BytesIO(encoded.astype(np.uint8).tobytes())) as picture:
            if picture.width * picture.height > PIXELS:
                call.fail(
                    f"a picture of {picture.width} x {picture.height} pixels is larger than "
                    f"{PIXELS:,}"
                )
            pixels = np.array(picture.convert("L" if format == "Grayscale" else "RGB"))
    except (OSError, ValueError, SyntaxError) as error:
        call.fail(f"the picture cannot be decoded: {error}")
    if format == "Grayscale":
        return build.constant(pixels[..., None])
    return build.constant(pixels[..., ::-1] if format == "BGR" else pixels)
