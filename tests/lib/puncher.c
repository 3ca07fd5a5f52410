/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/puncher.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define PAGE 4096u
#define FILL_PAUSE_USEC 1000

/* The last one that this process may use: the first ones are what tests begin on. */
static void pin(void)
{
	cpu_set_t may, one;
	int last = 0;

	if (sched_getaffinity(0, sizeof(may), &may) < 0)
		_exit(1);
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &may))
			last = i;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void punch(int memfd, uint64_t bytes)
{
	const struct sched_param none = {0};

	pin();
	if (sched_setscheduler(0, SCHED_IDLE, &none) < 0)
		_exit(1);
	for (;;)
		fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes);
}

static void fill(int memfd, uint64_t bytes)
{
	volatile uint8_t *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	if (mem == MAP_FAILED)
		_exit(1);
	for (;;) {
		for (uint64_t at = 0; at < bytes; at += PAGE)
			mem[at + PAGE - 1] = 1;
		usleep(FILL_PAUSE_USEC);
	}
}

static void hog(int memfd, uint64_t bytes)
{
	pin();
	for (;;)
		__asm__ volatile("" ::: "memory");
}

static void start(struct puncher *p, void (*run)(int memfd, uint64_t bytes), int memfd, uint64_t bytes)
{
	pid_t pid = fork();

	ASSERT_GE(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(memfd, bytes);
		_exit(0);
	}
	p->pids[p->n++] = pid;
}

void puncher_start(struct puncher *p, int memfd, uint64_t bytes)
{
	p->n = 0;
	/* The order in which they end. */
	start(p, hog, memfd, bytes);
	start(p, hog, memfd, bytes);
	start(p, fill, memfd, bytes);
	start(p, punch, memfd, bytes);
}

void puncher_stop(struct puncher *p)
{
	for (unsigned int i = 0; i < p->n; i++)
		kill(p->pids[i], SIGKILL);
	for (unsigned int i = 0; i < p->n; i++)
		ASSERT_EQ(waitpid(p->pids[i], NULL, 0), p->pids[i]);
	p->n = 0;
}
