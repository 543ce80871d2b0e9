"""Plans and programs of all kinds of kernels are equal after they were written and read."""

from __future__ import annotations

import pytest
from saved_cases import check_plan, check_program, made, some

from edgec.device.load import load_device
from edgec.fuse.text import read_plan, write_plan
from edgec.schedule.text import read_program, write_program

#: Devices whose kernels differ, and of how many graphs each takes one: those of one family share most classes.
DEVICES = {
    "x86_64_avx512": 17, "neoverse_v1": 23, "cortex_m55": 23, "generic_opencl": 17, "jetson_orin_nano": 13,
    "cuda_sm90": 23,
}  # fmt: skip


@pytest.mark.parametrize("name", DEVICES)
def test_plans_and_programs_come_back(name: str) -> None:
    device = load_device(name)
    found = [kept for graph in some(DEVICES[name]) if (kept := made(graph, device)) is not None]
    assert len(found) > 20
    for planned, program in found:
        check_plan(planned)
        check_program(program, device)


def test_a_text_does_not_depend_on_what_ran_before() -> None:
    """Loops have numbers in the order of one text, not of the process."""
    device = load_device("x86_64_avx512")
    for graph in some(61):
        first, second = made(graph, device), made(graph, device)
        assert first is not None and second is not None
        assert write_program(first[1]).text == write_program(second[1]).text


def test_expressions_of_plans_are_the_same_objects() -> None:
    for graph in some(61):
        found = made(graph, load_device("x86_64_avx512"))
        assert found is not None
        written = write_plan(found[0])
        for old, new in zip(found[0].blocks, read_plan(written.text, written.arrays).blocks):
            assert old.is_procedure or old.formula.body is new.formula.body


def test_buffers_are_shared_as_they_were() -> None:
    for graph in some(61):
        found = made(graph, load_device("x86_64_avx512"))
        assert found is not None
        written = write_program(found[1])
        again = read_program(written.text, written.arrays)
        for old, new in zip(found[1].kernels, again.kernels):
            assert [found[1].offsets.get(b) for b in old.touches] == [again.offsets.get(b) for b in new.touches]
            assert new.writes in again.offsets or new.writes in {b for _, b, _ in again.outputs}
