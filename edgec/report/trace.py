"""Times of kernels for Chrome's trace viewer (chrome://tracing, or Perfetto): one run, kernel after kernel."""

from __future__ import annotations

from typing import Any

from edgec.report.record import Record

#: Rows of the viewer: a run of the network, and the build before it.
_RUN, _BUILD = 1, 2


def trace(document: Record) -> dict[str, Any]:
    """The trace of a document (`edgec.report.document`); kernels that were not measured have the time predicted."""
    build = document["build"]
    kernels = document["kernels"]
    is_measured = any(k["measured_us"] is not None for k in kernels)
    events: list[dict[str, Any]] = [
        _named(_RUN, f"{document['model']}: one run, {'measured' if is_measured else 'predicted'}"),
        _named(_BUILD, "edgec: the build"),
    ]
    begun = 0.0
    for k in kernels:
        us = k["measured_us"] if is_measured else k["predicted_us"]
        if us is None:  # it did not run
            continue
        name = ", ".join(k["nodes"][-2:]) or f"kernel {k['kernel']}"
        said = {
            key: k[key] for key in ("kernel", "operators", "nodes", "template", "flops", "bytes_read", "bytes_written")
        }
        rate = {"gflops": k["flops"] / us / 1e3} if us > 0 else {}
        events.append(_event(name, k["kind"], _RUN, begun, us, {**said, **rate, "predicted_us": k["predicted_us"]}))
        begun += us
    begun = 0.0
    for stage, seconds in build["seconds"].items():
        if stage != "total":
            events.append(_event(stage, "stage", _BUILD, begun, seconds * 1e6, {}))
            begun += seconds * 1e6
    other = {"model": document["model"], "device": build["device"], "edgec": document["edgec"]}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}


def _named(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 1, "args": {"name": name}}


def _event(name: str, kind: str, process: int, begun: float, us: float, args: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": 1, "ts": begun, "dur": us, "args": args}
