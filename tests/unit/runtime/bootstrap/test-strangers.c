/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at the port of a job that opens: whatever they send, the job opens, and none of them gets in. And very many ranks. */
#include "tests/lib/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/gate.h"
#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/job.h"

#define N_SILENT (2 * GATE_MOST_VISITORS)

static int came;

static void open_slowly(struct job *job, int rank)
{
	struct shmd_bootstrap b;
	int mine = rank, all[8];

	/* The strangers come between the ranks. */
	usleep((unsigned int)rank * 150000);
	job_must_open(job, rank, &b);
	ASSERT_OK(b.ops->allgather(&b, &mine, all, sizeof(mine)));
	for (int i = 0; i < job->size; i++)
		ASSERT_EQ(all[i], i);
	__atomic_add_fetch(&came, 1, __ATOMIC_SEQ_CST);
	b.ops->close(&b);
}

static int connect_to(const struct job *job)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&at.sin_port, job->uid.data + 22, 2);
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&at, sizeof(at)))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_open(struct job *job)
{
	return __atomic_load_n(&came, __ATOMIC_SEQ_CST) < job->size;
}

static void *send_noise(void *arg)
{
	struct job *job = arg;
	unsigned int seed = 7;

	while (is_open(job)) {
		uint8_t bytes[1000];
		int fd = connect_to(job);

		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rand_r(&seed);
		if (seed % 2)
			memcpy(bytes, "SHMh\1\0\0\0", 8);
		if (fd >= 0) {
			send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL);
			close(fd);
		}
		usleep(1000);
	}
	return NULL;
}

/* The listener's own bytes sent back, and a hello byte by byte. */
static void *send_slowly(void *arg)
{
	struct job *job = arg;
	int fd = -1;

	while (is_open(job)) {
		char byte = 'S';

		if (fd < 0)
			fd = connect_to(job);
		if (fd >= 0 && send(fd, &byte, 1, MSG_NOSIGNAL) < 0) {
			close(fd);
			fd = -1;
		}
		usleep(5000);
	}
	if (fd >= 0)
		close(fd);
	return NULL;
}

TEST_TIMEOUT(strangers_that_are_silent_slow_many_or_noisy_do_not_stop_a_job, 120)
{
	pthread_t noise, slow;
	int silent[N_SILENT];
	struct job job;

	job_init(&job, 8, open_slowly);
	for (int i = 0; i < N_SILENT; i++)
		silent[i] = connect_to(&job);
	ASSERT_OK(pthread_create(&noise, NULL, send_noise, &job));
	ASSERT_OK(pthread_create(&slow, NULL, send_slowly, &job));
	job_run_threads(&job, 0, 7);
	pthread_join(noise, NULL);
	pthread_join(slow, NULL);
	for (int i = 0; i < N_SILENT; i++)
		close(silent[i]);
	ASSERT_EQ(came, 8);
}

static void open_alone(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	/* Rank 1 never gets in, and the test ends this process. */
	_exit(job_open(job, rank, &b, NULL) ? 1 : 0);
}

TEST_TIMEOUT(a_process_with_another_secret_does_not_get_in, 120)
{
	char text[JOB_TEXT_BYTES];
	struct shmd_bootstrap b;
	struct job job;
	int status;
	pid_t pid;

	job_init(&job, 2, open_alone);
	job_fork(&job, &pid, 0, 0);
	bootstrap_uid_drop(&job.uid);
	job.uid.data[4] ^= 1;
	job.timeout_nsec = 2 * NSEC_PER_SEC;
	ASSERT_ERR(job_open(&job, 1, &b, text), ETIMEDOUT);
	kill(pid, SIGKILL);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFSIGNALED(status));
	ASSERT(strstr(text, "it has another secret"));
}

/* ---- very many ranks --------------------------------------------------------------------------------------------------------- */

static struct {
	uint64_t opened, called;
} clocks;

static void note_latest(uint64_t *at)
{
	uint64_t now = nsec_now(), before = __atomic_load_n(at, __ATOMIC_SEQ_CST);

	while (before < now && !__atomic_compare_exchange_n(at, &before, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void open_among_many(struct job *job, int rank)
{
	int *all = malloc(sizeof(int) * (size_t)job->size);
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	note_latest(&clocks.opened);
	ASSERT_OK(b.ops->allgather(&b, &rank, all, sizeof(rank)));
	for (int i = 0; i < job->size; i++)
		ASSERT_EQ(all[i], i);
	ASSERT_OK(b.ops->barrier(&b));
	note_latest(&clocks.called);
	b.ops->close(&b);
	free(all);
}

TEST_TIMEOUT(a_thousand_ranks_open_in_seconds, 180)
{
	/* Five descriptors for each rank, all in this process. */
	struct rlimit files;
	struct job job;
	uint64_t start;
	int size = test_has_sanitizer() ? 200 : 1024;

	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &files));
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max < (rlim_t)size * 6)
		test_skip("fewer than 6144 descriptors are allowed");
	job_init(&job, size, open_among_many);
	start = nsec_now();
	job_run_threads(&job, 0, size - 1);
	printf("%d ranks: open after %.2f s, allgather and barrier after %.2f s, closed after %.2f s\n", size, (double)(clocks.opened - start) / 1e9,
	       (double)(clocks.called - start) / 1e9, (double)(nsec_now() - start) / 1e9);
	ASSERT_LT(clocks.opened - start, 60 * NSEC_PER_SEC);
}
