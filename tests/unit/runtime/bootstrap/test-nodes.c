/* SPDX-License-Identifier: Apache-2.0 */
/* A job on two nodes, which are namespaces of networks: a rank's address may mean nothing on the other node, and a node may be lost. */
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

/* The output is that of all ranks. Skips the test where namespaces cannot be made. */
static void run_two_nodes(const char *how, char output[OUTPUT_BYTES])
{
	char command[1024];
	int status;

	if (test_emulator())
		test_skip("the kernel cannot start programs for an emulator");
	snprintf(command, sizeof(command), "unshare -U -r -n -m " SHMD_TEST_NODES " " SHMD_TEST_RANK " %s 2>&1", how);
	status = run(command, output);
	if (!strstr(output, "two nodes"))
		test_skip("this user may not make namespaces of networks");
	printf("%s\n", output);
	ASSERT_EQ(status, 0);
}

TEST_WAITS(ranks_meet_across_nodes_although_the_first_calls_itself_loopback, 150)
{
	char output[OUTPUT_BYTES], line[64];

	run_two_nodes("", output);
	for (int rank = 0; rank < N_RANKS; rank++) {
		snprintf(line, sizeof(line), "rank %d of %d by torchrun, %d of 6 on this node\n", rank, N_RANKS, rank % 6);
		ASSERT(strstr(output, line));
	}
}

/* The link between them is set down, so no kernel reports the ends of connections. Each rank gives the other node 2 s. */
TEST_WAITS(ranks_hear_of_all_ranks_of_a_node_that_is_lost, 240)
{
	char output[OUTPUT_BYTES], line[64];

	run_two_nodes("lost", output);
	for (int i = 0; i < N_RANKS * N_RANKS; i++) {
		int rank = i / N_RANKS, other = i % N_RANKS;
		bool is_here = rank / (N_RANKS / 2) == other / (N_RANKS / 2);

		snprintf(line, sizeof(line), "rank %d hears that rank %d has ended\n", rank, other);
		ASSERT_EQ(!!strstr(output, line), !is_here);
	}
}
