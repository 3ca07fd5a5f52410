/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PE is killed at a random moment: while all open or start a world, allocate, put, sync, split a team, change hot peers, or close. All
 * others get a status that names it. A second later nothing of it is left in the daemon, and a second after the end of the others nothing of
 * the world.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"
#include "tests/system/world-lab.h"

#define N_PES 4
#define FEW_KILLS 64u
#define MANY_KILLS 300u
#define TIME_LIMIT_NSEC (60 * NSEC_PER_SEC) /* of each call of the PEs, which must not be the reason why one ends */
#define OPEN_LIMIT "4s" /* after it the others miss a PE that ended before it met them */
#define WORDS 512u
#define MOST_PROCESSES 512u
#define HEAP_NAME "memfd:shmd-heap"

/* The call of all PEs when one is killed. */
enum moment {
	IN_OPEN,
	IN_START,
	IN_MALLOC,
	IN_PUT,
	IN_BARRIER,
	IN_SPLIT,
	IN_HOT,
	IN_CLOSE,
	N_MOMENTS,
};
static const char *const moment_names[N_MOMENTS] = {"open", "start", "malloc", "put", "barrier", "split", "hot", "close"};

/* How the PEs reach each other. */
static const struct way {
	const char *name;
	uint32_t paths;
	const char *rc_peers; /* SHMD_RC_PEERS */
	const char *hot_start; /* SHMD_HOT_START */
} ways[] = {{"mapped", SHMD_ALLOW_MAPPED, "16", "0"}, {"rc", SHMD_ALLOW_QUEUE, "16", "0"}, {"dc", SHMD_ALLOW_QUEUE, "0", "0"}, {"hot", SHMD_ALLOW_QUEUE, "0", "8"}};
#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

/* Shared by the test and its PEs. Words are atomic. */
struct board {
	enum moment moment;
	const struct way *way;
	uint32_t phase[N_PES]; /* one more than the moment in which the PE is */
	uint32_t has_status[N_PES];
	uint64_t nsec[N_PES]; /* when it had its status */
	int status[N_PES];
	char text[N_PES][512];
	uint32_t may_close;
};

/* ---- a PE */

static void enter(struct board *board, int pe, enum moment moment)
{
	__atomic_store_n(&board->phase[pe], moment + 1u, __ATOMIC_RELEASE);
}

static void tell(struct board *board, int pe, int r)
{
	board->status[pe] = r;
	snprintf(board->text[pe], sizeof(board->text[pe]), "%s", shmd_error_text());
	board->nsec[pe] = nsec_now();
	__atomic_store_n(&board->has_status[pe], 1, __ATOMIC_RELEASE);
}

static int allocate(struct shmd_world *world, unsigned int round)
{
	void *memory = NULL;
	/* Each fiftieth is more than there is, so the heap grows. */
	int r = shmd_malloc(world, round % 50 == 49 ? 5u << 20 : 5000, 0, &memory);

	return r ? r : shmd_free(world, memory);
}

static int put(struct shmd_world *world, uint64_t *words, unsigned int round)
{
	struct shmd_ctx *ctx = shmd_world_ctx(world);
	const struct shmd_atomic add = {.op = SHMD_ATOMIC_ADD, .bytes = 8, .value = 1};
	uint64_t local[WORDS / 8] = {round}, old;
	int to = (shmd_my_pe(world) + 1 + (int)(round % (N_PES - 1))) % N_PES, r;

	switch (round % 5) {
	case 0:
		return shmd_put(ctx, &words[1], local, sizeof(local), to);
	case 1:
		return shmd_put_nbi(ctx, &words[WORDS / 2], &words[1], sizeof(local), to);
	case 2:
		return shmd_atomic_fetch(ctx, words, &add, to, &old);
	case 3:
		r = shmd_put_signal(ctx, &words[1], &words[WORDS / 4], sizeof(local), words, 1, SHMD_SIGNAL_ADD, to);
		return r ? r : shmd_quiet(ctx);
	default:
		return shmd_p(ctx, &words[2], round, 8, to);
	}
}

static int split(struct shmd_world *world, unsigned int round)
{
	struct shmd_team *team = NULL;
	int r = shmd_team_split_color(shmd_team_world(world), (shmd_my_pe(world) + (int)round) % 2, 0, &team);

	if (!r && team)
		r = shmd_team_sync(team);
	return r ? r : shmd_team_destroy(team);
}

/* Pairs change in each round. */
static int change_hot_peers(struct shmd_world *world, uint64_t *words, unsigned int round)
{
	int pe = (shmd_my_pe(world) + 1 + (int)(round % 3)) % N_PES, r = put(world, words, round);

	r = r ? r : shmd_world_hot_peers(world, &pe, round % 4 != 3);
	return r ? r : put(world, words, round + 1);
}

static int act(struct shmd_world *world, enum moment moment, uint64_t *words, unsigned int round)
{
	switch (moment) {
	case IN_MALLOC:
		return allocate(world, round);
	case IN_PUT:
		return put(world, words, round);
	case IN_SPLIT:
		return split(world, round);
	case IN_HOT:
		return change_hot_peers(world, words, round);
	default:
		return shmd_barrier_all(world);
	}
}

/* Until a call fails, because another PE has been killed. */
static int run(struct shmd_world *world, struct board *board, int pe)
{
	uint64_t *words = NULL;
	int r = shmd_calloc(world, WORDS, sizeof(*words), 0, (void **)&words);

	/* Before IN_CLOSE they have only synced. */
	if (board->moment == IN_CLOSE)
		return r ? r : shmd_barrier_all(world);
	enter(board, pe, board->moment > IN_START ? board->moment : IN_BARRIER);
	for (unsigned int round = 0; !r; round++)
		r = act(world, board->moment, words, round);
	return r;
}

/* A file in /dev/shm would outlive the processes. */
static void assert_not_mapped(const char *words)
{
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	ASSERT(maps);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, words))
			test_fail(TEST_WHERE, "mapped: %s", line);
	fclose(maps);
}

static void close_world(struct shmd_world *world, struct board *board, int pe)
{
	int r;

	enter(board, pe, IN_CLOSE);
	r = shmd_world_close(world);
	if (board->moment == IN_CLOSE && !__atomic_load_n(&board->has_status[pe], __ATOMIC_ACQUIRE))
		tell(board, pe, r);
	assert_not_mapped(HEAP_NAME);
}

static int lives(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world_attr attr = {.uid = &lab->uid, .rank = pe, .size = lab->n, .socket_path = lab->daemon->socket,
				       .timeout_nsec = TIME_LIMIT_NSEC};
	struct shmd_world *world = NULL;
	struct board *board = arg;
	int r;

	setenv("SHMD_RC_PEERS", board->way->rc_peers, 1);
	setenv("SHMD_HOT_START", board->way->hot_start, 1);
	attr.paths = board->way->paths;
	enter(board, pe, IN_OPEN);
	r = shmd_world_open(&attr, &world);
	if (!r) {
		enter(board, pe, IN_START);
		r = shmd_world_start(world);
	}
	if (!r)
		assert_not_mapped("/dev/shm/");
	if (!r)
		r = run(world, board, pe);
	if (r)
		tell(board, pe, r);
	while (r && !__atomic_load_n(&board->may_close, __ATOMIC_ACQUIRE))
		usleep(500);
	close_world(world, board, pe);
	return 0;
}

/* ---- the test */

struct killing {
	struct world_lab lab;
	struct board *board;
	int victim;
	uint64_t nsec; /* when it was killed */
};

static void await_word(const uint32_t *word, uint32_t least)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < least) {
		ASSERT_LT(nsec_now(), end);
		usleep(20);
	}
}

static void sleep_usec(uint64_t usec)
{
	const struct timespec time = {.tv_sec = (time_t)(usec / 1000000), .tv_nsec = (long)(usec % 1000000) * 1000};

	nanosleep(&time, NULL);
}

/* The usual length of a moment; calls that are repeated fail at any time. */
static uint64_t longest_usec(enum moment moment)
{
	return moment == IN_CLOSE ? 3000 : 20000;
}

static void kill_one(struct killing *killing)
{
	int status;

	await_word(&killing->board->phase[killing->victim], killing->board->moment + 1u);
	sleep_usec((uint64_t)random() % longest_usec(killing->board->moment));
	killing->nsec = nsec_now();
	ASSERT_OK(kill(killing->lab.pids[killing->victim], SIGKILL));
	status = world_lab_wait(&killing->lab, killing->victim);
	/* It may have left the world before. */
	if (status || killing->board->moment != IN_CLOSE)
		ASSERT_EQ(status, 128 + SIGKILL);
}

/* "PE 2 (pid ...", or by the bootstrap, where PEs have only ranks: "rank 2 ...", "ranks 1,2 of 4 ...". */
static bool names(const char *text, int pe, bool is_by_ranks)
{
	char words[32];
	const char *ranks;

	snprintf(words, sizeof(words), "PE %d (pid", pe);
	if (strstr(text, words))
		return true;
	ranks = is_by_ranks ? strstr(text, "rank") : NULL;
	snprintf(words, sizeof(words), "%d", pe);
	return ranks && strstr(ranks, words);
}

static bool is_fit(enum moment moment, const struct way *way, int status)
{
	if (status == -EHOSTDOWN)
		return true;
	/* Its end is known to the NIC before it is known to the bootstrap. */
	if (status == -EIO && (way->paths & SHMD_ALLOW_QUEUE))
		return true;
	if (status == -ETIMEDOUT && moment == IN_OPEN)
		return true;
	/* All had called before it was killed. */
	return status == 0 && moment == IN_CLOSE;
}

static void check_status(const struct killing *killing, int pe)
{
	const struct board *board = killing->board;
	/* Calls that go by the bootstrap may hear of the end from it. */
	bool is_by_ranks = board->moment == IN_OPEN || board->moment == IN_START || board->moment == IN_HOT;

	if (!is_fit(board->moment, board->way, board->status[pe]) ||
	    (board->status[pe] && !names(board->text[pe], killing->victim, is_by_ranks)))
		test_fail(TEST_WHERE, "PE %d killed in %s, %s: PE %d got %d, \"%s\"", killing->victim, moment_names[board->moment],
			  board->way->name, pe, board->status[pe], board->text[pe]);
	ASSERT_LT(board->nsec[pe], killing->nsec + TIME_LIMIT_NSEC);
}

static bool is_without_session(struct raw_client *ctl, void *arg)
{
	struct msg_status_rep status;

	(void)arg;
	raw_status(ctl, &status);
	return status.n_sessions <= N_PES - 1;
}

static bool is_without_entry(struct raw_client *ctl, void *arg)
{
	struct msg_status_rep status;

	(void)arg;
	raw_status(ctl, &status);
	return status.n_published == 0;
}

static unsigned int heaps_of(pid_t pid)
{
	char path[64], link[128], line[512];
	const struct dirent *entry;
	unsigned int n = 0;
	FILE *maps;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, HEAP_NAME) != NULL;
	if (maps)
		fclose(maps);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	fds = opendir(path);
	while (fds && (entry = readdir(fds))) {
		ssize_t bytes = readlinkat(dirfd(fds), entry->d_name, link, sizeof(link) - 1);

		if (bytes > 0) {
			link[bytes] = 0;
			n += strstr(link, HEAP_NAME) != NULL;
		}
	}
	if (fds)
		closedir(fds);
	return n;
}

/* Descriptors and mappings of heaps in the daemon and its processes. The PEs have ended. */
static unsigned int n_heaps(const struct fixture_daemon *daemon)
{
	pid_t pids[MOST_PROCESSES];
	unsigned int n_pids = child_tree(daemon->pid, pids, MOST_PROCESSES), n = 0;

	for (unsigned int i = 0; i < n_pids; i++)
		n += heaps_of(pids[i]);
	return n;
}

static bool has_no_heap(struct raw_client *ctl, void *arg)
{
	(void)ctl;
	return n_heaps(arg) == 0;
}

static void one_round(struct killing *killing, struct raw_client *ctl, uint64_t *longest)
{
	struct board *board = killing->board;

	world_lab_start(&killing->lab, lives, board);
	kill_one(killing);
	daemon_expect(ctl, is_without_session, NULL, "the things of the PE", NSEC_PER_SEC);
	for (int pe = 0; pe < N_PES; pe++) {
		if (pe == killing->victim)
			continue;
		await_word(&board->has_status[pe], 1);
		check_status(killing, pe);
		if (board->nsec[pe] > killing->nsec + *longest)
			*longest = board->nsec[pe] - killing->nsec;
	}
	daemon_expect(ctl, is_without_entry, NULL, "published entries", NSEC_PER_SEC);
	__atomic_store_n(&board->may_close, 1, __ATOMIC_RELEASE);
	for (int pe = 0; pe < N_PES; pe++)
		if (pe != killing->victim)
			ASSERT_EQ(world_lab_wait(&killing->lab, pe), 0);
	daemon_expect_empty(ctl, NSEC_PER_SEC);
	daemon_expect(ctl, has_no_heap, (void *)(uintptr_t)killing->lab.daemon, "heaps", NSEC_PER_SEC);
}

static struct board *board_new(void)
{
	void *memory = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	return memory;
}

TEST_TIMEOUT(a_pe_that_is_killed_at_a_random_moment_is_named_to_all_and_leaves_nothing, 600)
{
	unsigned int n = test_is_full() ? MANY_KILLS : FEW_KILLS;
	struct board *board = board_new();
	struct fixture_daemon daemon;
	uint64_t longest[N_MOMENTS] = {0};
	struct raw_client ctl;

	setenv("SHMD_BOOTSTRAP_TIMEOUT", OPEN_LIMIT, 1);
	srandom((unsigned int)getpid());
	fixture_daemon_start(&daemon, "--soft-nics=2", NULL);
	raw_connect(&ctl, daemon.socket);
	raw_hello(&ctl, MSG_ROLE_CONTROL);
	for (unsigned int i = 0; i < n; i++) {
		struct killing killing = {.lab = {.daemon = &daemon, .n = N_PES}, .board = board,
					  .victim = (int)((unsigned long)random() % N_PES)};

		*board = (struct board){.moment = i % N_MOMENTS, .way = &ways[i / N_MOMENTS % N_WAYS]};
		one_round(&killing, &ctl, &longest[board->moment]);
	}
	for (int i = 0; i < N_MOMENTS; i++)
		printf("# %s: all had a status %.1f ms after the kill at most\n", moment_names[i], (double)longest[i] / 1e6);
	raw_close(&ctl);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(board, sizeof(*board)));
}
