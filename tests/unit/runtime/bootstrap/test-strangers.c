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

TEST_WAITS(strangers_that_are_silent_slow_many_or_noisy_do_not_stop_a_job, 120)
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

/* ---- the gate alone ---------------------------------------------------------------------------------------------------------- */

static struct gate *gate;
static int judged;

static bool judge(void *arg, const struct gate_visit *visit, struct wire_reply *reply)
{
	judged++;
	return false;
}

static void turn(int msec)
{
	struct pollfd fds[GATE_MOST_VISITORS + 1];
	unsigned int n = gate_poll(gate, fds);

	poll(fds, n, msec);
	gate_turn(gate, fds, judge, NULL, NULL);
}

static void make_gate(struct job *job, const uint8_t *secret)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	ASSERT_OK(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	ASSERT_OK(listen(fd, 16));
	ASSERT_OK(getsockname(fd, (struct sockaddr *)&at, &bytes));
	memcpy(job->uid.data + 22, &at.sin_port, 2);
	ASSERT_OK(gate_new(fd, secret, &gate));
}

static void say_hello(int fd, const uint8_t *secret)
{
	struct wire_hello hello = {.purpose = WIRE_JOIN, .rank = 1, .size = 2, .version = "0"};
	uint8_t bytes[WIRE_HELLO_BYTES], nonce[WIRE_NONCE_BYTES];

	ASSERT_EQ(recv(fd, bytes, WIRE_CHALLENGE_BYTES, MSG_WAITALL), WIRE_CHALLENGE_BYTES);
	ASSERT_OK(wire_challenge_read(bytes, nonce));
	wire_hello(&hello, secret, nonce, bytes);
	ASSERT_EQ(send(fd, bytes, sizeof(bytes), 0), (ssize_t)sizeof(bytes));
}

TEST(a_rank_that_gave_up_its_try_is_not_taken_for_one_that_came)
{
	static const uint8_t secret[UID_SECRET_BYTES] = "a secret";
	struct job job = {0};
	int left, stays;

	make_gate(&job, secret);
	left = connect_to(&job);
	stays = connect_to(&job);
	turn(1000);
	say_hello(left, secret);
	close(left);
	usleep(10000);
	turn(1000);
	ASSERT_EQ(judged, 0);
	say_hello(stays, secret);
	for (int i = 0; i < 100 && !judged; i++)
		turn(100);
	ASSERT_EQ(judged, 1);
	close(stays);
	gate_free(gate);
}

TEST(without_descriptors_the_gate_rests_and_its_thread_does_not)
{
	static const uint8_t secret[UID_SECRET_BYTES] = "a secret";
	struct pollfd fds[GATE_MOST_VISITORS + 1];
	struct rlimit before, files;
	struct job job = {0};
	uint64_t start;
	char byte;
	int fd;

	make_gate(&job, secret);
	fd = connect_to(&job);
	ASSERT_GE(fd, 0);
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &before));
	files = before;
	files.rlim_cur = (rlim_t)fd + 1;
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &files));
	turn(1000);
	ASSERT_EQ(gate_poll(gate, fds), 1);
	ASSERT_EQ(fds[0].fd, -1);
	ASSERT_GT(gate_wait_msec(gate, 10000), 0);
	ASSERT_LE(gate_wait_msec(gate, 10000), 51);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &before));
	start = nsec_now();
	while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && nsec_now() - start < test_patience_nsec())
		turn(gate_wait_msec(gate, 1000));
	ASSERT_LT(nsec_now() - start, test_patience_nsec());
	close(fd);
	gate_free(gate);
}

static void open_alone(struct job *job, int rank)
{
	struct shmd_bootstrap b;

	/* Rank 1 never gets in, and the test ends this process. */
	_exit(job_open(job, rank, &b, NULL) ? 1 : 0);
}

TEST_WAITS(a_process_with_another_secret_does_not_get_in, 120)
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
