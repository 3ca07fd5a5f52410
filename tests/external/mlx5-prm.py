#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the mlx5 backend, decoded by structures that we did not write: those of rdma-core's own tests.

usage: mlx5-prm.py STRUCTS TRACE...

STRUCTS is rdma-core's tests/mlx5_prm_structs.py, plain or gzipped. A TRACE is one of tests/data/mlx5-trace-*: its lines say
which bits are set and what we call them. The bytes they make are decoded by rdma-core's structure of that command, and
every field must come out there under its own name with the same value, no other field set, nothing in reserved bits.
Prints a line for each kind of command; those that rdma-core has no structure for are said so.
"""
import gzip
import re
import sys

STRUCTS = {
    'QUERY_HCA_CAP': 'QueryHcaCapIn', 'CREATE_CQ': 'CreateCqIn', 'CREATE_QP': 'CreateQpIn',
    'RST2INIT_QP': 'ModifyQpIn', 'INIT2RTR_QP': 'ModifyQpIn', 'RTR2RTS_QP': 'ModifyQpIn', '2ERR_QP': 'ModifyQpIn',
    '2RST_QP': 'ModifyQpIn', 'QUERY_QP': 'QueryQpIn',
}
# Ours -> theirs, where more than the case differs.
NAMES = {
    'cqc': 'sw_cqc', 'qpc': 'sw_qpc', 'path': 'primary_address_path', 'eqn': 'c_eqn', 'rgid': 'rgid_rip',
    'port': 'vhca_port_num', 'cqc.dbr_addr': 'db_record_addr',
}
NAMES_OF = {
    'CREATE_CQ': {'umem_id': 'cq_umem_id', 'umem_valid': 'cq_umem_valid',
                  'umem_offset': 'e_mtt_pointer_or_cq_umem_offset'},
    'CREATE_QP': {'umem_id': 'wq_umem_id', 'umem_valid': 'wq_umem_valid',
                  'umem_offset': 'e_mtt_pointer_or_wq_umem_offset'},
}
HEAD = re.compile(r'(\S+) in, (\d+) bytes$')
FIELD = re.compile(r'  0x([0-9a-f]+)/(\d+)\s+(\S+) = (\S+)$')
ANY = 0xa5a5a5a5a5a5a5a5


def load(path):
    opened = gzip.open(path, 'rt') if path.endswith('.gz') else open(path, encoding='utf-8')
    with opened as file:
        space = {'__name__': 'mlx5_prm_structs'}
        exec(compile(file.read(), path, 'exec'), space)  # pylint: disable=exec-used
    # They are for encoding: what follows an embedded structure belongs to the one around it.
    space['Packet'].extract_padding = lambda self, rest: (b'', rest)
    return space


def number(text, width, name):
    if text == '*':
        return ANY & ((1 << width) - 1)
    return int(text, 16)


def theirs(command, ours):
    parts = ours.lower().split('.')
    last = parts[-1]
    if '.'.join(parts[-2:]) in NAMES:
        last = NAMES['.'.join(parts[-2:])]
    elif len(parts) == 1:
        last = NAMES_OF.get(command, {}).get(last, last)
    else:
        last = NAMES.get(last, last)
    return '.'.join([NAMES.get(part, part) for part in parts[:-1]] + [last])


def commands(path):
    """(name, bytes, {their name: value}) of each command of a trace."""
    current = None
    for line in open(path, encoding='utf-8'):
        head, field = HEAD.match(line), FIELD.match(line)
        if head:
            if current:
                yield current
            current = (head[1], [0, int(head[2])], {})
        elif field:
            bit, width = int(field[1], 16), int(field[2])
            value = number(field[4], width, field[3])
            current[1][0] |= value << (current[1][1] * 8 - bit - width)
            current[2][theirs(current[0], field[3])] = value
    yield current


def plain(value):
    if isinstance(value, str):  # a MAC
        return int(value.replace(':', ''), 16)
    if isinstance(value, bytes):
        return int.from_bytes(value, 'big')
    if isinstance(value, list):
        return sum(part << 32 * i for i, part in enumerate(reversed(value)))
    return value


def flatten(packet, prefix=''):
    for field in packet.fields_desc:
        value = packet.getfieldval(field.name)
        if hasattr(value, 'fields_desc'):
            yield from flatten(value, prefix + field.name + '.')
        elif not (isinstance(value, list) and field.name == 'pas'):
            yield prefix + field.name, plain(value) if value is not None else 0


def joined(fields):
    """rdma-core has the address of a CQ's record in two fields, the second without its three low bits."""
    high, low = 'sw_cqc.db_record_addr_63_32', 'sw_cqc.db_record_addr_31_3'
    if high in fields or low in fields:
        fields['sw_cqc.db_record_addr'] = fields.pop(high, 0) << 32 | fields.pop(low, 0) << 3
    return fields


def compare(structs, trace):
    for name, (bits, size), wanted in commands(trace):
        if name not in STRUCTS:
            yield name, None, []
            continue
        packet = structs[STRUCTS[name]](bits.to_bytes(size, 'big'))
        got = joined({field: value for field, value in flatten(packet) if value})
        wrong = [f'{field}: ours {wanted.get(field, 0):#x}, theirs {got.get(field, 0):#x}'
                 for field in sorted(set(wanted) | set(got)) if wanted.get(field, 0) != got.get(field, 0)]
        yield name, len(wanted), wrong


def main():
    structs = load(sys.argv[1])
    bad = False
    for trace in sys.argv[2:]:
        seen = {}
        for name, n_fields, wrong in compare(structs, trace):
            text = f'{n_fields} fields as {STRUCTS[name]}' if n_fields else 'no structure there'
            seen.setdefault(f'{trace.rsplit("/", 1)[-1]} {name}: {text}', []).extend(wrong)
        for line, wrong in seen.items():
            print(line)
            for one in wrong:
                print(f'  differs: {one}')
                bad = True
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
