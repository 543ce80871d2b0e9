"""Workers on machines that ssh reaches: their parts are copied, and they are started and ended over one connection.

The worker listens on that machine's 127.0.0.1 alone, and what crosses goes through ssh, encrypted: a socket file of
this user leads to it. The secret is written to the shell there, and is in no command line. When the connection is gone,
the shell ends the worker.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from edgec.distribute.protocol import SECRET
from edgec.distribute.start import LISTENS, Started, first_line
from edgec.distribute.worker import address_of
from edgec.errors import LinkError
from edgec.link.ssh import Ssh

#: The environment variable with the command of Python there, and the command without it.
PYTHON, USUAL = "EDGEC_SSH_PYTHON", "python3"
#: The shell there: the worker ends with the shell's input, and the shell with the worker.
_SCRIPT = """exec 3<&0
read -r {secret} && export {secret} || exit 1
{worker} & worker=$!
{{ cat; kill $worker; }} <&3 >/dev/null 2>&1 &
wait $worker"""


def start_over_ssh(folders: Sequence[Path], secret: bytes, threads: int, link: str, name: str) -> Started:
    """Start a worker for the parts in ``folders`` on the machine of ``link`` (``ssh:HOST``).

    Raises LinkError, which calls it ``name``, where it cannot be reached or does not come to listen.
    """
    way = Ssh(link.removeprefix("ssh:"))
    errors = tempfile.TemporaryFile()  # noqa: SIM115  (it is closed with the process)
    try:
        for folder in folders:
            way.send_folder(folder)
        python = [*shlex.split(os.environ.get(PYTHON, USUAL)), "-m", "edgec", "worker"]
        parts = [folder.absolute().name for folder in folders]
        worker = shlex.join([*python, *parts, "--listen", "127.0.0.1:0", "--once", "--threads", str(threads)])
        process = way.popen(_SCRIPT.format(secret=SECRET, worker=worker), errors)
    except BaseException:
        errors.close()
        way.close()
        raise
    found = Started(process, "", errors, way)
    try:
        assert process.stdin is not None
        process.stdin.write(secret + b"\n")
        process.stdin.flush()
        line = first_line(process)
        if not line.startswith(LISTENS):
            raise LinkError("the worker does not start")
        _, port = address_of(line.removeprefix(LISTENS).strip())
        found.address = f"unix:{way.forward(port)}"
    except (LinkError, OSError) as error:
        process.kill()
        process.wait()
        told = found.told()
        found.end()
        hint = f"is edgec installed there? {PYTHON} names another python than {USUAL}"
        what = error.message if isinstance(error, LinkError) else "the connection broke"
        raise LinkError(f"{what}{f': {told}' if told else ''}", hint=hint, where=name) from None
    except BaseException:
        process.kill()
        found.end()
        raise
    return found
