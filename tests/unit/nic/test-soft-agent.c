/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a memory agent reaches: what is read, written and added is right, and what an agent breaks ends with error CQEs. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "daemon/nic/soft/soft-agent.h"
#include "proto/base/nsec.h"
#include "tests/lib/ring-agent.h"
#include "tests/lib/test.h"

#define DATA_BYTES (UINT64_C(1) << 20) /* the least */
#define N_ADDS 200u

/* A client whose memory an agent reaches. */
struct owner {
	struct client c;
	struct ring_agent agent;
	void *view; /* the agent's mapping: a checker of races cannot see what orders its accesses with those of the test */
};

static void attach(struct owner *o, enum ring_agent_mood mood)
{
	ring_agent_open(&o->agent, DATA_BYTES);
	ASSERT_OK(o->c.ctx->nic->ops->agent_attach(o->c.ctx, o->agent.fd, o->agent.wake_fd));
	ring_agent_start(&o->agent, o->c.nic_page, o->c.ctx->doorbell.wake_fd, mood);
}

static void map_memory(struct owner *o)
{
	o->c.mem_fd = client_memfd(CLIENT_MEM_BYTES, &o->c.mem);
	o->view = mmap(NULL, CLIENT_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, o->c.mem_fd, 0);
	ASSERT(o->view != MAP_FAILED);
}

static void reg(struct owner *o)
{
	const struct nic_mr_attr attr = {.kind = NIC_MEM_AGENT,
					 .fd = -1,
					 .offset = (uintptr_t)o->view,
					 .length_bytes = CLIENT_MEM_BYTES,
					 .iova = CLIENT_IOVA,
					 .access = NIC_ACCESS_ALL};

	ASSERT_OK(o->c.ctx->nic->ops->mr_reg(o->c.ctx, &attr, &o->c.mr));
}

static void owner_open(struct owner *o, struct nic *nic, uint64_t session, unsigned int n_qps, enum ring_agent_mood mood)
{
	client_open_ctx(&o->c, nic, session);
	map_memory(o);
	attach(o, mood);
	reg(o);
	client_create(&o->c, n_qps, 0);
}

static void owner_close(struct owner *o)
{
	ring_agent_stop(&o->agent);
	client_close(&o->c);
	ring_agent_close(&o->agent);
	munmap(o->view, CLIENT_MEM_BYTES);
}

/* ---- right ------------------------------------------------------------------------------------------------------------------ */

static void put_and_get(struct client *a, struct client *b, uint32_t bytes)
{
	uint32_t half = CLIENT_MEM_BYTES / 2;

	client_fill(a, 0, bytes, (uint8_t)bytes);
	client_post_write(a, 0, 0, b, bytes <= half ? half : 0, bytes);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(b->mem + (bytes <= half ? half : 0), a->mem, bytes);
	client_fill(b, 0, bytes, (uint8_t)(bytes + 1));
	client_post_read(a, 0, 0, b, 0, bytes);
	client_ring(a, 0);
	client_complete(a, 0);
	ASSERT_MEMEQ(a->mem, b->mem, bytes);
}

static void all_sizes(struct client *a, struct client *b)
{
	static const uint32_t sizes[] = {1, 8, 39, 40, 41, 63, 64, 65, 4096, 4097, 65536, 65537, 300000, CLIENT_MEM_BYTES};

	client_connect(a, 0, b, 0);
	client_exercise(a, b);
	client_exercise(b, a);
	client_send_and_receive(a, b);
	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		put_and_get(a, b, sizes[i]);
}

static void between(unsigned int nic, bool both, enum ring_agent_mood mood)
{
	struct owner a, b;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	if (both)
		owner_open(&a, rig.nic[0], 1, 1, mood);
	else
		client_open(&a.c, rig.nic[0], 1, 1);
	owner_open(&b, rig.nic[nic], 2, 1, mood);
	all_sizes(&a.c, &b.c);
	if (both)
		owner_close(&a);
	else
		client_close(&a.c);
	owner_close(&b);
	rig_close(&rig);
}

TEST(all_sizes_are_right_on_one_nic)
{
	between(0, false, RING_AGENT_FAIR);
}

/* The peer's NIC reads and writes by the agent of the other one. */
TEST(all_sizes_are_right_between_nics)
{
	between(1, false, RING_AGENT_FAIR);
}

TEST(all_sizes_are_right_between_two_agents)
{
	between(1, true, RING_AGENT_FAIR);
}

/* Each with a batch of its own on its way: half of them writes, half of them reads. */
static void start_mix(struct client *a, struct client *b, unsigned int i, uint32_t bytes)
{
	uint64_t at = i * 2ull * bytes;

	client_fill(a, at, bytes, (uint8_t)(i + 3));
	client_post_write(a, i, at, b, at, bytes);
	client_post_read(a, i, at + bytes, b, at, bytes);
	client_ring(a, i);
}

TEST(completions_out_of_order_are_right)
{
	enum { N = 16 };
	const uint32_t bytes = 16384;
	struct owner b;
	struct client a;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, N);
	owner_open(&b, rig.nic[0], 2, N, RING_AGENT_REVERSE);
	for (unsigned int i = 0; i < N; i++)
		client_connect(&a, i, &b.c, i);
	for (unsigned int round = 0; round < 20; round++) {
		for (unsigned int i = 0; i < N; i++)
			start_mix(&a, &b.c, i, bytes);
		for (unsigned int i = 0; i < 2 * N; i++)
			client_complete(&a, i / 2);
		for (unsigned int i = 0; i < N; i++)
			ASSERT_MEMEQ(a.mem + (2 * i + 1) * bytes, a.mem + 2 * i * bytes, bytes);
	}
	ring_agent_stop(&b.agent);
	ASSERT_GT(b.agent.n_most, 1u);
	client_close(&a);
	owner_close(&b);
	rig_close(&rig);
}

TEST(atomics_of_two_requesters_are_exact)
{
	struct client a[2];
	struct owner b;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	owner_open(&b, rig.nic[0], 3, 2, RING_AGENT_FAIR);
	memset(b.c.mem, 0, 64);
	for (unsigned int k = 0; k < 2; k++) {
		client_open(&a[k], rig.nic[k], 1 + k, 1);
		client_connect(&a[k], 0, &b.c, k);
	}
	for (unsigned int n = 0; n < N_ADDS; n++) {
		for (unsigned int k = 0; k < 2; k++) {
			client_post_fetch_add(&a[k], 0, 8 * n, &b.c, 0, 1);
			client_ring(&a[k], 0);
		}
		client_complete(&a[0], 0);
		client_complete(&a[1], 0);
	}
	ASSERT_EQ(client_word(&b.c, 0), 2 * N_ADDS);
	for (unsigned int n = 0; n < N_ADDS; n++)
		ASSERT_EQ(client_word(&a[0], 8 * n) + client_word(&a[1], 8 * n), 4 * n + 1);
	client_close(&a[0]);
	client_close(&a[1]);
	owner_close(&b);
	rig_close(&rig);
}

/* ---- wrong ------------------------------------------------------------------------------------------------------------------ */

static uint8_t fails(struct client *a, unsigned int i, uint64_t limit_nsec)
{
	struct shmd_cqe cqe;

	ASSERT(client_poll(a, i, &cqe, limit_nsec));
	ASSERT_EQ(client_cqe_opcode(&cqe), SHMD_CQE_REQ_ERR);
	return client_cqe_syndrome(&cqe);
}

/* A write and then a read by another QP fail; others go on meanwhile, and everything closes. */
static void breaks(enum ring_agent_mood mood, unsigned int nic)
{
	struct client a, x, y;
	uint8_t syndrome;
	struct owner b;
	struct rig rig;

	rig_open(&rig, 2, NULL);
	client_open(&a, rig.nic[nic], 1, 2);
	owner_open(&b, rig.nic[0], 2, 2, mood);
	client_open(&x, rig.nic[0], 3, 1);
	client_open(&y, rig.nic[0], 4, 1);
	client_connect(&a, 0, &b.c, 0);
	client_connect(&a, 1, &b.c, 1);
	client_connect(&x, 0, &y, 0);
	client_post_write(&a, 0, 0, &b.c, 0, 4096);
	client_ring(&a, 0);
	client_exercise(&x, &y);
	syndrome = fails(&a, 0, CLIENT_LIMIT_NSEC);
	/* The retries of these QPs end before the limit of a request. */
	ASSERT_EQ(syndrome, mood == RING_AGENT_STILL ? SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR : SHMD_SYNDROME_REMOTE_OP_ERR);
	client_post_read(&a, 1, 0, &b.c, 0, 4096);
	client_ring(&a, 1);
	fails(&a, 1, CLIENT_LIMIT_NSEC);
	client_exercise(&x, &y);
	client_close(&a);
	client_close(&x);
	client_close(&y);
	owner_close(&b);
	rig_close(&rig);
}

TEST_WAITS(an_agent_that_stands_still_ends_requests_in_time, TEST_DEFAULT_TIMEOUT_SEC)
{
	breaks(RING_AGENT_STILL, 0);
}

TEST_WAITS(an_agent_that_stands_still_ends_requests_of_other_nics_in_time, TEST_DEFAULT_TIMEOUT_SEC)
{
	breaks(RING_AGENT_STILL, 1);
}

TEST(an_agent_that_says_that_it_ends_ends_requests)
{
	breaks(RING_AGENT_ENDS, 0);
}

TEST(an_agent_that_answers_what_nobody_asked_ends_requests)
{
	breaks(RING_AGENT_STRANGE_ID, 0);
}

TEST(an_agent_that_answers_too_much_ends_requests)
{
	breaks(RING_AGENT_STRANGE_COUNT, 1);
}

TEST(memory_that_an_agent_cannot_reach_fails_its_requests)
{
	breaks(RING_AGENT_FAILS, 0);
}

/* Nothing waits for the agent: two seconds have not gone by. */
TEST(a_context_with_requests_under_way_closes_at_once)
{
	struct client a;
	struct owner b;
	struct rig rig;
	uint64_t begin, bytes;

	rig_open(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	owner_open(&b, rig.nic[0], 2, 1, RING_AGENT_STILL);
	client_connect(&a, 0, &b.c, 0);
	client_post_write(&a, 0, 0, &b.c, 0, 4096);
	client_ring(&a, 0);
	while (__atomic_load_n(&((struct shmd_agent_ring *)(void *)b.agent.map)->n_requests, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
	bytes = b.c.queues->layout.total_bytes;
	begin = nsec_now();
	ASSERT_OK(b.c.ctx->nic->ops->queues_destroy(b.c.queues));
	b.c.queues = NULL;
	munmap(b.c.queue_mem, bytes);
	close(b.c.queue_fd);
	ASSERT_LT(nsec_now() - begin, SOFT_AGENT_LIMIT_NSEC / 2);
	owner_close(&b);
	client_close(&a);
	rig_close(&rig);
}

/* Its executor takes back what the agent of the other NIC has begun, and not what waits for room in that agent's ring. */
TEST_WAITS(a_nic_ends_without_the_requests_that_a_slow_agent_of_another_has_not_begun, TEST_DEFAULT_TIMEOUT_SEC)
{
	enum { N = 64, AT_ONCE = DATA_BYTES / 65536 };
	struct client a;
	struct owner b;
	struct rig rig;
	uint64_t begin;

	rig_open(&rig, 2, NULL);
	client_open(&a, rig.nic[1], 1, N);
	owner_open(&b, rig.nic[0], 2, N, RING_AGENT_SLOW);
	for (unsigned int i = 0; i < N; i++) {
		client_connect(&b.c, i, &a, i);
		client_post_write(&b.c, i, 0, &a, 0, 65536);
		client_ring(&b.c, i);
	}
	while (__atomic_load_n(&((struct shmd_agent_ring *)(void *)b.agent.map)->n_requests, __ATOMIC_ACQUIRE) < AT_ONCE)
		sched_yield();
	client_close(&a);
	begin = nsec_now();
	ASSERT(!rig.nic[1]->ops->close(rig.nic[1]));
	ASSERT_LT(nsec_now() - begin, N * RING_AGENT_SLOW_MSEC * NSEC_PER_MSEC / 2);
	owner_close(&b);
	rig_close(&rig);
}

/* ---- other users ------------------------------------------------------------------------------------------------------------ */

/* Their packets go as bytes, at once: writes to agent memory work, and what would have to be read there ends in an error that says so. */
TEST(agent_memory_is_not_sent_to_another_user)
{
	struct client a;
	struct owner b;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open_for(&a, rig.nic[0], 1, 4001, 3);
	client_open_ctx_for(&b.c, rig.nic[0], 2, 4002);
	map_memory(&b);
	attach(&b, RING_AGENT_FAIR);
	reg(&b);
	client_create(&b.c, 3, 0);
	for (unsigned int i = 0; i < 3; i++)
		client_connect(&a, i, &b.c, i);
	client_fill(&a, 0, 5000, 7);
	client_post_write(&a, 0, 0, &b.c, 100, 5000);
	client_ring(&a, 0);
	client_complete(&a, 0);
	ASSERT_MEMEQ(b.c.mem + 100, a.mem, 5000);
	client_post_write(&b.c, 1, 0, &a, 0, 5000);
	client_ring(&b.c, 1);
	ASSERT_EQ(fails(&b.c, 1, CLIENT_LIMIT_NSEC), SHMD_SYNDROME_LOCAL_QP_OP_ERR);
	client_post_read(&a, 2, 0, &b.c, 0, 5000);
	client_ring(&a, 2);
	ASSERT_EQ(fails(&a, 2, CLIENT_LIMIT_NSEC), SHMD_SYNDROME_REMOTE_OP_ERR);
	client_close(&a);
	owner_close(&b);
	rig_close(&rig);
}

/* ---- regions that end -------------------------------------------------------------------------------------------------------- */

static uint32_t n_requests(const struct owner *o)
{
	return __atomic_load_n(&((const struct shmd_agent_ring *)(const void *)o->agent.map)->n_requests, __ATOMIC_ACQUIRE);
}

/* The region ends while most of the writes to it wait for room in the ring. */
static void end_region(unsigned int nic)
{
	enum { N = 64, AT_ONCE = DATA_BYTES / 65536 };
	struct client a;
	struct owner b;
	struct rig rig;
	uint32_t n;

	rig_open(&rig, 2, NULL);
	client_open(&a, rig.nic[nic], 1, N);
	owner_open(&b, rig.nic[0], 2, N, RING_AGENT_SLOW);
	for (unsigned int i = 0; i < N; i++) {
		client_connect(&a, i, &b.c, i);
		client_post_write(&a, i, 0, &b.c, 0, 65536);
		client_ring(&a, i);
	}
	while (n_requests(&b) < AT_ONCE)
		sched_yield();
	b.c.mr = b.c.ctx->nic->ops->mr_dereg(b.c.mr);
	n = n_requests(&b);
	ASSERT_LT(n, N);
	usleep(4 * RING_AGENT_SLOW_MSEC * 1000);
	ASSERT_EQ(n_requests(&b), n);
	client_close(&a);
	owner_close(&b);
	rig_close(&rig);
}

TEST_WAITS(nothing_is_asked_of_an_agent_in_a_region_that_has_ended, TEST_DEFAULT_TIMEOUT_SEC)
{
	end_region(0);
}

TEST_WAITS(nothing_that_other_nics_ask_is_asked_of_an_agent_in_a_region_that_has_ended, TEST_DEFAULT_TIMEOUT_SEC)
{
	end_region(1);
}

/* ---- a second ring ---------------------------------------------------------------------------------------------------------- */

/* A client that got no answer to its first ring makes another one. */
TEST(a_ring_without_regions_makes_room_for_another)
{
	struct ring_agent lost;
	struct client a;
	struct owner b;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open_ctx(&b.c, rig.nic[0], 2);
	map_memory(&b);
	ring_agent_open(&lost, DATA_BYTES);
	ASSERT_OK(b.c.ctx->nic->ops->agent_attach(b.c.ctx, lost.fd, lost.wake_fd));
	ring_agent_close(&lost);
	attach(&b, RING_AGENT_FAIR);
	reg(&b);
	client_create(&b.c, 1, 0);
	all_sizes(&a, &b.c);
	owner_close(&b);
	client_close(&a);
	rig_close(&rig);
}

TEST(a_ring_with_regions_stays)
{
	struct ring_agent other;
	struct client a;
	struct owner b;
	struct rig rig;

	rig_open(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	owner_open(&b, rig.nic[0], 2, 1, RING_AGENT_FAIR);
	ring_agent_open(&other, DATA_BYTES);
	ASSERT_ERR(b.c.ctx->nic->ops->agent_attach(b.c.ctx, other.fd, other.wake_fd), EEXIST);
	ring_agent_close(&other);
	all_sizes(&a, &b.c);
	owner_close(&b);
	client_close(&a);
	rig_close(&rig);
}

/* ---- refused ---------------------------------------------------------------------------------------------------------------- */

static int try_ring(struct client *c, void (*spoil)(struct shmd_agent_ring *head))
{
	struct ring_agent agent;
	int r;

	ring_agent_open(&agent, DATA_BYTES);
	if (spoil)
		spoil((struct shmd_agent_ring *)(void *)agent.map);
	r = c->ctx->nic->ops->agent_attach(c->ctx, agent.fd, agent.wake_fd);
	ring_agent_close(&agent);
	return r;
}

static void spoil_version(struct shmd_agent_ring *head)
{
	head->version++;
}

static void spoil_offset(struct shmd_agent_ring *head)
{
	head->data_offset += 65536;
}

static void spoil_bytes(struct shmd_agent_ring *head)
{
	head->data_bytes -= 65536;
}

TEST(rings_that_are_not_as_the_layout_says_are_refused)
{
	const struct nic_mr_attr attr = {.kind = NIC_MEM_AGENT, .fd = -1, .length_bytes = 4096, .access = NIC_ACCESS_ALL};
	struct nic_saved_fds saved;
	struct client c;
	struct nic_mr *mr;
	struct rig rig;
	uint8_t *map;
	int fd;

	rig_open(&rig, 1, NULL);
	client_open_ctx_saved(&c, rig.nic[0], 1);
	ASSERT_ERR(c.ctx->nic->ops->mr_reg(c.ctx, &attr, &mr), EINVAL);
	ASSERT_ERR(try_ring(&c, spoil_version), EINVAL);
	ASSERT_ERR(try_ring(&c, spoil_offset), EINVAL);
	ASSERT_ERR(try_ring(&c, spoil_bytes), EINVAL);
	fd = client_memfd(CLIENT_MEM_BYTES, &map);
	ASSERT_ERR(c.ctx->nic->ops->agent_attach(c.ctx, fd, fd), EINVAL);
	munmap(map, CLIENT_MEM_BYTES);
	close(fd);
	ASSERT_OK(c.ctx->nic->ops->ctx_saved_fds(c.ctx, &saved));
	ASSERT_OK(try_ring(&c, NULL));
	ASSERT_ERR(c.ctx->nic->ops->ctx_saved_fds(c.ctx, &saved), EOPNOTSUPP);
	client_reg(&c);
	client_create(&c, 1, 0);
	client_close(&c);
	rig_close(&rig);
}
