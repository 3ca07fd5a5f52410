#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packets of our codec, judged by an implementation we did not write: libprotobuf, which the compiler brings.

Each released packet must become text without unknown fields, and that text must become the same bytes again.
"""
import pathlib
import re
import subprocess
import sys

UNKNOWN_FIELD = re.compile(r'^\s*\d+[:\s]', re.M)


def convert(compiler, proto, mode, data):
    return subprocess.run([compiler, f'--proto_path={proto.parent}', f'--{mode}=shmemd.Envelope', proto.name],
                          input=data, capture_output=True, check=False)


def judge(compiler, proto, packet):
    """None, or what is wrong."""
    text = convert(compiler, proto, 'decode', packet)
    if text.returncode or text.stderr:
        return f'not accepted: {text.stderr.decode().strip()}'
    if UNKNOWN_FIELD.search(text.stdout.decode()):
        return 'holds a field that the .proto has not'
    again = convert(compiler, proto, 'encode', text.stdout)
    if again.returncode or again.stdout != packet:
        return f'encodes to other bytes: {again.stdout.hex()}, ours {packet.hex()}'
    return None


def main():
    compiler, proto, corpus = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    packets = sorted(corpus.glob('valid-*'))
    problems = [f'{packet.name}: {wrong}' for packet in packets
                if (wrong := judge(compiler, proto, packet.read_bytes()))]
    # The judge must be able to say no.
    for bad in (b'\x08', b'\x52\x02\x48\x01', b'\x08\x05\x08\x05'):
        if not judge(compiler, proto, bad):
            problems.append(f'{bad.hex()} passed, and must not')
    print('\n'.join([*problems, f'{len(packets)} packets, {len(problems)} problems']))
    return 1 if problems or not packets else 0


if __name__ == '__main__':
    sys.exit(main())
