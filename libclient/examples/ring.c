/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token goes round: every PE waits for it, adds its number, and passes it on to its right neighbour.
 *
 * Build and run it while shmemd runs:
 *
 *	cc ring.c -o ring $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 4 ./ring
 *
 * shmd_put_signal() writes data and then a word behind it, the signal. A PE that sees the signal sees the data too, so passing the
 * token on needs no barrier. The signal counts rounds, so a PE never takes the token of a round before.
 */
#include <stdint.h>
#include <stdio.h>

#include <shmd.h>

#define ROUNDS 10

/* The memory of each PE; its left neighbour writes it. */
struct memory {
	uint64_t token;
	uint64_t round; /* the signal: the token of this round is here */
};

static int pass_on(struct shmd_world *world, struct memory *memory, uint64_t token, uint64_t round)
{
	int right = (shmd_my_pe(world) + 1) % shmd_n_pes(world);

	return shmd_put_signal(shmd_world_ctx(world), &memory->token, &token, sizeof(token), &memory->round, round, SHMD_SIGNAL_SET,
			       right);
}

static int wait_for(struct shmd_world *world, const struct memory *memory, uint64_t round)
{
	return shmd_wait_until(shmd_world_ctx(world), &memory->round, sizeof(memory->round), SHMD_CMP_EQ, round);
}

/* PE 0 begins each round, and has the token back at its end. */
static int go_round(struct shmd_world *world, struct memory *memory, uint64_t round)
{
	uint64_t me = (uint64_t)shmd_my_pe(world);
	int r = me ? wait_for(world, memory, round) : 0;

	if (!r)
		r = pass_on(world, memory, memory->token + me, round);
	if (!r && !me)
		r = wait_for(world, memory, round);
	return r;
}

static int run(struct shmd_world *world)
{
	struct memory *memory;
	int r = shmd_calloc(world, 1, sizeof(*memory), SHMD_HINT_SIGNALS, (void **)&memory);

	if (r < 0)
		return r;
	for (uint64_t round = 1; !r && round <= ROUNDS; round++)
		r = go_round(world, memory, round);
	if (!r && shmd_my_pe(world) == 0)
		printf("%d rounds through %d PEs: the token is %llu\n", ROUNDS, shmd_n_pes(world), (unsigned long long)memory->token);
	return r;
}

int main(void)
{
	struct shmd_world *world = NULL;
	int r = shmd_world_open(NULL, &world);

	if (!r)
		r = run(world);
	if (r < 0)
		fprintf(stderr, "%s\n", shmd_error_text());
	/* Frees the memory, too. */
	if (shmd_world_close(world) < 0 || r < 0)
		return 1;
	return 0;
}
