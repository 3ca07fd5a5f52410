/* SPDX-License-Identifier: Apache-2.0 */
/* Teams, contexts and sessions: sections 9.4, 9.5, 9.9 and 9.10.3; active sets in barrier and sync. */
#include "tests/openshmem/osh.h"

static long *word; /* symmetric */

/* 7: handles are constants. */
static shmem_team_t constant_teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED, SHMEM_TEAM_INVALID};
static shmem_ctx_t constant_contexts[] = {SHMEM_CTX_DEFAULT, SHMEM_CTX_INVALID};

static void try_predefined(void)
{
	shmem_team_config_t config = {.num_contexts = 77};

	CHECK(shmem_team_my_pe(constant_teams[0]) == shmem_my_pe() && shmem_team_n_pes(constant_teams[0]) == shmem_n_pes());
	CHECK(shmem_team_n_pes(constant_teams[1]) >= 1 && shmem_team_my_pe(constant_teams[1]) >= 0);
	/* 9.4.1, 9.4.2, 9.4.5: -1 for the invalid team. */
	CHECK(shmem_team_my_pe(constant_teams[2]) == -1 && shmem_team_n_pes(constant_teams[2]) == -1);
	CHECK(shmem_team_translate_pe(SHMEM_TEAM_INVALID, 0, SHMEM_TEAM_WORLD) == -1);
	CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, 0, SHMEM_TEAM_INVALID) == -1);
	CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, shmem_n_pes(), SHMEM_TEAM_WORLD) == -1);
	/* 9.4.4: nonzero for the invalid team; a mask of 0 changes nothing. */
	CHECK(shmem_team_get_config(SHMEM_TEAM_INVALID, 0, &config) != 0);
	CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, 0, &config) == 0 && config.num_contexts == 77);
	CHECK(shmem_team_get_config(SHMEM_TEAM_WORLD, 0, NULL) == 0);
	CHECK(shmem_team_sync(SHMEM_TEAM_INVALID) != 0);
	/* 9.4.8, 9.5.3: the invalid handles are ignored. */
	shmem_team_destroy(SHMEM_TEAM_INVALID);
	shmem_ctx_destroy(SHMEM_CTX_INVALID);
}

/* The team has PEs start, start + stride, ...; its PEs talk by their numbers in it. */
static void check_team(shmem_team_t team, int start, int stride, int size)
{
	int me = shmem_team_my_pe(team);
	shmem_ctx_t ctx = SHMEM_CTX_INVALID;
	shmem_team_t found = SHMEM_TEAM_INVALID;

	CHECK(shmem_team_n_pes(team) == size && start + me * stride == shmem_my_pe());
	for (int i = 0; i < size; i++) {
		CHECK(shmem_team_translate_pe(team, i, SHMEM_TEAM_WORLD) == start + i * stride);
		CHECK(shmem_team_translate_pe(SHMEM_TEAM_WORLD, start + i * stride, team) == i);
	}
	CHECK(shmem_team_create_ctx(team, 0, &ctx) == 0 && ctx != SHMEM_CTX_INVALID);
	CHECK(shmem_ctx_get_team(ctx, &found) == 0 && found == team);
	*word = -1;
	CHECK(shmem_team_sync(team) == 0);
	shmem_ctx_long_p(ctx, word, me, (me + 1) % size);
	shmem_ctx_quiet(ctx);
	CHECK(shmem_team_sync(team) == 0);
	CHECK(*word == (me + size - 1) % size);
	CHECK(shmem_team_sync(team) == 0);
	shmem_ctx_destroy(ctx);
}

static void try_strided(int start, int stride, int size)
{
	shmem_team_config_t config = {.num_contexts = 3};
	shmem_team_t team = SHMEM_TEAM_WORLD;
	int is_in = 0;

	for (int i = 0; i < size; i++)
		is_in |= start + i * stride == shmem_my_pe();
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, start, stride, size, &config, SHMEM_TEAM_NUM_CONTEXTS, &team) == 0);
	CHECK((team != SHMEM_TEAM_INVALID) == is_in);
	if (is_in) {
		check_team(team, start, stride, size);
		config.num_contexts = 0;
		CHECK(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0 && config.num_contexts == 3);
	}
	shmem_team_destroy(team);
}

/* 9.4.3: what the mask leaves out has its default, whatever the program wrote; 9.4.4: get_config answers what was asked for. */
static void try_config(long mask, int given, int wanted)
{
	shmem_team_config_t config = {.num_contexts = given};
	shmem_team_t team = SHMEM_TEAM_INVALID;

	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), &config, mask, &team) == 0);
	config.num_contexts = 55;
	CHECK(shmem_team_get_config(team, 0, &config) == 0 && config.num_contexts == 55);
	CHECK(shmem_team_get_config(team, SHMEM_TEAM_NUM_CONTEXTS, &config) == 0 && config.num_contexts == wanted);
	shmem_team_destroy(team);
}

/* 9.9.2, 9.9.3: a session of any options and configuration; what it put is complete behind a quiet, also while it goes on. */
static void try_session(shmem_ctx_t ctx, long options, long mask)
{
	shmem_ctx_session_config_t config = {.total_ops = 64}; /* 9.9.1 */
	long *words = shmem_calloc(64, sizeof(*words)), got = 0;

	shmem_ctx_session_start(ctx, options, mask ? &config : NULL, mask);
	for (long i = 0; i < 64; i++)
		shmem_ctx_long_p(ctx, &words[i], i + 1, next_pe());
	shmem_ctx_quiet(ctx);
	for (int i = 0; i < 64; i++) {
		shmem_ctx_long_get(ctx, &got, &words[i], 1, next_pe());
		CHECK(got == i + 1);
	}
	shmem_ctx_long_atomic_add(ctx, &words[63], 1, next_pe());
	shmem_ctx_session_stop(ctx);
	shmem_ctx_quiet(ctx);
	shmem_barrier_all();
	CHECK(words[0] == 1 && words[63] == 65);
	shmem_free(words);
}

static void try_sessions(void)
{
	shmem_ctx_t ctx = SHMEM_CTX_INVALID;

	CHECK(shmem_ctx_create(SHMEM_CTX_SERIALIZED, &ctx) == 0);
	try_session(SHMEM_CTX_DEFAULT, 0, 0);
	try_session(SHMEM_CTX_DEFAULT, SHMEM_CTX_SESSION_BATCH, SHMEM_CTX_SESSION_TOTAL_OPS);
	try_session(ctx, SHMEM_CTX_SESSION_BATCH, 0);
	try_session(ctx, SHMEM_CTX_SESSION_BATCH, SHMEM_CTX_SESSION_TOTAL_OPS);
	/* 9.9.2, 9.9.3: the invalid context is ignored. */
	shmem_ctx_session_start(SHMEM_CTX_INVALID, SHMEM_CTX_SESSION_BATCH, NULL, 0);
	shmem_ctx_session_stop(SHMEM_CTX_INVALID);
	shmem_ctx_destroy(ctx);
}

/* 9.4.6: a set that leaves the parent makes no team on any PE. */
static void try_bad_sets(void)
{
	shmem_team_t team = SHMEM_TEAM_WORLD;
	int n = shmem_n_pes();

	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n + 1, NULL, 0, &team) != 0 && team == SHMEM_TEAM_INVALID);
	team = SHMEM_TEAM_WORLD;
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, -1, 2, NULL, 0, &team) != 0 && team == SHMEM_TEAM_INVALID);
	team = SHMEM_TEAM_WORLD;
	CHECK(shmem_team_split_strided(SHMEM_TEAM_INVALID, 0, 1, 1, NULL, 0, &team) != 0 && team == SHMEM_TEAM_INVALID);
}

static void try_grid(int xrange)
{
	shmem_team_t x = SHMEM_TEAM_INVALID, y = SHMEM_TEAM_INVALID;
	int n = shmem_n_pes(), me = shmem_my_pe(), width = xrange < n ? xrange : n;
	int row = me / width, in_row = row == n / width ? n % width : width;

	CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, xrange, NULL, 0, &x, NULL, 0, &y) == 0);
	check_team(x, row * width, 1, in_row);
	shmem_barrier_all();
	check_team(y, me % width, width, (n - me % width + width - 1) / width);
	shmem_team_destroy(x);
	shmem_team_destroy(y);
}

/* Contexts of all kinds; 9.5.4: contexts that belong to no other team belong to the world. */
static void try_contexts(void)
{
	static const long options[] = {0, SHMEM_CTX_PRIVATE, SHMEM_CTX_SERIALIZED, SHMEM_CTX_NOSTORE, SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE};
	shmem_ctx_session_config_t config = {.total_ops = 10};
	shmem_team_t team = SHMEM_TEAM_INVALID;
	shmem_ctx_t ctx = SHMEM_CTX_INVALID;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		CHECK(shmem_ctx_create(options[i], &ctx) == 0);
		CHECK(shmem_ctx_get_team(ctx, &team) == 0 && team == SHMEM_TEAM_WORLD);
		/* 9.9: sessions change nothing of what operations do, also when they are started and ended twice. */
		shmem_ctx_session_start(ctx, SHMEM_CTX_SESSION_BATCH, &config, SHMEM_CTX_SESSION_TOTAL_OPS);
		shmem_ctx_session_start(ctx, 0, NULL, 0);
		shmem_ctx_long_atomic_add(ctx, word, 1, next_pe());
		shmem_ctx_session_stop(ctx);
		shmem_ctx_session_stop(ctx);
		shmem_ctx_destroy(ctx);
	}
	CHECK(shmem_ctx_get_team(constant_contexts[0], &team) == 0 && team == SHMEM_TEAM_WORLD);
	CHECK(shmem_ctx_get_team(constant_contexts[1], &team) != 0 && team == SHMEM_TEAM_INVALID);
	/* 9.5.2 */
	ctx = SHMEM_CTX_DEFAULT;
	CHECK(shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, &ctx) != 0 && ctx == SHMEM_CTX_INVALID);
}

/* 9.4.8: a team ends the contexts that were left; 9.1.4: finalize ends such teams. */
static void leave_some(void)
{
	shmem_team_t left = SHMEM_TEAM_INVALID, ended = SHMEM_TEAM_INVALID;
	shmem_ctx_t ctx;

	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &ended) == 0);
	CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &left) == 0);
	for (int i = 0; i < 3; i++)
		CHECK(shmem_team_create_ctx(ended, 0, &ctx) == 0 && shmem_team_create_ctx(left, 0, &ctx) == 0);
	shmem_team_destroy(ended);
}

/* 9.10.2, 9.10.3: active sets; a barrier completes, and PEs outside take no part. */
static void try_active_sets(void)
{
	long sync[SHMEM_BARRIER_SYNC_SIZE] = {SHMEM_SYNC_VALUE};

	for (int log_stride = 0; log_stride < 2; log_stride++) {
		int stride = 1 << log_stride, size = (shmem_n_pes() - 1) / stride + 1, me = shmem_my_pe();

		for (int round = 0; round < 3 && me % stride == 0; round++) {
			*word = -1;
			(shmem_sync)(0, log_stride, size, sync);
			shmem_long_p(word, me, (me / stride + 1) % size * stride);
			shmem_barrier(0, log_stride, size, sync);
			CHECK(*word == (me / stride + size - 1) % size * stride);
			(shmem_sync)(0, log_stride, size, sync);
		}
		shmem_barrier_all();
	}
}

int main(void)
{
	int n;

	shmem_init();
	word = shmem_calloc(1, sizeof(*word));
	n = shmem_n_pes();
	try_predefined();
	try_strided(0, 1, n);
	try_strided(0, 2, (n + 1) / 2);
	try_strided(n - 1, -1, n);
	try_strided(n - 1, 0, 1);
	try_bad_sets();
	try_config(0, 9, 0);
	try_config(SHMEM_TEAM_NUM_CONTEXTS, 9, 9);
	for (int xrange = 1; xrange <= n + 1; xrange++)
		try_grid(xrange);
	try_contexts();
	try_sessions();
	try_active_sets();
	leave_some();
	shmem_finalize();
	return 0;
}
