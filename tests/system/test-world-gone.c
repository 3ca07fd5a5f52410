/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that end, daemons that are missing or die: every call ends with a status and a name, and nothing stays in the daemon. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmd/dev/pe.h>
#include <shmemclient-admin.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/world/ctx.h"
#include "libclient/runtime/world/session.h"
#include "libclient/runtime/world/world.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"
#include "tests/system/world-lab.h"

static void wait_for_status(const struct shmd_world *world, enum shmd_world_status status)
{
	uint64_t deadline = nsec_now() + test_patience_nsec();

	while (shmd_world_status(world) != status) {
		ASSERT_LT(nsec_now(), deadline);
		usleep(1000);
	}
}

/* Collectives name the PE, also one that is forgiven; `rest` is a team without it, of which PE 3 does not call. */
static void assert_no_collectives(struct shmd_world *world, struct shmd_team *all, struct shmd_team *rest, uint64_t *words)
{
	if (shmd_my_pe(world) == 0)
		ASSERT_ERR(shmd_fcollect(rest, words + 1, words, 8), EHOSTDOWN);
	ASSERT_ERR(shmd_fcollect(all, words + 1, words, 8), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	ASSERT_OK(shmd_world_forgive(world));
	ASSERT_ERR(shmd_fcollect(all, words + 1, words, 8), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	if (shmd_my_pe(world) != 0)
		return;
	/* It failed before, so it fails again, and nothing was aborted. */
	ASSERT_ERR(shmd_fcollect(rest, words + 1, words, 8), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "a PE had ended"));
}

/* PE 1 is killed while the others sync for ever. */
static int syncs_until_one_ends(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world_info info;
	struct shmd_pe_info of_one;
	struct shmd_team *team, *rest;
	uint64_t *words;
	void *memory;
	int r = 0;

	(void)arg;
	world_lab_must(shmd_team_split_strided(shmd_team_world(world), 0, 1, lab->n, &team), "split");
	world_lab_must(shmd_team_split_strided(team, 0, 3, 2, &rest), "split");
	world_lab_must(shmd_calloc(world, 8, 8, 0, (void **)&words), "calloc");
	for (int i = 0; !r; i++) {
		if (pe == 1 && i == 100)
			raise(SIGKILL);
		r = shmd_sync_all(world);
	}
	ASSERT_EQ(r, -EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	wait_for_status(world, SHMD_WORLD_BROKEN);
	ASSERT_ERR(shmd_malloc(world, 8, 0, &memory), EHOSTDOWN);
	ASSERT_OK(shmd_world_info(world, &info));
	ASSERT_EQ(info.n_gone, 1);
	ASSERT_OK(shmd_pe_info(world, 1, &of_one));
	ASSERT_EQ(of_one.path, SHMD_PATH_GONE);
	if (pe == 2) {
		ASSERT_ERR(shmd_world_close(world), EHOSTDOWN);
		ASSERT(strstr(shmd_error_text(), "PE 1"));
		return 0;
	}
	assert_no_collectives(world, team, rest, words);
	/* Its teams have no syncs any more, and end at once. */
	ASSERT_ERR(shmd_sync_all(world), EHOSTDOWN);
	ASSERT(strstr(shmd_error_text(), "PE 1"));
	ASSERT_ERR(shmd_team_barrier(team), EHOSTDOWN);
	ASSERT_ERR(shmd_team_destroy(team), EHOSTDOWN);
	world_lab_close(world);
	return 0;
}

static unsigned int n_sessions(struct shmd_client *control)
{
	struct shmd_daemon_status status;

	ASSERT_OK(shmd_admin_status(control, &status));
	return status.n_sessions;
}

static void assert_nothing_left(const struct fixture_daemon *daemon)
{
	struct shmd_client *control = lab_control(daemon);
	uint64_t deadline = nsec_now() + test_patience_nsec();

	while (n_sessions(control)) {
		ASSERT_LT(nsec_now(), deadline);
		usleep(1000);
	}
	shmd_client_close(control);
}

TEST_TIMEOUT(the_end_of_one_pe_ends_the_calls_of_all, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 4};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, syncs_until_one_ends, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 1 ? 128 + SIGKILL : 0);
	assert_nothing_left(&daemon);
	fixture_daemon_stop(&daemon);
}

/* ---- time limits */

/* The error text is `before`, the PE with its process and node, `behind`. */
static void assert_named(const struct shmd_world *world, const char *before, int pe, const char *behind)
{
	struct shmd_pe_info info;
	char text[512];

	ASSERT_OK(shmd_pe_info(world, pe, &info));
	snprintf(text, sizeof(text), "%sPE %d (pid %d on %s)%s", before, pe, info.pid, info.host, behind);
	ASSERT_STREQ(shmd_error_text(), text);
}

static void await(const int *word, int value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		usleep(1000);
}

/* PEs 2 and 4 of five stay away. */
struct absence {
	int n_refused, n_closed; /* calls that failed */
};

static void misses_two(struct shmd_world *world, struct absence *absence)
{
	struct shmd_pe_info info;
	char before[256];

	ASSERT_ERR(shmd_barrier_all(world), ETIMEDOUT);
	__atomic_fetch_add(&absence->n_refused, 1, __ATOMIC_RELEASE);
	await(&absence->n_refused, 3);
	/* Now the others have come for sure. */
	ASSERT_ERR(shmd_barrier_all(world), ETIMEDOUT);
	ASSERT_OK(shmd_pe_info(world, 2, &info));
	snprintf(before, sizeof(before), "shmd_barrier_all: PE 2 (pid %d on %s), ", info.pid, info.host);
	assert_named(world, before, 4, " did not come within the time limit (SHMD_TIMEOUT)");
}

static int some_stay_away(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct absence *absence = arg;
	uint64_t begin;

	if (pe == 2 || pe == 4) {
		await(&absence->n_closed, 3);
		(void)shmd_world_close(world);
		return 0;
	}
	/* The limit of these calls alone, not of those to the daemon. */
	world->ctx->dev.timeout_nsec = world->settings.timeout_nsec = NSEC_PER_SEC / 5;
	misses_two(world, absence);
	begin = nsec_now();
	ASSERT_ERR(shmd_world_close(world), ETIMEDOUT);
	/* Not the minute of SHMD_BOOTSTRAP_TIMEOUT. */
	ASSERT_LT(nsec_now() - begin, 30 * NSEC_PER_SEC);
	ASSERT(strstr(shmd_error_text(), "shmd_world_close: PE ") == shmd_error_text());
	ASSERT(strstr(shmd_error_text(), "did not call barrier within 0.2 s"));
	__atomic_fetch_add(&absence->n_closed, 1, __ATOMIC_RELEASE);
	return 0;
}

static void *make_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT(memory != MAP_FAILED);
	return memory;
}

TEST_WAITS(a_barrier_and_a_close_name_the_pes_that_do_not_come, 120)
{
	struct absence *absence = make_shared(sizeof(*absence));
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 5, some_stay_away, absence);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(absence, sizeof(*absence)));
}

/* By queues a PE does not see what others have heard, and knows of what came here alone. */
static int one_stays_away(const struct world_lab *lab, int pe, void *arg)
{
	int *n_refused = arg;
	struct world_lab mine = *lab;
	struct shmd_world *world;

	mine.attr.paths = SHMD_ALLOW_QUEUE;
	world = world_lab_open_started(&mine, pe);
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 1) {
		await(n_refused, 2);
	} else {
		world->ctx->dev.timeout_nsec = NSEC_PER_SEC / 5;
		ASSERT_ERR(shmd_sync_all(world), ETIMEDOUT);
		__atomic_fetch_add(n_refused, 1, __ATOMIC_RELEASE);
		await(n_refused, 2);
		/* 0 may wait for the word of 2, or for that of 1 with which the sync ends. */
		if (pe == 2)
			assert_named(world, "shmd_sync_all: ", 1, " did not come within the time limit (SHMD_TIMEOUT)");
		else
			ASSERT(strstr(shmd_error_text(), " did not come within the time limit (SHMD_TIMEOUT)"));
		world->ctx->dev.timeout_nsec = test_patience_nsec();
	}
	/* PEs that gave up go on with the same sync. */
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_sync_by_queues_names_the_pe_whose_message_is_missing, 120)
{
	int *n_refused = make_shared(sizeof(*n_refused));
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 3, one_stays_away, n_refused);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(n_refused, sizeof(*n_refused)));
}

static int does_not_start(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);
	int *is_refused = arg;

	if (pe == 1) {
		await(is_refused, 1);
	} else {
		bootstrap_limit(&world->boot, NSEC_PER_SEC / 5);
		ASSERT_ERR(shmd_world_start(world), ETIMEDOUT);
		assert_named(world, "shmd_world_start: ", 1, ": rank 1 of 2 did not call allgather within 0.2 s");
		__atomic_store_n(is_refused, 1, __ATOMIC_RELEASE);
	}
	(void)shmd_world_close(world);
	return 0;
}

TEST_TIMEOUT(a_start_names_the_pe_that_does_not_come, 120)
{
	int *is_refused = make_shared(sizeof(*is_refused));
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, does_not_start, is_refused);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(is_refused, sizeof(*is_refused)));
}

static int comes_late(const struct world_lab *lab, int pe, void *arg)
{
	struct world_lab mine = *lab;
	int *is_refused = arg;
	struct shmd_world *world;
	void *memory;

	mine.attr.timeout_nsec = pe == 0 ? NSEC_PER_SEC : 0;
	world = world_lab_open_started(&mine, pe);
	if (pe == 0) {
		ASSERT_ERR(shmd_malloc(world, 100, 0, &memory), ETIMEDOUT);
		assert_named(world, "shmd_malloc: ", 1, " did not come within the time limit (SHMD_TIMEOUT)");
		ASSERT_ERR(shmd_malloc(world, 200, 0, &memory), ETIMEDOUT);
		ASSERT(strstr(shmd_error_text(), "an earlier collective call"));
		ASSERT_ERR(shmd_realloc(world, NULL, 200, &memory), ETIMEDOUT);
		__atomic_store_n(is_refused, 1, __ATOMIC_RELEASE);
	} else {
		while (!__atomic_load_n(is_refused, __ATOMIC_ACQUIRE))
			usleep(1000);
		/* PE 0 had come. */
		world_lab_must(shmd_malloc(world, 100, 0, &memory), "malloc");
	}
	/* PE 0 waits for no longer than its limit. */
	(void)shmd_world_close(world);
	return 0;
}

/* PE 1 has allocated by the record of a call that failed on PE 0, so PE 0 must not allocate by another one. */
TEST_WAITS(a_heap_is_lost_to_a_pe_whose_call_has_failed_half_way, 120)
{
	int *is_refused = make_shared(sizeof(*is_refused));
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, comes_late, is_refused);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(is_refused, sizeof(*is_refused)));
}

#define N_CTXS 20

/* The engine of the NIC stands still, so no request completes. */
static int settles_at_a_nic_that_stands_still(const struct world_lab *lab, int pe, void *arg)
{
	int *is_done = arg;
	struct world_lab mine = *lab;
	struct shmd_ctx *ctxs[N_CTXS];
	struct shmd_world *world;
	uint64_t *words, limit, begin;

	mine.attr.paths = SHMD_ALLOW_QUEUE;
	world = world_lab_open_started(&mine, pe);
	world_lab_must(shmd_calloc(world, 2, 8, 0, (void **)&words), "calloc");
	for (int i = 0; i < N_CTXS && pe == 0; i++)
		world_lab_must(shmd_ctx_create(shmd_team_world(world), NULL, &ctxs[i]), "ctx");
	if (pe == 0) {
		ASSERT_OK(kill(lab->daemon->pid, SIGSTOP));
		for (int i = 0; i < N_CTXS; i++)
			world_lab_must(shmd_put_nbi(ctxs[i], words, words + 1, 8, 1), "put");
		limit = world->dev->timeout_nsec;
		world->dev->timeout_nsec = NSEC_PER_SEC / 5;
		begin = nsec_now();
		ASSERT_EQ(world_ctx_settle_shared(world), SHMD_DEV_TIMEOUT);
		/* Not 0.2 s for each context. */
		ASSERT_LT(nsec_now() - begin, 2 * NSEC_PER_SEC);
		world->dev->timeout_nsec = limit;
		ASSERT_OK(kill(lab->daemon->pid, SIGCONT));
		__atomic_store_n(is_done, 1, __ATOMIC_RELEASE);
	} else {
		await(is_done, 1);
	}
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(operations_of_all_contexts_have_one_time_limit, 120)
{
	int *is_done = make_shared(sizeof(*is_done));
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, "--soft-executors=thread", NULL);
	world_lab_run(&daemon, 2, settles_at_a_nic_that_stands_still, is_done);
	fixture_daemon_stop(&daemon);
	ASSERT_OK(munmap(is_done, sizeof(*is_done)));
}

/* ---- daemons */

struct opening {
	const char *path;
	int is_back;
};

static void *open_session(void *arg)
{
	struct opening *opening = arg;
	struct session *session;

	ASSERT_LT(session_get(opening->path, 60 * NSEC_PER_SEC, &session), 0);
	__atomic_store_n(&opening->is_back, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* In the place of a daemon: it takes connections and says nothing. */
static int listen_silently(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	ASSERT_GE(fd, 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	unlink(path);
	ASSERT_OK(bind(fd, (struct sockaddr *)&at, sizeof(at)));
	ASSERT_OK(listen(fd, 8));
	return fd;
}

TEST_TIMEOUT(a_session_ends_while_another_thread_waits_for_a_daemon, 120)
{
	struct fixture_daemon daemon;
	struct opening opening = {0};
	struct session *session;
	struct pollfd entry = {.events = POLLIN};
	pthread_t thread;

	fixture_daemon_start(&daemon, NULL);
	opening.path = daemon.socket;
	ASSERT_OK(session_get(opening.path, test_patience_nsec(), &session));
	ASSERT_OK(kill(daemon.pid, SIGKILL));
	while (shmd_client_health(session_client(session)) != SHMD_HEALTH_DAEMON_GONE)
		usleep(1000);
	entry.fd = listen_silently(opening.path);
	ASSERT_OK(pthread_create(&thread, NULL, open_session, &opening));
	ASSERT_EQ(poll(&entry, 1, -1), 1);
	session_put(session);
	ASSERT(!__atomic_load_n(&opening.is_back, __ATOMIC_ACQUIRE));
	/* The connection that waits ends with the listener. */
	ASSERT_OK(unlink(opening.path));
	ASSERT_OK(close(entry.fd));
	ASSERT_OK(pthread_join(thread, NULL));
	fixture_daemon_kill(&daemon);
}

static int misses_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open(lab, pe);
	int r;

	(void)arg;
	r = shmd_world_start(world);
	ASSERT(r == -ENOENT || r == -ECONNREFUSED);
	ASSERT(strstr(shmd_error_text(), "shmemd"));
	ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_OPEN);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(without_a_daemon_the_start_fails_with_a_sentence, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_make_folder(&daemon);
	world_lab_run(&daemon, 2, misses_the_daemon, NULL);
	ASSERT_OK(rmdir(daemon.folder));
}

static int outlives_the_daemon(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	struct shmd_world *second;
	struct world_lab mine = *lab;
	uint64_t *word;

	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (pe == 0)
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
	wait_for_status(world, SHMD_WORLD_BROKEN);
	/* Mapped memory is the PEs' own. */
	__atomic_store_n((uint64_t *)shmd_ptr(world, word, !pe), 7, __ATOMIC_RELEASE);
	world_lab_must(shmd_barrier_all(world), "barrier");
	ASSERT_EQ(*word, 7);
	mine.uid = *(struct shmd_uid *)arg;
	second = world_lab_open(&mine, pe);
	ASSERT_LT(shmd_world_start(second), 0);
	world_lab_close(second);
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_mapped_world_goes_on_without_its_daemon, 120)
{
	const struct bootstrap_attr how = {.unbound = true, .interface = "=lo"};
	struct fixture_daemon daemon;
	struct shmd_uid second;

	fixture_daemon_start(&daemon, NULL);
	world_lab_must(bootstrap_uid_make(&how, &second), "uid");
	world_lab_run(&daemon, 2, outlives_the_daemon, &second);
	fixture_daemon_kill(&daemon);
}

/* ---- abort, fork */

static int aborts(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);

	(void)arg;
	if (pe == 1)
		shmd_world_abort(world, 7, "as the test wants");
	for (;;)
		pause();
}

TEST_TIMEOUT(one_pe_ends_the_job, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, aborts, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 7);
	assert_nothing_left(&daemon);
	fixture_daemon_stop(&daemon);
}

static int dies_in_turn(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world;

	(void)arg;
	setenv("SHMD_ABORT_ON_ERROR", "on", 1);
	world = world_lab_open_started(lab, pe);
	world_lab_must(shmd_sync_all(world), "sync");
	if (pe == 2)
		raise(SIGKILL);
	for (;;)
		pause();
	return 0;
}

TEST_TIMEOUT(with_abort_on_error_the_job_ends_with_its_first_pe, 120)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 3};

	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, dies_in_turn, NULL);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), pe == 2 ? 128 + SIGKILL : 1);
	fixture_daemon_stop(&daemon);
}

/* A call of PE 0 fails in this way while PE 1 waits for ever. */
enum failure { FAIL_TIME_LIMIT, FAIL_QUEUE, FAIL_DAEMON_OF_QUEUES, FAIL_DAEMON_OF_HEAP, FAIL_CLOSE };

static void break_queue(struct shmd_world *world)
{
	const struct shmd_dev_pe_way *ways = (const void *)(uintptr_t)world->ctx->dev.ways_addr;
	struct shmd_dev_qp *qp = (void *)(uintptr_t)ways[1].qp_addr;
	struct shmd_dev_mode mode = shmd_dev_mode_of(qp, test_patience_nsec());

	/* A key that no memory has. */
	ASSERT_EQ(shmd_dev_qp_p_as(qp, shmd_dev_addr_of(4096, 1), 1, 8, mode), SHMD_DEV_OK);
	(void)shmd_quiet(world->ctx);
}

static void fail_in_a_call(const struct world_lab *lab, struct shmd_world *world, enum failure failure, uint64_t *word)
{
	void *memory;

	switch (failure) {
	case FAIL_QUEUE:
		break_queue(world);
		return;
	case FAIL_DAEMON_OF_QUEUES:
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
		for (uint64_t end = nsec_now() + test_patience_nsec(); nsec_now() < end;)
			(void)shmd_g(world->ctx, word, 8, 1, &(uint64_t){0});
		return;
	case FAIL_DAEMON_OF_HEAP:
		(void)shmd_malloc(world, UINT64_C(64) << 20, 0, &memory);
		return;
	case FAIL_TIME_LIMIT:
	case FAIL_CLOSE:
		world->dev->timeout_nsec = world->ctx->dev.timeout_nsec = world->settings.timeout_nsec = NSEC_PER_SEC / 5;
		if (failure == FAIL_CLOSE)
			(void)shmd_world_close(world);
		else
			(void)shmd_barrier_all(world);
	}
}

struct ending_job {
	enum failure failure;
	int out; /* a memfd: stdout of PE 0 */
};

static int ends_the_job(const struct world_lab *lab, int pe, void *arg)
{
	const struct ending_job *job = arg;
	enum failure failure = job->failure;
	struct world_lab mine = *lab;
	struct shmd_world *world;
	uint64_t *word;
	void *memory;

	setenv("SHMD_ABORT_ON_ERROR", "on", 1);
	mine.attr.paths = failure == FAIL_QUEUE || failure == FAIL_DAEMON_OF_QUEUES ? SHMD_ALLOW_QUEUE : 0;
	world = world_lab_open_started(&mine, pe);
	world_lab_must(shmd_calloc(world, 1, 8, 0, (void **)&word), "calloc");
	if (failure == FAIL_DAEMON_OF_HEAP && pe == 0) {
		ASSERT_OK(kill(lab->daemon->pid, SIGKILL));
		wait_for_status(world, SHMD_WORLD_BROKEN);
	}
	if (pe == 0) {
		ASSERT_GE(dup2(job->out, STDOUT_FILENO), 0);
		printf("said before");
		fail_in_a_call(lab, world, failure, word);
	} else if (failure == FAIL_DAEMON_OF_HEAP) {
		(void)shmd_malloc(world, UINT64_C(64) << 20, 0, &memory);
	}
	while (pe)
		pause();
	return 0;
}

static void run_failure(enum failure failure)
{
	struct fixture_daemon daemon;
	struct world_lab lab = {.daemon = &daemon, .n = 2};
	struct ending_job job = {failure, memfd_create("out", MFD_CLOEXEC)};
	char said[16] = "";

	ASSERT_GE(job.out, 0);
	fixture_daemon_start(&daemon, NULL);
	world_lab_start(&lab, ends_the_job, &job);
	for (int pe = 0; pe < lab.n; pe++)
		ASSERT_EQ(world_lab_wait(&lab, pe), 1);
	/* Another PE may have ended the job before, under some failures. */
	if (failure == FAIL_TIME_LIMIT) {
		ASSERT_GE(pread(job.out, said, sizeof(said) - 1, 0), 0);
		ASSERT_STREQ(said, "said before");
	}
	close(job.out);
	if (failure == FAIL_DAEMON_OF_QUEUES || failure == FAIL_DAEMON_OF_HEAP)
		fixture_daemon_kill(&daemon);
	else
		fixture_daemon_stop(&daemon);
}

TEST_TIMEOUT(with_abort_on_error_the_job_ends_when_a_time_limit_passes, 120)
{
	run_failure(FAIL_TIME_LIMIT);
	run_failure(FAIL_CLOSE);
}

TEST_TIMEOUT(with_abort_on_error_the_job_ends_when_a_queue_fails, 120)
{
	run_failure(FAIL_QUEUE);
}

TEST_TIMEOUT(with_abort_on_error_the_job_ends_when_a_call_needs_a_daemon_that_is_gone, 120)
{
	run_failure(FAIL_DAEMON_OF_QUEUES);
	run_failure(FAIL_DAEMON_OF_HEAP);
}

/* The limit that the program gave a context is its own business. */
static int waits_briefly(const struct world_lab *lab, int pe, void *arg)
{
	const struct shmd_ctx_attr attr = {.timeout_nsec = NSEC_PER_MSEC};
	struct shmd_world *world;
	struct shmd_ctx *ctx;
	uint64_t word = 0;

	(void)arg;
	setenv("SHMD_ABORT_ON_ERROR", "on", 1);
	world = world_lab_open_started(lab, pe);
	world_lab_must(shmd_ctx_create(shmd_team_world(world), &attr, &ctx), "a context");
	ASSERT_ERR(shmd_wait_until(ctx, &word, 8, SHMD_CMP_EQ, 1), ETIMEDOUT);
	world_lab_must(shmd_ctx_destroy(ctx), "destroy");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(with_abort_on_error_a_limit_of_a_context_ends_nothing, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 1, waits_briefly, NULL);
	fixture_daemon_stop(&daemon);
}

static int forks(const struct world_lab *lab, int pe, void *arg)
{
	struct shmd_world *world = world_lab_open_started(lab, pe);
	int status;
	pid_t child = fork();

	(void)arg;
	ASSERT_GE(child, 0);
	if (child == 0) {
		struct shmd_world_info info;

		ASSERT_ERR(shmd_world_info(world, &info), ECHILD);
		ASSERT_ERR(shmd_sync_all(world), ECHILD);
		ASSERT_EQ(shmd_world_status(world), SHMD_WORLD_NONE);
		ASSERT_OK(shmd_world_close(world));
		_exit(0);
	}
	ASSERT_EQ(waitpid(child, &status, 0), child);
	ASSERT_EQ(status, 0);
	world_lab_must(shmd_sync_all(world), "sync");
	world_lab_close(world);
	return 0;
}

TEST_TIMEOUT(a_forked_child_has_no_part_in_the_world, 120)
{
	struct fixture_daemon daemon;

	fixture_daemon_start(&daemon, NULL);
	world_lab_run(&daemon, 2, forks, NULL);
	fixture_daemon_stop(&daemon);
}
