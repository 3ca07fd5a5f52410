/* SPDX-License-Identifier: Apache-2.0 */
/* Relocatable code of a kernel for blocks of 1,024 threads, which leave 64 registers to each: it is compiled, never run. */
#include <shmd/dev/pe.h>

extern "C" __global__ void __launch_bounds__(1024) large_block(struct shmd_dev_ctx *ctx, struct shmd_dev_put_item put, struct shmd_dev_pe_signal signal,
								int *ret_status)
{
	struct shmd_dev_mode block = shmd_dev_ctx_mode(ctx, SHMD_DEV_BLOCK);

	ret_status[0] = shmd_dev_put_as(ctx, put.dest, put.source, put.bytes, put.pe, block);
	ret_status[1] = shmd_dev_put_signal_as(ctx, put, signal, block);
}
