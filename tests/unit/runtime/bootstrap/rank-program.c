/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bootstrap-rank MODULE [LIBRARY INIT FINALIZE] - one rank of a job that a real launcher starts
 *
 * Opens two bootstraps one after the other and one beside the second, gathers, and prints a line. With a library (of MPI or OpenSHMEM) it loads and
 * initialises that first. BOOTSTRAP_RANK_END=abort: rank 1 aborts with status 17 at the end. BOOTSTRAP_RANK_INTERFACE: instead of "=lo".
 * BOOTSTRAP_RANK_END=lost: it prints each rank that has ended, and a node is lost after 2 s; it goes on until it is killed.
 * BOOTSTRAP_RANK_COMM=dup or split: a communicator that is made of MPI_COMM_WORLD is used, half of it in the opposite order if it is split.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"

#define MOST_RANKS 64

#define MPICH_COMM_WORLD 0x44000000

/* A communicator of either family of MPI libraries. */
union comm {
	void *pointer;
	int number;
};

static union comm chosen;

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, shmd_error_text());
	return 1;
}

static int gather(struct shmd_bootstrap *b)
{
	int mine = b->rank * 7 + 1, all[MOST_RANKS];

	if (b->size > MOST_RANKS || b->ops->allgather(b, &mine, all, sizeof(mine)))
		return fail("allgather");
	for (int rank = 0; rank < b->size; rank++)
		if (all[rank] != rank * 7 + 1)
			return fail("wrong bytes");
	return 0;
}

/* Returns its rank in MPI_COMM_WORLD, or -1. */
static int make_comm(void *library, const char *how)
{
	union comm world = {.pointer = dlsym(library, "ompi_mpi_comm_world")};
	bool is_open_mpi = world.pointer, splits = !strcmp(how, "split");
	const char *name = splits ? "MPI_Comm_split" : "MPI_Comm_dup";
	void *ask = dlsym(library, "MPI_Comm_rank"), *make = dlsym(library, name);
	int rank = -1, err;

	if (is_open_mpi) {
		((int (*)(void *, int *))ask)(world.pointer, &rank);
		err = splits ? ((int (*)(void *, int, int, void **))make)(world.pointer, rank % 2, -rank, &chosen.pointer)
			     : ((int (*)(void *, void **))make)(world.pointer, &chosen.pointer);
	} else {
		((int (*)(int, int *))ask)(MPICH_COMM_WORLD, &rank);
		err = splits ? ((int (*)(int, int, int, int *))make)(MPICH_COMM_WORLD, rank % 2, -rank, &chosen.number)
			     : ((int (*)(int, int *))make)(MPICH_COMM_WORLD, &chosen.number);
	}
	return err ? -1 : rank;
}

/* On a thread of the bootstrap. */
static void hear(void *arg, int rank, const char *why)
{
	const struct shmd_bootstrap *b = arg;

	(void)why;
	printf("rank %d hears that rank %d has ended\n", b->rank, rank);
	fflush(stdout);
}

static int hear_of_ends(const char *module)
{
	struct bootstrap_attr attr = {.module = module, .interface = getenv("BOOTSTRAP_RANK_INTERFACE"), .timeout_nsec = 100 * NSEC_PER_SEC,
				      .lost_nsec = 2 * NSEC_PER_SEC};
	struct shmd_bootstrap b;

	if (bootstrap_open(&attr, &b))
		return fail("the bootstrap");
	if (gather(&b))
		return 1;
	printf("rank %d is there\n", b.rank);
	fflush(stdout);
	b.ops->watch(&b, hear, &b);
	for (;;)
		pause();
}

static int run(const char *module, int world_rank)
{
	const char *interface = getenv("BOOTSTRAP_RANK_INTERFACE");
	struct bootstrap_attr attr = {.module = module, .interface = interface ? interface : "=lo", .timeout_nsec = 100 * NSEC_PER_SEC};
	struct shmd_bootstrap first, second, third;

	attr.mpi_comm = world_rank >= 0 ? &chosen : NULL;
	if (bootstrap_open(&attr, &first))
		return fail("the first bootstrap");
	if (gather(&first))
		return 1;
	printf("rank %d of %d by %s, %d of %d on this node\n", first.rank, first.size, first.ops->name, first.node_rank, first.node_size);
	if (world_rank >= 0)
		printf("rank %d of MPI_COMM_WORLD is rank %d of %d\n", world_rank, first.rank, first.size);
	fflush(stdout);
	first.ops->close(&first);
	attr.number = 1;
	if (bootstrap_open(&attr, &second))
		return fail("the second bootstrap");
	attr.number = 2;
	if (bootstrap_open(&attr, &third))
		return fail("the third bootstrap");
	if (gather(&third) || gather(&second))
		return 1;
	if (getenv("BOOTSTRAP_RANK_END")) {
		if (second.rank == 1)
			second.ops->abort(&second, 17, "a test ends it");
		for (;;)
			pause();
	}
	second.ops->close(&second);
	third.ops->close(&third);
	return 0;
}

int main(int argc, char **argv)
{
	const char *comm = getenv("BOOTSTRAP_RANK_COMM");
	void *library = NULL;
	const char *end = getenv("BOOTSTRAP_RANK_END");
	int status, world_rank = -1;

	if (argc != 2 && argc != 5)
		return 2;
	if (end && !strcmp(end, "lost"))
		return hear_of_ends(argv[1]);
	if (argc == 5) {
		library = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
		if (!library) {
			printf("no library: %s\n", dlerror());
			return 77;
		}
		((int (*)(int *, char ***))dlsym(library, argv[3]))(NULL, NULL);
	}
	if (library && comm) {
		world_rank = make_comm(library, comm);
		if (world_rank < 0)
			return 3;
	}
	status = run(argv[1], world_rank);
	if (library && !status && dlsym(library, "shmem_barrier_all")) {
		/* Debian's liboshmem crashes in its own end, and takes the others with it. */
		printf("a rank is done\n");
		fflush(stdout);
		((void (*)(void))dlsym(library, "shmem_barrier_all"))();
	}
	if (library && !status)
		((int (*)(void))dlsym(library, argv[4]))();
	return status;
}
