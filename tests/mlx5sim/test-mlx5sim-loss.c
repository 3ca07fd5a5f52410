/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that are lost and return, ports that go down, commands that take their time. Runs under mlx5sim with two
 * devices and a latency of COMMAND_MSEC.
 */
#include "tests/mlx5sim/devx.h"

#include <pthread.h>

#include "tests/lib/sim-nic.h"

#define COMMAND_MSEC 10

static int n_devices(void)
{
	struct ibv_device **list;
	int n;

	list = ibv_get_device_list(&n);
	ASSERT(list);
	ibv_free_device_list(list);
	return n;
}

static enum ibv_event_type wait_event(struct ibv_context *context)
{
	struct ibv_async_event event;

	ASSERT_EQ(ibv_get_async_event(context, &event), 0);
	ibv_ack_async_event(&event);
	return event.event_type;
}

/* libmlx5 gives up nothing that the kernel did not destroy: the rest goes with the process. */
static void end_abandon(struct end *end)
{
	ASSERT_EQ(mlx5dv_devx_obj_destroy(end->qp), EIO);
	mlx5dv_devx_free_uar(end->uar);
	ASSERT_EQ(ibv_close_device(end->context), 0);
	ASSERT_EQ(munmap(end->memory, END_BYTES), 0);
	close(end->memfd);
}

/* The page can still be written to, as after a real one is gone; nothing comes of it. */
TEST(lost_device_tells_its_contexts_answers_eio_and_returns_as_new)
{
	struct ibv_port_attr port;
	struct end ends[2];
	struct command cmd;
	uint8_t cqe[64];

	pair_init(ends);
	sim_nic_happen("fatal 1");
	ASSERT_EQ(wait_event(ends[1].context), IBV_EVENT_DEVICE_FATAL);
	cq_command(&ends[1], &cmd);
	ASSERT(!create(ends[1].context, &cmd));
	ASSERT_EQ(errno, EIO);
	init_command(&ends[1], &cmd);
	ASSERT_EQ(modify(&ends[1], &cmd), EIO);
	ASSERT_NE(ibv_query_port(ends[1].context, 1, &port), 0);
	ASSERT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, ends[1].context->cmd_fd,
		    (off_t)ends[1].uar->mmap_off) == MAP_FAILED);
	post_rdma(&ends[1], WQE_WRITE, DATA_IOVA, ends[0].key, 8);
	ASSERT_EQ(n_devices(), 1);
	ASSERT_EQ(ibv_query_port(ends[0].context, 1, &port), 0);
	/* The other end gets no answer. */
	begin(&cmd, OP_2RST, 0x10, 0x10);
	put(cmd.in, 0x48, 24, ends[0].qpn);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	sim_nic_happen("return 1");
	while (n_devices() != 2)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	/* Contexts opened before stay lost. */
	ASSERT_NE(ibv_query_port(ends[1].context, 1, &port), 0);
	ASSERT_EQ(__atomic_load_n(ends[1].memory + CQ_AT + 63, __ATOMIC_ACQUIRE), 0xff);
	end_abandon(&ends[1]);
	end_init(&ends[1], 1);
	ends[0].sq_pi = 0;
	store_be32(ends[0].memory + QP_DBREC_AT + 4, 0);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	pair_deinit(ends);
}

TEST(peer_of_a_lost_device_runs_out_of_retries)
{
	struct end ends[2];
	struct command cmd;
	uint8_t cqe[64];

	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	connect_to(&ends[1], &ends[0]);
	init_command(&ends[0], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	rtr_command(&ends[0], &ends[1], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	rts_command(&ends[0], &cmd);
	put(cmd.in, ADS + 0x40, 5, 8); /* 1 ms */
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	sim_nic_happen("fatal 1");
	ASSERT_EQ(wait_event(ends[1].context), IBV_EVENT_DEVICE_FATAL);
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER_ERROR);
	ASSERT_EQ(cqe[55], 0x15);
	sim_nic_happen("return 1");
	while (n_devices() != 2)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	end_abandon(&ends[1]);
	end_deinit(&ends[0]);
}

/* So patient that no pause of a busy machine is the end of its retries: eight times a second. */
static void connect_patiently(const struct end *end, const struct end *peer)
{
	struct command cmd;

	init_command(end, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
	rtr_command(end, peer, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
	rts_command(end, &cmd);
	put(cmd.in, ADS + 0x40, 5, 18); /* 1.07 s */
	ASSERT_EQ(modify(end, &cmd), 0);
}

TEST(port_that_is_down_loses_packets_until_it_is_up)
{
	struct devx_event event;
	struct mlx5dv_devx_event_channel *channel;
	struct ibv_port_attr port;
	uint16_t change = 9;
	struct end ends[2];
	uint8_t cqe[64];

	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	connect_patiently(&ends[0], &ends[1]);
	connect_patiently(&ends[1], &ends[0]);
	channel = mlx5dv_devx_create_event_channel(ends[0].context, 0);
	ASSERT(channel);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, NULL, 2, &change, 5), 0);
	sim_nic_happen("port-down 0");
	ASSERT_EQ(wait_event(ends[0].context), IBV_EVENT_PORT_ERR);
	read_event(channel, &event);
	ASSERT_EQ(event.cookie, 5);
	ASSERT_EQ(event.eqe[1], 9);
	ASSERT_EQ(event.eqe[3], 1); /* down */
	ASSERT_EQ(ibv_query_port(ends[0].context, 1, &port), 0);
	ASSERT_EQ(port.state, IBV_PORT_DOWN);
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	nanosleep(&(struct timespec){0, 50000000}, NULL);
	ASSERT(!poll_cqe(&ends[0], cqe));
	sim_nic_happen("port-up 0");
	ASSERT_EQ(wait_event(ends[0].context), IBV_EVENT_PORT_ACTIVE);
	read_event(channel, &event);
	ASSERT_EQ(event.eqe[3], 4); /* active */
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	mlx5dv_devx_destroy_event_channel(channel);
	pair_deinit(ends);
}

/* ---- latency ---- */

#define COMMANDS 20
#define CONTEXTS 4

static void *ask(void *context)
{
	uint8_t in[16] = {0}, out[0x1010];

	put(in, 0x00, 16, OP_QUERY_HCA_CAP);
	put(in, 0x30, 16, 1);
	for (int i = 0; i < COMMANDS; i++)
		ASSERT_EQ(mlx5dv_devx_general_cmd(context, in, sizeof(in), out, sizeof(out)), 0);
	return NULL;
}

static long msec_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

/* Each context asks COMMANDS times, all at once or one after the other. */
static long ask_all(struct ibv_context *contexts[CONTEXTS], bool at_once)
{
	pthread_t threads[CONTEXTS];
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int i = 0; i < CONTEXTS; i++) {
		if (at_once)
			ASSERT_EQ(pthread_create(&threads[i], NULL, ask, contexts[i]), 0);
		else
			ask(contexts[i]);
	}
	for (int i = 0; at_once && i < CONTEXTS; i++)
		pthread_join(threads[i], NULL);
	return msec_since(&start);
}

/* A busy machine makes both slower, and now and then one: one round of several is good. */
TEST_TIMEOUT(commands_take_their_time_and_contexts_do_not_wait_for_each_other, 60)
{
	struct ibv_context *contexts[CONTEXTS];
	long together, in_turn;
	int round = 0;

	for (int i = 0; i < CONTEXTS; i++)
		contexts[i] = open_devx(0);
	do {
		together = ask_all(contexts, true);
		in_turn = ask_all(contexts, false);
		ASSERT_LE(COMMANDS * COMMAND_MSEC, together);
		ASSERT_LE(CONTEXTS * COMMANDS * COMMAND_MSEC, in_turn);
	} while (together >= in_turn * 3 / 4 && ++round < 5);
	ASSERT_LT(together, in_turn * 3 / 4);
	for (int i = 0; i < CONTEXTS; i++)
		ASSERT_EQ(ibv_close_device(contexts[i]), 0);
}
