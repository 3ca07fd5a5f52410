/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "openshmem": the PEs of an OpenSHMEM library that the process has loaded and initialised. Blocks until all PEs have called: OpenSHMEM has no time
 * limits, so a PE that does not call holds up the others for ever.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/exchange.h"
#include "libclient/runtime/bootstrap/library.h"

static struct {
	int (*my_pe)(void), (*n_pes)(void);
	void *(*malloc)(size_t bytes);
	void (*free)(void *at);
	void (*putmem)(void *to, const void *from, size_t bytes, int pe);
	void (*barrier_all)(void);
	void (*global_exit)(int status);
} shmem;

static int find_functions(void)
{
	static const char *const files[] = {"liboshmem.so.40", "libsma.so.1", "libsma.so", "liboshmem.so", NULL};
	const struct library_symbol symbols[] = {
		{"shmem_my_pe", (void **)&shmem.my_pe}, {"shmem_n_pes", (void **)&shmem.n_pes}, {"shmem_malloc", (void **)&shmem.malloc},
		{"shmem_free", (void **)&shmem.free}, {"shmem_putmem", (void **)&shmem.putmem},
		{"shmem_barrier_all", (void **)&shmem.barrier_all}, {"shmem_global_exit", (void **)&shmem.global_exit}, {NULL, NULL},
	};

	return library_find("an OpenSHMEM library", files, 0, symbols);
}

static int broadcast_uid(const struct bootstrap_attr *attr, int rank, int size, struct shmd_uid *ret)
{
	struct shmd_uid *symmetric = shmem.malloc(sizeof(*symmetric));

	if (!symmetric)
		return shmd_error_set(-ENOMEM, "the OpenSHMEM library has no symmetric memory for %zu bytes", sizeof(*symmetric));
	broadcast_make(attr, rank, ret);
	for (int pe = 0; pe < size && !rank; pe++)
		shmem.putmem(symmetric, ret, sizeof(*ret), pe);
	shmem.barrier_all();
	memcpy(ret, symmetric, sizeof(*ret));
	shmem.free(symmetric);
	return broadcast_check(ret, rank);
}

static void end_job(int status, const char *why)
{
	shmem.global_exit(status);
}

static int open_openshmem(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "openshmem", .node_rank = -1, .node_size = -1, .deadline = deadline, .abort = end_job};
	struct shmd_uid uid;
	int err = find_functions();

	if (err)
		return err;
	links.rank = shmem.my_pe();
	links.size = shmem.n_pes();
	err = broadcast_uid(attr, links.rank, links.size, &uid);
	links.uid = &uid;
	return err ? err : links_open(attr, &links, ret);
}

const struct module module_openshmem = {"openshmem", NULL, open_openshmem};
