"""Coverage and speed of `edgec explain` over every node of networks.

python -m benchmarks.fusion.explain NETWORK.onnx ...
"""

from __future__ import annotations

import sys
import time

from edgec.frontend import source as reader
from edgec.options import Settings, resolve
from edgec.pipeline import run
from edgec.pipeline.context import Context
from edgec.report.explain import explain
from edgec.rewrite import load_rules


def main(paths: list[str]) -> None:
    print("| network | nodes | in a kernel | aliased or an index | folded or absorbed | rules | seconds |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for path in paths:
        model = reader.read(path)
        walk = run(model, Context(resolve(Settings())), until="schedule")
        names = list(dict.fromkeys(label for label, _, _ in reader.nodes_with_outputs(model)))
        begun = time.perf_counter()
        answers = [explain(walk, model, name) for name in names]
        seconds = time.perf_counter() - begun
        rules = load_rules(())
        rules = [explain(walk, model, rule.name) for rule in rules]
        inside = sum(bool(a["kernels"]) for a in answers)
        moved = sum(bool(a["placed"] or a["inside_others"]) and not a["kernels"] for a in answers)
        gone = len(answers) - inside - moved
        applied = sum(bool(rule["rule"]["times"]) for rule in rules)
        where = f"{inside} | {moved} | {gone}"
        print(f"| {model.name} | {len(answers)} | {where} | {applied} of {len(rules)} | {seconds:.1f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
