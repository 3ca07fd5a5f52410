/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From opening a session to its first connected QP, with contexts made in advance and without, in one daemon whose setting
 * changes between the runs.
 *
 * While a session attaches the daemon makes the next context, as it would. So time is taken with that going on, and
 * commands are counted when it is over: all there were, less what each context that was made takes, which is counted when
 * the pool is filled first.
 */
#include "bench-mlx5.h"
#include "ref/ref.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <shmemclient-admin.h>

#include "tests/lib/median.h"

#define N_ATTACHES 9u /* of one run */
#define N_WARM 2u
#define LIMIT_NSEC 60000000000ull

/* ---- the pool ---------------------------------------------------------------------------------------------------- */

static unsigned int n_wanted;
static uint64_t commands_of_context;

static int add_up(void *arg, const struct shmd_nic_item *item)
{
	struct shmd_nic_warm *sum = arg;

	sum->n_wanted += item->warm.n_wanted;
	sum->n_ready += item->warm.n_ready;
	sum->n_made += item->warm.n_made;
	sum->n_handed_out += item->warm.n_handed_out;
	sum->n_batches_handed_out += item->warm.n_batches_handed_out;
	return 0;
}

/* As many as are wanted, and none being made. */
static bool wait_for_pool(struct shmd_nic_warm *ret_warm)
{
	uint64_t end = ref_now_nsec() + LIMIT_NSEC;

	for (;;) {
		*ret_warm = (struct shmd_nic_warm){0};
		if (shmd_admin_nics(bench_control, add_up, ret_warm) < 0 || ref_now_nsec() > end)
			return bench_complain("wait for the context pool");
		if (ret_warm->n_wanted == n_wanted && ret_warm->n_ready == n_wanted)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
}

static bool set_pool(unsigned int n)
{
	FILE *file = fopen(getenv("BENCH_MLX5_CONF"), "w");
	struct shmd_daemon_status status;
	struct shmd_nic_warm warm;

	if (!file || shmd_admin_status(bench_control, &status) < 0)
		return bench_complain("change the settings");
	fprintf(file, "warm-contexts = %u\nwarm-queues = 1\nwarm-depth = %u\n", n, DEPTH);
	if (fclose(file) != 0)
		return bench_complain("write the settings");
	n_wanted = n;
	return kill((pid_t)status.pid, SIGHUP) == 0 && wait_for_pool(&warm) && bench_wait_for_quiet();
}

static bool count_context(void)
{
	struct shmd_nic_warm before, after;
	struct bench_mark from, to;

	if (!set_pool(0) || !wait_for_pool(&before))
		return false;
	from = bench_mark_now();
	if (!set_pool(N_WARM) || !wait_for_pool(&after))
		return false;
	to = bench_mark_now();
	commands_of_context = (to.commands - from.commands) / (after.n_made - before.n_made);
	return true;
}

/* ---- one attach -------------------------------------------------------------------------------------------------- */

enum { ATTACH_CLIENT, ATTACH_NIC, ATTACH_QUEUES, ATTACH_RTS, N_ATTACH_PARTS };

/* The whole of it, then its parts. */
#define N_ATTACH_FIGURES (N_ATTACH_PARTS + 1)

struct attach {
	struct bench_mark at[N_ATTACH_PARTS + 1]; /* before the first step and after each */
	uint64_t commands; /* of the session's own */
};

/* The context that came instead was made meanwhile, or still is. */
static bool count_own(struct attach *attach, const struct shmd_nic_warm *before)
{
	struct shmd_nic_warm after;

	if (!wait_for_pool(&after))
		return false;
	attach->commands = bench_mark_now().commands - attach->at[0].commands -
			   (after.n_made - before->n_made) * commands_of_context;
	if (n_wanted && after.n_batches_handed_out != before->n_batches_handed_out + 1) {
		fprintf(stderr, "the session did not use the context pool\n");
		return false;
	}
	return true;
}

static bool attach_one(struct attach *attach)
{
	struct bench_mark *at = attach->at;
	struct shmd_nic_warm before;
	struct bench_end end = {0};
	bool good = wait_for_pool(&before);

	*at++ = bench_mark_now();
	good = good && bench_open_client(&end);
	*at++ = bench_mark_now();
	good = good && bench_open_nic(&end);
	*at++ = bench_mark_now();
	good = good && bench_make_queues(&end, 1, SHMD_QP_TYPE_RC);
	*at++ = bench_mark_now();
	good = good && bench_end_connect(&end, &end, 1) >= 0;
	*at = bench_mark_now();
	good = good && count_own(attach, &before);
	bench_end_close(&end);
	return good;
}

bool bench_attach_once(void)
{
	struct attach attach;

	return attach_one(&attach);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static double msec_between(const struct bench_mark *from, const struct bench_mark *to)
{
	return (double)(to->nsec - from->nsec) / 1e6;
}

/* One run is the median of several: what others did with the CPU meanwhile says nothing about ours. */
static bool attach_run(struct bench_figures f[N_ATTACH_FIGURES])
{
	struct bench_figures slices[N_ATTACH_FIGURES] = {0};
	struct attach attach;

	for (unsigned int i = 0; i < N_ATTACHES; i++) {
		if (!bench_wait_for_quiet() || !attach_one(&attach))
			return false;
		bench_add(&slices[0], msec_between(&attach.at[0], &attach.at[N_ATTACH_PARTS]), (double)attach.commands);
		for (unsigned int p = 0; p < N_ATTACH_PARTS; p++)
			bench_add(&slices[1 + p], msec_between(&attach.at[p], &attach.at[p + 1]),
				  (double)(attach.at[p + 1].commands - attach.at[p].commands));
	}
	for (unsigned int i = 0; i < N_ATTACH_FIGURES; i++)
		bench_add(&f[i], median(slices[i].msec, N_ATTACHES), median(slices[i].commands, N_ATTACHES));
	return true;
}

struct sides {
	struct bench_figures *with, *without;
	bool is_commands;
};

static double next_of(struct bench_figures *f, bool is_commands)
{
	unsigned int i = f->n_told++ % f->n;

	return is_commands ? f->commands[i] : f->msec[i];
}

static double next_with(void *arg)
{
	struct sides *sides = arg;

	return next_of(sides->with, sides->is_commands);
}

static double next_without(void *arg)
{
	struct sides *sides = arg;

	return next_of(sides->without, sides->is_commands);
}

/* The daemon's own commands meanwhile belong to no part: parts report commands without the pool only. */
static bool tell(struct bench_figures *with, struct bench_figures *without, bool is_whole)
{
	struct sides sides = {.with = with, .without = without};
	const struct bench_row msec = {.name = with->name, .unit = "ms", .ours = next_with, .reference = next_without,
				       .reference_name = "without", .arg = &sides};
	const struct bench_row both = {.name = "  commands", .unit = "", .ours = next_with, .reference = next_without,
				       .reference_name = "without", .arg = &sides, .goal = 5};
	const struct bench_row one = {.name = "  commands without", .unit = "", .ours = next_without, .arg = &sides};
	bool good = bench_run(&msec);

	sides.is_commands = true;
	with->n_told = without->n_told = 0;
	return bench_run(is_whole ? &both : &one) && good;
}

bool bench_attach(void)
{
	static struct bench_figures without[N_ATTACH_FIGURES];
	static struct bench_figures with[N_ATTACH_FIGURES] = {
		{.name = "attach with pool"}, {.name = "- connect and hello"}, {.name = "- open the NIC"},
		{.name = "- queues, one QP"},	 {.name = "- connect the QP"},
	};
	bool good = true;

	if (!count_context())
		return false;
	for (unsigned int i = 0; i < BENCH_RUNS; i++)
		if (!set_pool(N_WARM) || !attach_run(with) || !set_pool(0) || !attach_run(without))
			return false;
	printf("from opening the session to its first connected QP; the next context of the pool, %u commands, is made meanwhile\n",
	       (unsigned int)commands_of_context);
	for (unsigned int i = 0; i < N_ATTACH_FIGURES; i++)
		good = tell(&with[i], &without[i], i == 0) && good;
	return good;
}
