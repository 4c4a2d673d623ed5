"""Clients that do not behave: each function opens connections and leaves them in a state that costs the server most."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

HOST = "127.0.0.1"
SECONDS = 30.0
HEAD = b"POST /validate?timeout=10s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
LENGTHS = (
    b"Content-Length: 9999999999999999999\r\n",
    b"Content-Length: 99999999999999999999999999\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: +5\r\n",
    b"Content-Length: 0x10\r\n",
    b"Content-Length: 5,5\r\n",
    b"Content-Length: 5\r\nContent-Length: 6\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked, gzip\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Content-Length: 1000000000\r\n",
)
"""Framing that no client of a webhook sends."""
CHUNKS = (
    b"ff\r\n{0\r\n\r\n",
    b"ffffffffffffffff\r\n{",
    b"fffffffffffffffffffffff\r\n{",
    b"7fffffff\r\n{",
    b"-5\r\n{",
    b"5;" + b"a" * 20_000 + b"\r\n{",
    b"1\r\n \r\n" * 2_000,
    b"0\r\n" + b"X: y\r\n" * 5_000,
)
"""Bodies that never end, or that are not well formed."""


def tcp(port: int) -> socket.socket:
    """A TCP connection."""
    return socket.create_connection((HOST, port), timeout=SECONDS)


def tls(port: int) -> ssl.SSLSocket:
    """A TLS connection, whose server may be anyone."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(tcp(port))


def request(body: bytes) -> bytes:
    """A whole review's bytes."""
    return HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body


def idle(port: int, number: int) -> Iterator[socket.socket]:
    """TCP connections that send nothing."""
    yield from (tcp(port) for _ in range(number))


def half_open(port: int, number: int) -> Iterator[socket.socket]:
    """Handshakes that stop after the client's first message, or within it."""
    sent = ssl.MemoryBIO()
    shaking = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        shaking.do_handshake()
    hello = sent.read()
    for index in range(number):
        connection = tcp(port)
        connection.sendall(hello if index % 2 else hello[:20])
        yield connection


def _begun(port: int, number: int, begin: bytes) -> Iterator[socket.socket]:
    for _ in range(number):
        connection = tls(port)
        with suppress(OSError):  # the server may have closed it
            connection.sendall(begin)
        yield connection


def slow_headers(port: int, number: int) -> Iterator[socket.socket]:
    """Requests whose headers do not end."""
    return _begun(port, number, b"POST /validate HTTP/1.1\r\nHost: x\r\nX-A")


def slow_bodies(port: int, number: int) -> Iterator[socket.socket]:
    """Requests whose bodies do not end: a byte of 5,000, or 30,000 of 32,000."""
    yield from _begun(port, number // 2, HEAD + b"Content-Length: 5000\r\n\r\n{")
    yield from _begun(port, number - number // 2, HEAD + b"Content-Length: 32000\r\n\r\n" + b" " * 30_000)


def unfinished(port: int, number: int) -> Iterator[socket.socket]:
    """Small bodies without their last kilobyte."""
    return _begun(port, number, HEAD + b"Content-Length: 32000\r\n\r\n" + b" " * 31_000)


def full_bodies(port: int, number: int) -> Iterator[socket.socket]:
    """Bodies without their last bytes, of all sizes: as much as the server takes of each, from every connection."""
    many, few = HEAD + b"Content-Length: 32000\r\n\r\n" + b" " * 31_000, number // 8
    yield from _begun(port, few, HEAD + b"Content-Length: 262000\r\n\r\n" + b" " * 261_000)
    yield from large_bodies(port, 8)
    yield from _begun(port, number - few - 8, many)


def large_bodies(port: int, number: int) -> Iterator[socket.socket]:
    """Bodies of 8 MiB without their last byte."""
    return _begun(port, number, HEAD + b"Content-Length: %d\r\n\r\n" % (8 << 20) + b" " * ((8 << 20) - 1))


def unread(port: int, number: int, body: bytes = b"{}") -> Iterator[socket.socket]:
    """Requests one after the other, whose answers are not read."""
    for _ in range(number):
        connection = tls(port)
        connection.settimeout(0.05)
        with suppress(OSError):  # the server has closed it, or does not read either
            for _ in range(200):
                connection.sendall(request(body) * 10)
        yield connection


def odd_lengths(port: int, number: int) -> Iterator[socket.socket]:
    """Content-Lengths that are none, or two."""
    for line in LENGTHS * -(-number // len(LENGTHS)):
        yield from _begun(port, 1, HEAD + line + b"\r\n{")


def odd_chunks(port: int, number: int) -> Iterator[socket.socket]:
    """Chunked bodies that are not, or do not end."""
    for chunks in CHUNKS * -(-number // len(CHUNKS)):
        yield from _begun(port, 1, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)


def pipelined(port: int, number: int, body: bytes = b"{}") -> Iterator[socket.socket]:
    """40 requests in one piece."""
    return _begun(port, number, request(body) * 40)


def resets(port: int, number: int, body: bytes = b"{}") -> Iterator[socket.socket]:
    """Connections that end with a reset: at once, within a request, and before its answer."""
    for index in range(number):
        raw = tcp(port)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if index % 3:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            raw = context.wrap_socket(raw)
            raw.sendall(request(body)[: None if index % 3 == 1 else 40])
        raw.close()
        yield raw


ATTACKS: Sequence[Callable[[int, int], Iterator[socket.socket]]] = (
    idle, half_open, slow_headers, slow_bodies, unread, odd_lengths, odd_chunks, pipelined, resets, large_bodies,
)  # fmt: skip
