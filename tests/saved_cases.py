"""Plans and programs written as text and read back, for tests of what comes back."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice

from kernel_cases import cases

from edgec.device.device import Device
from edgec.emit.project import files
from edgec.errors import EdgecError
from edgec.fuse import Plan, plan
from edgec.fuse.text import read_plan, write_plan
from edgec.ir import text
from edgec.ir.graph import Graph
from edgec.schedule.build import schedule
from edgec.schedule.gpu.attention import largest_head
from edgec.schedule.options import ScheduleOptions
from edgec.schedule.program import Program
from edgec.schedule.text import read_program, write_program


def some(step: int, first: int = 0) -> list[Graph]:
    """One graph of the kernel tests in ``step``."""
    return list(islice((g for group in cases().values() for g in group.values()), first, None, step))


def made(graph: Graph, device: Device) -> tuple[Plan, Program] | None:
    """The plan and the program of a graph; None for what the device cannot do."""
    try:
        planned = plan(graph, gpu=device.is_gpu, head=largest_head(device))
        program = schedule(planned, device, ScheduleOptions(2))
        files(program, device)
        return planned, program
    except EdgecError:
        return None


def check_plan(planned: Plan) -> None:
    """A saved stage that is read back is equal; of its graph, all that the text of graphs holds."""
    written = write_plan(planned)
    again = read_plan(written.text, written.arrays)
    assert text.show(again.graph) == text.show(planned.graph)
    assert again.graph.outputs == planned.graph.outputs and again.graph.inputs == planned.graph.inputs
    for field in fields(Plan):
        if field.name != "graph":
            assert getattr(again, field.name) == getattr(planned, field.name), field.name
    assert write_plan(again).text == written.text


def check_program(program: Program, device: Device) -> None:
    """A saved stage that is read back is written as the same text, and gives the same files."""
    written = write_program(program)
    again = read_program(written.text, written.arrays)
    assert write_program(again).text == written.text
    assert files(again, device) == files(program, device)
