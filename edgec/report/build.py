"""A build: its figures, kernels, files and seconds; and what to do with it next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from edgec.artifact.affinity import described
from edgec.artifact.folder import read_lock
from edgec.build import Built
from edgec.device.compilers import runs_here
from edgec.device.device import Device
from edgec.device.probe import probe_host
from edgec.emit.language_model import cache_bytes
from edgec.emit.parts import cross_options
from edgec.frontend.language.chat import chat_of
from edgec.frontend.language.facts import TOKENS, facts_of
from edgec.report import budget, compression, levels, memory, next_steps, partition, sparsity
from edgec.report.fit import fit
from edgec.report.kernels import draw_largest, largest
from edgec.report.ledger import bytes_moved
from edgec.report.record import Record, head
from edgec.report.terminal import pairs, size
from edgec.schedule.program import Program
from edgec.text import counted

#: From this share of the time of a build on, and for builds of this many seconds, the C compiler's time is a note.
COMPILER_SHARE, LONG_BUILD = 0.5, 5.0


def record(built: Built) -> Record:
    """The figures of a build; sizes in bytes, times in seconds."""
    program = built.program
    found = built.stages.compressed
    return {
        **head("build"),
        "folder": str(built.folder),
        "replaced": built.replaced,
        "started_at": built.stages.steps[0].stage.name,
        "name": built.options.name,
        "device": built.options.device.name,
        "runs_here": runs_here(built.options.device, built.compiler),
        "cross": _cross(built.options.device),
        "threads": built.options.threads,
        "affinity": read_lock(built.folder).get("affinity"),
        "compiler": built.compiler,
        "operators": built.operators,
        "core_operators": len(program.graph.operations()),
        "kernels": built.kernels,
        "rules": len(built.stages.applied),
        "arena_bytes": built.arena_bytes,
        "arena_lower_bound_bytes": built.arena_lower_bound_bytes,
        "weights_bytes": built.weights_bytes,
        "traffic": bytes_moved(built.stages.plan) if built.stages.plan is not None else None,
        "language_model": _language_model(program),
        "memory": fit(program, built.options.device, built.options.room, built.stages.stripes),
        "largest_kernels": largest(program),
        "files": built.files,
        "seconds": {**built.seconds, "total": sum(built.seconds.values())},
        "compression": compression.record(found.report if found else None),
        "pruned": sparsity.layers(found.pruned.report if found and found.pruned else None),
        "retrained": sparsity.retraining(found.retrained if found else None),
        "sparsity": sparsity.kernels(program),
        "partition": partition.record(built),
        "dispatch": levels.record(built),
    }


def _language_model(program: Program) -> Record | None:
    """Tokens of a text, and the bytes of its cache, which the caller has for each session; None for other networks."""
    facts = facts_of(program.graph)
    if facts is None:
        return None
    return {**asdict(facts), "cache_bytes": cache_bytes(program), **_chat(program)}


def _chat(program: Program) -> Record:
    """The chat template of a language model: in C, in Python with the reason, or none."""
    chat = chat_of(program.graph)
    kind = None if chat is None else "python" if chat.form is None else "c"
    has_tokens = TOKENS in program.graph.metadata
    return {"has_tokens": has_tokens, "chat": kind, "chat_reason": chat.reason if chat is not None else None}


def _cross(device: Device) -> str | None:
    """The options that CMake needs on this machine; "" if it needs none, None if they are not known."""
    if device.hosted and device.arch == probe_host().arch:
        return ""
    return cross_options(device) or None


def _api(found: Record) -> str:
    """The file with the declarations that a program needs: a header, or the types of a module of JavaScript."""
    header, types = f"{found['name']}.h", f"web/{found['name']}.d.ts"
    return types if header not in found["files"] and types in found["files"] else header


def draw(found: Record, model: str) -> RenderableType:
    """The record for a terminal."""
    seconds = found["seconds"]
    spent = "  ".join(f"{name} {s:.2f}" for name, s in seconds.items() if name != "total" and s >= 0.005)
    bound = found["arena_lower_bound_bytes"]
    over = f"{found['arena_bytes'] / bound:.2f}x its lower bound" if bound else "nothing to keep"
    rows: list[tuple[str, RenderableType]] = [
        (
            "kernels",
            f"{found['kernels']} for {counted(found['operators'], 'operator')}, "
            f"{counted(found['rules'], 'rule')} applied",
        ),
        ("arena", f"{size(found['arena_bytes'])} ({found['arena_bytes']:,} bytes, {over})"),
        ("weights", size(found["weights_bytes"])),
        *_cache_row(found["language_model"]),
        *_chat_row(found["language_model"]),
        *memory.draw_rows(found["memory"]),
        *_traffic_row(found["traffic"]),
        ("seconds", f"{seconds['total']:.2f}: {spent}"),
        *_compiler_row(seconds),
        *([("affinity", described(found["affinity"]))] if found["affinity"] else []),
        ("compiler", escape(found["compiler"]) if found["compiler"] else "none: sources only"),
    ]
    done = "replaced the earlier build in" if found["replaced"] else "written to"
    title = Text.assemble((escape(model), "bold"), f" -> {found['device']}, {counted(found['threads'], 'thread')}")
    parts: list[RenderableType] = [
        title,
        pairs(rows),
        "",
        draw_largest(found["largest_kernels"]),
        "",
        *((*partition.draw(found["partition"]), "") if found["partition"] else ()),
        *((levels.draw(found["dispatch"]), "") if found["dispatch"] else ()),
        *((*compression.draw(found["compression"]), "") if found["compression"] else ()),
        *((*sparsity.draw(found["sparsity"], found["pruned"]), "") if found["sparsity"] or found["pruned"] else ()),
        *((sparsity.draw_retraining(found["retrained"]), "") if found["retrained"] else ()),
        f"{done} [bold]{escape(found['folder'])}/[/], API in {_api(found)}",
        *next_steps.draw(found["next"]),
    ]
    return Group(*parts, *budget.draw(found["budgets"]))


def _cache_row(model: Record | None) -> list[tuple[str, RenderableType]]:
    """The memory of a text beside the arena."""
    if not model:
        return []
    exact = f"{model['cache_bytes']:,} bytes, {model['cache']}"
    return [("cache", f"{size(model['cache_bytes'])} ({exact}) a session of {counted(model['context'], 'token')}")]


def _chat_row(model: Record | None) -> list[tuple[str, RenderableType]]:
    """The chat template of a model that knows texts."""
    if not model or not model["has_tokens"]:
        return []
    told = {
        "c": "the model's template, in C and Python",
        "python": f"in Python alone: the model's template has no form for C ({model['chat_reason']})",
        None: "none: the model has no template; --chat-template FILE gives one",
    }
    return [("chat", escape(told[model["chat"]]))]


def _compiler_row(seconds: Mapping[str, float]) -> list[tuple[str, RenderableType]]:
    """A note where the C compiler takes most of the time."""
    share = seconds.get("compile", 0.0) / (seconds["total"] or 1.0)
    if share <= COMPILER_SHARE or seconds["total"] < LONG_BUILD:
        return []
    return [("note", f"the C compiler takes {share:.0%} of the time; --no-compile leaves it to your own build")]


def _traffic_row(traffic: Record | None) -> list[tuple[str, RenderableType]]:
    """The bytes that are moved; nothing where the build started behind the plan."""
    if traffic is None:
        return []
    moved, least = traffic["read"] + traffic["written"], traffic["lower_bound"]
    return [
        ("traffic", f"{size(moved)} a run, {moved / max(least, 1):.2f}x the least that inputs, weights and outputs are")
    ]
