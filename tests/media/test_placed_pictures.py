"""The place of an input in a picture that is resized for it, at sizes that are drawn: what each way promises."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgec.errors import UsageError
from edgec.media.pictures import Frame, Place, Preparation, placed

SIDE = st.integers(1, 300)
SIZES = st.tuples(SIDE, SIDE)
WAY = Preparation()


def frame(width: int, height: int) -> Frame:
    return Frame(height, width, 3, True, False)


@given(SIZES, SIZES)
def test_stretched(picture: tuple[int, int], inner: tuple[int, int]) -> None:
    assert placed(*picture, frame(*inner), replace(WAY, fit="stretch")) == Place(*inner, 0, 0, frame(*inner))


@given(SIZES, SIZES)
def test_padded(picture: tuple[int, int], inner: tuple[int, int]) -> None:
    """It fills one side, no side is larger, the ratio stays to a pixel, and the padding is as much on either side."""
    found = placed(*picture, frame(*inner), replace(WAY, fit="pad"))
    (width, height), (w, h) = picture, inner
    assert found.width == w or found.height == h
    assert 1 <= found.width <= w and 1 <= found.height <= h
    share = min(w / width, h / height)
    assert abs(found.width - max(1, width * share)) <= 0.51 and abs(found.height - max(1, height * share)) <= 0.51
    for begin, inside, whole in ((-found.left, found.width, w), (-found.top, found.height, h)):
        assert 0 <= whole - inside - 2 * begin <= 1
    assert found.rows == (0, found.height) and found.columns == (0, found.width)


@given(SIZES, SIZES)
def test_cropped(picture: tuple[int, int], inner: tuple[int, int]) -> None:
    """It covers the input, as little as it can, and the middle is shown."""
    (width, height), (w, h) = picture, inner
    share = max(w / width, h / height)
    if max(round(width * share), round(height * share)) > 1 << 15:
        with pytest.raises(UsageError, match="pixels"):
            placed(*picture, frame(*inner), replace(WAY, fit="crop"))
        return
    found = placed(*picture, frame(*inner), replace(WAY, fit="crop"))
    assert found.width >= w and found.height >= h and (found.width == w or found.height == h)
    assert abs(found.width - width * share) <= 0.51 and abs(found.height - height * share) <= 0.51
    for begin, outside, shown in ((found.left, found.width, w), (found.top, found.height, h)):
        assert abs(outside - shown - 2 * begin) <= 1 and begin >= 0
    assert found.rows == (found.top, found.top + h) and found.columns == (found.left, found.left + w)


@given(SIZES, SIZES, st.integers(0, 50))
def test_resized_before_it_is_cropped(picture: tuple[int, int], inner: tuple[int, int], more: int) -> None:
    """The shorter side has the size that is asked for."""
    (width, height), wanted = picture, max(inner) + more
    longer = wanted * max(picture) // min(picture)
    way = replace(WAY, fit="crop", resize=wanted)
    if longer > 1 << 15:
        with pytest.raises(UsageError, match=f"{longer}"):
            placed(*picture, frame(*inner), way)
        return
    found = placed(*picture, frame(*inner), way)
    assert (found.width, found.height) == ((longer, wanted) if width > height else (wanted, longer))
    assert abs(found.width - inner[0] - 2 * found.left) <= 1 and abs(found.height - inner[1] - 2 * found.top) <= 1


@pytest.mark.parametrize(("longest", "fits"), [(1 << 15, True), ((1 << 15) + 1, False)])
def test_the_largest_picture(longest: int, fits: bool) -> None:
    for picture in ((longest, 1), (1, longest)):
        if fits:
            found = placed(*picture, frame(1, 1), replace(WAY, fit="crop"))
            assert (found.width, found.height) == picture
        else:
            with pytest.raises(UsageError):
                placed(*picture, frame(1, 1), replace(WAY, fit="crop"))
