/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat spreads over a plate whose rows are divided among the PEs: a halo exchange.
 *
 * Build and run it while shmemd runs:
 *
 *	cc halo.c -o halo $(pkg-config --cflags --libs shmemclient)
 *	shmemctl run -n 4 ./halo
 *
 * Each PE has a band of rows, and above and below it a row of its neighbours, the halo. In each step a PE puts its outer rows into
 * the halos of its neighbours with a signal behind, waits for theirs, and computes its band anew. The result is the same, digit for
 * digit, for any number of PEs.
 *
 * Two fields are used in turn. A neighbour can be one step ahead, because it waits for this PE's rows of the next step; these go out
 * when the band has been computed, and the halo is not needed any more. So no step needs a barrier.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>

#include <shmd.h>

#define COLUMNS 64
#define ROWS 48 /* of the plate, without its edge */
#define STEPS 200

/* Room for the whole plate on each PE, so that a row has the same address everywhere. A PE touches its band and halo only. */
struct memory {
	double field[2][ROWS + 2][COLUMNS];
	uint64_t steps[2]; /* signals: so many rows came from there */
};

enum side {
	FROM_ABOVE = 0,
	FROM_BELOW = 1,
};

struct band {
	struct shmd_world *world;
	struct memory *memory;
	int first, n; /* rows of the plate, from 1 */
	int above, below; /* PEs, or -1 at the edge of the plate */
};

static int first_row(int pe, int n_pes)
{
	return 1 + (int)((long)ROWS * pe / n_pes);
}

static int send_row(const struct band *band, int pe, int row, enum side side, uint64_t step)
{
	double *at = band->memory->field[step % 2][row];

	if (pe < 0)
		return 0;
	return shmd_put_signal(shmd_world_ctx(band->world), at, at, COLUMNS * sizeof(*at), &band->memory->steps[side], step + 1,
			       SHMD_SIGNAL_SET, pe);
}

static int wait_row(const struct band *band, int pe, enum side side, uint64_t step)
{
	const uint64_t *steps = &band->memory->steps[side];

	return pe < 0 ? 0 : shmd_wait_until(shmd_world_ctx(band->world), steps, sizeof(*steps), SHMD_CMP_GE, step + 1);
}

static int exchange(const struct band *band, uint64_t step)
{
	int r = send_row(band, band->above, band->first, FROM_BELOW, step);

	if (!r)
		r = send_row(band, band->below, band->first + band->n - 1, FROM_ABOVE, step);
	if (!r)
		r = wait_row(band, band->above, FROM_ABOVE, step);
	return r ? r : wait_row(band, band->below, FROM_BELOW, step);
}

static void compute(const struct band *band, uint64_t step)
{
	double (*old)[COLUMNS] = band->memory->field[step % 2], (*new)[COLUMNS] = band->memory->field[(step + 1) % 2];

	for (int i = band->first; i < band->first + band->n; i++)
		for (int j = 1; j < COLUMNS - 1; j++)
			new[i][j] = (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]) / 4;
}

/* PE 0 reads the rows of all PEs and adds them in the order of the plate. */
static int sum_up(const struct band *band, double *ret_sum)
{
	struct shmd_ctx *ctx = shmd_world_ctx(band->world);
	int n_pes = shmd_n_pes(band->world), r = 0;
	double row[COLUMNS], sum = 0;

	for (int pe = 0; pe < n_pes; pe++) {
		for (int i = first_row(pe, n_pes); !r && i < first_row(pe + 1, n_pes); i++) {
			r = shmd_get(ctx, row, band->memory->field[STEPS % 2][i], sizeof(row), pe);
			for (int j = 0; !r && j < COLUMNS; j++)
				sum += row[j];
		}
	}
	*ret_sum = sum;
	return r;
}

static int run(struct shmd_world *world)
{
	int me = shmd_my_pe(world), n_pes = shmd_n_pes(world), r;
	struct band band = {.world = world, .above = me - 1, .below = me + 1 < n_pes ? me + 1 : -1};
	double sum = 0;

	if (n_pes > ROWS)
		return shmd_error_set(-EINVAL, "%d PEs are too many for %d rows", n_pes, ROWS);
	band.first = first_row(me, n_pes);
	band.n = first_row(me + 1, n_pes) - band.first;
	r = shmd_calloc(world, 1, sizeof(*band.memory), SHMD_HINT_SIGNALS, (void **)&band.memory);
	if (r < 0)
		return r;
	/* The upper edge is hot. */
	for (int j = 0; j < COLUMNS; j++)
		band.memory->field[0][0][j] = band.memory->field[1][0][j] = 100;
	for (uint64_t step = 0; !r && step < STEPS; step++) {
		r = exchange(&band, step);
		if (!r)
			compute(&band, step);
	}
	if (!r)
		r = shmd_barrier_all(world);
	if (!r && me == 0)
		r = sum_up(&band, &sum);
	if (!r && me == 0)
		printf("%d steps by %d PEs: the heat is %.9f\n", STEPS, n_pes, sum);
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
	/* Waits for the other PEs, then frees the memory. */
	if (shmd_world_close(world) < 0 || r < 0)
		return 1;
	return 0;
}
