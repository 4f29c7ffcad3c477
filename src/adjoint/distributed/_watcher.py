"""A process on each machine that says which rank was killed: whoever is killed can't say so, and
launchers end the others at once.

This file is also the program of that process. Each rank has a connection to it, and says when it
ends by itself. The first connection that breaks before is that of a rank that was killed.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
from typing import Any

HOST = socket.gethostname()
ENDED, FAILED = b".", b"x"


def watch(link: Any) -> socket.socket | None:
    """Have this rank watched, by the process that the first rank of its machine starts. The
    connection to it; None where a system can't tell which one broke first."""
    can = hasattr(select, "epoll") and hasattr(socket, "AF_UNIX")
    address, server = "", None
    hosts = link.run(("distributed.init", "hosts"), lambda: link.gather_texts(HOST if can else ""))
    if can and hosts.index(HOST) == link.rank:
        address = os.path.join(tempfile.mkdtemp(prefix="adjoint-"), "ranks")
        server = socket.socket(socket.AF_UNIX)
        server.bind(address)
        server.listen(link.size)
    addresses = link.run(("distributed.init", "watchers"), lambda: link.gather_texts(address))
    if not can:
        return None
    address = addresses[hosts.index(HOST)]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    connection.send(f"{link.rank}:{os.getpid()}\n".encode())
    if server is not None:
        start(server, address, hosts.count(HOST))
    return connection


def start(server: socket.socket, address: str, count: int) -> None:
    command = [sys.executable, "-I", "-S", __file__, str(server.fileno()), str(count), address]
    with server:
        subprocess.Popen(
            command,
            pass_fds=[server.fileno()],
            start_new_session=True,  # launchers end what is in theirs
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )


def serve(server: socket.socket, count: int, address: str) -> None:
    """Wait for the ranks of this machine to end; say which was killed first, if any was."""
    poll = select.epoll()  # what happens first comes first
    ranks: dict[int, socket.socket] = {}
    names: dict[int, str] = {}
    for _ in range(count):
        connection, _ = server.accept()
        names[connection.fileno()] = connection.recv(64).decode().strip()
        ranks[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    os.unlink(address)
    os.rmdir(os.path.dirname(address))
    while ranks:
        for number, _ in poll.poll():
            said = received(ranks[number])
            if said == ENDED:
                poll.unregister(ranks.pop(number))
                continue
            if not said:
                rank, _, process = names[number].partition(":")
                where = f"process {process} on {HOST}"
                tell(f"adjoint.distributed: rank {rank} was killed ({where}), so all ranks end")
            return  # the others end with it


def tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except OSError:
        return b""


if __name__ == "__main__":
    number, count, address = sys.argv[1:]
    serve(socket.socket(fileno=int(number)), int(count), address)
