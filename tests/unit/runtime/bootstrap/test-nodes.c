/* SPDX-License-Identifier: Apache-2.0 */
/* A job on two nodes, which are namespaces of networks: a rank's address may mean nothing on the other node. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define OUTPUT_BYTES 16384
#define N_RANKS 12

static int run(const char *command, char output[OUTPUT_BYTES])
{
	FILE *stream = popen(command, "r");
	size_t n;

	ASSERT(stream);
	n = fread(output, 1, OUTPUT_BYTES - 1, stream);
	output[n] = 0;
	return pclose(stream);
}

TEST_TIMEOUT(ranks_meet_across_nodes_although_the_first_calls_itself_loopback, 150)
{
	char output[OUTPUT_BYTES], line[64];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	status = run("unshare -U -r -n -m " SHMD_TEST_NODES " " SHMD_TEST_RANK " 2>&1", output);
	if (!strstr(output, "two nodes"))
		test_skip("this user may not make namespaces of networks");
	printf("%s\n", output);
	ASSERT_EQ(status, 0);
	for (int rank = 0; rank < N_RANKS; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d by torchrun, %d of 6 on this node\n", rank, N_RANKS, rank % 6);
		ASSERT(strstr(output, line));
	}
}
