/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks die or close one after the other and several at once, wherever they are in the tree: each that is left hears of each death, once. */
#include "tests/lib/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/uid.h"
#include "proto/base/nsec.h"
#include "tests/unit/runtime/bootstrap/job.h"

#define MOST 32

enum state { LIVES, DIED, CLOSED };

/* All processes of a job have this. */
struct shared {
	int ready;
	int is_over;
	int closes[MOST], closed[MOST];
	int reports[MOST][MOST]; /* to whom, of whom */
};

struct fates {
	struct job job;
	struct shared *shared;
	pid_t pids[MOST];
	enum state states[MOST];
	int n_left;
};

struct hearer {
	struct shared *shared;
	int rank;
};

static void note_report(void *arg, int rank, const char *why)
{
	struct hearer *hearer = arg;

	__atomic_add_fetch(&hearer->shared->reports[hearer->rank][rank], 1, __ATOMIC_SEQ_CST);
}

static int load(const int *at)
{
	return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

static void store(int *at, int value)
{
	__atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

static void hear(struct job *job, int rank)
{
	struct hearer hearer = {.shared = job->arg, .rank = rank};
	struct shared *shared = job->arg;
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_OK(b.ops->watch(&b, note_report, &hearer));
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	while (!load(&shared->is_over) && !load(&shared->closes[rank]))
		usleep(1000);
	b.ops->close(&b);
	store(&shared->closed[rank], 1);
}

/* The job's id has an address of this family alone. */
static void begin_by(struct fates *fates, int size, int family)
{
	struct bootstrap_attr attr = {.interface = "=lo", .family = family};

	*fates = (struct fates){.n_left = size};
	fates->shared = mmap(NULL, sizeof(*fates->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT(fates->shared != MAP_FAILED);
	job_init(&fates->job, size, hear);
	if (family) {
		bootstrap_uid_drop(&fates->job.uid);
		ASSERT_OK(bootstrap_uid_make(&attr, &fates->job.uid));
	}
	fates->job.arg = fates->shared;
	job_fork(&fates->job, fates->pids, 0, size - 1);
	bootstrap_uid_drop(&fates->job.uid);
	for (uint64_t end = nsec_now() + test_patience_nsec(); load(&fates->shared->ready) < size; usleep(1000))
		ASSERT_LT(nsec_now(), end);
}

static void begin(struct fates *fates, int size)
{
	begin_by(fates, size, 0);
}

static void kill_one(struct fates *fates, int rank)
{
	fates->states[rank] = DIED;
	fates->n_left--;
	ASSERT_OK(kill(fates->pids[rank], SIGKILL));
}

static bool all_know(const struct fates *fates)
{
	for (int to = 0; to < fates->job.size; to++)
		for (int of = 0; of < fates->job.size; of++)
			if (fates->states[to] == LIVES && fates->states[of] == DIED && !load(&fates->shared->reports[to][of]))
				return false;
	return true;
}

static uint64_t wait_for_news(const struct fates *fates)
{
	uint64_t begin_at = nsec_now();

	while (!all_know(fates) && nsec_now() - begin_at < test_patience_nsec())
		usleep(500);
	for (int to = 0; to < fates->job.size && !all_know(fates); to++)
		for (int of = 0; of < fates->job.size; of++)
			if (fates->states[to] == LIVES && fates->states[of] == DIED && !load(&fates->shared->reports[to][of]))
				printf("rank %d has not heard of the death of rank %d\n", to, of);
	ASSERT(all_know(fates));
	return nsec_now() - begin_at;
}

/* The ranks that are left close; there was one report of each death, and none of others. */
static void end(struct fates *fates)
{
	store(&fates->shared->is_over, 1);
	for (int rank = 0; rank < fates->job.size; rank++) {
		if (fates->states[rank] == LIVES)
			job_wait(fates->pids, rank, rank, 0);
		else if (fates->states[rank] == DIED)
			waitpid(fates->pids[rank], NULL, 0);
	}
	for (int to = 0; to < fates->job.size; to++)
		for (int of = 0; of < fates->job.size && fates->states[to] == LIVES; of++)
			if (load(&fates->shared->reports[to][of]) != (fates->states[of] == DIED))
				test_fail(TEST_WHERE, "rank %d has %d reports of rank %d", to, load(&fates->shared->reports[to][of]), of);
	munmap(fates->shared, sizeof(*fates->shared));
}

static int one_that_lives(const struct fates *fates, unsigned int *seed)
{
	int rank;

	do
		rank = rand_r(seed) % fates->job.size;
	while (fates->states[rank] != LIVES);
	return rank;
}

TEST_TIMEOUT(each_rank_hears_of_deaths_one_after_the_other_whatever_their_order, 120)
{
	uint64_t longest = 0, nsec;
	unsigned int seed = 1;
	struct fates fates;

	begin(&fates, 24);
	/* Rank 0 first: the others are below it. */
	for (int rank = 0; fates.n_left > 1; rank = one_that_lives(&fates, &seed)) {
		kill_one(&fates, rank);
		nsec = wait_for_news(&fates);
		longest = nsec > longest ? nsec : longest;
	}
	printf("all know of a death after %.1f ms at most\n", (double)longest / 1e6);
	end(&fates);
}

TEST_TIMEOUT(each_rank_hears_of_deaths_at_once_whatever_their_order, 200)
{
	const char *more = getenv("SHMD_TEST_MENDED_SEEDS");
	unsigned int n_seeds = more ? (unsigned int)atoi(more) : 1;

	/* The long form. */
	for (unsigned int first = 1; first <= n_seeds; first++) {
		unsigned int seed = first;
		uint64_t longest = 0, nsec;
		struct fates fates;

		begin(&fates, 24);
		while (fates.n_left > 6) {
			for (int n = 1 + rand_r(&seed) % 5; n > 0; n--)
				kill_one(&fates, one_that_lives(&fates, &seed));
			nsec = wait_for_news(&fates);
			longest = nsec > longest ? nsec : longest;
		}
		printf("seed %u: all know of some deaths after %.1f ms at most\n", first, (double)longest / 1e6);
		end(&fates);
	}
}

static bool has_ipv6(void)
{
	struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && !bind(fd, (struct sockaddr *)&at, sizeof(at));

	if (fd >= 0)
		close(fd);
	return has;
}

TEST_TIMEOUT(a_job_over_ipv6_hears_of_deaths_too, 120)
{
	struct uid_parts parts;
	struct fates fates;

	if (!has_ipv6())
		test_skip("this machine has no address ::1");
	begin_by(&fates, 12, AF_INET6);
	ASSERT_OK(uid_unpack(&fates.job.uid, &parts));
	ASSERT_EQ(parts.n_addresses, 1);
	ASSERT_EQ(parts.addresses[0].any.sa_family, AF_INET6);
	for (int rank = 0; rank < 3; rank++) {
		kill_one(&fates, rank);
		wait_for_news(&fates);
	}
	end(&fates);
}

static void hear_and_close(struct job *job, int rank)
{
	struct hearer hearer = {.shared = job->arg, .rank = rank};
	struct shared *shared = job->arg;
	struct shmd_bootstrap b;

	job_must_open(job, rank, &b);
	ASSERT_OK(b.ops->watch(&b, note_report, &hearer));
	__atomic_add_fetch(&shared->ready, 1, __ATOMIC_SEQ_CST);
	for (uint64_t end = nsec_now() + test_patience_nsec(); load(&shared->ready) < job->size; usleep(100))
		ASSERT_LT(nsec_now(), end);
	if (!rank)
		_exit(0);
	while (!load(&shared->reports[rank][0]))
		usleep(100);
	b.ops->close(&b);
}

/* The ranks that are left close before all of them have another parent. */
TEST_TIMEOUT(ranks_that_close_as_soon_as_one_died_are_not_reported_dead, 120)
{
	for (int round = 0; round < 5; round++) {
		struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		struct job job;
		pid_t pids[20];

		ASSERT(shared != MAP_FAILED);
		job_init(&job, 20, hear_and_close);
		job.arg = shared;
		job_fork(&job, pids, 0, 19);
		bootstrap_uid_drop(&job.uid);
		job_wait(pids, 0, 19, 0);
		for (int to = 1; to < 20; to++)
			for (int of = 1; of < 20; of++)
				ASSERT_EQ(shared->reports[to][of], 0);
		munmap(shared, sizeof(*shared));
	}
}
