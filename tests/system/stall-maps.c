/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/stall-maps.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define PAGE 4096u
#define N_MAPPINGS 60000u /* of the first page in each process: a hole has to be made in all of them */

static void __attribute__((noreturn)) map_often(int memfd, int pipe)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned int i = 0; i < N_MAPPINGS; i++) {
		volatile char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

		if (at == MAP_FAILED)
			break;
		(void)at[0];
	}
	if (write(pipe, "m", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t start_mapping(int memfd)
{
	int fds[2];
	pid_t pid;
	char c;

	ASSERT_OK(pipe(fds));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		map_often(memfd, fds[1]);
	close(fds[1]);
	ASSERT_EQ(read(fds[0], &c, 1), 1);
	close(fds[0]);
	return pid;
}

void stall_maps_start(struct stall_maps *maps, int memfd, uint64_t bytes)
{
	for (unsigned int i = 0; i < STALL_MAPS_PROCESSES; i++)
		maps->pids[i] = start_mapping(memfd);
	puncher_start(&maps->puncher, memfd, bytes);
	usleep(500000);
}

void stall_maps_stop(struct stall_maps *maps)
{
	puncher_stop(&maps->puncher);
	for (unsigned int i = 0; i < STALL_MAPS_PROCESSES; i++) {
		kill(maps->pids[i], SIGKILL);
		ASSERT_EQ(waitpid(maps->pids[i], NULL, 0), maps->pids[i]);
	}
}
