/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option --trace: commands in words, as the daemon's own trace has them. A file of its own, since "struct nic" is
 * another one there. Any thread: a command is one write.
 */
#include "daemon/nic/mlx5/mlx5-cmd.h"
#include "tests/mlx5sim/sim/fw-trace.h"

void fw_trace(FILE *to, const void *in, size_t bytes)
{
	char text[16384];

	if (!to)
		return;
	mlx5_cmd_dump(text, sizeof(text), in, bytes, 0);
	flockfile(to);
	fputs(text, to);
	fflush(to);
	funlockfile(to);
}
