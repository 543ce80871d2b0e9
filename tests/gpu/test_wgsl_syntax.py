"""WGSL of every cast: each pair of types has the conversion that its kinds need, and narrow integers wrap."""

from __future__ import annotations

import pytest

from edgec.emit.gpu.wgsl_syntax import NARROW, TYPES, cast, in_range, type_of
from edgec.ir import expr as X


@pytest.mark.parametrize("source", sorted(TYPES))
@pytest.mark.parametrize("to", sorted(TYPES))
def test_every_cast(source: str, to: str) -> None:
    old, new = type_of(source), type_of(to)
    text = cast(X.const(1, source), "v", to)
    if (old, new) == ("f32", "bool"):
        assert text == "(!(v == 0.0f))"
        return
    bare = f"ec_convert_{new}(v)" if old == "f32" and new in ("i32", "u32") else f"{new}(v)"
    assert text == (f"ec_as_{to}({bare})" if to in NARROW else bare) == in_range(bare, to)
