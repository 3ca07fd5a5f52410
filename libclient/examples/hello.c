/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that write to each other's memory: every PE writes its number into the memory of its right neighbour.
 *
 * Build and run it while shmemd runs:
 *
 *	cc hello.c -o hello $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 4 ./hello
 *
 * shmd_malloc() returns memory that all PEs have. Its address names the copies of the other PEs too: shmd_p() writes to one of them.
 */
#include <stdint.h>
#include <stdio.h>

#include <shmd.h>

static int greet(struct shmd_world *world)
{
	int me = shmd_my_pe(world), n = shmd_n_pes(world);
	int64_t *from;

	if (shmd_malloc(world, sizeof(*from), 0, (void **)&from) < 0)
		return -1;
	if (shmd_p(shmd_world_ctx(world), from, (uint64_t)me, sizeof(*from), (me + 1) % n) < 0)
		return -1;
	/* After a barrier, all that the others wrote before theirs is visible. */
	if (shmd_barrier_all(world) < 0)
		return -1;
	printf("PE %d of %d: hello from PE %d\n", me, n, (int)*from);
	return shmd_free(world, from);
}

int main(void)
{
	struct shmd_world *world = NULL;
	int r = shmd_world_open(NULL, &world);

	if (!r)
		r = greet(world);
	if (r < 0)
		fprintf(stderr, "%s\n", shmd_error_text());
	if (shmd_world_close(world) < 0 || r < 0)
		return 1;
	return 0;
}
