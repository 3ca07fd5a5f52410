/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "mpi": a communicator of the MPI library that the process has loaded and initialised.
 *
 * MPI has no binary interface of its own. Open MPI's handles are pointers to objects that it exports; those of MPICH and of the libraries that follow
 * its agreed interface (Intel MPI, MVAPICH, Cray MPICH) are ints with fixed values. Functions take handles by value, so each family has
 * prototypes of its own here. The id goes by a non-blocking broadcast, so that a rank that never comes does not hold the others for ever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/exchange.h"
#include "libclient/runtime/bootstrap/library.h"
#include "libclient/runtime/bootstrap/limited.h"
#include "proto/base/cleanup.h"
#include "proto/base/nsec.h"

#define MPICH_COMM_WORLD 0x44000000
#define MPICH_BYTE 0x4c00010d
#define VERSION_BYTES 8192
#define STATUS_BYTES 256

union handle {
	void *pointer;
	int number;
};

/* Wide enough for either family. MPI keeps them until the broadcast is complete, so they are left to it if the time is over. */
struct broadcast {
	struct shmd_uid uid;
	union handle request;
	uint64_t status[STATUS_BYTES / 8];
};

static struct {
	int (*initialized)(int *flag), (*finalized)(int *flag), (*version)(char *text, int *bytes);
	void *comm_rank, *comm_size, *ibcast, *test, *abort;
	bool is_open_mpi;
	union handle world, byte;
} mpi;

static const char *const files[] = {"libmpi.so.40", "libmpi.so.80", "libmpi.so.12", "libmpich.so.12", "libmpi.so", NULL};

static int find_functions(void)
{
	const struct library_symbol symbols[] = {
		{"MPI_Initialized", (void **)&mpi.initialized}, {"MPI_Finalized", (void **)&mpi.finalized},
		{"MPI_Get_library_version", (void **)&mpi.version}, {"MPI_Comm_rank", &mpi.comm_rank}, {"MPI_Comm_size", &mpi.comm_size},
		{"MPI_Ibcast", &mpi.ibcast}, {"MPI_Test", &mpi.test}, {"MPI_Abort", &mpi.abort}, {NULL, NULL},
	};

	return library_find("an MPI library", files, 0, symbols);
}

static int find_family(void)
{
	const struct library_symbol objects[] = {
		{"ompi_mpi_comm_world", &mpi.world.pointer}, {"ompi_mpi_byte", &mpi.byte.pointer}, {NULL, NULL},
	};
	_cleanup_free_ char *text = calloc(1, VERSION_BYTES + 1);
	int bytes = 0;

	if (!text || mpi.version(text, &bytes))
		return shmd_error_set(-EIO, "the MPI library does not tell its version");
	mpi.is_open_mpi = strstr(text, "Open MPI");
	if (mpi.is_open_mpi)
		return library_find("Open MPI", files, 0, objects);
	if (!strstr(text, "MPICH") && !strstr(text, "MVAPICH") && !strstr(text, "Intel(R) MPI"))
		return shmd_error_set(-ENOTSUP, "the MPI library is neither Open MPI nor one with MPICH's binary interface: %.80s", text);
	mpi.world = (union handle){.number = MPICH_COMM_WORLD};
	mpi.byte = (union handle){.number = MPICH_BYTE};
	return 0;
}

static bool is_running(void)
{
	int initialized = 0, finalized = 0;

	return !mpi.initialized(&initialized) && initialized && !mpi.finalized(&finalized) && !finalized;
}

/* A launcher started this process, and MPI talks to it already: a second conversation would disturb the first. */
static bool wants_mpi(const struct bootstrap_attr *attr)
{
	if (!attr->mpi_comm && !attr->env("PMI_FD") && !attr->env("PMIX_NAMESPACE"))
		return false;
	return attr->mpi_comm || (!find_functions() && is_running());
}

static int ask(void *function, union handle comm, int *ret)
{
	return mpi.is_open_mpi ? ((int (*)(void *, int *))function)(comm.pointer, ret) : ((int (*)(int, int *))function)(comm.number, ret);
}

static int begin_broadcast(struct broadcast *b, union handle comm)
{
	if (mpi.is_open_mpi)
		return ((int (*)(void *, int, void *, int, void *, void **))mpi.ibcast)(b->uid.data, SHMD_UID_BYTES, mpi.byte.pointer, 0,
											comm.pointer, &b->request.pointer);
	return ((int (*)(void *, int, int, int, int, int *))mpi.ibcast)(b->uid.data, SHMD_UID_BYTES, mpi.byte.number, 0, comm.number,
									 &b->request.number);
}

static int test_broadcast(struct broadcast *b, int *ret_done)
{
	return ((int (*)(void *, int *, void *))mpi.test)(&b->request, ret_done, b->status);
}

static int wait_for_broadcast(struct broadcast *b, uint64_t deadline)
{
	struct timespec pause = {.tv_nsec = 20000};
	int done = 0;

	while (!test_broadcast(b, &done)) {
		if (done)
			return 0;
		if (nsec_now() >= deadline)
			return shmd_error_set(-ETIMEDOUT, "not all ranks of the MPI communicator opened the bootstrap within the time limit; MPI does not "
					      "say which did not");
		nanosleep(&pause, NULL);
		pause.tv_nsec = pause.tv_nsec < 1000000 ? pause.tv_nsec * 2 : pause.tv_nsec;
	}
	return shmd_error_set(-EIO, "MPI_Test failed");
}

static int broadcast_uid(const struct bootstrap_attr *attr, union handle comm, int rank, uint64_t deadline, struct shmd_uid *ret)
{
	struct broadcast *b = calloc(1, sizeof(*b));
	struct shmd_uid made;
	int err;

	if (!b)
		return shmd_error_set(-ENOMEM, "no memory for a broadcast");
	broadcast_make(attr, rank, &made);
	b->uid = made;
	err = begin_broadcast(b, comm) ? shmd_error_set(-EIO, "MPI_Ibcast failed") : wait_for_broadcast(b, deadline);
	if (!err)
		err = broadcast_check(&b->uid, rank);
	if (!err)
		*ret = b->uid;
	else if (!rank)
		bootstrap_uid_drop(&made);
	if (err != -ETIMEDOUT)
		free(b);
	return err;
}

static void abort_all(void *arg)
{
	int status = *(const int *)arg;

	if (mpi.is_open_mpi)
		((int (*)(void *, int))mpi.abort)(mpi.world.pointer, status);
	else
		((int (*)(int, int))mpi.abort)(mpi.world.number, status);
}

static void end_job(int status, const char *why)
{
	static int last;

	__atomic_store_n(&last, status, __ATOMIC_RELAXED);
	if (is_running())
		limited_call("MPI_Abort", abort_all, &last, nsec_now() + LIMITED_END_NSEC);
}

static union handle communicator(const struct bootstrap_attr *attr)
{
	union handle comm = mpi.world;

	if (attr->mpi_comm && mpi.is_open_mpi)
		memcpy(&comm.pointer, attr->mpi_comm, sizeof(comm.pointer));
	else if (attr->mpi_comm)
		memcpy(&comm.number, attr->mpi_comm, sizeof(comm.number));
	return comm;
}

static int open_mpi(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "mpi", .node_rank = -1, .node_size = -1, .deadline = deadline, .abort = end_job};
	union handle comm;
	struct shmd_uid uid;
	int err = find_functions();

	if (err)
		return err;
	if (!is_running())
		return shmd_error_set(-EINVAL, "the bootstrap module mpi needs MPI between MPI_Init and MPI_Finalize");
	err = find_family();
	if (err)
		return err;
	comm = communicator(attr);
	if (ask(mpi.comm_rank, comm, &links.rank) || ask(mpi.comm_size, comm, &links.size))
		return shmd_error_set(-EIO, "MPI does not tell rank and size of the communicator");
	err = broadcast_uid(attr, comm, links.rank, deadline, &uid);
	links.uid = &uid;
	return err ? err : links_open(attr, &links, ret);
}

const struct module module_mpi = {"mpi", wants_mpi, open_mpi};
