#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The values in the mlx5 backend's commands, beside those that other programs set in the same commands.

usage: mlx5-values.py (LINK OURS_RC OURS_DC UCX_RC UCX_DC RDMA_CORE)...

OURS_* are tests/data/mlx5-trace-*; the others are what `mlx5sim --trace` wrote while UCX's rc_mlx5 and dc_mlx5 and rdma-core's
own DEVX test ran on ports of that LINK. Prints a line for each field that somebody sets: the values of each, and where
they differ, why. Numbers of objects and addresses are only set or not ("*"). A difference without a reason below is an error,
and so is a reason that nothing needs.
"""
import re
import sys

KINDS = ('CREATE_CQ', 'CREATE_QP', 'RST2INIT_QP', 'INIT2RTR_QP', 'RTR2RTS_QP', 'CREATE_DCT', 'CREATE_RMP')
HEAD = re.compile(r'(\S+) in, \d+ bytes$')
FIELD = re.compile(r'  0x[0-9a-f]+/\d+\s+(\S.*\S) = (\S+)$')

# Which object, and where things lie: every program has others.
NUMBERS = {
    'QPN', 'QPC.PD', 'QPC.UAR_PAGE', 'CQC.UAR_PAGE', 'QPC.CQN_SND', 'QPC.CQN_RCV', 'QPC.DBR_ADDR', 'CQC.DBR_ADDR',
    'QPC.DBR_UMEM_ID', 'CQC.DBR_UMEM_ID', 'UMEM_ID', 'UMEM_OFFSET', 'CQC.EQN', 'QPC.REMOTE_QPN', 'QPC.PATH.RGID', 'QPC.PATH.RMAC',
    'QPC.PATH.RLID', 'QPC.SRQN', 'QPC.COUNTER_SET_ID', 'DCTC.CQN', 'DCTC.PD', 'DCTC.SRQN', 'DCTC.DC_ACCESS_KEY',
    'QPC.DC_ACCESS_KEY', 'DCTC.COUNTER_SET_ID', 'RMPC.WQ.PD', 'RMPC.WQ.DBR_ADDR', 'RMPC.WQ.DBR_UMEM_ID', 'RMPC.WQ.UMEM_ID',
    'RMPC.WQ.UMEM_OFFSET', 'QPC.USER_INDEX', 'DCTC.USER_INDEX', 'QPC.NEXT_RCV_PSN',
    'QPC.NEXT_SEND_PSN',
}

# libmlx5 itself sends such commands for the queue of its steering: providers/mlx5/dr_devx.c of rdma-core, read and not run.
# RoCE only. Its sizes and attributes are its caller's: "*".
LIBMLX5 = {
    'CREATE_QP': {'QPC.PM_STATE': '0x3', 'QPC.PD': '*', 'QPC.UAR_PAGE': '*', 'QPC.CQN_SND': '*', 'QPC.CQN_RCV': '*',
                  'QPC.LOG_SQ_SIZE': '*', 'QPC.LOG_RQ_STRIDE': '*', 'QPC.LOG_RQ_SIZE': '*', 'QPC.DBR_UMEM_ID': '*', 'UMEM_ID': '*'},
    'RST2INIT_QP': {'QPN': '*', 'QPC.PATH.PORT': '0x1', 'QPC.PM_STATE': '0x3', 'QPC.RRE': '0x1', 'QPC.RWE': '0x1'},
    'INIT2RTR_QP': {'QPN': '*', 'QPC.MTU': '*', 'QPC.LOG_MSG_MAX': '*', 'QPC.REMOTE_QPN': '*', 'QPC.PATH.RMAC': '*', 'QPC.PATH.RGID': '*',
                    'QPC.PATH.SRC_ADDR_INDEX': '*', 'QPC.PATH.UDP_SPORT': '0xc34f', 'QPC.PATH.PORT': '0x1',
                    'QPC.MIN_RNR_NAK': '0x1'},
}

# (kind of command or '', field): why ours is not theirs.
REASONS = {
    ('', 'CQC.LOG_CQ_SIZE'): 'a size is what the caller asks for',
    ('', 'QPC.LOG_SQ_SIZE'): 'a size is what the caller asks for',
    ('', 'QPC.LOG_RQ_SIZE'): 'a size is what the caller asks for',
    ('', 'QPC.CS_REQ'): 'UCX has small answers of reads and atomics put into CQEs; kernels here find results where they asked for them',
    ('', 'QPC.CS_RES'): 'UCX has small messages put into CQEs; here they are in the memory of the receive',
    ('', 'DCTC.CS_RES'): 'UCX has small messages put into CQEs; a DCT here takes none',
    ('', 'QPC.DBR_UMEM_VALID'): 'UCX and libmlx5 rely on a firmware that takes a number that is not 0; the bit says so to every one',
    ('', 'UMEM_VALID'): 'UCX and libmlx5 rely on a firmware that takes a number that is not 0; the bit says so to every one',
    ('CREATE_QP', 'QPC.RQ_TYPE'): 'UCX receives from a shared queue; here from a ring of its own, and a DCI not at all',
    ('CREATE_QP', 'QPC.TS_FORMAT'): "rdma-core's test asks for free-running time stamps; nobody reads them here, 0 is the default",
    ('RST2INIT_QP', 'QPC.ATOMIC_MODE'): 'the rights of a responder are given here at once; the others give them at INIT2RTR, by a mask',
    ('RST2INIT_QP', 'QPC.RAE'): 'the rights of a responder are given here at once; the others give them at INIT2RTR, by a mask, or have none',
    ('RST2INIT_QP', 'QPC.RRE'): 'the rights of a responder are given here at once; UCX gives them at INIT2RTR, by a mask',
    ('INIT2RTR_QP', 'OPT_PARAM_MASK'): 'of an RC QP all rights are known since RST2INIT, so no parameter is optional; UCX adds them here',
    ('INIT2RTR_QP', 'QPC.ATOMIC_MODE'): "rdma-core's test and libmlx5 have no atomics",
    ('INIT2RTR_QP', 'QPC.LOG_RRA_MAX'): "rdma-core's test and libmlx5 answer no reads",
    ('INIT2RTR_QP', 'QPC.RAE'): "rdma-core's test and libmlx5 have no atomics",
    ('INIT2RTR_QP', 'QPC.RRE'): 'given at RST2INIT there',
    ('INIT2RTR_QP', 'QPC.RWE'): 'given at RST2INIT there',
    ('INIT2RTR_QP', 'QPC.LOG_MSG_MAX'): "rdma-core's test sends less; 2^30 is what UCX says and the NIC can",
    ('INIT2RTR_QP', 'QPC.MTU'): "the port's; rdma-core's test says 1024 whatever the port has",
    ('INIT2RTR_QP', 'QPC.MIN_RNR_NAK'): 'the client says it here (min_rnr_timer); 10 us, as libmlx5, where it does not',
    ('CREATE_DCT', 'DCTC.MIN_RNR_NAK'): 'the client says it here (min_rnr_timer)',
    ('INIT2RTR_QP', 'QPC.PATH.DSCP'): 'UCX sets traffic class 106 on RoCE; here the client says it (traffic_class), 0 by default',
    ('CREATE_DCT', 'DCTC.DSCP'): 'UCX sets traffic class 106 on RoCE; here the client says it (traffic_class), 0 by default',
    ('CREATE_DCT', 'DCTC.TCLASS'): 'UCX sets traffic class 106 on RoCE; here the client says it (traffic_class), 0 by default',
    ('INIT2RTR_QP', 'QPC.PATH.HOP_LIMIT'): "UCX 255, libmlx5's peer is itself; 64 is rdma-core's test and the default of IP",
    ('CREATE_DCT', 'DCTC.HOP_LIMIT'): 'UCX 255; 64 is the default of IP',
    ('RST2INIT_QP', 'QPC.PM_STATE'): "migrated, as UCX and libmlx5; rdma-core's test has said it at CREATE_QP",
    ('INIT2RTR_QP', 'QPC.PM_STATE'): 'said before, at RST2INIT; UCX says it again for a DCI',
    ('RTR2RTS_QP', 'QPC.PM_STATE'): 'said before, at RST2INIT; UCX says it again for a DCI',
    ('INIT2RTR_QP', 'QPC.PATH.PORT'): 'the port of RST2INIT, said again; UCX does not for a DCI',
    ('RTR2RTS_QP', 'QPC.PATH.PORT'): "said before; rdma-core's test says it again",
    ('RTR2RTS_QP', 'QPC.PATH.ACK_TIMEOUT'): 'the client says it here (timeout)',
    ('RTR2RTS_QP', 'QPC.LOG_ACK_REQ_FREQ'): 'UCX lets a DCI ask for an acknowledgement every 256 packets; 0 asks with each, as the RC QPs of all four',
}


def values(path, kinds=KINDS):
    """{kind: [{field: value}, ...]}: one dictionary a command."""
    seen, current = {}, None
    for line in open(path, encoding='utf-8'):
        head, field = HEAD.match(line), FIELD.match(line)
        if head:
            current = {} if head[1] in kinds else None
            if current is not None:
                seen.setdefault(head[1], []).append(current)
        elif field and current is not None and field[1] != 'OPCODE':
            current[field[1]] = '*' if field[1] in NUMBERS else field[2]
    return seen


def column(commands, field):
    """The values of all commands of a kind; 0 is where a field was not set."""
    return sorted({command.get(field, '0') for command in commands})


def agree(ours, theirs):
    return '*' in theirs or '*' in ours or set(ours) & set(theirs)


def rows(link, kind, ours, others):
    fields = sorted({field for commands in [ours, *others.values()] for command in commands for field in command})
    for field in fields:
        mine = column(ours, field)
        columns = {name: column(commands, field) for name, commands in others.items() if commands}
        differing = [name for name, theirs in columns.items() if not agree(mine, theirs)]
        text = '; '.join(f'{name} {",".join(theirs)}' for name, theirs in columns.items())
        yield f'{link} {kind} {field}: {",".join(mine)}; {text}', differing, (kind, field)


def compare(link, ours_rc, ours_dc, ucx_rc, ucx_dc, tests):
    """Prints the lines of one link; the names of reasons used, and whether one was missing."""
    ours = {'RC': values(ours_rc), 'DC': values(ours_dc)}
    theirs = {'RC': {'UCX': values(ucx_rc), 'rdma-core': values(tests)}, 'DC': {'UCX': values(ucx_dc)}}
    if link == 'roce':
        theirs['RC']['libmlx5'] = {kind: [fields] for kind, fields in LIBMLX5.items()}
    bad, used = False, set()
    for service, kind in [(service, kind) for service in ours for kind in KINDS]:
        others = {name: seen.get(kind, []) for name, seen in theirs[service].items()}
        if kind not in ours[service] or not any(others.values()):
            continue
        for text, differing, key in rows(f'{link} {service}', kind, ours[service][kind], others):
            name = key if key in REASONS else ('', key[1])
            reason = REASONS.get(name, 'NO REASON')
            print(text + (f' -- {reason}' if differing else ''))
            if differing:
                used.add(name)
                bad |= name not in REASONS
    return used, bad


def main():
    used, bad = set(), False
    for i in range(1, len(sys.argv), 6):
        used_here, bad_here = compare(*sys.argv[i:i + 6])
        used |= used_here
        bad |= bad_here
    for name in sorted(set(REASONS) - used):
        print(f'no difference needs the reason of {" ".join(name)}')
        bad = True
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
