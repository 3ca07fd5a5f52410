/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "openshmem": the PEs of an OpenSHMEM library that the process has loaded and initialised. OpenSHMEM has no time limits, so a thread makes the
 * calls (limited.h). The caller waits meanwhile: the library has one caller at a time, as its thread level "serialized" wants; libraries with a
 * lower level that take the identity of a thread seriously are not known.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/exchange.h"
#include "libclient/runtime/bootstrap/library.h"
#include "libclient/runtime/bootstrap/limited.h"
#include "proto/base/nsec.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_stuck; /* with the lock: a thread is in a call of the library, perhaps for ever */
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

struct broadcast {
	int rank, size;
	struct shmd_uid uid;
	bool has_memory;
};

static void broadcast(void *arg)
{
	struct broadcast *b = arg;
	struct shmd_uid *symmetric = shmem.malloc(sizeof(*symmetric));

	b->has_memory = symmetric;
	if (!symmetric)
		return;
	for (int pe = 0; pe < b->size && !b->rank; pe++)
		shmem.putmem(symmetric, &b->uid, sizeof(b->uid), pe);
	shmem.barrier_all();
	b->uid = *symmetric;
	shmem.free(symmetric);
}

static int try_broadcast(struct broadcast *b, uint64_t deadline)
{
	int err = limited_call("OpenSHMEM's shmem_malloc, shmem_barrier_all and shmem_free, which wait for all PEs", broadcast, b, deadline);

	if (err)
		return err;
	if (!b->has_memory)
		return shmd_error_set(-ENOMEM, "the OpenSHMEM library has no symmetric memory for %zu bytes", sizeof(b->uid));
	return broadcast_check(&b->uid, b->rank);
}

/* With the lock. */
static int broadcast_uid(const struct bootstrap_attr *attr, int rank, int size, uint64_t deadline, struct shmd_uid *ret)
{
	struct broadcast *b = calloc(1, sizeof(*b));
	struct shmd_uid made;
	int err;

	if (!b)
		return shmd_error_set(-ENOMEM, "no memory for a broadcast");
	broadcast_make(attr, rank, &made);
	*b = (struct broadcast){.rank = rank, .size = size, .uid = made};
	err = try_broadcast(b, deadline);
	if (!err)
		*ret = b->uid;
	else if (!rank)
		bootstrap_uid_drop(&made);
	is_stuck = err == -ETIMEDOUT;
	if (!is_stuck)
		free(b);
	return err;
}

static void exit_all(void *arg)
{
	shmem.global_exit(*(const int *)arg);
}

static void end_job(int status, const char *why)
{
	static int last;

	__atomic_store_n(&last, status, __ATOMIC_RELAXED);
	limited_call("OpenSHMEM's shmem_global_exit", exit_all, &last, nsec_now() + LIMITED_END_NSEC);
}

/* With the lock. */
static int meet(const struct bootstrap_attr *attr, struct links_attr *links, struct shmd_uid *ret)
{
	int err = is_stuck ? shmd_error_set(-ETIMEDOUT, "an earlier call of the OpenSHMEM library has not returned yet") : find_functions();

	if (err)
		return err;
	links->rank = shmem.my_pe();
	links->size = shmem.n_pes();
	return broadcast_uid(attr, links->rank, links->size, links->deadline, ret);
}

static int open_openshmem(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "openshmem", .node_rank = -1, .node_size = -1, .deadline = deadline, .abort = end_job};
	struct shmd_uid uid;
	int err;

	pthread_mutex_lock(&lock);
	err = meet(attr, &links, &uid);
	pthread_mutex_unlock(&lock);
	links.uid = &uid;
	return err ? err : links_open(attr, &links, ret);
}

const struct module module_openshmem = {"openshmem", NULL, open_openshmem};
