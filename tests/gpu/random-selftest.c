/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random programs of tests/random with kernels as PEs, on GPU heaps: usage: gpu-random-selftest PATHS PES FIRST N [SECONDS]
 *
 *	PATHS	mapped; queues; mixed: of three PEs two map each other
 *	FIRST	the first seed, of N; after SECONDS no program begins
 *
 * PEs are processes, which share the GPUs there are and go from program to program. A daemon runs at $SHMEMD_SOCKET. Collectives of types that kernels do
 * not have are left out, with the steps that need them. It returns 0 if all have the results of the
 * model, 1 if one has not, and 77 without a GPU.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "proto/base/nsec.h"
#include "tests/gpu/random-execute.h"
#include "tests/random/coll.h"

#define NO_GPU 77

struct lab {
	const char *paths;
	int n_pes;
	uint64_t first, n;
	uint64_t end_nsec;
	struct shmd_uid (*uids)[MAX_WORLDS]; /* of each program */
};

static uint32_t paths_of(const struct lab *lab, int rank)
{
	if (!strcmp(lab->paths, "queues") || (!strcmp(lab->paths, "mixed") && rank % 3 == 1))
		return SHMD_ALLOW_QUEUE;
	return !strcmp(lab->paths, "mixed") ? SHMD_ALLOW_MAPPED | SHMD_ALLOW_QUEUE : 0;
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

static bool kernels_have(const struct step *step)
{
	return step->kind != STEP_COLL || !coll_computes(step->word) || step->mask <= SHMD_TYPE_DOUBLE;
}

/* The same on all PEs. */
static void make(const struct lab *lab, uint64_t seed, struct program *ret_program)
{
	struct program whole;
	bool *keep;

	program_make(&whole, seed, lab->n_pes);
	keep = malloc(whole.n_steps + 1);
	if (!keep)
		abort();
	for (uint32_t i = 0; i < whole.n_steps; i++)
		keep[i] = kernels_have(&whole.steps[i]);
	program_cut(&whole, keep, ret_program);
	free(keep);
	program_free(&whole);
}

static void set_number(const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	setenv(name, text, 1);
}

static void set_environment(const struct program *program)
{
	set_number("SHMD_QUEUE_DEPTH", program->queue_depth);
	set_number("SHMD_CTX_DCIS", program->dcis);
	set_number("SHMD_NICS_PER_PE", program->nics);
	set_number("SHMD_MAX_TEAMS", 4 + (uint64_t)(MAX_TEAMS - 1) * (uint64_t)program->n_pes);
	setenv("SHMD_HEAP_SIZE", "2M", 1);
	setenv("SHMD_GPU_HEAP_SIZE", "4M", 1);
	setenv("SHMD_GPU_HEAP_CHUNK", "4M", 1);
	setenv("SHMD_GPU_HEAP_RESERVE", "1G", 1);
	setenv("SHMD_TIMEOUT", "30s", 0);
}

static void open_world(const struct lab *lab, struct run *run, uint64_t i, int world)
{
	int rank = rank_of(run->program, world, run->pe);
	struct shmd_world_attr attr = {.uid = &lab->uids[i][world], .rank = rank, .size = run->program->n_pes, .paths = paths_of(lab, rank),
				       .gpu = "current"};

	run_must(run, shmd_world_open(&attr, &run->worlds[world].world));
	run_must(run, shmd_world_start(run->worlds[world].world));
}

static void run_program(const struct lab *lab, struct kernels *kernels, const struct program *program, uint64_t i, int pe)
{
	struct run run = {.program = program, .pe = pe, .at = program->n_steps};

	set_environment(program);
	for (int world = 0; world < program->n_worlds; world++)
		open_world(lab, &run, i, world);
	kernels_execute(kernels, &run);
	for (int world = program->n_worlds - 1; world >= 0; world--)
		run_must(&run, shmd_world_close(run.worlds[world].world));
}

/* PE 0 says whether there is time for one more. */
static bool goes_on(const struct lab *lab, uint64_t i)
{
	return i < lab->n && nsec_now() < lab->end_nsec;
}

static void run_pe(const struct lab *lab, int pe, int from_before, int to_next)
{
	struct kernels kernels;

	if (kernels_make(&kernels, pe) < 0)
		_exit(NO_GPU);
	for (uint64_t i = 0;; i++) {
		struct program program;
		char go = pe == 0 && goes_on(lab, i);

		/* The word goes round. */
		if ((pe > 0 && read(from_before, &go, 1) != 1) || (to_next >= 0 && write(to_next, &go, 1) != 1))
			_exit(1);
		if (!go)
			_exit(0);
		make(lab, lab->first + i, &program);
		run_program(lab, &kernels, &program, i, pe);
		program_free(&program);
		if (pe == 0)
			printf("seed %llu: done\n", (unsigned long long)(lab->first + i));
		fflush(stdout);
	}
}

/* ---- processes -------------------------------------------------------------------------------------------------------------- */

static int wait_for_all(pid_t *pids, int n)
{
	int result = 0, status;

	for (int left = n; left > 0; left--) {
		pid_t pid = wait(&status);
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;

		for (int i = 0; i < n; i++)
			pids[i] = pids[i] == pid ? 0 : pids[i];
		if (!code || result)
			continue;
		result = code;
		/* The others would wait for it. */
		for (int i = 0; i < n; i++)
			if (pids[i])
				kill(pids[i], SIGKILL);
	}
	return result;
}

static pid_t start(const struct lab *lab, int pe, const int *from_before, const int *to_next)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (to_next)
		close(to_next[0]);
	run_pe(lab, pe, from_before ? from_before[0] : -1, to_next ? to_next[1] : -1);
	_exit(0);
}

static int run_all(const struct lab *lab)
{
	int pipes[MAX_PES][2];
	pid_t pids[MAX_PES];

	for (int pe = 0; pe + 1 < lab->n_pes; pe++)
		if (pipe(pipes[pe]) < 0)
			return 1;
	for (int pe = 0; pe < lab->n_pes; pe++)
		pids[pe] = start(lab, pe, pe ? pipes[pe - 1] : NULL, pe + 1 < lab->n_pes ? pipes[pe] : NULL);
	return wait_for_all(pids, lab->n_pes);
}

int main(int argc, char **argv)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	struct lab lab;
	int result;

	if (argc < 5) {
		fprintf(stderr, "usage: gpu-random-selftest mapped|queues|mixed PES FIRST N [SECONDS]\n");
		return 2;
	}
	lab = (struct lab){.paths = argv[1], .n_pes = atoi(argv[2]), .first = strtoull(argv[3], NULL, 0), .n = strtoull(argv[4], NULL, 0)};
	lab.end_nsec = nsec_now() + (argc > 5 ? strtoull(argv[5], NULL, 0) : 3600) * NSEC_PER_SEC;
	lab.uids = calloc(lab.n + 1, sizeof(*lab.uids));
	if (!lab.uids || lab.n_pes < 1 || lab.n_pes > MAX_PES)
		return 2;
	for (uint64_t i = 0; i < lab.n; i++)
		for (int world = 0; world < MAX_WORLDS; world++)
			if (bootstrap_uid_make(&how, &lab.uids[i][world]) < 0)
				return 1;
	result = run_all(&lab);
	printf("%s, %d PEs: %s\n", lab.paths, lab.n_pes, result == NO_GPU ? "no GPU" : result ? "FAILED" : "all programs have the results of the model");
	free(lab.uids);
	return result;
}
