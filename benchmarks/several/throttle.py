"""A network namespace for a worker, joined to this one by a link that the kernel keeps at a speed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

#: Bytes that may pass at once, if those of a millisecond are fewer, and how long others wait before they are dropped.
BURST, QUEUE = 16_384, "200ms"
#: Bytes that TCP hands over as one packet, if three quarters of a burst are no fewer. Network cards divide and join
#: packets themselves; here a timer for each of 1514 bytes takes 30 to 40 ms a megabyte from a worker's core.
JOINED = 65_536
#: Part of the bytes of a link that messages have: 1448 of a packet's 1514 are not headers of Ethernet, IP and TCP.
PAYLOAD = 1448 / 1514


@dataclass(frozen=True)
class Namespace:
    """A namespace: the command that runs another one within it, and the worker's own address there."""

    within: tuple[str, ...]
    address: str


def _ip(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip()} (this needs root, and iproute2)")


@contextmanager
def throttled(number: int, bits_per_s: float) -> Iterator[Namespace]:
    """The namespace of worker ``number``, with so many bits a second each way to and from this one."""
    name, near, far = f"edgec{number}", f"edgec{number}a", f"edgec{number}b"
    here, there = (f"10.77.{number}.{k}" for k in (1, 2))
    inside = ("ip", "netns", "exec", name)
    with ExitStack() as stack:
        if Path("/run/netns", name).exists():  # a run that was killed left it
            _ip("ip", "netns", "delete", name)
        _ip("ip", "netns", "add", name)
        stack.callback(_ip, "ip", "netns", "delete", name)
        _ip("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        stack.callback(subprocess.run, ["ip", "link", "delete", near], capture_output=True)
        for at, device, address in (((), near, here), (inside, far, there)):
            _ip(*at, "ip", "address", "add", f"{address}/30", "dev", device)
            burst = max(BURST, round(bits_per_s / 8e3))
            joined = min(JOINED, burst * 3 // 4)
            _ip(*at, "ip", "link", "set", device, "gso_max_size", f"{joined}", "up")
            limit = ("rate", f"{bits_per_s:.0f}bit", "burst", f"{burst}b", "latency", QUEUE)
            _ip(*at, "tc", "qdisc", "add", "dev", device, "root", "tbf", *limit)
        yield Namespace(inside, there)
