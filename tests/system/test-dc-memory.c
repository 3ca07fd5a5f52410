/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a session with dynamic connections, with a few peers and with thousands: daemon, queue memory, quota.
 * Addresses of peers are copies of a real one under other numbers and keys.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "daemon/nic/nic.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define N_FEW 16u
#define N_MANY 4096u
/* Buffers of one request are the heap's to keep; a peer would be 64 bytes. */
#define SLACK_BYTES (N_MANY * 64u / 4)

/*
 * All that the process has written to, queues that clients map too among it. The rest is its program and libraries,
 * whose share changes with what else runs.
 */
static uint64_t written_bytes(pid_t pid)
{
	uint64_t kib = 0, n;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "re");
	if (!f)
		test_skip("this kernel has no smaps_rollup");
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Private_Dirty: %" SCNu64, &n) == 1 || sscanf(line, "Shared_Dirty: %" SCNu64, &n) == 1 ||
		    sscanf(line, "Swap: %" SCNu64, &n) == 1)
			kib += n;
	fclose(f);
	ASSERT_GT(kib, 0u);
	return kib << 10;
}

static void make_addrs(const struct shmd_dct *dct, struct shmd_addr *addrs)
{
	struct nic_addr addr;

	ASSERT_OK(shmd_dct_addr(dct, &addrs[0]));
	ASSERT_OK(nic_addr_decode(addrs[0].data, addrs[0].bytes, &addr));
	for (unsigned int i = 1; i < N_MANY; i++) {
		addr.qpn = 0x1000 + i;
		addr.dc_key += 0x9e3779b97f4a7c15u;
		addrs[i].bytes = (uint32_t)nic_addr_encode(&addr, addrs[i].data);
	}
}

static void resolve(struct lab_side *side, const struct shmd_addr *addrs, struct shmd_dev_peer *peers, unsigned int n)
{
	ASSERT_OK(shmd_peers_resolve(side->nic, n, addrs, 0, peers, NULL));
	for (unsigned int i = 1; i < n; i++)
		ASSERT_EQ(peers[i].dctn, 0x1000 + i);
	ASSERT_OK(shmd_queues_set_peers(side->queues, n, peers));
}

TEST(daemon_and_queue_memory_do_not_grow_with_peers)
{
	const struct shmd_queues_attr attr = {.n_qps = 8, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dev_peer *peers = calloc(N_MANY, sizeof(*peers));
	struct shmd_addr *addrs = calloc(N_MANY, sizeof(*addrs));
	struct shmd_daemon_status few, many;
	struct fixture_daemon daemon;
	struct shmd_client *control;
	uint64_t few_bytes, many_bytes;
	struct lab_side side;
	struct shmd_dct *dct;

	ASSERT(peers && addrs);
	fixture_daemon_start(&daemon, "--soft-nics=1", NULL);
	control = lab_control(&daemon);
	lab_side_open(&side, &daemon, &attr);
	ASSERT_OK(shmd_queues_connect(side.queues, 0, 8, NULL, NULL, NULL));
	ASSERT_OK(shmd_dct_create(side.nic, 0, &dct));
	make_addrs(dct, addrs);
	/* The buffers of a full request, once. */
	resolve(&side, addrs, peers, N_MANY / 8);
	resolve(&side, addrs, peers, N_FEW);
	ASSERT_OK(shmd_admin_status(control, &few));
	few_bytes = written_bytes(daemon.pid);
	for (unsigned int round = 0; round < 8; round++)
		resolve(&side, addrs, peers, N_MANY);
	ASSERT_OK(shmd_admin_status(control, &many));
	many_bytes = written_bytes(daemon.pid);
	printf("# daemon: %" PRIu64 " KiB with %u peers, %" PRIu64 " KiB with %u; queues %" PRIu64 " KiB\n", few_bytes >> 10,
	       N_FEW, many_bytes >> 10, N_MANY, many.registered_bytes >> 10);
	ASSERT_EQ(many.registered_bytes, few.registered_bytes);
	ASSERT_EQ(many.n_qps, 9u);
	ASSERT_EQ(many.n_cqs, few.n_cqs);
	ASSERT_EQ(many.n_mrs, few.n_mrs);
	ASSERT_EQ(many.n_fds, few.n_fds);
	/* A sanitizer keeps what was freed. */
	if (!test_has_sanitizer())
		ASSERT_LE(many_bytes, few_bytes + SLACK_BYTES);
	ASSERT_OK(shmd_dct_destroy(dct));
	lab_side_close(&side);
	shmd_client_close(control);
	fixture_daemon_stop(&daemon);
	free(peers);
	free(addrs);
}
