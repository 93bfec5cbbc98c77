"""The pictures of README and docs are those that `make screenshots` takes."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from scripts.screenshots import HEIGHT, IMAGES, PAGES, PICTURES, WIDTH, small

ROOT = Path(__file__).parents[1]
FILES = sorted(picture.file(theme) for picture in PICTURES for theme in picture.themes)
#: The repository keeps every version of a picture.
MOST_BYTES = 80_000


def test_each_picture_that_a_page_shows_is_taken_and_each_that_is_taken_is_shown() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {found for page in pages for found in re.findall(r"images/([^)#\s]+\.png)", page.read_text())}
    assert sorted(shown) == FILES
    assert sorted(path.name for path in IMAGES.iterdir()) == FILES


@pytest.mark.parametrize("file", FILES)
def test_pictures_have_one_size_and_few_bytes(file: str) -> None:
    with Image.open(IMAGES / file) as image:
        assert image.size == (WIDTH, HEIGHT)
    assert (IMAGES / file).stat().st_size < MOST_BYTES


def test_names_are_those_of_one_picture() -> None:
    for pictures in (PICTURES, PAGES):
        names = [picture.name for picture in pictures]
        assert len(names) == len(set(names))
    assert len(PAGES) == 10


def test_a_picture_in_few_colours_looks_the_same_and_is_smaller() -> None:
    image = Image.linear_gradient("L").resize((400, 400)).convert("RGB")
    written = io.BytesIO()
    image.save(written, "PNG")
    with Image.open(io.BytesIO(small(written.getvalue()))) as made:
        assert made.size == image.size
        pairs = zip(made.convert("L").tobytes(), image.convert("L").tobytes(), strict=True)
        assert max(abs(one - other) for one, other in pairs) <= 4
    assert len(small(written.getvalue())) <= len(written.getvalue())
