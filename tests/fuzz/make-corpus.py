#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz-agent-answers, fuzz-agent-requests, fuzz-wqe, fuzz-engine, fuzz-packet, fuzz-pmi, fuzz-config, fuzz-state and fuzz-bootstrap: make-corpus.py tests/fuzz/corpus

Seeds have names that say what they are; what fuzzers found has other names, and is left alone.
"""
import pathlib
import struct
import sys

OPCODES = {"nop": 0x00, "send-inval": 0x01, "umr": 0x25, "write": 0x08, "write-imm": 0x09, "send": 0x0a, "send-imm": 0x0b, "read": 0x10,
           "cs": 0x11, "fa": 0x12, "masked-cs": 0x14, "masked-fa": 0x15}


def ctrl(opcode, ds, opmod=0, fm_ce_se=0x08, imm=0):
    return struct.pack(">IIII", opmod << 24 | opcode, 0x123 << 8 | ds, fm_ce_se, imm)


def wqe(name, *segments, opmod=0, ds=None, imm=0):
    body = b"".join(segments)
    return ctrl(OPCODES[name], ds if ds is not None else 1 + len(body) // 16, opmod, imm=imm) + body


def raddr(addr=0x10000, key=0x2000):
    return struct.pack(">QII", addr, key, 0)


def sge(size=64, addr=0x20000, key=0x1000):
    return struct.pack(">IIQ", size, key, addr)


def inline(data):
    body = struct.pack(">I", 0x80000000 | len(data)) + data
    return body + bytes(-len(body) % 16)


def av(qpn=0x123, extended=True, key=0x11112222 << 32, gid=0):
    short = struct.pack(">QIBBH", key, extended << 31 | qpn, 0x05, 0, gid)
    return short + (bytes(16) + bytes([gid]) + bytes(15) if extended else b"")


def umr(is_bind):
    """Of a window of type 2."""
    mask = 1 << 29 | 1 << 13 | 1 << 14 | (0x3c0041 if is_bind else 0)
    control = struct.pack(">IIQ", 0xb0000000 if is_bind else 0x98000000, 0x40000 if is_bind else 0, mask) + bytes(32)
    key = struct.pack(">IIQQQ", 0x7800 if is_bind else 0x40000000, 0x12321, 0, 0x20000, 64) + bytes(32)
    return (control, key, sge() + bytes(48)) if is_bind else (control, key)


def umr_of(listed, octowords, mask=1 << 29 | 1 << 13 | 0x3c0001, inline=True):
    """Of a key that consists of parts of others."""
    control = struct.pack(">IIQ", 0x80000000 if inline else 0, octowords << 16, mask) + bytes(32)
    key = struct.pack(">IIQQQ", 0x7800, 0xffffff00, 0, 0, 24) + bytes(32)
    return control, key, listed


def pattern(n_bytes, times, *entries):
    return struct.pack(">IIII", n_bytes, 0x400, times, len(entries)) + b"".join(
        struct.pack(">HHIQ", stride, length, 0x10000, 0x20000) for stride, length in entries)


def layout_seeds():
    yield "umr-list", wqe("umr", *umr_of(sge(8) + sge(16) + bytes(32), 4), imm=0x7700)
    yield "umr-pattern", wqe("umr", *umr_of(pattern(24, 3, (10, 8), (16, 16)) + bytes(16), 4), imm=0x7700)
    yield "umr-pattern-of-nothing", wqe("umr", *umr_of(pattern(0, 1, (10, 0)) + bytes(32), 4), imm=0x7700)
    yield "umr-pattern-too-long", wqe("umr", *umr_of(pattern(24, 0x10003, (10, 8), (16, 16)), 3), imm=0x7700)
    yield "umr-pattern-no-times", wqe("umr", *umr_of(pattern(8, 0, (10, 8)) + bytes(32), 4), imm=0x7700)
    yield "umr-list-in-memory", wqe("umr", *umr_of(sge(64), 4, inline=False), imm=0x7700)
    yield "umr-list-in-memory-cut-short", wqe("umr", *umr_of(sge(63), 4, inline=False), imm=0x7700)
    yield "umr-list-is-not-there", wqe("umr", *umr_of(b"", 4, inline=False), imm=0x7700)
    yield "umr-list-cut-short", wqe("umr", *umr_of(sge(8), 4), imm=0x7700)
    yield "umr-nothing-changes", wqe("umr", *umr_of(b"", 0, mask=0, inline=False), imm=0x7700)
    yield "umr-unknown-mask", wqe("umr", *umr_of(b"", 0, mask=1 << 9), imm=0x7700)


def wqe_seeds():
    words = struct.pack(">QQ", 1, 2)
    yield "nop", wqe("nop")
    for name in ("write", "write-imm", "read"):
        yield name, wqe(name, raddr(), sge(), imm=7)
    yield "write-inline", wqe("write", raddr(), inline(b"x" * 28))
    yield "write-inline-longest", wqe("write", raddr(), inline(b"x" * 972))
    yield "write-inline-empty", wqe("write", raddr(), inline(b""))
    yield "read-inline", wqe("read", raddr(), inline(b"x" * 12))
    yield "write-61-references", wqe("write", raddr(), *[sge(16 * i + 1) for i in range(61)])
    yield "write-above-2-gib", wqe("write", raddr(), sge(0x7fffffff), sge(2))
    yield "write-2-gib", wqe("write", raddr(), sge(0x7fffffff), sge(1))
    yield "reference-of-0-bytes", wqe("write", raddr(), sge(0))
    yield "send", wqe("send", sge())
    yield "send-imm-inline", wqe("send-imm", inline(b"hello"), imm=9)
    yield "send-empty", wqe("send")
    yield "datagram", wqe("send", av(), sge())
    yield "datagram-short-address", wqe("send", av(extended=False), sge())
    yield "datagram-inline", wqe("send-imm", av(), inline(b"x" * 28), imm=3)
    yield "datagram-address-cut-short", wqe("send", av()[:32])
    yield "xrc", wqe("write", struct.pack(">I12x", 0x555), raddr(), sge())
    yield "xrc-cut-short", wqe("write", ds=1)
    yield "frame", wqe("send", bytes(16), sge())
    yield "frame-with-header", wqe("send", struct.pack(">12xHH16x", 18, 0), sge())
    yield "frame-header-behind-the-end", wqe("send", struct.pack(">12xHH", 18, 0))
    yield "compare-swap", wqe("cs", raddr(), words, sge(8))
    yield "fetch-add", wqe("fa", raddr(), words, sge(8))
    yield "masked-fetch-add-4", wqe("masked-fa", raddr(), struct.pack(">IIQ", 1, 0x80, 0), sge(4), opmod=8)
    yield "masked-fetch-add-8", wqe("masked-fa", raddr(), words, sge(8), opmod=9)
    yield "masked-compare-swap-4", wqe("masked-cs", raddr(), struct.pack(">IIII", 1, 2, 3, 4), sge(4), opmod=8)
    yield "masked-compare-swap-8", wqe("masked-cs", raddr(), words + words, sge(8), opmod=9)
    yield "atomic-wrong-size", wqe("fa", raddr(), words, sge(12))
    yield "atomic-wrong-opmod", wqe("masked-fa", raddr(), words, sge(8), opmod=0x3f)
    yield "send-with-invalidate", wqe("send-inval", sge(), imm=0x7700)
    yield "window-bind", wqe("umr", *umr(True), imm=0x7700)
    yield "window-bind-cut-short", wqe("umr", *umr(True)[:2], imm=0x7700)
    yield "window-free", wqe("umr", *umr(False), imm=0x7700)
    yield "ds-0", wqe("write", raddr(), sge(), ds=0)
    yield "ds-behind-the-end", wqe("write", raddr(), sge(), ds=63)
    yield "receive-then-terminator", sge(100) + sge(200) + struct.pack(">IIQ", 0, 0x100, 0)
    yield "receive-32-references", b"".join(sge(i + 1) for i in range(32))
    yield "cqe-error", bytes(52) + struct.pack(">BBBBIHBB", 0, 0, 0, 0x13, 0x08000123, 5, 0, 0xd0)
    yield "cqe-request", bytes(44) + struct.pack(">IQIHBB", 8, 99, 0x08000123, 5, 0, 0x00)


# ---- programs of fuzz-engine: see one_op() there ------------------------------------------------------------------

RUN, DOORBELL, TIME, SCAN = b"\x08\x20", b"\x05", b"\x09", b"\x0c"
A, B = 0, 0x80


RC, UC, UD, DC, SRQ = 0, 1, 2, 3, 0x80
XRC, RAW, STREAMS = RC | 8, UC | 8, DC | 8


def head(chunk=2, memory=0, cq=0, timeout=14, retries=0x77, kind=RC):
    return bytes([chunk | memory << 2 | cq << 4 | (kind & 3) << 6, timeout, retries | kind & (SRQ | 8)])


def post(opcode, how, *rest, side=A):
    return bytes([side | 19, opcode, how]) + b"".join(rest)


def datagram(how, odd=0):
    return post(4, how, bytes([odd]), ref(0x190, 0))


def dc(opcode, odd=0):
    remote = at(0x100) if opcode in (1, 2, 3) else b""
    return post(opcode, 0x29, bytes([odd]), remote, ref(0x180, 0))


def at(offset):
    return struct.pack("<H", offset)


def ref(size, offset, which=0):
    return bytes([which]) + at(size) + at(offset)


def recv(size, offset=0, side=B, which=0):
    return bytes([side | 15, 1]) + ref(size, offset, which)


def raw_ring(offset, data, side=A):
    return bytes([side]) + at(offset) + bytes([len(data)]) + data


def engine_seeds():
    write = post(1, 0x09, at(0x100), ref(0x80, 0))
    read = post(3, 0x09, at(0), ref(0x1ff, 0x200))
    add = post(7, 0x08, at(0x40), struct.pack("<I", 3), at(0x80))
    send = post(4, 0x09, ref(0x64, 0))
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        for chunk in (0, 2):
            yield f"all-kinds-{name}-{chunk}", head(chunk, memory) + recv(0x100) * 2 + write + read + add + send + \
                post(2, 0x0a, at(0x10), ref(0x30, 0), ref(0x31, 0x40)) + RUN + TIME + write * 3 + RUN
    yield "collapsed-cqs", head(cq=3) + write * 12 + RUN
    yield "cq-overrun", head() + (write + RUN) * 12
    yield "cq-consumer-lies", head() + bytes([4, 0xff, 4, 0x7d]) + (write + RUN) * 12
    yield "send-without-receive", head(retries=0x22) + send + RUN + TIME * 8
    yield "send-without-receive-for-ever", head() + send + RUN + TIME * 8
    yield "send-too-long", head() + recv(8) + send + RUN
    yield "loss", head(timeout=1) + bytes([14, 2]) + write + read + RUN + TIME * 6
    yield "loss-of-everything", head(timeout=1, retries=0x01) + (write + bytes([14, 7]) + RUN + TIME) * 4
    yield "write-into-own-peer-ring", head() + post(1, 0x0d, at(0), ref(0x1ff, 0)) + RUN + b"\x85" + RUN
    yield "read-into-own-ring", head() + post(3, 0x09, at(0), ref(0x1ff, 0, 1)) + RUN + DOORBELL + RUN
    yield "atomic-on-peer-dbrec", head() + post(7, 0x0c, at(0xa20), struct.pack("<I", 1), at(0xa20)) * 3 + RUN * 3
    yield "index-ahead-of-ring", head() + b"\x02\x20\x00" + DOORBELL + RUN + write + RUN
    yield "index-behind", head() + write + RUN + b"\x02\xff\xff" + DOORBELL + RUN
    yield "receive-index-ahead", head() + b"\x83\xff\x7f" + send + RUN
    yield "region-gone-in-mid-flight", head(0, 2) + read + b"\x10\x10" + b"\x0a\x8a" + RUN + b"\x0a\x8a" + write + RUN
    yield "destroyed-in-mid-flight", head(0, 2) + write + read + b"\x10\x10" + b"\x0b\x8b" + RUN + b"\x0b\x8b\x07\x87"
    yield "reset-in-mid-flight", head(0, 2) + write + read + b"\x10\x10\x11\x07\x91\x87" + RUN + write + RUN
    yield "error-in-mid-flight", head(0, 2) + read + add + b"\x10\x10\x12" + RUN + b"\x11\x07" + write + RUN
    yield "drain", head() + write * 2 + b"\x06\x07\x00" + RUN + b"\x06\x03\x00" + RUN
    yield "raw-wqe", head() + raw_ring(0, wqe("write", raddr(0x200000, 0x2000), inline(b"abc"))) + b"\x02\x01\x00" + \
        DOORBELL + RUN + SCAN + b"\x0d"
    yield "raw-wqe-of-16-blocks", head() + raw_ring(0x3c0, wqe("write", raddr(), ds=63)) + b"\x02\x10\x00" + DOORBELL + RUN
    yield "masked-atomics", head() + b"".join(
        post(op, how, at(0x40), struct.pack("<I", 3), at(0x80)) for op in (6, 7) for how in (0x48, 0x68, 0x08)) + RUN
    yield "overlapping-copy", head() + post(3, 0x19, at(0x10), ref(0x1ff, 0)) + RUN + \
        post(1, 0x19, at(0x20), ref(0x1ff, 0x10)) + RUN


def unreliable_seeds():
    write = post(1, 0x09, at(0x100), ref(0x180, 0))
    write_imm = post(2, 0x09, at(0x100), ref(0x180, 0))
    read = post(3, 0x09, at(0), ref(0x1ff, 0x200))
    send = post(4, 0x09, ref(0x190, 0))
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        yield f"uc-{name}", head(0, memory, kind=UC) + recv(0x1c0) * 3 + (write + write_imm + send) * 2 + RUN * 3
        yield f"ud-{name}", head(0, memory, kind=UD) + recv(0x1f0) * 4 + datagram(0x29) + datagram(0x09) + RUN * 2 + \
            datagram(0x29, 1) + datagram(0x29, 2) + datagram(0x29, 4) + datagram(0x29, 0x80) + RUN
        yield f"srq-{name}", head(0, memory, kind=RC | SRQ) + b"\xed" + recv(0x1c0) * 3 + send * 4 + RUN * 4 + TIME * 4
        yield f"dc-{name}", head(0, memory, kind=DC) + recv(0x1c0) * 3 + (dc(1) + dc(3) + dc(4) + dc(2)) * 2 + RUN * 4
    dc_reset, dct_reset = b"\x11\x07", b"\x91\x87"
    yield "dc-wrong-key", head(kind=DC, timeout=1) + dc(1, 1) + RUN + TIME * 9
    yield "dc-no-route", head(kind=DC) + dc(1) + dc(1, 0x80) + RUN + dc_reset + dc(1) + RUN
    yield "dc-other-address", head(kind=DC) + (dc(1) + dc(1, 8)) * 3 + RUN * 3
    yield "dc-reset-in-mid-flight", head(0, 2, kind=DC) + recv(0x1c0) * 2 + dc(4) + b"\x10\x10" + dc_reset + dc(4) + RUN * 3
    yield "dct-reset-in-mid-flight", head(0, 2, kind=DC) + dc(1) * 3 + b"\x10\x10" + dct_reset + dc(1) + RUN * 3 + TIME * 9
    yield "dct-destroyed-in-mid-flight", head(0, 2, kind=DC) + dc(1) * 3 + b"\x10\x10\x8b" + RUN + b"\x8b\x87" + dc(1) + RUN * 3
    yield "dci-many", head(kind=DC) + (dc(1) + RUN + b"\x0b\x0b\x07") * 75
    yield "dc-without-receive", head(kind=DC) + dc(4) + RUN + recv(0x1c0) + TIME * 3
    yield "uc-without-receive", head(kind=UC) + send + write_imm + RUN
    yield "uc-loss", head(0, kind=UC) + recv(0x1c0) * 2 + b"\x0e\x01" + send + RUN + send + RUN
    yield "uc-send-error", head(kind=UC) + write + read + write * 2 + RUN + b"\x06\x03\x00" + write + RUN
    yield "uc-drain", head(0, 2, kind=UC) + write * 3 + b"\x10\x06\x07\x00" + RUN * 2 + b"\x06\x03\x00" + RUN
    yield "uc-reset-in-mid-flight", head(0, 2, kind=UC) + write * 3 + b"\x10\x10\x11\x07\x91\x87" + RUN + write + RUN
    yield "uc-destroyed-in-mid-flight", head(0, 2, kind=UC) + write * 3 + b"\x10\x10" + b"\x0b\x8b" + RUN
    yield "ud-srq", head(kind=UD | SRQ) + recv(0x1f0) * 3 + datagram(0x29) * 4 + RUN * 2
    yield "ud-receive-too-short", head(kind=UD) + recv(0x30) + datagram(0x29) + RUN
    yield "ud-what-it-cannot", head(kind=UD) + post(1, 0x29, b"\x00", ref(8, 0)) + RUN + b"\x06\x03\x00" + datagram(0x29) + RUN
    yield "srq-index-ahead", head(kind=RC | SRQ) + b"\x83\xff\x7f" + send + RUN
    yield "srq-list-leaves-the-ring", head(kind=RC | SRQ) + raw_ring(2, b"\x40", B | 1) + recv(0x1c0) + send + RUN
    yield "srq-error-and-reset", head(kind=RC | SRQ) + recv(0x1c0) * 2 + send + RUN + b"\x92" + RUN + b"\x91" + RUN


def streamed(stream, opcode, odd=0, key=0):
    """With key 2 its data is of no region, with odd 4 the DCT is nobody."""
    remote = at(0x100) if opcode in (1, 2, 3) else b""
    local = b"" if opcode == 0 else bytes([odd]) + remote + ref(0x180, 0, key)
    return post(opcode, 0x29, local, bytes([stream]))


def stream_seeds():
    good, bad = streamed(0, 1), streamed(1, 1, key=2)
    reset = b"\x1b\x01"
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        yield f"stream-{name}", head(0, memory, kind=STREAMS) + recv(0x1c0) * 3 + good + streamed(1, 3) + bad + streamed(1, 4) + \
            streamed(2, 4) + good + RUN * 4 + reset + streamed(1, 2) + RUN * 2
    yield "stream-of-the-peer", head(kind=STREAMS) + b"\x8a" + good + streamed(0, 0) + streamed(0, 3) + streamed(1, 4) + b"\x8a" + \
        streamed(2, 1) + RUN * 4 + b"\x1b\x00" + good + RUN * 2
    yield "stream-without-answer", head(kind=STREAMS, timeout=1, retries=0x01) + streamed(1, 1, odd=1) + good + RUN + TIME * 9 + \
        reset + streamed(1, 1) + RUN
    yield "stream-no-route", head(kind=STREAMS) + streamed(1, 1, odd=0x80) + good + RUN + reset * 2 + streamed(1, 1) + RUN
    yield "streams-too-many", head(kind=STREAMS) + bad + streamed(2, 1, key=2) + good + RUN + reset + b"\x11\x07" + good + RUN
    yield "stream-flushed-in-mid-flight", head(0, 2, kind=STREAMS) + good + bad + streamed(1, 1) * 3 + b"\x10\x10" + reset + \
        streamed(1, 1) + RUN * 3
    yield "stream-index-ahead", head(kind=STREAMS) + bad + RUN + b"\x02\x20\x00" + DOORBELL + RUN
    yield "stream-drain", head(kind=STREAMS) + bad + good + b"\x06\x07\x00" + RUN + b"\x06\x03\x00" + streamed(1, 1) + good + RUN
    yield "stream-reset-of-others", head(kind=DC) + b"\x1b\x01\x9b\x01\x0b" + b"\x1b\x01"


def xrc_seeds():
    """The last byte of a request is the number of an SRQ: 1 is the peer's, 0 of another domain."""
    def requests(srq):
        n = bytes([srq])
        return (post(1, 0x09, at(0x100), ref(0x180, 0), n), post(3, 0x09, at(0), ref(0x1ff, 0x200), n),
                post(4, 0x09, ref(0x190, 0), n), post(7, 0x08, at(0), at(0x40), struct.pack("<I", 3), at(0x80), n))
    write, read, send, add = requests(1)
    imm = post(2, 0x09, at(0x100), ref(0x180, 0), b"\1")
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        yield f"xrc-{name}", head(0, memory, kind=XRC) + recv(0x1c0) * 4 + (write + send + read + imm + add) * 2 + RUN * 4
    for srq, name in ((0, "of-another-domain"), (2, "that-is-none")):
        yield f"xrc-srq-{name}", head(kind=XRC) + recv(0x1c0) + requests(srq)[2] + RUN
    gone = b"\x9b"
    yield "xrc-srq-goes-in-mid-message", head(0, 2, kind=XRC) + recv(0x1c0) * 2 + send + b"\x10\x10" + gone + RUN * 2
    yield "xrc-srq-goes-between", head(0, kind=XRC) + recv(0x1c0) + send + RUN + gone + write + RUN
    yield "xrc-srq-goes-and-returns", head(0, kind=XRC, timeout=1) + recv(0x1c0) + send + RUN + gone * 2 + recv(0x1c0) + \
        send + RUN + TIME * 4
    yield "xrc-loss", head(0, timeout=1, kind=XRC) + recv(0x1c0) * 3 + b"\x0e\x02" + (send + read + add) * 2 + RUN + TIME * 9
    yield "xrc-answer-lost", head(timeout=1, kind=XRC) + read + b"\x10\x0e\x01" + RUN + TIME * 6
    yield "xrc-answer-lost-and-srq-gone", head(timeout=1, kind=XRC) + read + b"\x10\x0e\x01" + b"\x10" * 3 + gone + TIME * 6
    yield "xrc-without-receive", head(kind=XRC) + send + RUN + recv(0x1c0) + TIME * 3
    yield "xrc-reset-in-mid-flight", head(0, 2, kind=XRC) + recv(0x1c0) * 2 + send + b"\x10\x10\x91\x87" + RUN + b"\x11\x07" + send + RUN
    yield "xrc-error-in-mid-flight", head(0, 2, kind=XRC) + recv(0x1c0) * 2 + send + b"\x10\x10\x92" + RUN * 2
    yield "xrc-destroyed-in-mid-flight", head(0, 2, kind=XRC) + recv(0x1c0) * 2 + send + b"\x10\x10\x8b" + RUN + b"\x8b\x87" + send + RUN
    yield "xrc-cq-overrun", head(kind=XRC) + (recv(0x1c0) + send + b"\x04\x04" + RUN) * 12
    yield "xrc-umr", head(kind=XRC) + window(1, 4, 0x100, A) + RUN + window(1, 4, 0x100) + RUN + \
        through_window(4, 0x108, ref(8, 0), b"\1") + RUN
    frame = post(4, 0x09, ref(0x190, 0), b"\0")
    yield "raw", head(kind=RAW) + frame * 2 + RUN + post(4, 0x09, ref(0x190, 0), b"\x12") + RUN + b"\x12" + RUN
    yield "raw-header-behind-the-end", head(kind=RAW) + post(4, 0x09, ref(0x190, 0), b"\xff") + RUN + b"\x06\x03\x00" + frame + RUN
    yield "raw-what-it-cannot", head(kind=RAW) + post(1, 0x09, at(0x100), ref(0x180, 0), b"\0") + RUN + b"\x0a" + frame + RUN


LEDGER, RESTART = UD | 8, b"\x1a"


def ledger_seeds():
    """The byte behind the head says what has the ledger: RC, UC, UD, DC."""
    write, read = post(1, 0x09, at(0x100), ref(0x180, 0)), post(3, 0x09, at(0), ref(0x1ff, 0x200))
    add, send = post(7, 0x08, at(0x40), struct.pack("<I", 3), at(0x80)), post(4, 0x09, ref(0x190, 0))
    imm, nop = post(2, 0x09, at(0x100), ref(0x180, 0)), post(0, 0x08)
    step = b"\x10"
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        start = head(0, memory, kind=LEDGER) + b"\x00"
        yield f"ledger-rc-{name}", start + recv(0x1c0) * 3 + write + RESTART + read + step + RESTART + add + send + step + RESTART + \
            step * 2 + RESTART + imm + nop + step + RESTART + RUN + TIME * 3
        yield f"ledger-srq-{name}", head(0, memory, kind=LEDGER | SRQ) + b"\x00" + recv(0x1c0) * 3 + send * 2 + step + RESTART + \
            step + RESTART + imm + RUN + TIME * 3
        yield f"ledger-uc-{name}", head(0, memory, kind=LEDGER) + b"\x01" + recv(0x1c0) * 3 + write + send + step + RESTART + imm + \
            step + RESTART + send + RUN + TIME
        yield f"ledger-ud-{name}", head(0, memory, kind=LEDGER) + b"\x02" + recv(0x1f0) * 3 + datagram(0x29) + step + RESTART + \
            datagram(0x29) + RUN + RESTART + datagram(0x29) + RUN
        yield f"ledger-dc-{name}", head(0, memory, kind=LEDGER) + b"\x03" + recv(0x1c0) * 4 + dc(1) + dc(4) + step + RESTART + dc(3) + \
            step + RESTART + step * 2 + RESTART + dc(4) + RUN + TIME * 3
    start = head(kind=LEDGER) + b"\x00"
    for name, change in (("reset", b"\x11\x91"), ("error", b"\x12\x92"), ("drain", b"\x06\x07\x00"), ("destroy", b"\x0b\x8b")):
        yield f"ledger-{name}", start + recv(0x1c0) + write * 2 + step + change + RESTART + RUN + RESTART + change + \
            b"\x07\x87" + write + RUN
    yield "ledger-collapsed", head(cq=3, kind=LEDGER) + b"\x00" + (write * 3 + RUN + RESTART) * 3 + b"\x12" + RESTART + RUN
    yield "ledger-cq-overrun", start + (write + RUN) * 12 + RESTART + RUN + RESTART
    yield "ledger-ring-changed-meanwhile", head(0, kind=LEDGER) + b"\x00" + recv(0x1c0) + send + step * 2 + RESTART + \
        raw_ring(0, wqe("write", raddr(), inline(b"abc"))) + raw_ring(0, b"\xff" * 12, B | 1) + RUN + TIME * 4
    yield "ledger-peer-gone", head(0, timeout=1, kind=LEDGER) + b"\x00" + write + b"\x8b" + RESTART + (b"\x0e\x07" + TIME) * 60
    yield "ledger-refused", start + b"\x8a" + write + RUN + RESTART + RUN + RESTART
    yield "ledger-dci-many", head(kind=LEDGER) + b"\x03" + (dc(1) + RUN + b"\x0b\x0b\x07") * 75 + RESTART + dc(1) + RUN
    yield "ledger-srq-armed", head(kind=LEDGER | SRQ) + b"\x00" + b"\xed" + recv(0x1c0) + RESTART + send + RUN + RESTART


def window(how, tags, offset, side=B):
    return bytes([side | 29, how, tags]) + struct.pack("<H", offset)


def through_window(how, offset, *refs):
    return bytes([30, how]) + (b"" if how & 3 == 2 else struct.pack("<H", offset)) + b"".join(refs)


def window_seeds():
    bind, free = window(1, 4, 0x100), window(0, 1, 0)
    write, read, inval = through_window(4, 0x108, ref(8, 0)), through_window(5, 0x100, ref(8, 0)), \
        through_window(6, 0, ref(8, 0))
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        yield f"window-{name}", head(0, memory) + bind + RUN + write + read + RUN + recv(0x100) + inval + RUN + write + RUN
    yield "window-freed", head() + bind + b"\x85" + RUN + free + b"\x85" + RUN + read + RUN
    yield "window-twice", head() + bind * 2 + RUN + write + RUN
    yield "window-of-the-other-side", head() + window(9, 4, 0x100) + RUN
    yield "window-of-type-1", head() + window(1, 4, 0x100, A) + RUN + window(1, 9, 0x100, A) + RUN + window(0, 2, 0, A) + RUN
    yield "window-without-its-region", head() + bind + RUN + b"\x8a" + write + RUN
    yield "window-beyond-its-region", head() + window(1, 4, 0xfff) + RUN
    yield "window-not-bound", head() + recv(0x100) + inval + RUN


def part(which, n_bytes, offset):
    """Of a region (which & 1) or of an indirect key, each with two; in a pattern also the stride."""
    return bytes([which, n_bytes]) + at(offset)


def layout(how, *parts, mask=None, block=None, times=1, side=B):
    how |= len(parts) | (0x10 if mask is not None else 0) | (0x08 if block is not None else 0)
    return bytes([side | 28, how]) + (struct.pack("<I", mask) if mask is not None else b"") + (
        at(block) + bytes([times]) if block is not None else b"") + b"".join(parts)


def indirect_seeds():
    three = layout(0, part(1, 30, 0), part(1, 3, 0x300), part(1, 200, 0x80))
    write, read = through_window(0x90, 8, ref(64, 0)), through_window(0x91, 20, ref(120, 0x200))
    inval = through_window(0xc2, 0, ref(8, 0))
    own = post(1, 0x09, at(0x100), ref(0x80, 0, 0x40), side=B) + b"\x85"
    for memory, name in enumerate(("pointer", "sync", "delay", "mixed")):
        yield f"indirect-{name}", head(0, memory) + three + RUN + write + read + RUN + own + RUN + b"\x8a" + write + RUN
        yield f"indirect-send-{name}", head(2, memory) + three + RUN + recv(0x70, 0, which=0x40) + \
            post(4, 0x09, ref(0x64, 0)) + RUN
        yield f"indirect-pattern-{name}", head(0, memory) + layout(0, part(9, 8, 0), part(21, 4, 0x400), block=12, times=20) + \
            RUN + write + read + RUN
    yield "indirect-atomic", head() + three + RUN + post(7, 0x08, at(0), struct.pack("<I", 3), at(0x80)) + \
        through_window(0x90, 0, ref(8, 0)) + RUN
    ksm = layout(4, part(1, 0, 0), part(1, 0, 0x200), part(1, 0, 0xf80))
    yield "indirect-of-fixed-length", head() + ksm + RUN + through_window(0xd0, 0xf0, ref(64, 0)) + \
        through_window(0xd1, 0x2c0, ref(100, 0)) + RUN
    yield "indirect-of-indirect", head() + three + RUN + layout(4, part(0, 0, 0)) + RUN + through_window(0xd0, 8, ref(64, 0)) + RUN
    yield "indirect-pattern-of-indirect", head() + layout(4, part(1, 0, 0), part(1, 0, 0x200)) + RUN + \
        layout(0, part(10, 8, 0), block=8, times=9) + RUN + write + RUN
    yield "indirect-of-itself", head() + (three + RUN) + (layout(0, part(0, 8, 0)) + RUN) * 5 + write + RUN
    yield "indirect-in-memory", head() + layout(0x20, part(1, 100, 0), part(1, 100, 0x200)) + RUN + write + RUN
    yield "indirect-in-memory-of-nobody", head() + b"\x8a" + layout(0x20, part(1, 100, 0)) + RUN
    yield "indirect-freed", head() + three + RUN + layout(0x40, part(1, 8, 0)) + RUN + write + RUN
    yield "indirect-freed-by-the-peer", head() + ksm + RUN + recv(0x100) + inval + RUN + through_window(0xd1, 0, ref(8, 0)) + RUN
    yield "indirect-not-to-be-freed", head() + three + RUN + recv(0x100) + through_window(0x82, 0, ref(8, 0)) + RUN
    yield "indirect-tag", head() + three + RUN + layout(0, part(1, 8, 0), mask=1 << 6 | 1 << 14) + RUN + write + RUN
    yield "indirect-of-a-window", head() + window(1, 4, 0x100) + RUN + layout(0, part(1, 0, 0)) + RUN


KINDS = {name: n for n, name in enumerate(("write", "send", "read", "atomic", "dc-close", "read-response", "atomic-response", "ack",
                                           "nak"))}
FIRST, LAST_ONE, IMM, SOLICITED, ACK_REQ, INVAL = 1, 2, 4, 8, 0x10, 0x20
SERVICE_RC, SERVICE_UD, XRC_INI, DCI, DCT = 0, 2, 3, 5, 6
RC_A, RC_B, DCI_A, DCT_B = range(4)


def packet(kind, dest, src, psn=0, flags=FIRST | LAST_ONE | ACK_REQ, service=SERVICE_RC, payload=b"", atomic=None, words=None, nak=0, rnr=0, imm=0, rkey=1,
           mtu=4096, raddr=64, length=None):
    body = struct.pack("<8B8IQQ", KINDS[kind], flags, nak, rnr, service, 8 if atomic else 0, bool(atomic and atomic[0]), 0, dest, src, src & 1,
                       psn, imm, len(payload), rkey, mtu, raddr, len(payload) if length is None else length)
    body += struct.pack("<5Q", *atomic[1:]) if atomic else b""
    body += struct.pack("<3Q", *words) if words else b""
    body += payload
    return struct.pack("<H", len(body)) + body


def agent_answer_seeds():
    read, write, atomic, answer, strange, state, spoil, count = range(8)

    def program(*orders, first=1):
        return bytes([first] + [byte for order in orders for byte in order])

    small = [(read, 8), (write, 8), (atomic, 8), (atomic, 24), (read, 200), (write, 255)]
    yield "right", program((state, 5), *small, *[(answer, i) for i in range(6)])
    yield "backwards", program((state, 5), *small, *[(answer, 5 - i) for i in range(6)])
    yield "many", program(*[(write, 255)] * 20, (answer, 3), (answer, 4), (write, 255), (write, 255), *[(write, 1)] * 1100)
    yield "failed", program((write, 8), *[(write, 9)] * 15, (answer, 15))
    yield "twice", program((write, 8), (write, 8), (answer, 0), (answer, 0))
    yield "strange-id", program((write, 8), (strange, 0))
    yield "strange-id-of-a-slot-not-used", program((write, 8), (strange, 3))
    yield "too-many", program((write, 8), (count, 9), (write, 8))
    yield "ended", program((write, 8), (state, 6), (answer, 0))
    yield "spoilt", program((write, 8), (spoil, 65), (spoil, 2), (answer, 0))
    yield "spoilt-at-first", program((write, 8), first=8)
    yield "not-right", program((read, 0), (write, 0), (atomic, 5), (write, 128))


def packet_seeds():
    add, swap = (0, 5, 0, ~0 & 2**64 - 1, 0, 0), (1, 5, 0, ~0 & 2**64 - 1, ~0 & 2**64 - 1, 0)
    dc = (0x77, 1, 0xfffff0)
    write = packet("write", RC_B, RC_A, payload=b"x" * 100)
    yield "write", write
    yield "write-again", write * 3
    yield "write-large", packet("write", RC_B, RC_A, payload=b"y" * 3000)
    yield "write-of-two-packets", packet("write", RC_B, RC_A, flags=FIRST, payload=b"a" * 2000, length=3000) + \
        packet("write", RC_B, RC_A, psn=1, flags=LAST_ONE | IMM, payload=b"b" * 1000, imm=7)
    yield "write-that-ends-early", packet("write", RC_B, RC_A, flags=FIRST, payload=b"a" * 200, length=3000) + write
    yield "write-without-right", packet("write", RC_B, RC_A, payload=b"a" * 8, rkey=2)
    yield "send", packet("send", RC_B, RC_A, payload=b"hello", flags=FIRST | LAST_ONE | IMM | SOLICITED)
    yield "send-twice-with-one-receive", packet("send", RC_B, RC_A, payload=b"hello") + packet("send", RC_B, RC_A, psn=1, payload=b"again")
    yield "send-with-invalidate", packet("send", RC_B, RC_A, flags=FIRST | LAST_ONE | INVAL, imm=1)
    yield "read", packet("read", RC_B, RC_A, length=6000) + packet("read", RC_B, RC_A, length=6000)
    yield "read-chunk-no-power", packet("read", RC_B, RC_A, length=6000, mtu=4095)
    yield "atomics", packet("atomic", RC_B, RC_A, atomic=add) + packet("atomic", RC_B, RC_A, psn=1, atomic=swap)
    yield "gap", packet("write", RC_B, RC_A, psn=9, payload=b"z")
    yield "answers", packet("ack", RC_A, RC_B, psn=1) + packet("read-response", RC_A, RC_B, psn=2, flags=LAST_ONE, payload=b"r" * 64) + \
        packet("atomic-response", RC_A, RC_B, psn=3, flags=LAST_ONE, payload=b"8" * 8)
    yield "answer-too-long", packet("ack", RC_A, RC_B, psn=1) + packet("read-response", RC_A, RC_B, psn=2, flags=LAST_ONE, payload=b"r" * 65)
    for nak in range(6):
        yield f"nak-{nak}", packet("nak", RC_A, RC_B, nak=nak, rnr=31)
    yield "nak-unknown", packet("nak", RC_A, RC_B, nak=6)
    yield "dc-write", packet("write", DCT_B, DCI_A, service=DCI, words=dc, payload=b"d" * 30)
    yield "dc-atomic", packet("atomic", DCT_B, DCI_A, service=DCI, words=dc, atomic=add)
    yield "dc-close", packet("write", DCT_B, DCI_A, service=DCI, words=dc) + packet("dc-close", DCT_B, DCI_A, service=DCI, words=dc)
    yield "dc-from-another-sender", packet("write", DCT_B, RC_B, service=DCI, words=dc, payload=b"d" * 30)
    yield "dc-ack", packet("ack", DCI_A, DCT_B, service=DCT, words=dc)
    yield "dc-number-too-large", packet("write", DCT_B, DCI_A, service=DCI, words=(0x77, 1, 1 << 24))
    yield "xrc", packet("write", RC_B, RC_A, service=XRC_INI, words=(0, 0, 5))
    yield "unknown-flags", packet("write", RC_B, RC_A, flags=0x40)
    yield "unknown-kind", struct.pack("<H", 56) + bytes([9]) + bytes(55)
    yield "datagram", packet("send", RC_B, RC_A, service=SERVICE_UD)
    yield "cut-short", write[:40]
    yield "length-too-large", packet("write", RC_B, RC_A, length=(1 << 31) + 1)
    yield "longer-than-its-bytes", write[:-1]
    yield "nobody", packet("write", 0xffffff, 0xffffff, payload=b"w")


def config_seeds():
    yield "empty", b""
    yield "comments", b"# nothing\n\n   # more\n"
    yield "one", b"log-level = debug\n"
    yield "no-value", b"socket\n"
    yield "spaces", b"  soft-nics   =   4  \n\tspin-usec=\t7\n"
    yield "bytes", b"max-registered-bytes = 16G\nmax-qps = 1k\n"
    yield "too-large", b"soft-nics = 99999999999999999999999\n"
    yield "overflow-by-unit", b"max-registered-bytes = 18446744073709551615T\n"
    yield "negative", b"soft-nics = -1\n"
    yield "mode", b"socket-mode = 0660\nsocket-mode = 999\n"
    yield "unknown", b"colour = green\n"
    yield "long-value", b"socket = /" + b"a" * 400 + b"\n"
    yield "no-newline", b"backend = soft"
    yield "carriage-return", b"backend = soft\r\n"
    yield "nics", b"nics-include = mlx5_0:1, 0000:3b:00.0 ,3c:00.1:2\nnics-exclude=mlx5_9=storage,a:1=management\n"
    yield "map", b"gpu-nic-map = 0:mlx5_0:1 00000000:3B:00.0:0001:3c:00.0:2:1000,GPU-4a:mlx5_bond_0\n"
    yield "map-wrong", b"gpu-nic-map = 0:mlx5_0:256\n"


STATE_MAGIC = 0x6574617453646d68
LAST = (1 << 64) - 1


def record(key, data, bytes=None, length=None):
    """An extent; its sum is made by the harness."""
    need = bytes or -(-(40 + len(data)) // 64) * 64
    return (struct.pack("<IIQQQQ", 0x74784568, need, key, len(data) if length is None else length, 1, 0) + data).ljust(need, b"\0")


def free_extent(bytes=128):
    return record(0, b"", bytes, LAST)


def state(*extents, seal=7, version=7, n=None, end=None, mark=None, more=b"", magic=STATE_MAGIC):
    body = b"".join(extents)
    top = struct.pack("<QIIQQQQQ", magic, version, 0, 1, 4096 + len(body) if end is None else end, n or 0, 0, 0)
    return bytes([seal]) + top.ljust(128, b"\0") + struct.pack("<QQQQ", *(mark or (0, 0, 0, 0))) + body + more


def patch(offset, data):
    return struct.pack("<QQ", offset, len(data)) + data + bytes(-len(data) % 8)


def committed(*patches, body=b"", **more):
    """A journal that is to be applied."""
    journal = b"".join(patches)
    return state(body, more=journal, mark=(4096 + len(body), len(journal), 0, 0x74696d6d6f436d68), **more)


def state_seeds():
    three = record(1, b"one"), record(7, b"x" * 200), record(LAST, b"last")
    yield "nothing", state()
    yield "records", state(*three)
    yield "free", state(record(1, b"one"), free_extent(), free_extent(64), record(LAST, b"y" * 90))
    yield "large", state(record(3, b"z" * 1500, 2048), record(4, b"z" * 5000, 8192), free_extent(2048))
    yield "empty-record", state(record(5, b""))
    yield "unsealed", state(*three, seal=0)
    yield "wrong-number", state(*three, seal=2, n=7)
    yield "twice", state(record(1, b"one"), record(1, b"two"))
    yield "too-long", state(record(1, b"one", 64, 25))
    yield "strange-size", state(record(1, b"one", 100))
    yield "beyond-the-end", state(record(1, b"one"), end=4096 + 32)
    yield "end-beyond-the-file", state(record(1, b"one"), end=1 << 40)
    yield "another-version", state(*three, version=9)
    yield "version-3-second-head", b"\0" + bytes(48) + struct.pack("<QIIQQQQ", STATE_MAGIC, 3, 0, 1, 4096, 0, 0)
    yield "other-magic", state(*three, magic=1)
    body = record(1, b"one") + record(7, b"x" * 20)
    yield "journal", committed(patch(4096, record(2, b"two")), patch(4096 + 64, free_extent(64)), body=body)
    yield "journal-of-the-head", committed(patch(0, struct.pack("<QIIQQQQQ", STATE_MAGIC, 7, 0, 2, 4096, 0, 0, 0)), body=body)
    yield "journal-of-the-mark", committed(patch(128, bytes(32)), body=body)
    yield "journal-beyond-the-extents", committed(patch(4096 + 100, bytes(400)), body=body)
    yield "journal-cut", committed(patch(4096, bytes(24))[:-8], body=body)
    yield "journal-unsealed", committed(patch(4096, record(2, b"two")), body=body, seal=3)


def pmi(*pieces):
    """(rank, text) pieces, cut where they are too long for one; a rank from 4 on ends after its piece."""
    data = b""
    for rank, text in pieces:
        raw = text.encode("latin-1")
        while len(raw) > 255:
            data, raw = data + bytes([rank & 3, 255]) + raw[:255], raw[255:]
        data += bytes([rank, len(raw)]) + raw
    return data


def pmi_seeds():
    init = "cmd=init pmi_version=1 pmi_subversion=1\n"
    all_init = [(rank, init) for rank in range(3)]
    put, get = "cmd=put kvsname=shmd_fuzz key=k{} value=a b=c\n", "cmd=get kvsname=shmd_fuzz key=k{}\n"
    barrier, finalize = "cmd=barrier_in\n", "cmd=finalize\n"
    asks = "cmd=get_maxes\ncmd=get_appnum\ncmd=get_universe_size\ncmd=get_my_kvsname\n"
    yield "job", pmi(*all_init, *[(r, asks) for r in range(3)], *[(r, put.format(r)) for r in range(3)], *[(r, barrier) for r in range(3)],
                     *[(r, get.format((r + 1) % 3)) for r in range(3)], *[(r + 4, finalize) for r in range(3)])
    yield "pieces", pmi(*[(0, char) for char in init], (0, "cmd=get_ap"), (1, init), (0, "pnum\n"))
    yield "two-commands-in-one", pmi((0, init + asks + put.format(1) + get.format(1) + finalize))
    yield "version-2", pmi((0, "cmd=init pmi_version=2 pmi_subversion=0\n"), (1, "cmd=init\n"))
    yield "before-init", pmi((0, asks), (1, barrier), (2, "cmd=abort exitcode=7\n"))
    yield "after-finalize", pmi((0, init + finalize + asks))
    yield "init-twice", pmi((0, init + init))
    yield "barrier-twice", pmi((0, init + barrier + barrier))
    yield "barrier-without-one", pmi(*all_init, (0, barrier), (1, barrier), (6, ""))
    yield "barrier-after-finalize", pmi(*all_init, (2, finalize), (0, barrier), (1, barrier), (0, asks))
    yield "ended-in-a-barrier", pmi(*all_init, (4, barrier), (1, barrier))
    yield "put-twice", pmi((0, init + put.format(1) + put.format(1)))
    yield "put-wrong", pmi((0, init + "cmd=put kvsname=x key=a value=b\ncmd=put kvsname=shmd_fuzz key= value=b\ncmd=put kvsname=shmd_fuzz key=a\n"
                               "cmd=put\ncmd=put kvsname=shmd_fuzz key=a value=\n"))
    yield "key-of-64", pmi((0, init + put.format("k" * 63) + put.format("k" * 62) + get.format("k" * 62)))
    yield "value-of-1024", pmi((0, init + "cmd=put kvsname=shmd_fuzz key=a value=" + "v" * 1023 + "\n" + "cmd=get kvsname=shmd_fuzz key=a\n"
                                   "cmd=put kvsname=shmd_fuzz key=b value=" + "v" * 1024 + "\n"))
    yield "get-mapping", pmi((0, init + "cmd=get kvsname=shmd_fuzz key=PMI_process_mapping\ncmd=get kvsname=y key=k\ncmd=get\n"))
    yield "names", pmi((0, init + "cmd=publish_name service=a port=b\ncmd=lookup_name service=a\ncmd=unpublish_name service=a\n"))
    yield "spawn", pmi((0, init + "mcmd=spawn\nnprocs=1\nexecname=a\nendcmd\n" + asks), (1, "mcmd=spawn\n"), (2, init + "mcmd=dance\n"))
    yield "spawn-too-long", pmi((0, init + "mcmd=spawn\n"), *[(0, ("x" * 254 + "\n")) for _ in range(260)])
    yield "line-too-long", pmi((0, init), *[(0, "x" * 255) for _ in range(17)])
    yield "abort", pmi((0, init + "cmd=abort\ncmd=abort exitcode=0\ncmd=abort exitcode=-1\ncmd=abort exitcode=99999999999\n"))
    for name, text in (("empty-line", "\n"), ("no-equals", "cmd\n"), ("no-command", "cmd=\n"), ("other-word", "foo=bar\n"), ("unknown", "cmd=dance\n"),
                       ("control", "cmd=init\tx=1\n"), ("nul", "cmd=in\0it\n"), ("high", "cmd=\xff\xfe\n"), ("no-name", "cmd=init =1\n"),
                       ("blanks", "cmd=init   pmi_version=1   pmi_subversion=1  \n")):
        yield "hostile-" + name, pmi((0, text), (1, init + text))
    for n in (7, 8, 10):
        yield f"fields-{n}", pmi((0, init + "cmd=get" + "".join(f" f{i}=1" for i in range(n)) + "\n"))


def bootstrap_seeds():
    """The first byte chooses the parser; tests/fuzz/fuzz-bootstrap.c has them in this order."""
    hello = struct.pack("<IIIIH", 1, 3, 5, 0, 4711) + b"0.1.0".ljust(16, b"\0") + b"instance".ljust(16, b"\0") + b"nonce".ljust(18, b"\0")
    yield "hello", b"\0" + hello
    yield "hello-rank-beyond-size", b"\0" + struct.pack("<IIII", 2, 5, 5, 0)
    yield "hello-version-of-control-characters", b"\0" + struct.pack("<IIIIH", 1, 0, 1, 0, 1) + b"\x01" * 16
    yield "challenge", b"\0SHMc" + struct.pack("<I", 1) + bytes(16)
    yield "raw-hello", b"\0SHMh" + struct.pack("<IIIII", 1, 1, 3, 5, 0) + bytes(104)
    four = struct.pack("<iIIHH", 0, 9, 1, 2, 80 << 8) + bytes((127, 0, 0, 1)) + bytes(20)
    six = struct.pack("<iIIHH", -17, 9, 0, 10, 80 << 8) + bytes(4) + bytes(15) + b"\1" + bytes(4)
    yield "reply", b"\1" + four
    yield "refusal", b"\1" + six + b"a sentence"
    yield "reply-with-endless-text", b"\1" + four + b"x" * 400
    yield "raw-reply", b"\1SHMr" + struct.pack("<I", 1) + bytes(376)
    uid = b"shu1" + b"s" * 16 + bytes((0, 2)) + struct.pack(">HB", 4711, 8) + bytes((4, 127, 0, 0, 1)) + bytes(12) + b"\6" + bytes(15) + b"\1"
    yield "id", b"\2" + uid
    yield "id-of-too-many-addresses", b"\2" + uid[:21] + b"\7" + uid[22:]
    yield "id-of-an-unknown-family", b"\2" + uid[:25] + b"\5" + uid[26:]
    yield "id-of-ports-beyond-the-last", b"\2" + uid[:22] + b"\xff\xff\x10" + uid[25:]
    yield "id-as-text", b"\3shmd-" + uid.hex().encode() + b"\n"
    yield "text-with-other-letters", b"\3shmd-" + uid.hex().upper().encode()
    yield "text-too-long", b"\3shmd-" + uid.hex().encode() + b"0" * 400
    yield "pmi-1", b"\4cmd=get_result rc=0 msg=success value=abcdefgh\n"
    yield "pmi-2", b"\4    42cmd=kvs-get-response;flag=TRUE;value=abc;rc=0;"
    yield "pmi-value-too-long", b"\4cmd=x value=" + b"y" * 100
    frame = struct.pack("<BBHIQII", 1, 1, 0, 3, 7, 4, 4) + b"abcd"
    yield "frames", b"\5" + frame + struct.pack("<BBHIQII", 7, 0, 0, 2, 0, 0, 0)
    yield "frame-cut-short", b"\5" + frame[:-2]
    yield "frame-of-a-strange-rank", b"\5" + struct.pack("<BBHIQII", 1, 1, 0, 5, 7, 4, 4)
    yield "frame-of-a-strange-type", b"\5" + struct.pack("<BBHIQII", 99, 1, 0, 1, 7, 4, 4)
    yield "frame-of-4-gib", b"\5" + struct.pack("<BBHIQII", 1, 1, 0, 1, 7, 4, 0xffffffff)


# ---- requests to a memory agent: see fuzz-agent-requests.c -------------------------------------------------------------------

ASK_READ, ASK_WRITE, ASK_ADD, ASK_SWAP = 1, 2, 3, 4
AGENT_DATA, AGENT_DATA_END = 4096 + 1024 * (128 + 64), 4096 + 1024 * (128 + 64) + (8 << 20)


def agent_ring(*requests, how=0):
    return bytes([how]) + b"".join(requests)


def asked(op, addr=0x10000, size=8, data=0, rest=b""):
    return struct.pack("<IB3xQQQ", 7, op, addr, size, data) + rest.ljust(40, b"\0")


def asked_seeds():
    masks = struct.pack("<QQQQQ", 1, 2, 2**64 - 1, 2**64 - 1, 0x80)
    yield "each", agent_ring(asked(ASK_WRITE, rest=b"x" * 40), asked(ASK_READ), asked(ASK_ADD, rest=masks), asked(ASK_SWAP, rest=masks))
    yield "by-data-area", agent_ring(asked(ASK_WRITE, size=4096, data=AGENT_DATA), asked(ASK_READ, size=100, data=AGENT_DATA_END - 100))
    yield "data-area-ends", agent_ring(asked(ASK_WRITE, size=101, data=AGENT_DATA_END - 100), asked(ASK_READ, data=AGENT_DATA - 1))
    yield "longest-inline", agent_ring(asked(ASK_WRITE, size=64), asked(ASK_READ, size=40))
    yield "too-long-inline", agent_ring(asked(ASK_WRITE, size=65), asked(ASK_READ, size=41))
    yield "to-the-end-of-a-region", agent_ring(asked(ASK_WRITE, 0x10ff8), asked(ASK_READ, 0x20000, 3), asked(ASK_READ, 2**64 - 4096, 4095, AGENT_DATA))
    yield "behind-a-region", agent_ring(asked(ASK_WRITE, 0x10ffa), asked(ASK_READ, 0x20001, 3), asked(ASK_READ, 2**64 - 9, 9), asked(ASK_READ, 0xffff))
    yield "wraps-around", agent_ring(asked(ASK_READ, 2**64 - 1, 2), asked(ASK_READ, size=2**64 - 1, data=AGENT_DATA), asked(ASK_READ, data=2**64 - 4))
    yield "atomics-of-odd-places", agent_ring(asked(ASK_ADD, 0x10004), asked(ASK_ADD, 0x10004, 4, rest=masks), asked(ASK_ADD, size=2))
    yield "unknown", agent_ring(asked(0), asked(5), asked(255))
    yield "nothing", agent_ring(asked(ASK_READ, size=0))
    yield "no-generation", agent_ring(asked(ASK_READ), how=1)
    yield "count-that-cannot-be", agent_ring(asked(ASK_READ), how=2)


def main():
    root = pathlib.Path(sys.argv[1])
    for folder, seeds in (("agent-answers", agent_answer_seeds), ("wqe", wqe_seeds), ("wqe", layout_seeds), ("engine", engine_seeds), ("engine", window_seeds), ("engine", indirect_seeds),
                          ("engine", unreliable_seeds), ("engine", stream_seeds), ("engine", xrc_seeds), ("engine", ledger_seeds), ("packet", packet_seeds), ("pmi", pmi_seeds),
                          ("config", config_seeds), ("state", state_seeds), ("bootstrap", bootstrap_seeds), ("agent-requests", asked_seeds)):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for name, data in seeds():
            (root / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
