"""A process on each machine that says which rank was killed: whoever is killed can't say so, and
launchers end the others at once.

This file is also the program of that process. Each rank has a connection to it, and says when it
ends by itself. The first connection that breaks before is that of a rank that was killed.
"""

import os
import secrets
import select
import socket
import subprocess
import sys
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
        address = f"adjoint-{secrets.token_hex(8)}"
        server = socket.socket(socket.AF_UNIX)
        server.bind("\0" + address)  # a name that no file has
        server.listen(link.size)
    addresses = link.run(("distributed.init", "watchers"), lambda: link.gather_texts(address))
    if not can:
        return None
    address = addresses[hosts.index(HOST)]
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + address)
    connection.send(f"{link.rank}:{os.getpid()}\n".encode())
    if server is not None:
        start(server, hosts.count(HOST))
    connection.settimeout(link.timeout)
    connection.recv(1)  # it watches
    return connection


def start(server: socket.socket, count: int) -> None:
    command = [sys.executable, "-I", "-S", __file__, str(server.fileno()), str(count)]
    with server:
        process = subprocess.Popen(
            command,
            pass_fds=[server.fileno()],
            start_new_session=True,  # launchers end what is in theirs
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    process.returncode = 0  # it outlives this one, and nobody waits for it


def serve(server: socket.socket, count: int) -> None:
    """Wait for the ranks of this machine to end; say which was killed first, if any was."""
    poll = select.epoll()  # what happens first comes first
    ranks: dict[int, socket.socket] = {}
    names: dict[int, str] = {}
    for _ in range(count):
        connection, _ = server.accept()
        names[connection.fileno()] = first_line(connection)
        ranks[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    for connection in ranks.values():
        connection.send(b".")
    ended: set[int] = set()
    while len(ended) < count:
        for number, _ in poll.poll():
            said = received(ranks[number])
            if said == FAILED:
                return  # the others end with it
            if not said:
                rank, _, process = names[number].partition(":")
                where = f"process {process} on {HOST}"
                tell(f"adjoint.distributed: rank {rank} was killed ({where}), so all ranks end")
                return
            ended.add(number)


def tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def first_line(connection: socket.socket) -> str:
    """A rank's number and process; what it says after that stays to be read."""
    text = b""
    while not text.endswith(b"\n") and (letter := received(connection)):
        text += letter
    return text.decode().strip()


def received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(1)
    except OSError:
        return b""


if __name__ == "__main__":
    number, count = map(int, sys.argv[1:])
    serve(socket.socket(fileno=number), count)
