/* SPDX-License-Identifier: Apache-2.0 */
/* A world for tests of shmemctl run in which PE 1 does not come to a barrier. */
#include <stdio.h>
#include <unistd.h>

#include <shmd.h>

int main(void)
{
	struct shmd_world *world;

	if (shmd_world_open(NULL, &world) < 0 || shmd_world_start(world) < 0) {
		fprintf(stderr, "%s\n", shmd_error_text());
		return 2;
	}
	while (shmd_my_pe(world) == 1)
		pause();
	/* Ends the process, if the setting says so. */
	fprintf(stderr, "%d %s\n", shmd_barrier_all(world), shmd_error_text());
	return 3;
}
