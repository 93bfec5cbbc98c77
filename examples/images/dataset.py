"""Pictures of stripes, and batches of them as input workers make them: read, decode, crop, transform.

    python -m allot.training.input_workers dataset:make --trainer HOST:PORT

The pictures are PNG files in the folder that IMAGES_FOLDER names, and are drawn where they are not there yet.
All is NumPy and the standard library, and takes a few milliseconds of processor time a picture, as reading a
real one does.
"""

import math
import os
import random
import struct
import zlib
from pathlib import Path

import numpy as np

SIZE, CROP, FREQUENCIES, CLASSES = 160, 128, 12, 4
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def make(item):
    """Return features and labels of the rows of a batch; what is drawn depends on epoch and row alone."""
    features = [features_of(picture(row), random.Random(f"{item['epoch']}/{row}")) for row in item["rows"]]
    return {"features": np.array(features, np.float32), "labels": np.array(item["rows"]) % CLASSES}


def picture(row):
    return read_png(written(Path(os.environ["IMAGES_FOLDER"]), row).read_bytes())


def features_of(pixels, dice):
    """Crop somewhere, and take how strong each low frequency is: the direction of stripes shows in it."""
    top, left = dice.randrange(SIZE - CROP), dice.randrange(SIZE - CROP)
    grey = pixels[top : top + CROP, left : left + CROP].mean(axis=2) / 255
    strength = np.log1p(np.abs(np.fft.fft2(grey - grey.mean())))
    # Rows of negative frequencies are at the end; of the columns one half says all.
    kept = np.concatenate([strength[:FREQUENCIES], strength[-FREQUENCIES:]])[:, :FREQUENCIES]
    return kept.ravel() / kept.max()


def written(folder, row):
    """Return the file of a picture, drawn if it is not there: stripes of one of four directions, in noise."""
    path = folder / f"{row:06d}.png"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(f".{os.getpid()}")
        aside.write_bytes(png(stripes(row)))
        aside.rename(path)
    return path


def stripes(row):
    chance = np.random.default_rng(row)
    angle = math.pi * (row % CLASSES) / CLASSES
    along = np.add.outer(np.arange(SIZE) * math.sin(angle), np.arange(SIZE) * math.cos(angle))
    wave = np.sin(2 * math.pi * along / chance.uniform(15, 30) + chance.uniform(0, 2 * math.pi))
    colours = chance.uniform(40, 90, 3)
    noisy = 128 + wave[:, :, None] * colours + chance.normal(0, 60, (SIZE, SIZE, 3))
    return np.clip(noisy, 0, 255).astype(np.uint8)


def png(pixels):
    """Return a PNG file of colour pixels, each row as its difference from the one above (filter 2)."""
    height, width, _ = pixels.shape
    above = np.vstack([np.zeros((1, width * 3), np.uint8), pixels.reshape(height, -1)[:-1]])
    filtered = np.hstack([np.full((height, 1), 2, np.uint8), pixels.reshape(height, -1) - above])
    header = struct.pack("!IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b"")]
    return SIGNATURE + b"".join(
        struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def read_png(content):
    """Return the pixels of such a file. Raises ValueError for another kind of PNG, or a damaged one."""
    if not content.startswith(SIGNATURE):
        raise ValueError("no PNG")
    at, packed, width, height = len(SIGNATURE), b"", 0, 0
    while at < len(content):
        length, kind = struct.unpack_from("!I4s", content, at)
        data = content[at + 8 : at + 8 + length]
        if struct.unpack_from("!I", content, at + 8 + length)[0] != zlib.crc32(kind + data):
            raise ValueError("a damaged PNG")
        if kind == b"IHDR":
            width, height, *rest = struct.unpack("!IIBBBBB", data)
            if rest != [8, 2, 0, 0, 0]:
                raise ValueError("only PNG of 8 bits a colour")
        elif kind == b"IDAT":
            packed += data
        at += length + 12
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, width * 3 + 1)
    if (rows[:, 0] != 2).any():
        raise ValueError("only PNG of rows as differences")
    return np.cumsum(rows[:, 1:], axis=0, dtype=np.uint8).reshape(height, width, 3)
