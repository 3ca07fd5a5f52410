/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Users who do not trust each other on one soft NIC: each has an executor, and one whose executor stands still, since its memory
 * makes the thread sleep or no CPU is left for it, delays no other user's queues and costs no peer a retry.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/child.h"
#include "tests/lib/puncher.h"
#include "tests/lib/test.h"

#define ALICE 1001u
#define BOB 1002u
#define CAROL 1003u
#define SITS "soft.sit-still:2000"
#define SITS_NSEC (2000 * NSEC_PER_MSEC)
#define SITS_AFTER 8u /* writes */
#define QUICK_NSEC (300 * NSEC_PER_MSEC) /* asking a thread that does not answer */

/* 1 ms, tried once more. */
static const struct nic_qp_params impatient = {
	.timeout = 8, .retry_count = 1, .rnr_retry = 7, .min_rnr_timer = 1, .max_rd_atomic = 16};

static void nap(uint64_t nsec)
{
	struct timespec ts = nsec_to_timespec(nsec);

	nanosleep(&ts, NULL);
}

/* One write to itself, not waited for. */
static void begin_write(struct client *c, uint64_t value)
{
	client_post_inline(c, 0, value, c, 0);
	client_ring(c, 0);
}

/* The executor of this client, whose first QP is connected to itself, begins to sit still. */
static void sit_still(struct client *c)
{
	for (unsigned int i = 0; i < SITS_AFTER; i++) {
		begin_write(c, i);
		client_complete(c, 0);
	}
	nap(20 * NSEC_PER_MSEC);
}

/* ---- executors ------------------------------------------------------------------------------------------------------ */

TEST(users_of_one_nic_and_of_two_exchange_all_kinds_of_requests)
{
	struct client alice, bob, carol;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 2);
	client_open_for(&bob, rig.nic[0], 2, BOB, 1);
	client_open_for(&carol, rig.nic[1], 3, CAROL, 1);
	client_connect(&alice, 0, &bob, 0);
	client_exercise(&alice, &bob);
	client_exercise(&bob, &alice);
	client_send_and_receive(&alice, &bob);
	client_close(&bob);
	/* The executor of the user who went serves another one. */
	client_open_for(&bob, rig.nic[0], 4, CAROL, 1);
	client_connect(&bob, 0, &carol, 0);
	client_exercise(&bob, &carol);
	client_exercise(&carol, &bob);
	client_close(&alice);
	client_close(&carol);
	client_close(&bob);
	rig_close(&rig);
}

/* 300 KiB do not fit a packet, nor what a packet has of its own. */
TEST(large_payload_between_users_is_exact)
{
	const uint32_t bytes = 300u << 10;
	const uint64_t half = CLIENT_MEM_BYTES / 2;
	struct client alice, bob;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&bob, rig.nic[0], 2, BOB, 1);
	client_connect(&alice, 0, &bob, 0);
	client_fill(&alice, 0, bytes, 7);
	client_post_write(&alice, 0, 0, &bob, half, bytes);
	client_ring(&alice, 0);
	client_complete(&alice, 0);
	ASSERT_MEMEQ(bob.mem + half, alice.mem, bytes);
	client_fill(&bob, 1, bytes, 9);
	client_post_read(&alice, 0, half + 3, &bob, 1, bytes);
	client_ring(&alice, 0);
	client_complete(&alice, 0);
	ASSERT_MEMEQ(alice.mem + half + 3, bob.mem + 1, bytes);
	client_close(&alice);
	client_close(&bob);
	rig_close(&rig);
}

static bool has_name(const char *path, const char *start)
{
	FILE *file = fopen(path, "re");
	char comm[32] = "";
	bool has;

	has = file && fgets(comm, sizeof(comm), file) && strncmp(comm, start, strlen(start)) == 0;
	if (file)
		fclose(file);
	return has;
}

static unsigned int count_threads(const char *start)
{
	DIR *dir = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned int n = 0;

	ASSERT(dir);
	while ((entry = readdir(dir))) {
		char path[300];

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		n += has_name(path, start);
	}
	closedir(dir);
	return n;
}

static unsigned int count_processes(const char *start)
{
	pid_t pids[64];
	unsigned int n = 0, all = child_tree(getpid(), pids, 64);

	for (unsigned int i = 0; i < all; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/comm", pids[i]);
		n += has_name(path, start);
	}
	return n;
}

static unsigned int count_executors(void)
{
	return rig_is_remote() ? count_processes("executor ") : count_threads("shmd-soft0");
}

/* A thread that was joined may be listed for a moment longer, and a process without contexts lives on for a while. */
static void expect_executors(unsigned int n)
{
	uint64_t end = nsec_now() + test_patience_nsec();

	while (count_executors() != n && nsec_now() < end)
		nap(NSEC_PER_MSEC);
	ASSERT_EQ(count_executors(), n);
}

TEST(a_nic_has_one_executor_for_each_user_and_no_more_when_all_have_gone)
{
	unsigned int least = rig_is_remote() ? 0 : 1; /* the NIC keeps one thread */
	struct client clients[6];
	struct rig rig;

	rig_open(&rig, 1, NULL);
	ASSERT_EQ(count_executors(), 0u);
	for (unsigned int i = 0; i < 6; i++)
		client_open_for(&clients[i], rig.nic[0], i, ALICE + i / 2, 1);
	expect_executors(3);
	for (unsigned int i = 0; i < 6; i++)
		client_close(&clients[i]);
	expect_executors(least);
	client_open_for(&clients[0], rig.nic[0], 9, BOB, 1);
	expect_executors(1);
	client_close(&clients[0]);
	rig_close(&rig);
}

/* A user more than it has executors for is refused, and none of the others notices. */
TEST(a_nic_serves_256_users_and_refuses_one_more)
{
	static struct nic_ctx *ctxs[257];
	struct nic_ctx_attr attr = {.doorbell = NIC_DOORBELL_CPU, .health_fd = -1};
	struct nic *nic;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	nic = rig.nic[0];
	for (attr.uid = 0; attr.uid < 256; attr.uid++)
		ASSERT_OK(nic->ops->ctx_open(nic, &attr, &ctxs[attr.uid]));
	ASSERT_ERR(nic->ops->ctx_open(nic, &attr, &ctxs[256]), EUSERS);
	attr.uid = 3;
	ASSERT_OK(nic->ops->ctx_open(nic, &attr, &ctxs[256]));
	for (unsigned int i = 0; i < 257; i++)
		nic->ops->ctx_close(ctxs[i]);
	rig_close(&rig);
}

TEST(counters_of_a_nic_are_those_of_all_its_users_and_never_fall)
{
	struct nic_counters counters;
	struct client alice, bob;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&bob, rig.nic[0], 2, BOB, 1);
	client_connect(&alice, 0, &alice, 0);
	client_connect(&bob, 0, &bob, 0);
	for (unsigned int i = 0; i < 5; i++) {
		begin_write(&alice, i);
		client_complete(&alice, 0);
		begin_write(&bob, i);
		client_complete(&bob, 0);
	}
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
	ASSERT_EQ(counters.wqes, 10u);
	begin_write(&bob, 0);
	client_complete(&bob, 0);
	client_close(&alice);
	client_close(&bob);
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
	ASSERT_EQ(counters.wqes, 11u);
	rig_close(&rig);
}

#define N_COMINGS (test_is_full() ? 300u : 25u)

struct comer {
	pthread_t thread;
	struct nic *nic;
	uint32_t uid;
	bool *is_over; /* atomic */
};

static void *come_and_go(void *arg)
{
	const struct comer *comer = arg;

	for (unsigned int i = 0; i < N_COMINGS; i++) {
		struct client c;

		client_open_for(&c, comer->nic, comer->uid, comer->uid, 1);
		client_connect(&c, 0, &c, 0);
		begin_write(&c, i);
		client_complete(&c, 0);
		client_close(&c);
	}
	__atomic_store_n(comer->is_over, true, __ATOMIC_RELEASE);
	return NULL;
}

/* An executor that ends during a query is counted once. */
TEST(counters_never_fall_nor_count_twice_while_users_come_and_go)
{
	struct comer comers[3];
	struct nic_counters counters;
	bool is_over = false;
	uint64_t last = 0;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		comers[i] = (struct comer){.nic = rig.nic[0], .uid = ALICE + i, .is_over = &is_over};
		ASSERT_OK(pthread_create(&comers[i].thread, NULL, come_and_go, &comers[i]));
	}
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
		ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
		ASSERT_GE(counters.wqes, last);
		last = counters.wqes;
	}
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_OK(pthread_join(comers[i].thread, NULL));
	/* One that gets no CPU tells later. */
	for (uint64_t begin = nsec_now(); last < 3u * N_COMINGS && nsec_now() - begin < CLIENT_LIMIT_NSEC; nap(NSEC_PER_MSEC)) {
		ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
		last = counters.wqes;
	}
	ASSERT_EQ(last, 3u * N_COMINGS);
	rig_close(&rig);
}

#define N_LEAVES (test_is_full() ? 200u : 30u)
#define UNDER_WAY 8u

struct leaver {
	pthread_t thread;
	struct rig *rig;
	uint32_t uid; /* and the next one */
	unsigned int *n_here; /* atomic: leavers that go on */
};

/* Two users, each the other's peer, that leave in the middle of their traffic, and their executors with them. */
static void *leave_in_mid_traffic(void *arg)
{
	const struct leaver *leaver = arg;
	const uint32_t half = CLIENT_MEM_BYTES / 2;

	for (unsigned int i = 0; i < N_LEAVES; i++) {
		struct client a, b;

		client_open_for(&a, leaver->rig->nic[i % 2], 2 * leaver->uid, leaver->uid, 1);
		client_open_for(&b, leaver->rig->nic[i / 2 % 2], 2 * leaver->uid + 1, leaver->uid + 1, 1);
		client_connect_as(&a, 0, &b, 0, &impatient);
		for (unsigned int n = 0; n < UNDER_WAY; n++) {
			client_post_write(&a, 0, 0, &b, half, half);
			client_post_read(&b, 0, 0, &a, half, half);
		}
		client_ring(&a, 0);
		client_ring(&b, 0);
		if (i % 3 == 0)
			nap(NSEC_PER_MSEC);
		client_close(i % 2 ? &a : &b);
		client_close(i % 2 ? &b : &a);
	}
	__atomic_sub_fetch(leaver->n_here, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* And the control thread does what it does. */
TEST(users_leave_in_mid_traffic_while_others_come)
{
	struct leaver leavers[3];
	struct nic_counters counters;
	unsigned int n_here = 3;
	struct nic_event ev;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	for (unsigned int i = 0; i < 3; i++) {
		leavers[i] = (struct leaver){.rig = &rig, .uid = ALICE + 2 * i, .n_here = &n_here};
		ASSERT_OK(pthread_create(&leavers[i].thread, NULL, leave_in_mid_traffic, &leavers[i]));
	}
	for (unsigned int i = 0; __atomic_load_n(&n_here, __ATOMIC_ACQUIRE) > 0; i++) {
		struct nic *nic = rig.nic[i % 2];

		ASSERT_OK(nic->ops->port_set(nic, i % 4 < 2 ? NIC_PORT_DOWN : NIC_PORT_ACTIVE));
		ASSERT_OK(nic->ops->counters(nic, &counters));
		while (nic->ops->next_event(nic, &ev) == 0)
			;
		nap(NSEC_PER_MSEC);
	}
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_OK(pthread_join(leavers[i].thread, NULL));
	rig_close(&rig);
}

/* ---- an executor that stands still ------------------------------------------------------------------------------------ */

/* The control thread queries the NIC and other users go on working while one user's executor stands still. */
TEST(a_user_whose_thread_stands_still_delays_no_other)
{
	struct client alice, bob, carol;
	struct nic_counters counters;
	struct nic_qp_info info;
	uint64_t begin, sat;
	struct rig rig;

	rig_open(&rig, 1, SITS);
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_open_for(&bob, rig.nic[0], 2, BOB, 1);
	client_connect(&alice, 0, &alice, 0);
	client_connect(&bob, 0, &bob, 0);
	sit_still(&alice);
	sat = nsec_now();
	begin_write(&alice, 99);
	begin = nsec_now();
	for (unsigned int i = 0; i < SITS_AFTER - 2; i++) {
		begin_write(&bob, i);
		client_complete(&bob, 0);
	}
	client_open_for(&carol, rig.nic[0], 3, CAROL, 1);
	client_close(&carol);
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_DOWN));
	ASSERT_OK(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_ACTIVE));
	ASSERT_ERR(alice.ctx->nic->ops->qp_query(alice.ctx, client_qpn(&alice, 0), &info), EBUSY);
	ASSERT_LT(nsec_now() - begin, SITS_NSEC - 500 * NSEC_PER_MSEC);
	/* After one wait in vain no call waits. */
	begin = nsec_now();
	ASSERT_ERR(alice.ctx->nic->ops->qp_query(alice.ctx, client_qpn(&alice, 0), &info), EBUSY);
	ASSERT_OK(alice.ctx->nic->ops->ctx_counters(alice.ctx, &counters));
	ASSERT_LT(nsec_now() - begin, QUICK_NSEC);
	client_complete(&alice, 0);
	ASSERT_GT(nsec_now() - sat, SITS_NSEC / 2);
	ASSERT_OK(alice.ctx->nic->ops->qp_query(alice.ctx, client_qpn(&alice, 0), &info));
	ASSERT_EQ(info.counters.wqes, SITS_AFTER + 1);
	client_close(&alice);
	client_close(&bob);
	rig_close(&rig);
}

/* The control thread asks for 30 ms at most. A client that waits for longer is not refused for that. */
TEST(a_question_with_patience_is_asked_although_another_one_was_given_up_sooner)
{
	struct nic_counters counters;
	struct nic_qp_info info;
	struct client alice;
	struct rig rig;

	rig_open(&rig, 1, "soft.sit-still:500");
	client_open_for(&alice, rig.nic[0], 1, ALICE, 1);
	client_connect(&alice, 0, &alice, 0);
	sit_still(&alice);
	ASSERT_OK(rig.nic[0]->ops->counters(rig.nic[0], &counters));
	alice.ctx->patience_nsec = CLIENT_LIMIT_NSEC;
	ASSERT_OK(alice.ctx->nic->ops->qp_query(alice.ctx, client_qpn(&alice, 0), &info));
	ASSERT_EQ(info.counters.wqes, SITS_AFTER);
	client_close(&alice);
	rig_close(&rig);
}

/* Many who ask and leave, and a context that is closed while what they asked is still at the executor. */
TEST(questions_that_were_left_touch_nothing_of_a_context_that_is_closed)
{
	struct client alice, bob;
	struct nic_counters counters;
	struct rig rig;

	rig_open(&rig, 1, "soft.sit-still:700");
	client_open_for(&alice, rig.nic[0], 1, ALICE, 40);
	client_open_for(&bob, rig.nic[0], 2, ALICE, 40);
	client_connect(&alice, 0, &alice, 0);
	sit_still(&alice);
	for (unsigned int i = 0; i < 3; i++)
		ASSERT_OK(bob.ctx->nic->ops->ctx_counters(bob.ctx, &counters));
	client_close(&bob);
	client_close(&alice);
	rig_close(&rig);
}

#define ASKED_NSEC ((test_is_full() ? 20 : 1) * NSEC_PER_SEC)

/* Its thread sleeps, and answers just as the caller gives up: it does not pass for one that stands still until it is woken. */
TEST(an_idle_executor_that_answered_a_little_late_is_asked_again)
{
	const uint64_t until = nsec_now() + ASKED_NSEC;
	struct nic_qp_info info;
	struct client c;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_ctx(&c, rig.nic[0], 1);
	while (nsec_now() < until) {
		c.ctx->patience_nsec = 1;
		if (c.ctx->nic->ops->qp_query(c.ctx, 1, &info) != -EBUSY)
			continue;
		nap(NSEC_PER_MSEC);
		c.ctx->patience_nsec = CLIENT_LIMIT_NSEC;
		for (unsigned int n = 0; c.ctx->nic->ops->qp_query(c.ctx, 1, &info) == -EBUSY; n++) {
			ASSERT_LT(n, 1000u);
			nap(NSEC_PER_MSEC);
		}
	}
	client_close(&c);
	rig_close(&rig);
}

/* ---- the attack ---------------------------------------------------------------------------------------------------------- */

#define ATTACKED_BYTES (64u << 20)
#define SLICE_NSEC (10 * NSEC_PER_MSEC)
#define STALLED_SLICES (test_is_full() ? 100u : 20u)
#define ATTACK_NSEC (20 * NSEC_PER_SEC)
#define N_ROUNDS 8u
#define KEEPS_AT_LEAST 0.4

struct attack {
	struct client c; /* one QP, connected to the victim's second */
	struct client *victim;
	struct puncher puncher;
	uint8_t *mem;
	int mem_fd;
	struct nic_mr *mr;
	uint64_t next; /* page */
	bool is_under_way;
};

static void attack_open(struct attack *a, struct nic *nic, struct client *victim)
{
	struct nic_mr_attr attr = {
		.kind = NIC_MEM_MEMFD, .length_bytes = ATTACKED_BYTES, .iova = CLIENT_IOVA, .access = NIC_ACCESS_ALL};

	memset(a, 0, sizeof(*a));
	client_open_for(&a->c, nic, 66, ALICE, 1);
	a->victim = victim;
	client_connect(&a->c, 0, victim, 1);
	attr.fd = a->mem_fd = client_memfd(ATTACKED_BYTES, &a->mem);
	ASSERT_OK(nic->ops->mr_reg(a->c.ctx, &attr, &a->mr));
	/* WQEs name the attacked region. */
	ASSERT(!nic->ops->mr_dereg(a->c.mr));
	a->c.mr = a->mr;
}

/*
 * Something of it is always under way, from that memory to the victim's: a thread is to be at it, and not the victim's. Returns whether it was all the time since.
 */
static bool attack_goes_on(struct attack *a)
{
	struct shmd_cqe cqe;

	if (a->is_under_way && !client_poll(&a->c, 0, &cqe, 0))
		return true;
	a->next = (a->next + 127) % (ATTACKED_BYTES / 4096);
	client_post_write(&a->c, 0, a->next * 4096, a->victim, CLIENT_MEM_BYTES / 2, 4096);
	client_ring(&a->c, 0);
	a->is_under_way = true;
	return false;
}

static void attack_close(struct attack *a)
{
	puncher_stop(&a->puncher);
	client_close(&a->c);
	munmap(a->mem, ATTACKED_BYTES);
	close(a->mem_fd);
}

struct rate {
	uint64_t writes, nsec;
	unsigned int n_slices;
};

static double per_msec(const struct rate *rate)
{
	return rate->nsec ? (double)rate->writes * NSEC_PER_MSEC / (double)rate->nsec : 0;
}

/* One write after the other, for a slice of time or until the last one is done. */
static void victim_slice(struct client *c, struct rate *rate)
{
	uint64_t begin = nsec_now();

	do {
		begin_write(c, rate->writes++);
		client_complete(c, 0);
	} while (nsec_now() - begin < SLICE_NSEC);
	rate->nsec += nsec_now() - begin;
	rate->n_slices++;
}

/* Rates of the victim: beside hogs and holes alone, and while the attacker has something under way all the time. */
struct round {
	struct rate alone, attacked;
};

static bool attack_is_over(struct attack *a)
{
	struct shmd_cqe cqe;

	a->is_under_way = a->is_under_way && !client_poll(&a->c, 0, &cqe, 0);
	return !a->is_under_way;
}

static void attack_round(struct client *victim, struct attack *attack, struct round *round)
{
	uint64_t begin = nsec_now();

	*round = (struct round){0};
	while (!attack_is_over(attack) && nsec_now() - begin < ATTACK_NSEC)
		nap(NSEC_PER_MSEC);
	while (round->alone.n_slices < STALLED_SLICES)
		victim_slice(victim, &round->alone);
	while (round->attacked.n_slices < STALLED_SLICES && nsec_now() - begin < ATTACK_NSEC) {
		struct rate before = round->attacked;
		bool was_stalled = attack_goes_on(attack);

		victim_slice(victim, &round->attacked);
		/* A slice in which the attacker's thread came on says little, unless the victim's waited for it. */
		if ((!attack_goes_on(attack) || !was_stalled) && round->attacked.nsec - before.nsec < 2 * SLICE_NSEC)
			round->attacked = before;
	}
	printf("# alone %.1f writes a millisecond, beside a thread that sleeps %.1f in %u slices; %.1f s\n",
	       per_msec(&round->alone), per_msec(&round->attacked), round->attacked.n_slices,
	       (double)(nsec_now() - begin) / NSEC_PER_SEC);
}

/* Rounds that miss are repeated, since others may use the machine; starvation misses every time. */
TEST_TIMEOUT(holes_punched_at_the_lowest_priority_stall_their_own_user_alone, 120)
{
	struct round round;
	struct attack attack;
	struct client victim;
	bool keeps = false;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_for(&victim, rig.nic[0], 1, BOB, 2);
	client_connect(&victim, 0, &victim, 0);
	attack_open(&attack, rig.nic[0], &victim);
	puncher_start(&attack.puncher, attack.mem_fd, ATTACKED_BYTES);
	for (unsigned int i = 0; i < N_ROUNDS && !keeps; i++) {
		attack_round(&victim, &attack, &round);
		keeps = round.attacked.n_slices > 0 && per_msec(&round.attacked) >= KEEPS_AT_LEAST * per_msec(&round.alone);
	}
	puncher_stop(&attack.puncher);
	if (round.attacked.n_slices == 0)
		test_skip("no hole takes long enough here");
	ASSERT(keeps);
	attack_close(&attack);
	client_close(&victim);
	rig_close(&rig);
}

/* ---- a session between a user who stalls and one who is well -------------------------------------------------------------- */

#define N_JAMMED 24u /* QPs to the user who stalls */
#define N_LARGE 4u /* on each of them: more packets than the session can have */
#define LARGE_BYTES (CLIENT_MEM_BYTES / 2)
#define RATED_NSEC (400 * NSEC_PER_MSEC) /* well within the time that she sits */

/* Bob's session has a QP with Carol, and N_JAMMED with Alice. */
struct between {
	struct rig rig;
	struct client alice, bob, carol;
};

static void between_open(struct between *b)
{
	rig_open(&b->rig, 1, SITS);
	client_open_for(&b->alice, b->rig.nic[0], 1, ALICE, N_JAMMED + 1);
	client_open_for(&b->bob, b->rig.nic[0], 2, BOB, N_JAMMED + 2);
	client_open_for(&b->carol, b->rig.nic[0], 3, CAROL, 2);
	client_connect(&b->alice, N_JAMMED, &b->alice, N_JAMMED);
	client_connect(&b->bob, 0, &b->bob, 0);
	client_connect(&b->carol, 0, &b->carol, 0);
	client_connect_as(&b->bob, 1, &b->carol, 1, &impatient);
	for (unsigned int i = 0; i < N_JAMMED; i++)
		client_connect_as(&b->bob, 2 + i, &b->alice, i, &impatient);
	/* They have sat before anything is measured. */
	sit_still(&b->bob);
	sit_still(&b->carol);
	begin_write(&b->bob, 0);
	begin_write(&b->carol, 0);
	client_complete(&b->bob, 0);
	client_complete(&b->carol, 0);
}

static void between_close(struct between *b)
{
	client_close(&b->alice);
	client_close(&b->bob);
	client_close(&b->carol);
	rig_close(&b->rig);
}

/* Small requests one after the other; reads are answered by Bob. */
static double rate_with_carol(struct between *b, bool are_reads)
{
	struct rate rate = {.nsec = nsec_now()};

	do {
		struct client *c = are_reads ? &b->carol : &b->bob;

		if (are_reads)
			client_post_read(c, 1, 0, &b->bob, 0, 8);
		else
			client_post_inline(c, 1, rate.writes, &b->carol, 8);
		client_ring(c, 1);
		client_complete(c, 1);
		rate.writes++;
	} while (nsec_now() - rate.nsec < RATED_NSEC);
	rate.nsec = nsec_now() - rate.nsec;
	return per_msec(&rate);
}

static void alice_sits(struct between *b)
{
	for (unsigned int i = 0; i < SITS_AFTER; i++)
		client_post_inline(&b->alice, N_JAMMED, i, &b->alice, 0);
	client_ring(&b->alice, N_JAMMED);
	for (unsigned int i = 0; i < SITS_AFTER; i++)
		client_complete(&b->alice, N_JAMMED);
}

static void post_large(struct client *c, unsigned int first_qp, const struct client *to, bool are_reads)
{
	for (unsigned int i = first_qp; i < first_qp + N_JAMMED; i++) {
		for (unsigned int n = 0; n < N_LARGE; n++)
			if (are_reads)
				client_post_read(c, i, LARGE_BYTES, to, 0, LARGE_BYTES);
			else
				client_post_write(c, i, 0, to, LARGE_BYTES, LARGE_BYTES);
		client_ring(c, i);
	}
}

/* All of them, and none was sent twice. */
static void complete_large(struct client *c, unsigned int first_qp)
{
	struct nic_qp_info info;

	c->ctx->patience_nsec = CLIENT_LIMIT_NSEC;
	for (unsigned int i = first_qp; i < first_qp + N_JAMMED; i++) {
		for (unsigned int n = 0; n < N_LARGE; n++)
			client_complete(c, i);
		ASSERT_OK(c->ctx->nic->ops->qp_query(c->ctx, client_qpn(c, i), &info));
		/* A sanitizer makes threads so slow that time-outs of requests under way pass. */
		if (!test_has_sanitizer())
			ASSERT_EQ(info.counters.retries, 0u);
	}
}

static bool keeps_rate(const char *what, double alone, double beside)
{
	printf("# %s: alone %.1f a millisecond, beside a peer that stalls %.1f\n", what, alone, beside);
	return beside >= KEEPS_AT_LEAST * alone;
}

/* Without a limit on what is on its way to one peer, these packets are all that the session can have. */
static bool writes_beside_a_stall(void)
{
	struct between b;
	double alone;
	bool keeps;

	between_open(&b);
	client_fill(&b.bob, 0, LARGE_BYTES, 7);
	alone = rate_with_carol(&b, false);
	alice_sits(&b);
	post_large(&b.bob, 2, &b.alice, false);
	keeps = keeps_rate("writes", alone, rate_with_carol(&b, false));
	complete_large(&b.bob, 2);
	ASSERT_MEMEQ(b.alice.mem + LARGE_BYTES, b.bob.mem, LARGE_BYTES);
	between_close(&b);
	return keeps;
}

/* Rounds that miss are repeated, as above. */
TEST(a_session_keeps_its_rate_with_one_peer_while_its_other_peers_stall)
{
	bool keeps = false;

	for (unsigned int i = 0; i < N_ROUNDS && !keeps; i++)
		keeps = writes_beside_a_stall();
	ASSERT(keeps);
}

static bool answers_beside_a_stall(void)
{
	struct between b;
	double alone;
	bool keeps;

	between_open(&b);
	client_fill(&b.bob, 0, LARGE_BYTES, 9);
	alone = rate_with_carol(&b, true);
	post_large(&b.alice, 0, &b.bob, true);
	alice_sits(&b);
	keeps = keeps_rate("reads", alone, rate_with_carol(&b, true));
	complete_large(&b.alice, 0);
	ASSERT_MEMEQ(b.alice.mem + LARGE_BYTES, b.bob.mem, LARGE_BYTES);
	between_close(&b);
	return keeps;
}

TEST(a_session_answers_one_peer_while_others_do_not_take_its_answers)
{
	bool keeps = false;

	for (unsigned int i = 0; i < N_ROUNDS && !keeps; i++)
		keeps = answers_beside_a_stall();
	ASSERT(keeps);
}
