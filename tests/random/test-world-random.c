/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs on the runtime, with each kind of path, against a sequential model. PEs are processes; the daemon is the test's own.
 *
 * A program that fails is printed with the command that repeats it, and with fewer steps where those fail, too:
 *
 *	SHMEMD_RANDOM_SEED	the first seed; without it that of the path
 *	SHMEMD_RANDOM_N		the number of programs; without it SHMEMD_RANDOM_SHARE or a few, with SHMEMD_TEST_FULL 2,000 for each path
 *	SHMEMD_RANDOM_PES	PEs of each program; without it the seed decides
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/test.h"
#include "tests/random/coll.h"
#include "tests/random/execute.h"

struct path {
	const char *test; /* the name of the test */
	uint64_t first; /* seed */
	const char *rc_peers; /* SHMD_RC_PEERS */
	const char *hot_start; /* SHMD_HOT_START; NULL: 0 */
	uint32_t (*allow)(int pe);
	bool is_one_process; /* PEs are threads */
	const char *fault; /* of the soft NICs; NULL: none */
};

struct lab {
	const struct fixture_daemon *daemon;
	const struct path *path;
	bool is_silent;
	struct shmd_uid uids[MAX_WORLDS];
};

static uint32_t all_paths(int pe)
{
	(void)pe;
	return 0;
}

static uint32_t queues_only(int pe)
{
	(void)pe;
	return SHMD_ALLOW_QUEUE;
}

/* Two of three PEs map each other. */
static uint32_t some_mapped(int pe)
{
	return pe % 3 == 1 ? SHMD_ALLOW_QUEUE : SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE;
}

/* ---- one PE ----------------------------------------------------------------------------------------------------------------- */

static void set_number(const char *name, uint64_t value, const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)value, unit);
	setenv(name, text, 1);
}

static void set_environment(const struct lab *lab, const struct program *program)
{
	setenv("SHMD_RC_PEERS", lab->path->rc_peers, 1);
	setenv("SHMD_HOT_START", lab->path->hot_start ? lab->path->hot_start : "0", 1);
	set_number("SHMD_QUEUE_DEPTH", program->queue_depth, "");
	set_number("SHMD_DCIS", program->dcis, "");
	set_number("SHMD_NICS_PER_PE", program->nics, "");
	/* As few ids as must do, so that they serve again. */
	set_number("SHMD_MAX_TEAMS", 4 + (uint64_t)(MAX_TEAMS - 1) * (uint64_t)program->n_pes, "");
	setenv("SHMD_HEAP_SIZE", "2M", 1);
	setenv("SHMD_HEAP_CHUNK", "2M", 1);
	setenv("SHMD_HEAP_RESERVE", "512M", 1);
	setenv("SHMD_HEAP_DEBUG", program->has_guards ? "guard" : "none", 1);
	setenv("SHMD_TIMEOUT", "60s", 0);
}

static void open_world(const struct lab *lab, struct run *run, int world)
{
	int rank = rank_of(run->program, world, run->pe);
	struct shmd_world_attr attr = {.uid = &lab->uids[world], .rank = rank, .size = run->program->n_pes,
				       .socket_path = lab->daemon->socket, .paths = lab->path->allow(rank)};

	run_must(run, shmd_world_open(&attr, &run->worlds[world].world));
	run_must(run, shmd_world_start(run->worlds[world].world));
}

/* If all PEs have freed all, a few calls tell them so. */
static void check_heap(struct run *run, int world)
{
	struct shmd_world *w = run->worlds[world].world;
	struct shmd_world_info info;
	void *ptr;

	for (int i = 0; i < MAX_ALLOCS; i++)
		if (run->worlds[world].allocs[i])
			return;
	for (int i = 0; i < 3; i++) {
		run_must(run, shmd_malloc(w, 16, 0, &ptr));
		run_must(run, shmd_free(w, ptr));
	}
	run_must(run, shmd_world_info(w, &info));
	if (info.heap_used_bytes > 16)
		run_fail(run, "%llu bytes of the heap are in use, and all was freed", (unsigned long long)info.heap_used_bytes);
}

static void begin_process(const struct lab *lab, const struct program *program)
{
	int null = lab->is_silent ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	set_environment(lab, program);
}

static void run_pe(const struct lab *lab, const struct program *program, int pe)
{
	struct run run = {.program = program, .pe = pe, .at = program->n_steps};

	for (int i = 0; i < program->n_worlds; i++)
		open_world(lab, &run, i);
	execute(&run);
	for (int i = program->n_worlds - 1; i >= 0; i--) {
		check_heap(&run, i);
		run_must(&run, shmd_world_close(run.worlds[i].world));
	}
}

/* All PEs in one process. */
struct thread {
	pthread_t id;
	const struct lab *lab;
	const struct program *program;
	int pe;
};

static void *run_thread(void *arg)
{
	const struct thread *thread = arg;

	run_pe(thread->lab, thread->program, thread->pe);
	return NULL;
}

static void run_threads(const struct lab *lab, const struct program *program)
{
	struct thread threads[MAX_PES];

	for (int pe = 0; pe < program->n_pes; pe++) {
		threads[pe] = (struct thread){.lab = lab, .program = program, .pe = pe};
		ASSERT_OK(pthread_create(&threads[pe].id, NULL, run_thread, &threads[pe]));
	}
	for (int pe = 0; pe < program->n_pes; pe++)
		ASSERT_OK(pthread_join(threads[pe].id, NULL));
}

/* ---- one program ------------------------------------------------------------------------------------------------------------ */

static bool wait_for_all(pid_t *pids, int n)
{
	bool is_good = true;
	int status;

	for (int left = n; left > 0; left--) {
		pid_t pid = waitpid(0, &status, 0);
		int pe = 0;

		while (pe < n && pids[pe] != pid)
			pe++;
		if (pe == n) {
			left++;
			continue;
		}
		pids[pe] = 0;
		if (status == 0)
			continue;
		/* The others would wait for it. */
		for (int i = 0; is_good && i < n; i++)
			if (pids[i])
				kill(pids[i], SIGKILL);
		is_good = false;
	}
	return is_good;
}

static bool passes(struct lab *lab, const struct program *program)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	int n = lab->path->is_one_process ? 1 : program->n_pes;
	pid_t pids[MAX_PES];

	for (int i = 0; i < program->n_worlds; i++)
		ASSERT_OK(bootstrap_uid_make(&how, &lab->uids[i]));
	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (pids[i])
			continue;
		begin_process(lab, program);
		if (lab->path->is_one_process)
			run_threads(lab, program);
		else
			run_pe(lab, program, i);
		_exit(0);
	}
	return wait_for_all(pids, n);
}

/* Leaves out ever smaller parts, as long as the rest fails. */
static void reduce(struct lab *lab, struct program *program)
{
	uint64_t end = nsec_now() + 60 * NSEC_PER_SEC;

	lab->is_silent = true;
	for (uint32_t part = program->n_steps / 2; part && nsec_now() < end; part /= 2) {
		for (uint32_t from = 0; from < program->n_steps && nsec_now() < end;) {
			bool *keep = malloc(program->n_steps);
			struct program less;

			for (uint32_t i = 0; i < program->n_steps; i++)
				keep[i] = i < from || i >= from + part;
			program_cut(program, keep, &less);
			free(keep);
			if (passes(lab, &less)) {
				program_free(&less);
				from += part;
				continue;
			}
			program_free(program);
			*program = less;
		}
	}
	lab->is_silent = false;
}

static void fail_program(struct lab *lab, struct program *program)
{
	fprintf(stderr, "\nThis repeats it:\n  SHMEMD_RANDOM_SEED=%llu SHMEMD_RANDOM_N=1 SHMEMD_RANDOM_PES=%d %s %s\n",
		(unsigned long long)program->seed, program->n_pes, program_invocation_name, lab->path->test);
	if (!getenv("SHMEMD_RANDOM_WHOLE"))
		reduce(lab, program);
	fprintf(stderr, "%u steps that fail, %d PEs, %d worlds, the model knows %u bytes, guards %d, depth %u, %u DCIs, %u NICs:\n", program->n_steps,
		program->n_pes, program->n_worlds, program->cap, program->has_guards, program->queue_depth, program->dcis,
		program->nics);
	for (uint32_t i = 0; i < program->n_steps; i++)
		step_print(program, i);
	(void)passes(lab, program);
	test_fail(TEST_WHERE, "the program of seed %llu fails", (unsigned long long)program->seed);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

static int pes_of(uint64_t seed)
{
	static const int sizes[] = {1, 2, 2, 2, 3, 3, 3, 8, 2, 3, 8, 16};

	return (int)number("SHMEMD_RANDOM_PES", (uint64_t)sizes[mix32(seed * 77) % 12]);
}

static uint64_t programs_of(uint64_t share)
{
	return number("SHMEMD_RANDOM_N", test_is_full() ? 2000 : number("SHMEMD_RANDOM_SHARE", share));
}

static void run_programs(const struct path *path, uint64_t share)
{
	uint64_t first = number("SHMEMD_RANDOM_SEED", path->first), n = programs_of(share);
	struct fixture_daemon daemon;
	struct lab lab = {.daemon = &daemon, .path = path};

	/* Other NICs do not know it. */
	if (path->fault && !getenv("SHMEMD_TEST_BACKEND"))
		setenv("SHMEMD_FAULT", path->fault, 1);
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	for (uint64_t seed = first; seed < first + n; seed++) {
		struct program program;

		program_make(&program, seed, pes_of(seed));
		if (!passes(&lab, &program))
			fail_program(&lab, &program);
		program_free(&program);
	}
	fixture_daemon_stop(&daemon);
}

struct counts {
	uint32_t kinds[N_STEP_KINDS];
	uint32_t calls[N_COLL_CALLS], types[SHMD_TYPE_COMPLEX_DOUBLE + 1], ops[SHMD_REDUCE_XOR + 1], beside, in_place;
};

static void count(struct counts *n, const struct step *step)
{
	n->kinds[step->kind]++;
	if (step->kind != STEP_COLL)
		return;
	n->calls[step->word]++;
	/* With the team of all a PE is in both calls for sure, and makes one in a second thread. */
	n->beside += step->is_beside && (!step[0].team || !step[-1].team);
	n->in_place += coll_in_place(step);
	if (coll_computes(step->word)) {
		n->types[step->mask]++;
		n->ops[step->cmp]++;
	}
}

/* A kind of step that the judge always refuses would be tested by no program. */
TEST_TIMEOUT(each_kind_of_step_is_in_many_programs, 240)
{
	struct counts n = {.beside = 0};

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct program program;

		program_make(&program, seed, pes_of(seed));
		for (uint32_t i = 0; i < program.n_steps; i++)
			count(&n, &program.steps[i]);
		program_free(&program);
	}
	for (int i = 0; i < N_STEP_KINDS; i++) {
		printf("%6u %s\n", n.kinds[i], step_names[i]);
		ASSERT_GE(n.kinds[i], 10u);
	}
	for (int i = 0; i < N_COLL_CALLS; i++) {
		printf("%6u %s\n", n.calls[i], coll_names[i]);
		ASSERT_GE(n.calls[i], 30u);
	}
	for (int i = SHMD_TYPE_INT8; i <= SHMD_TYPE_COMPLEX_DOUBLE; i++)
		ASSERT_GE(n.types[i], 10u);
	for (int i = SHMD_REDUCE_SUM; i <= SHMD_REDUCE_XOR; i++)
		ASSERT_GE(n.ops[i], 10u);
	printf("%6u collectives at once with another one, %u in place\n", n.beside, n.in_place);
	ASSERT_GE(n.beside, 30u);
	ASSERT_GE(n.in_place, 30u);
}

/* ---- paths ------------------------------------------------------------------------------------------------------------------ */

TEST_TIMEOUT(programs_on_mapped_memory_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_mapped_memory_have_the_results_of_the_model",
					 .first = 1, .rc_peers = "16", .allow = all_paths};

	run_programs(&path, 12);
}

TEST_TIMEOUT(programs_on_rc_queues_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_rc_queues_have_the_results_of_the_model",
					 .first = 10001, .rc_peers = "64", .allow = queues_only};

	run_programs(&path, 6);
}

TEST_TIMEOUT(programs_on_dc_queues_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_dc_queues_have_the_results_of_the_model",
					 .first = 20001, .rc_peers = "0", .allow = queues_only};

	run_programs(&path, 6);
}

TEST_TIMEOUT(programs_on_mixed_paths_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_mixed_paths_have_the_results_of_the_model",
					 .first = 30001, .rc_peers = "1", .hot_start = "1", .allow = some_mapped};

	run_programs(&path, 6);
}

/* Every memory operation of the NIC takes its time, and other ones pass it where they may. */
TEST_TIMEOUT(programs_on_slow_rc_queues_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_slow_rc_queues_have_the_results_of_the_model",
					 .first = 40001, .rc_peers = "64", .allow = queues_only, .fault = "soft.delay-memory:1"};

	run_programs(&path, 6);
}

TEST_TIMEOUT(programs_on_slow_dc_queues_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_on_slow_dc_queues_have_the_results_of_the_model",
					 .first = 50001, .rc_peers = "0", .allow = queues_only, .fault = "soft.delay-memory:1"};

	run_programs(&path, 6);
}

TEST_TIMEOUT(programs_of_pes_in_one_process_have_the_results_of_the_model, 7200)
{
	static const struct path path = {.test = "programs_of_pes_in_one_process_have_the_results_of_the_model",
					 .first = 60001, .rc_peers = "1", .allow = some_mapped, .is_one_process = true};

	run_programs(&path, 6);
}
