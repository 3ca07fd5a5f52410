/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap on huge pages against one on ordinary pages: words at random places of a large allocation, each read after the last one has arrived.
 * A process for each run, since the setting is read when a world opens. It needs pages that the administrator has reserved
 * (vm.nr_hugepages=40); without them it skips.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd.h>

#include "tests/bench/bench.h"
#include "tests/bench/ref/ref.h"

#define HEAP_BYTES "64M"
#define N_WORDS (6u << 20) /* 48 MiB: more than caches and the TLB's small pages reach */
#define N_READS 2000000u

static int open_world(struct shmd_world **ret_world, uint64_t **ret_words)
{
	struct shmd_world_attr attr = {0};
	int r = shmd_world_open(&attr, ret_world);

	r = r ? r : shmd_world_start(*ret_world);
	return r ? r : shmd_calloc(*ret_world, N_WORDS, sizeof(uint64_t), 0, (void **)ret_words);
}

/* Each word is 0, so it changes no place, but the next read needs it. */
static int read_words(struct shmd_ctx *ctx, const uint64_t *words, double *ret_nsec)
{
	uint64_t at = UINT64_C(0x9e3779b97f4a7c15), word = 0, start = ref_now_nsec();
	int r = 0;

	for (unsigned int i = 0; i < N_READS && !r; i++) {
		at ^= at << 13;
		at ^= at >> 7;
		at ^= at << 17;
		r = shmd_g(ctx, &words[(at ^ word) % N_WORDS], sizeof(word), 0, &word);
	}
	*ret_nsec = (double)(ref_now_nsec() - start) / N_READS;
	return r;
}

static _Noreturn void run_pe(const char *pages, int to)
{
	struct shmd_world *world = NULL;
	uint64_t *words = NULL;
	double nsec = -1;
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("SHMD_HUGE_PAGES", pages, 1);
	setenv("SHMD_HEAP_SIZE", HEAP_BYTES, 1);
	r = open_world(&world, &words);
	r = r ? r : read_words(shmd_world_ctx(world), words, &nsec);
	if (r)
		fprintf(stderr, "bench-huge: %s pages: %s\n", pages, shmd_error_text());
	else if (write(to, &nsec, sizeof(nsec)) != sizeof(nsec))
		r = -1;
	_exit(r || shmd_world_close(world) ? 1 : 0);
}

static double run(const char *pages)
{
	int ends[2], status = 1;
	double nsec = -1;
	pid_t pid;

	if (pipe(ends) < 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_pe(pages, ends[1]);
	close(ends[1]);
	if (pid < 0 || read(ends[0], &nsec, sizeof(nsec)) != sizeof(nsec))
		nsec = -1;
	close(ends[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? nsec : -1;
}

static double huge(void *arg)
{
	(void)arg;
	return run("on");
}

static double ordinary(void *arg)
{
	(void)arg;
	return run("off");
}

int main(void)
{
	if (huge(NULL) < 0) {
		puts("SKIP: a heap on huge pages cannot be had here");
		return 77;
	}
	bench_header("heap on huge pages");
	return bench_run(&(struct bench_row){.name = "read at random places of 48 MiB", .unit = "ns", .ours = huge, .reference = ordinary,
					     .reference_name = "ordinary pages"})
		       ? 0
		       : 1;
}
