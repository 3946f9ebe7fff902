"""JPEG images that hwdyno makes itself, of the size and the bytes ImageNet's, and what a vision model takes of one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from hwdyno.system import optional

WIDTH, HEIGHT = 500, 375
"""The most frequent size of ImageNet's images (Russakovsky et al. 2015)."""
QUALITY = 90
MEAN_BYTES = 102_700
"""The mean size of a file, within 1%; ImageNet's is about 110 kB."""
MADE_BYTES_S = 5e6
"""JPEG bytes that are made in a second of CPU time, measured on a server core of 2024."""
SIDE = 224
_CELLS = 24
_NOISE = 17.0
_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and deviation of ImageNet's channels, which ResNet-50's inputs are normalized by."""


def name_image(at: int) -> str:
    """The name of the file of an image."""
    return f"image-{at:06d}.jpeg"


def make_images(count: int, seed: int) -> Iterator[bytes]:
    """This many JPEG files, one after the other: smooth shapes with noise, so that they compress as photographs do."""
    import numpy as np

    make_image = _pillow()
    for at in range(count):
        random = np.random.default_rng((seed, at))
        coarse = random.integers(0, 256, (_CELLS, _CELLS, 3), np.uint8)
        smooth = np.asarray(
            make_image.fromarray(coarse).resize((WIDTH, HEIGHT), make_image.Resampling.BICUBIC), np.float32
        )
        grain = random.standard_normal((HEIGHT, WIDTH, 1), np.float32) * _NOISE
        file = io.BytesIO()
        make_image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=QUALITY)
        yield file.getvalue()


def decode_image(data: bytes, side: int = SIDE) -> Any:
    """A JPEG as a vision model takes it: decoded, its middle square scaled to ``side``, normalized; (1, 3, side, side).

    Raises ``OSError`` for what is no whole image.
    """
    import numpy as np

    with _pillow().open(io.BytesIO(data)) as image:
        width, height = image.size
        edge = min(width, height)
        left, top = (width - edge) // 2, (height - edge) // 2
        square = image.convert("RGB").resize((side, side), box=(left, top, left + edge, top + edge))
    pixels = np.asarray(square, np.float32) / 255
    return ((pixels - np.array(_MEAN, np.float32)) / np.array(_SPREAD, np.float32)).transpose(2, 0, 1)[None]


def need() -> None:
    """Raise ``UserError`` where the library that decodes is not installed."""
    _pillow()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise optional.missing("inference", "decoding images", library="pillow") from None
    return Image
