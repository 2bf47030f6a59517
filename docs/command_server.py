"""Runs `planner` commands in forks of one process that has imported the program, so that pages full of commands run fast.

`python docs/command_server.py SOCKET` serves; the script that `write_shim` writes is the `planner` of a shell. Arguments,
working directory, environment and the three standard streams are those of the shell.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECIPE = "gpt-oss-120b-h200x8"
SHIM = """#!{python} -IS
import json, os, signal, socket, struct, sys
link = socket.socket(socket.AF_UNIX)
link.connect({socket!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
link.sendmsg([struct.pack("!I", len(request))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("3i", 0, 1, 2))])
link.sendall(request)
child = struct.unpack("!i", link.recv(4, socket.MSG_WAITALL))[0]
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda got, frame: os.kill(child, got))
status = link.recv(4, socket.MSG_WAITALL)
sys.exit(struct.unpack("!i", status)[0] if len(status) == 4 else 139)
"""


def write_shim(folder: Path, server: Path) -> None:
    """Put a `planner` and a `wideplan` that ask the server at `server` into `folder`."""
    for name in ("planner", "wideplan"):
        file = folder / name
        file.write_text(SHIM.format(python=sys.executable, socket=str(server)), encoding="utf-8")
        file.chmod(0o755)


def serve(path: Path) -> None:
    """Fork one child per command until killed."""
    sys.path.insert(0, str(ROOT))
    import planner.catalog.recipes
    import planner.cli.main
    import planner.export.render
    import planner.search.recommend
    import planner.simulation.build  # noqa: F401 - imported once, before the forks

    warm_up()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(16)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            run(link)
        link.close()


def warm_up() -> None:
    """Answer one question here, so that the forks find files read and kernels loaded."""
    import contextlib
    import io

    from planner.cli.main import main
    from planner.simulation.kernels.jit import is_compiled

    questions = [["recommend", RECIPE]]
    if is_compiled():  # otherwise the first page that simulates compiles them
        questions.append(["simulate", RECIPE, "--requests", "60"])
    for arguments in questions:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(arguments)


def run(link: socket.socket) -> None:
    """Become the command that the other side asked for; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, ancillary, *_ = link.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i", ancillary[0][2])
    arguments, folder, environment = json.loads(link.recv(struct.unpack("!I", head)[0], socket.MSG_WAITALL))
    for target, given in enumerate(streams):
        os.dup2(given, target)
        os.close(given)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    link.sendall(struct.pack("!i", os.getpid()))
    from planner.cli.main import main

    status = 0
    try:
        main(arguments)
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - what python itself would do: print the traceback, exit 1
        sys.excepthook(*sys.exc_info())
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (BrokenPipeError, ValueError):
            continue
    if log := environment.get("DOCS_CPU_LOG"):
        spent = os.times()
        total = spent.user + spent.system + spent.children_user + spent.children_system
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{total:.2f}\n")
    link.sendall(struct.pack("!i", status))
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
