# SPDX-License-Identifier: Apache-2.0
"""The functions of libshmd_device.bc: their arguments, "l" for 64 bits, "i" for 32. A test compares them with kernels/bitcode/device.cu."""

# Each of them as _thread, _warp and _block.
SCOPED = {
    "put": "lllli",  # ctx, dest, source, bytes, pe
    "put_nbi": "lllli",
    "get": "lllli",
    "get_nbi": "lllli",
    "p": "lllii",  # ctx, dest, value, bytes, pe
    "g": "lllii",  # ctx, ret_value, source, bytes, pe
    "put_signal": "llllllii",  # ctx, dest, source, bytes, word, value, op, pe
    "put_signal_nbi": "llllllii",
    "signal": "lllii",  # ctx, word, value, op, pe
    "wait_until": "lliil",  # ctx, word, bytes, cmp, value
    "test": "lliil",
    "atomic": "lliilli",  # ctx, dest, op, bytes, value, compare, pe
    "atomic_fetch": "llliilli",  # ctx, ret_value, dest, op, bytes, value, compare, pe
    "quiet": "l",  # ctx
    "quiet_pe": "li",
    "sync": "ll",  # ctx, team
    "barrier": "ll",
    "broadcast": "llllli",  # ctx, team, dest, source, bytes, root
    "fcollect": "lllll",  # ctx, team, dest, source, bytes
    "alltoall": "lllll",
    "reduce": "lllllii",  # ctx, team, dest, source, n, type, op
    "reduce_scatter": "lllllii",
}

# Without a scope: each thread for itself.
PLAIN = {
    "fence": "l",  # ctx
    "fence_pe": "li",
    "my_pe": "l",
    "n_pes": "l",
    "team_my_pe": "l",  # team
    "team_n_pes": "l",
    "team_translate": "lil",  # from, pe, to
    "signal_fetch": "l",  # word
    "ptr": "lli",  # ctx, address, pe
}

# These return 64 bits, the others a status or a number of 32.
WIDE = {"signal_fetch", "ptr"}
