/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One session tries everything of another that it can name, with all that it legitimately holds: keys, QP numbers,
 * handles, addresses, descriptors, worlds. Nothing succeeds, and the other's traffic runs all the while.
 *
 * The victim is a process of its own: it writes, and verifies each write before the next. The attacker is worse off in
 * reality: here it gets every number of the victim, as if it had guessed all of them.
 *
 * The victim's latency is compared between slices in which the attacker waits and slices in which its attempts are
 * refused, in turn. Attempts are PAUSE_NSEC apart: what is measured is the cost of a refused attempt to another user,
 * not how two processes share a CPU (test-tenants floods). A slice is the median of its writes, and a median over slices is compared, at best of ten rounds: other work on the machine comes and goes, interference by attempts does
 * not.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/doorbell.h>

#include "proto/base/nsec.h"
#include "tests/lib/fixture-daemon.h"
#include "tests/lib/median.h"
#include "tests/lib/raw-client.h"
#include "tests/lib/test.h"
#include "tests/system/isolation.h"

#define PAUSE_NSEC (500 * NSEC_PER_USEC)
#define SLICE_NSEC (20 * NSEC_PER_MSEC)
#define N_SLICES 7
#define N_ROUNDS 10
#define MOST_LATENCY 1.5
#define GUARD_BYTE 0xa5
#define N_SAMPLES 4096

/* ---- the victim ---------------------------------------------------------------------------------------------------- */

/* One write, polled for without sleep, verified. */
static double verified_write(struct raw_traffic *t, uint64_t value)
{
	uint64_t begin, nsec;

	memcpy(t->heap, &value, sizeof(value));
	begin = nsec_now();
	raw_traffic_write(t, 4096, 0, 8);
	while (!raw_traffic_has_cqe(t))
		sched_yield();
	nsec = nsec_now() - begin;
	ASSERT_EQ(raw_traffic_poll(t), SHMD_CQE_REQ);
	ASSERT_MEMEQ(t->heap + 4096, &value, sizeof(value));
	return (double)nsec;
}

/* Writes for one slice; the slice's median. */
static void take_slice(struct raw_traffic *t, struct isolation_board *board, uint32_t slice)
{
	static double samples[N_SAMPLES];
	uint64_t begin = nsec_now();
	unsigned int n = 0;

	while (nsec_now() - begin < SLICE_NSEC || n < 16) {
		samples[n++ % N_SAMPLES] = verified_write(t, ++board->n_writes);
		if (n == N_SAMPLES)
			break;
	}
	board->slice_nsec[slice] = median(samples, n < N_SAMPLES ? n : N_SAMPLES);
}

static void __attribute__((noreturn)) victim(const char *socket, struct isolation_board *board)
{
	struct raw_traffic_attr attr = {.nic = raw_traffic_nic(0)};
	struct raw_traffic t;
	struct msg req, rep;
	uint32_t taken = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_traffic_init_with(&t, socket, &attr);
	memset(t.heap + ISOLATION_GUARDED, GUARD_BYTE, t.heap_bytes - ISOLATION_GUARDED);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	memcpy(req.publish_req.key.world, board->world, sizeof(board->world));
	req.publish_req.data_bytes = 6;
	memcpy(req.publish_req.data, "secret", 6);
	raw_expect(&t.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	board->victim = t;
	__atomic_store_n(&board->ready, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&board->stop, __ATOMIC_ACQUIRE)) {
		uint32_t slice = __atomic_load_n(&board->slice, __ATOMIC_ACQUIRE);

		if (slice == taken) {
			verified_write(&t, ++board->n_writes);
			nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
			continue;
		}
		take_slice(&t, board, slice - 1);
		taken = slice;
		__atomic_store_n(&board->done, slice, __ATOMIC_RELEASE);
	}
	for (uint32_t i = ISOLATION_GUARDED; i < t.heap_bytes; i++)
		ASSERT_EQ(t.heap[i], GUARD_BYTE);
	/* Still its own to modify, and never was another client's. */
	msg_init(&req, MSG_QP_QUERY_REQ, 0);
	req.qp_query_req.qpn = t.qp.qpn;
	raw_expect(&t.raw, &req, NULL, 0, MSG_QP_QUERY_REP, &rep);
	ASSERT_EQ(rep.qp_query_rep.first_error, 0);
	ASSERT_EQ(rep.qp_query_rep.dest_qpn, t.qp.qpn);
	ASSERT_EQ(rep.qp_query_rep.counters.error_cqes, 0);
	msg_init(&req, MSG_FETCH_REQ, 0);
	memcpy(req.fetch_req.world, board->world, sizeof(board->world));
	raw_expect(&t.raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
	ASSERT_MEMEQ(rep.fetch_rep.data, "secret", 6);
	raw_traffic_deinit(&t);
	exit(0);
}

/* ---- the stage ------------------------------------------------------------------------------------------------------ */

static void attacker_init(struct isolation *s)
{
	const struct raw_traffic_attr attr = {.nic = raw_traffic_nic(0), .keep_fds = true};

	raw_traffic_init_with(&s->attacker, s->daemon.socket, &attr);
}

static void isolation_init(struct isolation *s)
{
	*s = (struct isolation){0};
	s->board = mmap(NULL, sizeof(*s->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(s->board, MAP_FAILED);
	for (int i = 0; i < 16; i++)
		s->board->world[i] = (uint8_t)(i * 31 + 7);
	fixture_daemon_start(&s->daemon, "--socket-mode=0666", NULL);
	s->victim = fork();
	ASSERT_GE(s->victim, 0);
	if (s->victim == 0)
		victim(s->daemon.socket, s->board);
	while (!__atomic_load_n(&s->board->ready, __ATOMIC_ACQUIRE)) {
		ASSERT_EQ(waitpid(s->victim, NULL, WNOHANG), 0);
		usleep(1000);
	}
	attacker_init(s);
}

/* The victim verified its memory, its QP and what it published, and saw no error. */
static void isolation_deinit(struct isolation *s)
{
	int status;

	while (__atomic_load_n(&s->board->n_writes, __ATOMIC_RELAXED) < 50) {
		ASSERT_EQ(waitpid(s->victim, NULL, WNOHANG), 0);
		usleep(1000);
	}
	__atomic_store_n(&s->board->stop, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(waitpid(s->victim, &status, 0), s->victim);
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	printf("# %llu writes of the victim verified\n", (unsigned long long)s->board->n_writes);
	raw_traffic_deinit(&s->attacker);
	fixture_daemon_stop(&s->daemon);
	munmap(s->board, sizeof(*s->board));
}

static void attempt(void (*run)(struct isolation *s))
{
	struct isolation s;

	isolation_init(&s);
	run(&s);
	/* The attacker's own queue works as before, and so does the daemon. */
	raw_traffic_write(&s.attacker, 4096, 0, 8);
	ASSERT_EQ(raw_traffic_poll(&s.attacker), SHMD_CQE_REQ);
	fixture_daemon_assert_alive(&s.daemon);
	isolation_deinit(&s);
}

TEST(keys_of_another_session_open_nothing)
{
	attempt(isolation_try_keys);
}

TEST(keys_near_to_real_ones_open_nothing)
{
	attempt(isolation_try_near_keys);
}

TEST(a_wqe_that_names_another_sessions_qp_fails)
{
	attempt(isolation_try_foreign_wqe);
}

TEST(a_qp_connected_to_another_sessions_qp_is_not_answered)
{
	attempt(isolation_try_address);
}

TEST(numbers_and_handles_of_another_session_name_nothing)
{
	attempt(isolation_try_numbers);
}

TEST(entries_of_another_session_cannot_be_guessed_or_replaced)
{
	attempt(isolation_try_worlds);
}

TEST(doorbells_reach_no_queue_of_another_session)
{
	attempt(isolation_try_doorbells);
}

TEST(descriptors_that_others_read_can_be_neither_resized_nor_written)
{
	attempt(isolation_try_descriptors);
}

TEST(lists_show_no_key_world_or_address)
{
	attempt(isolation_try_lists);
}

#ifdef ISOLATION_BY_COMMANDS
TEST(commands_of_a_context_reach_no_object_of_another_session)
{
	attempt(isolation_try_commands);
}

TEST(session_that_destroys_all_by_its_command_descriptor_disturbs_no_other)
{
	struct isolation s;

	isolation_init(&s);
	isolation_destroy_by_commands(&s);
	fixture_daemon_assert_alive(&s.daemon);
	isolation_deinit(&s);
}
#endif

/* As another user, with the very numbers and the very world. */
static void __attribute__((noreturn)) stranger(struct isolation *s)
{
	struct msg req, rep;
	struct raw_client raw;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
		_exit(1);
	raw_connect(&raw, s->daemon.socket);
	raw_hello(&raw, MSG_ROLE_CLIENT);
	msg_init(&req, MSG_FETCH_REQ, 0);
	memcpy(req.fetch_req.world, s->board->world, 16);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	msg_init(&req, MSG_UNPUBLISH_REQ, 0);
	memcpy(req.unpublish_req.world, s->board->world, 16);
	raw_expect_error(&raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	msg_init(&req, MSG_PUBLISH_REQ, 0);
	memcpy(req.publish_req.key.world, s->board->world, 16);
	raw_expect(&raw, &req, NULL, 0, MSG_OK_REP, &rep);
	for (int what = MSG_LIST_SESSIONS; what <= MSG_LIST_PATHS; what++) {
		if (what == MSG_LIST_NICS)
			continue;
		msg_init(&req, MSG_LIST_REQ, 0);
		req.list_req.what = (enum msg_list_what)what;
		raw_expect(&raw, &req, NULL, 0, MSG_LIST_REP, &rep);
		ASSERT_EQ(rep.list_rep.n_sessions, what == MSG_LIST_SESSIONS);
		ASSERT_EQ(rep.list_rep.n_qps + rep.list_rep.n_mrs + rep.list_rep.n_pes + rep.list_rep.n_paths, 0);
		msg_deinit(&rep);
	}
	raw_close(&raw);
	_exit(0);
}

TEST(another_user_finds_nothing_that_is_not_its_own)
{
	struct isolation s;
	int status;
	pid_t pid;

	if (geteuid() != 0)
		test_skip("another uid needs root");
	isolation_init(&s);
	ASSERT_OK(chmod(s.daemon.folder, 0711));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (pid == 0)
		stranger(&s);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	isolation_deinit(&s);
}

/* ---- the victim's latency ---------------------------------------------------------------------------------------------- */

static void (*const attempts[])(struct isolation *s) = {
	isolation_try_keys,    isolation_try_near_keys, isolation_try_foreign_wqe,   isolation_try_numbers,
	isolation_try_worlds,  isolation_try_doorbells, isolation_try_descriptors, isolation_try_lists,
	isolation_try_address,
};

/* Have slice `slice` taken, attacking meanwhile or not. */
static double take(struct isolation *s, uint32_t slice, bool attack)
{
	static unsigned int next;

	__atomic_store_n(&s->board->slice, slice, __ATOMIC_RELEASE);
	while (__atomic_load_n(&s->board->done, __ATOMIC_ACQUIRE) != slice) {
		ASSERT_EQ(waitpid(s->victim, NULL, WNOHANG), 0);
		if (attack)
			attempts[next++ % (sizeof(attempts) / sizeof(attempts[0]))](s);
		else
			usleep(1000);
	}
	return s->board->slice_nsec[slice - 1];
}

TEST_TIMEOUT(refused_attempts_cost_the_victim_at_most_half_its_latency, 60)
{
	double alone[N_SLICES], attacked[N_SLICES], ratio = 1e9;
	uint32_t slice = 0;
	struct isolation s;

	isolation_init(&s);
	s.pause_nsec = PAUSE_NSEC;
	for (int round = 0; round < N_ROUNDS && ratio > MOST_LATENCY; round++) {
		for (int i = 0; i < N_SLICES; i++) {
			alone[i] = take(&s, ++slice, false);
			attacked[i] = take(&s, ++slice, true);
		}
		ratio = median(attacked, N_SLICES) / median(alone, N_SLICES);
		printf("# latency alone %.0f ns, under attempts %.0f ns: %.2f\n", median(alone, N_SLICES),
		       median(attacked, N_SLICES), ratio);
	}
	isolation_deinit(&s);
	ASSERT_LE(ratio, MOST_LATENCY);
}
