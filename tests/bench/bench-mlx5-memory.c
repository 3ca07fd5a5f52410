/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of RC QPs and of a session with dynamic connections, on mlx5 NICs: after minus before, of the daemon, of this
 * process, and of what is registered. The simulator's own memory does not count.
 */
#include "bench-mlx5.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient-admin.h>

#include "daemon/nic/nic.h"

#define N_SESSIONS 8u
#define N_DCIS 8u
#define N_FEW 16u
#define N_MANY 4096u

struct memory {
	uint64_t daemon, client, queues; /* bytes */
};

/*
 * Other processes share programs and libraries. Registered memory is counted where it was registered: all
 * of it is pinned, though no page of it may have been touched. A doorbell page is the device's.
 */
static bool counts(const char *name)
{
	static const char *const elsewhere[] = {"/memfd:shmemd-queues", "/memfd:shmd-mem", "/memfd:mlx5sim-uar"};

	if (strncmp(name, "/memfd:", 7) != 0)
		return name[0] != '/';
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		if (strncmp(name, elsewhere[i], strlen(elsewhere[i])) == 0)
			return false;
	return true;
}

/* Proportional set size of what counts; 0: could not be read. */
static uint64_t pss_bytes(uint32_t pid)
{
	char path[64], line[512], name[256];
	uint64_t kib = 0, n;
	bool here = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/smaps", pid);
	f = fopen(path, "re");
	if (!f) {
		perror(path);
		return 0;
	}
	while (fgets(line, sizeof(line), f)) {
		name[0] = 0;
		if (sscanf(line, "%*x-%*x %*4s %*x %*x:%*x %" SCNu64 " %255s", &n, name) >= 1)
			here = counts(name);
		else if (here && sscanf(line, "Pss: %" SCNu64 " kB", &n) == 1)
			kib += n;
	}
	fclose(f);
	return kib << 10;
}

static bool memory_now(struct memory *ret)
{
	struct shmd_daemon_status status;

	if (shmd_admin_status(bench_control, &status) < 0)
		return bench_complain("status");
	ret->daemon = pss_bytes(status.pid);
	ret->client = pss_bytes((uint32_t)getpid());
	ret->queues = status.registered_bytes;
	return ret->daemon && ret->client;
}

static void tell_memory(const char *name, const struct memory *from, const struct memory *to, unsigned int per,
			double goal_kib)
{
	double kib = 1024.0 * per, daemon = (double)(to->daemon - from->daemon) / kib;
	double client = (double)(to->client - from->client) / kib;
	double queues = (double)(to->queues - from->queues) / kib;

	printf("%-28s %12.2f KiB", name, daemon + client + queues);
	if (goal_kib > 0)
		printf("  goal at most %g", goal_kib);
	printf("\n  %-26s %12.2f KiB\n  %-26s %12.2f KiB\n  %-26s %12.2f KiB\n", "daemon", daemon, "client", client,
	       "queue memory", queues);
	fflush(stdout);
}

bool bench_memory_rc(void)
{
	struct bench_end end = {0};
	struct memory before = {0}, after = {0};
	bool good;

	good = bench_open_client(&end) && bench_open_nic(&end) && memory_now(&before) && bench_make_queues(&end, N_QPS, SHMD_QP_TYPE_RC) &&
	       bench_end_connect(&end, &end, N_QPS) >= 0 && memory_now(&after);
	bench_end_close(&end);
	if (good)
		tell_memory("memory of each RC QP", &before, &after, N_QPS, 16);
	return good;
}

/* The caller's own memory for its peers is not the session's. */
static struct shmd_addr addrs[N_MANY];
static struct shmd_dev_peer peers[N_MANY];

/* Addresses as other sessions' targets have them: a real one under other numbers and keys. */
static bool make_addrs(const struct shmd_dct *dct)
{
	struct nic_addr addr;

	if (shmd_dct_addr(dct, &addrs[0]) < 0 || nic_addr_decode(addrs[0].data, addrs[0].bytes, &addr) < 0)
		return bench_complain("address of a DCT");
	for (unsigned int i = 1; i < N_MANY; i++) {
		addr.qpn = 0x1000 + i;
		addr.dc_key += 0x9e3779b97f4a7c15u;
		addrs[i].bytes = (uint32_t)nic_addr_encode(&addr, addrs[i].data);
	}
	return true;
}

static bool set_peers(struct bench_end *end, unsigned int n)
{
	return (shmd_peers_resolve(end->nic, n, addrs, 0, peers, NULL) >= 0 &&
		shmd_queues_set_peers(end->queues, n, peers) >= 0) ||
	       bench_complain("peers");
}

/* With N_FEW peers. */
static bool open_dc(struct bench_end *end)
{
	struct shmd_dct *dct;

	if (!bench_open_client(end) || !bench_open_nic(end) || !bench_make_queues(end, N_DCIS, SHMD_QP_TYPE_DCI))
		return false;
	if (shmd_queues_connect(end->queues, 0, N_DCIS, NULL, NULL, NULL) < 0 ||
	    shmd_dct_create(end->nic, 0, &dct) < 0)
		return bench_complain("a session with dynamic connections");
	return make_addrs(dct) && set_peers(end, N_FEW);
}

static bool set_peers_of_all(struct bench_end ends[N_SESSIONS], unsigned int n)
{
	for (unsigned int i = 0; i < N_SESSIONS; i++)
		if (!set_peers(&ends[i], n))
			return false;
	return true;
}

static bool open_all(struct bench_end ends[N_SESSIONS])
{
	for (unsigned int i = 0; i < N_SESSIONS; i++)
		if (!open_dc(&ends[i]))
			return false;
	return true;
}

/* The mean of several beside another one, whose requests have made the buffers that all share. */
bool bench_memory_dc(void)
{
	struct bench_end first = {0}, ends[N_SESSIONS] = {0};
	struct memory before = {0}, few = {0}, many = {0};
	bool good;

	memset(peers, 0xff, sizeof(peers));
	good = open_dc(&first) && set_peers(&first, N_MANY) && memory_now(&before) && open_all(ends) &&
	       memory_now(&few) && set_peers_of_all(ends, N_MANY) && memory_now(&many);
	for (unsigned int i = 0; i < N_SESSIONS; i++)
		bench_end_close(&ends[i]);
	bench_end_close(&first);
	if (!good)
		return false;
	tell_memory("DC session, 16 peers", &before, &few, N_SESSIONS, 0);
	tell_memory("DC session, 4,096 peers", &before, &many, N_SESSIONS, 0);
	return true;
}
