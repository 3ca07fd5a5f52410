/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of the mlx5 backend on two simulated ConnectX NICs: failed QPs, ports, lost NICs, and the trace of commands.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "proto/base/nsec.h"
#include "tests/lib/sim-nic.h"
#include "tests/lib/test.h"

static uint32_t error_word_of(const struct client *c, unsigned int i)
{
	const uint8_t *dbrec = c->queue_mem + c->queues->layout.qps[i].dbrec_offset;

	return __atomic_load_n((const uint32_t *)(const void *)(dbrec + SHMD_QP_ERROR_OFFSET),
			       __ATOMIC_ACQUIRE);
}

static uint32_t error_word(const struct client *c)
{
	return error_word_of(c, 0);
}

static void expect_event(struct nic *nic, struct nic_event *ret_event)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;

	do {
		ASSERT_EQ(poll(&pfd, 1, 10000), 1);
		ASSERT_LT(nsec_now(), end);
	} while (client_next_event(nic, ret_event) < 0);
}

/* b writes to a, with a key that is not a's. */
static void write_by_a_wrong_key(struct client *b, struct client *a)
{
	a->mr->rkey ^= 0x5500;
	client_post_write(b, 0, 0, a, 0, 64);
	a->mr->rkey ^= 0x5500;
	client_ring(b, 0);
}

static uint32_t syndrome_told(struct rig *rig, uint64_t session, uint32_t qpn)
{
	struct nic_event event;

	expect_event(rig->nic[session - 1], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_QP_ERROR);
	ASSERT_EQ(event.session_id, session);
	ASSERT_EQ(event.number, qpn);
	return event.syndrome;
}

TEST(both_ends_of_a_failed_request_tell_by_an_event)
{
	struct nic_event event;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&b, &a);
	ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_ERR(client_next_event(rig.nic[1], &event), EAGAIN);
	write_by_a_wrong_key(&b, &a);
	ASSERT_EQ(syndrome_told(&rig, 1, client_qpn(&a, 0)), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(error_word(&a), SHMD_SYNDROME_LOCAL_ACCESS_ERR);
	ASSERT_EQ(syndrome_told(&rig, 2, client_qpn(&b, 0)), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(error_word(&b), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_ERR(client_next_event(rig.nic[1], &event), EAGAIN);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* Both QPs begin again at 0, as a client does it. */
static void start_over(struct client *c)
{
	const struct nic_qp *qp = &c->queues->layout.qps[0];

	ASSERT_OK(c->ctx->nic->ops->qp_modify(c->ctx, qp->qpn, NIC_QPS_RST));
	memset(c->queue_mem + qp->dbrec_offset, 0, sizeof(struct shmd_dbrec));
	c->qps[0].sq_pi = 0;
	c->qps[0].rq_pi = 0;
}

TEST(a_qp_that_was_reset_has_no_errors_of_its_former_life)
{
	struct nic_qp_info info;
	struct nic_event event;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	for (int i = 0; i < 20; i++) {
		client_connect(&a, 0, &b, 0);
		write_by_a_wrong_key(&b, &a);
		ASSERT(client_poll(&b, 0, &cqe, CLIENT_LIMIT_NSEC));
		ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		start_over(&a);
		start_over(&b);
		ASSERT_EQ(error_word(&a), 0u);
		ASSERT_EQ(error_word(&b), 0u);
	}
	client_connect(&a, 0, &b, 0);
	client_exercise(&b, &a);
	ASSERT_OK(rig.nic[1]->ops->qp_modify(b.ctx, client_qpn(&b, 0), NIC_QPS_ERR));
	ASSERT_OK(rig.nic[1]->ops->qp_query(b.ctx, client_qpn(&b, 0), &info));
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_WR_FLUSH_ERR);
	/* A requested ERR is not reported. */
	ASSERT_ERR(client_next_event(rig.nic[1], &event), EAGAIN);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* A client may write anything into its CQ, also before its first error is reported. */
TEST(an_error_that_a_client_makes_up_before_its_reset_is_not_reported)
{
	struct nic_event event;
	struct shmd_cqe cqe;
	struct client a, b;
	struct rig rig;
	uint8_t *flush;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	write_by_a_wrong_key(&a, &b);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	for (uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC; error_word(&a) == 0;) {
		ASSERT_LT(nsec_now(), end);
		rig.nic[0]->ops->ctx_look(a.ctx);
	}
	client_post_inline(&a, 0, 1, &b, 0);
	client_ring(&a, 0);
	ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	flush = a.queue_mem + a.queues->layout.cqs[0].ring_offset + SHMD_CQE_BYTES;
	flush[offsetof(struct shmd_err_cqe, syndrome)] = SHMD_SYNDROME_REMOTE_ACCESS_ERR;
	start_over(&a);
	while (client_next_event(rig.nic[0], &event) == 0)
		ASSERT_EQ(event.session_id, 2u);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* A hundred QPs on one CQ fail in one go: an event for each, and one call at a time tells one. */
TEST(every_qp_of_a_shared_cq_is_reported)
{
	struct nic_queues_attr attr;
	struct nic_event event;
	uint8_t told[100] = {0};
	struct client c, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&b, rig.nic[1], 2, 100);
	client_open_ctx(&c, rig.nic[0], 1);
	client_reg(&c);
	client_attr(&attr, 100, 0);
	attr.cqs[0] = (struct nic_cq_spec){.count = 1, .log2_entries = 9};
	attr.qps[0].send_cq_step = 0;
	attr.qps[0].recv_cq_step = 0;
	client_create_as(&c, &attr);
	for (unsigned int i = 0; i < 100; i++)
		client_connect(&c, i, &b, i);
	b.mr->rkey ^= 0x5500;
	for (unsigned int i = 0; i < 100; i++) {
		client_post_write(&c, i, 0, &b, 0, 64);
		client_publish(&c, i);
	}
	b.mr->rkey ^= 0x5500;
	client_ring_word(&c, client_qpn(&c, 0));
	for (unsigned int n = 0; n < 100; n++) {
		unsigned int i = 0;

		expect_event(rig.nic[0], &event);
		ASSERT_EQ(event.syndrome, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
		while (i < 100 && client_qpn(&c, i) != event.number)
			i++;
		ASSERT_LT(i, 100u);
		ASSERT(!told[i]);
		told[i] = 1;
	}
	client_close(&c);
	client_close(&b);
	rig_close(&rig);
}

/* Whatever one client makes its channel carry, a look at it ends: others have their turn. */
TEST(many_events_are_read_a_few_at_a_time)
{
	const unsigned int n = 200;
	unsigned int n_words = 0, n_looks = client_n_looks;
	struct nic_event event;
	struct client c, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&b, rig.nic[1], 2, n);
	client_open(&c, rig.nic[0], 1, n);
	for (unsigned int i = 0; i < n; i++)
		client_connect(&c, i, &b, i);
	b.mr->rkey ^= 0x5500;
	for (unsigned int i = 0; i < n; i++) {
		client_post_write(&c, i, 0, &b, 0, 64);
		client_publish(&c, i);
	}
	b.mr->rkey ^= 0x5500;
	client_ring_word(&c, client_qpn(&c, 0));
	for (unsigned int i = 0; i < n; i++)
		ASSERT(client_poll(&c, i, &cqe, CLIENT_LIMIT_NSEC));
	expect_event(rig.nic[0], &event);
	for (unsigned int i = 0; i < n; i++)
		n_words += error_word_of(&c, i) != 0;
	ASSERT_LE(n_words, 64 * (client_n_looks - n_looks));
	for (unsigned int i = 1; i < n; i++)
		expect_event(rig.nic[0], &event);
	ASSERT_GE(client_n_looks - n_looks, n / 64);
	client_close(&c);
	client_close(&b);
	rig_close(&rig);
}

/* Also before any event was read. */
TEST(a_requester_that_fails_gets_the_reason_on_request)
{
	struct nic_qp_info info;
	struct client a, b;
	struct shmd_cqe cqe;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[0], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(rig.nic[0]->ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.first_error, 0u);
	client_post_inline(&a, 0, 1, &b, 0);
	b.mr->rkey ^= 0x5500;
	client_post_write(&a, 0, 0, &b, 0, 64);
	b.mr->rkey ^= 0x5500;
	client_post_inline(&a, 0, 2, &b, 0);
	client_ring(&a, 0);
	for (int i = 0; i < 3; i++)
		ASSERT(client_poll(&a, 0, &cqe, CLIENT_LIMIT_NSEC));
	ASSERT_EQ(client_cqe_syndrome(&cqe), SHMD_SYNDROME_WR_FLUSH_ERR);
	ASSERT_OK(rig.nic[0]->ops->qp_query(a.ctx, client_qpn(&a, 0), &info));
	ASSERT_EQ(info.state, NIC_QPS_ERR);
	ASSERT_EQ(info.first_error, SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_EQ(error_word(&a), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
}

/* ---- what happens to NICs ---------------------------------------------------------------------------------------------- */

TEST(port_that_goes_down_and_up_is_reported_by_events_and_query)
{
	struct nic_event event;
	struct nic_info info;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	sim_nic_happen("port-down 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(event.state, NIC_PORT_DOWN);
	ASSERT_EQ(event.session_id, 0u);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_DOWN);
	ASSERT_OK(nic_query(rig.nic[1], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	sim_nic_happen("port-up 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.state, NIC_PORT_ACTIVE);
	ASSERT_ERR(client_next_event(rig.nic[1], &event), EAGAIN);
	rig_close(&rig);
}

/* As a RoCE port tells it that has no network interface, or one of a very small MTU. */
TEST(port_without_an_mtu_has_the_smallest)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_info info;
	struct client c;
	struct rig rig;

	sim_nic_happen("mtu-gone 0");
	rig_open_mlx5(&rig, 1, NULL);
	while (nic_query(rig.nic[0], &info) == 0 && info.mtu_bytes >= 1024) {
		rig_close(&rig);
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
		rig_open_mlx5(&rig, 1, NULL);
	}
	ASSERT_EQ(info.mtu_bytes, 256u);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	client_close(&c);
	rig_close(&rig);
	sim_nic_happen("mtu-back 0");
}

/* The other channels' ends may come a moment later. */
static void expect_silence(struct nic *nic)
{
	struct pollfd pfd = {.fd = nic->event_fd, .events = POLLIN};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_event event;

	while (poll(&pfd, 1, 100) == 1) {
		ASSERT_ERR(client_next_event(nic, &event), EAGAIN);
		ASSERT_LT(nsec_now(), end);
	}
}

static unsigned int n_usable_nics(void)
{
	const struct nic_mlx5_attr attr = {0};
	struct nic_mlx5_report report;
	unsigned int n = 0;
	struct rig rig;

	list_init(&rig.nics);
	ASSERT_OK(nic_mlx5_probe(&attr, &rig.nics, &report));
	for (struct list *at = rig.nics.next; at != &rig.nics; at = at->next)
		n++;
	rig_close(&rig);
	return n;
}

/* For the tests after this one; and a NIC that has returned can be used again. */
static void return_nic(unsigned int n_nics)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;

	sim_nic_happen("return 0");
	while (n_usable_nics() < n_nics) {
		ASSERT_LT(nsec_now(), end);
		nanosleep(&pause, NULL);
	}
}

TEST(nic_that_is_lost_is_reported_and_lets_everything_go)
{
	struct nic_ctx_attr attr = {.session_id = 9, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct nic_event event;
	struct nic_info info;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 3);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	client_exercise(&a, &b);
	sim_nic_happen("fatal 0");
	expect_event(rig.nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_LOST);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_LOST);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), ENODEV);
	ASSERT_ERR(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 1), NIC_QPS_INIT), ENODEV);
	/* Reported once, and nothing is left that would wake the daemon for ever. */
	ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	expect_silence(rig.nic[0]);
	/* Its sessions end as any others; the NIC beside it goes on. */
	client_close(&a);
	ASSERT_OK(nic_query(rig.nic[1], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	client_close(&b);
	rig_close(&rig);
	return_nic(2);
}

/* Its own daemon reports that the NIC is back. */
static void expect_return(struct rig *rig)
{
	struct nic_event event;

	sim_nic_happen("return 0");
	expect_event(rig->nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_RETURNED);
	ASSERT_EQ(event.state, NIC_PORT_ACTIVE);
	ASSERT_ERR(client_next_event(rig->nic[0], &event), EAGAIN);
}

static void expect_loss(struct rig *rig)
{
	struct nic_event event;

	sim_nic_happen("fatal 0");
	expect_event(rig->nic[0], &event);
	ASSERT_EQ(event.kind, NIC_EVENT_LOST);
}

TEST(nic_that_returns_is_used_again_and_what_was_on_it_stays_lost)
{
	struct nic_ctx_attr attr = {.session_id = 9, .health_fd = -1};
	struct client a, b, again;
	struct nic_ctx *ctx = NULL;
	struct nic_event event;
	struct nic_info info;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&b, rig.nic[1], 2, 3);
	for (unsigned int i = 0; i < 3; i++) {
		client_open(&a, rig.nic[0], 1, 1);
		client_connect(&a, 0, &b, i);
		expect_loss(&rig);
		/* Not before it is there. */
		ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), ENODEV);
		expect_return(&rig);
		ASSERT_OK(nic_query(rig.nic[0], &info));
		ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
		ASSERT_STREQ(info.name, "mlx5_0");
		ASSERT_ERR(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST), ENODEV);
		client_open(&again, rig.nic[0], 3, 1);
		client_connect(&again, 0, &again, 0);
		client_exercise(&again, &again);
		client_close(&a);
		ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
		client_exercise(&again, &again);
		client_close(&again);
	}
	client_close(&b);
	rig_close(&rig);
}

/* The longer form is after the time when it is looked for less often. */
TEST(nic_that_stays_away_for_a_while_is_found)
{
	uint64_t away_nsec = test_is_full() ? 11 * NSEC_PER_SEC : NSEC_PER_SEC / 2, end;
	unsigned int n_wakes = 0;
	struct nic_event event;
	struct client a;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	expect_loss(&rig);
	for (end = nsec_now() + away_nsec; nsec_now() < end; n_wakes++) {
		struct pollfd pfd = {.fd = rig.nic[0]->event_fd, .events = POLLIN};

		poll(&pfd, 1, 100);
		ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	}
	/* Nothing spins meanwhile. */
	ASSERT_LE(n_wakes, away_nsec / (NSEC_PER_SEC / 20));
	expect_return(&rig);
	client_open(&a, rig.nic[0], 1, 1);
	client_connect(&a, 0, &a, 0);
	client_exercise(&a, &a);
	client_close(&a);
	rig_close(&rig);
}

/* Its end stays unread until the NIC is back: it must not be taken for the end of the new life. */
TEST(end_of_a_former_life_is_not_reported_for_the_new_one)
{
	struct client a[3];
	struct nic_event event;
	struct nic_info info;
	struct rig rig;

	rig_open_mlx5(&rig, 2, NULL);
	for (unsigned int i = 0; i < 3; i++)
		client_open(&a[i], rig.nic[0], i + 1, 1);
	expect_loss(&rig);
	expect_return(&rig);
	for (unsigned int i = 0; i < 10; i++)
		ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, NIC_PORT_ACTIVE);
	expect_silence(rig.nic[0]);
	for (unsigned int i = 0; i < 3; i++)
		client_close(&a[i]);
	rig_close(&rig);
}

TEST(context_of_a_former_life_cannot_be_imported)
{
	struct nic_import_attr attr = {.ctx = {.session_id = 4, .health_fd = -1}, .shared = true};
	struct nic_imported imported;
	struct client a;
	struct rig rig;
	void *record;

	rig_open_mlx5(&rig, 2, NULL);
	client_open(&a, rig.nic[0], 1, 1);
	ASSERT_OK(client_export(&a, &record, &attr.record_bytes));
	attr.record = record;
	ASSERT_OK(rig.nic[0]->ops->ctx_saved_fds(a.ctx, &attr.fds));
	ASSERT_OK(rig.nic[0]->ops->ctx_import(rig.nic[0], &attr, &imported));
	ASSERT(!rig.nic[0]->ops->ctx_unimport(imported.ctx));
	nic_imported_deinit(&imported);
	expect_loss(&rig);
	ASSERT_ERR(rig.nic[0]->ops->ctx_import(rig.nic[0], &attr, &imported), ENODEV);
	expect_return(&rig);
	ASSERT_ERR(rig.nic[0]->ops->ctx_import(rig.nic[0], &attr, &imported), ENODEV);
	free(record);
	client_close(&a);
	rig_close(&rig);
}

static void expect_gid(struct nic *nic, bool ipv4)
{
	uint64_t end = nsec_now() + CLIENT_LIMIT_NSEC;
	struct nic_event event;
	struct nic_info info;

	for (;;) {
		ASSERT_ERR(client_next_event(nic, &event), EAGAIN);
		ASSERT_OK(nic_query(nic, &info));
		if ((info.gid[10] == 0xff) == ipv4)
			return;
		ASSERT_LT(nsec_now(), end);
	}
}

/* An address that goes and comes: QPs are made with what there is. */
TEST(new_qps_have_a_gid_that_is_there)
{
	struct nic_info info;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, NULL);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	if (info.link == NIC_LINK_ETHERNET) {
		for (int i = 0; i < 2; i++) {
			sim_nic_happen(i ? "gid-back 0" : "gid-gone 0");
			expect_gid(rig.nic[0], i);
			client_open(&c, rig.nic[0], 1, 1);
			ASSERT_EQ(c.queues->layout.qps[0].addr.gid[0], i ? 0 : 0xfe);
			client_connect(&c, 0, &c, 0);
			client_exercise(&c, &c);
			client_close(&c);
		}
	}
	rig_close(&rig);
}

/* ---- trace ----------------------------------------------------------------------------------------------------------- */

static unsigned int n_lines_with(FILE *file, const char *what)
{
	char line[512];
	unsigned int n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += !!strstr(line, what);
	return n;
}

/* Next line of a command, answers left out; false at the end. */
static bool next_command_line(FILE *file, bool *is_in, char line[256])
{
	while (fgets(line, 256, file)) {
		if (line[0] != ' ' && line[0] != '#')
			*is_in = strstr(line, " in, ");
		if (*is_in && line[0] != '#')
			return true;
	}
	return false;
}

/* A committed value of "*" is one that every run has anew: numbers of objects, addresses, the first PSN. */
static void assert_line(const char *line, const char *committed)
{
	const char *any = strstr(committed, "= *\n");

	if (!any)
		ASSERT_STREQ(line, committed);
	else if (strncmp(line, committed, (size_t)(any - committed) + 2) != 0)
		test_fail(TEST_WHERE, "the trace has %snot %s", line, committed);
}

static void assert_trace(const char *path, const char *committed_path)
{
	FILE *trace = fopen(path, "r"), *committed = fopen(committed_path, "r");
	char line[256], wanted[256];
	bool in_trace = false, in_committed = false;

	ASSERT(trace && committed);
	while (next_command_line(committed, &in_committed, wanted)) {
		ASSERT(next_command_line(trace, &in_trace, line));
		assert_line(line, wanted);
	}
	ASSERT(!next_command_line(trace, &in_trace, line));
	fclose(trace);
	fclose(committed);
}

#define TRACE_PATH "/tmp/shmemd-trace-XXXXXX"

/* Makes the file and returns the folder of committed ones; ends the test when there is none. */
static const char *begin_trace(char *path)
{
	const char *data = getenv("SHMEMD_TEST_DATA");
	int fd;

	if (!data)
		test_skip("SHMEMD_TEST_DATA names no folder");
	fd = mkstemp(path);
	ASSERT_GE(fd, 0);
	close(fd);
	return data;
}

/* SHMEMD_TEST_KEEP_TRACE is where it goes instead, for a new one to be annotated. */
static void end_trace(const char *path, const char *data, const char *name, enum nic_link link)
{
	const char *keep = getenv("SHMEMD_TEST_KEEP_TRACE");
	char committed[512];

	snprintf(committed, sizeof(committed), "%s/%s-%s", data, name, link == NIC_LINK_ETHERNET ? "roce" : "ib");
	if (keep)
		ASSERT_OK(rename(path, keep));
	else
		assert_trace(path, committed);
	unlink(path);
}

TEST(the_commands_of_an_rc_pair_are_the_committed_ones)
{
	char path[] = TRACE_PATH;
	const char *data = begin_trace(path);
	struct nic_info info;
	struct client a, b;
	struct rig rig;

	rig_open_mlx5(&rig, 2, path);
	client_open(&a, rig.nic[0], 1, 1);
	client_open(&b, rig.nic[1], 2, 1);
	client_connect(&a, 0, &b, 0);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_OK(rig.nic[0]->ops->qp_modify(a.ctx, client_qpn(&a, 0), NIC_QPS_RST));
	ASSERT_OK(rig.nic[1]->ops->qp_modify(b.ctx, client_qpn(&b, 0), NIC_QPS_RST));
	client_close(&a);
	client_close(&b);
	rig_close(&rig);
	end_trace(path, data, "mlx5-trace", info.link);
}

/* A DCI and a DCT; that peers are resolved costs no command. */
TEST(the_commands_of_a_dc_session_are_the_committed_ones)
{
	const struct nic_queues_attr attr = {
		.n_cq_specs = 1,
		.n_qp_specs = 2,
		.cqs = {{.count = 1, .log2_entries = 6}},
		.qps = {{.count = 1, .type = NIC_QP_DCI, .log2_sq_wqebbs = 6},
			{.count = 1, .type = NIC_QP_DCT,
			 .access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC}},
	};
	char path[] = TRACE_PATH;
	const char *data = begin_trace(path);
	struct nic_dc_peer peers[2];
	struct nic_addr addrs[2];
	struct nic_qp_info info;
	struct nic_peer peer;
	unsigned int n_done;
	struct client c;
	struct rig rig;

	rig_open_mlx5(&rig, 1, path);
	client_open_ctx(&c, rig.nic[0], 1);
	client_create_as(&c, &attr);
	peer = (struct nic_peer){.qpn = client_qpn(&c, 0)};
	ASSERT_OK(rig.nic[0]->ops->connect(c.ctx, 1, &peer, &client_params, &n_done));
	addrs[0] = addrs[1] = c.queues->layout.qps[1].addr;
	ASSERT_OK(rig.nic[0]->ops->resolve(c.ctx, 2, addrs, 0, peers, &n_done));
	ASSERT_OK(rig.nic[0]->ops->qp_query(c.ctx, addrs[0].qpn, &info));
	ASSERT_OK(rig.nic[0]->ops->qp_modify(c.ctx, peer.qpn, NIC_QPS_RST));
	client_close(&c);
	rig_close(&rig);
	end_trace(path, data, "mlx5-trace-dc", (enum nic_link)addrs[0].link);
}

/* As a client does that wants an event for each CQE, here for the first one again and again. */
static void arm_by_client(struct client *c, uint32_t sn)
{
	const struct nic_cq *cq = &c->queues->layout.cqs[0];
	struct shmd_dbrec *dbrec = (struct shmd_dbrec *)(void *)(c->queue_mem + cq->dbrec_offset);
	uint32_t word = (sn & 3) << 28;

	__atomic_store_n(&dbrec->snd, htobe32(word), __ATOMIC_SEQ_CST);
	__atomic_store_n((uint64_t *)(void *)(c->doorbell_page + SHMD_DB_CQ_ARM_OFFSET),
			 htobe64((uint64_t)word << 32 | cq->cqn), __ATOMIC_SEQ_CST);
}

TEST(events_that_a_client_makes_itself_cost_no_commands_after_a_while)
{
	char path[] = "/tmp/shmemd-trace-XXXXXX";
	int fd = mkstemp(path);
	struct nic_event event;
	struct pollfd pfd;
	struct client c;
	struct rig rig;
	FILE *file;

	ASSERT_GE(fd, 0);
	close(fd);
	rig_open_mlx5(&rig, 1, path);
	pfd = (struct pollfd){.fd = rig.nic[0]->event_fd, .events = POLLIN};
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	for (uint32_t i = 0; i < 200; i++) {
		arm_by_client(&c, i);
		ASSERT_EQ(poll(&pfd, 1, 10000), 1);
		ASSERT_ERR(client_next_event(rig.nic[0], &event), EAGAIN);
	}
	file = fopen(path, "r");
	ASSERT(file);
	ASSERT_LE(n_lines_with(file, "QUERY_CQ in"), 80u);
	fclose(file);
	unlink(path);
	client_close(&c);
	rig_close(&rig);
}

TEST(the_trace_has_every_command_in_words)
{
	char path[] = "/tmp/shmemd-trace-XXXXXX";
	int fd = mkstemp(path);
	struct client c;
	struct rig rig;
	FILE *file;

	ASSERT_GE(fd, 0);
	close(fd);
	rig_open_mlx5(&rig, 1, path);
	client_open(&c, rig.nic[0], 1, 1);
	client_connect(&c, 0, &c, 0);
	client_exercise(&c, &c);
	file = fopen(path, "r");
	ASSERT(file);
	ASSERT_EQ(n_lines_with(file, "CREATE_CQ in, 272 bytes"), 1u);
	ASSERT_EQ(n_lines_with(file, "CREATE_QP in, 272 bytes"), 1u);
	ASSERT_EQ(n_lines_with(file, "RST2INIT_QP in"), 1u);
	ASSERT_EQ(n_lines_with(file, "INIT2RTR_QP out, 16 bytes: ok"), 1u);
	ASSERT_EQ(n_lines_with(file, "RTR2RTS_QP in"), 1u);
	/* Nothing that this code does not understand, and nothing refused. */
	ASSERT_EQ(n_lines_with(file, "STATUS = "), 0u);
	ASSERT_EQ(n_lines_with(file, "in no field"), 0u);
	fclose(file);
	unlink(path);
	client_close(&c);
	rig_close(&rig);
}
