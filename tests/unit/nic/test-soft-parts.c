/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the soft backend that need no thread: numbers, mailboxes, ports. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "daemon/nic/soft/soft.h"
#include "tests/lib/test.h"

TEST(numbers_are_24_bits_and_never_special)
{
	struct soft_numbers numbers;
	uint32_t number;
	int object;

	ASSERT_OK(soft_numbers_init(&numbers));
	/* Far enough to go round, and through the last generation to the first. */
	for (unsigned int i = 0; i < 3 * 65536; i++) {
		if (i == 65536)
			numbers.generation = 0xfe;
		ASSERT_OK(soft_numbers_alloc(&numbers, 3, &object, &number));
		ASSERT_GT(number, 1u);
		ASSERT_LT(number, 0xffffffu);
		ASSERT(soft_numbers_find(&numbers, 3, number) == &object);
		soft_numbers_dealloc(&numbers, number);
		ASSERT(!soft_numbers_find(&numbers, 3, number));
	}
	ASSERT(!soft_numbers_find(&numbers, 3, 0));
	ASSERT(!soft_numbers_find(&numbers, 3, UINT32_MAX));
	soft_numbers_deinit(&numbers);
}

TEST(numbers_end_when_every_slot_is_taken)
{
	uint32_t *number = calloc(65536, sizeof(*number)), more;
	struct soft_numbers numbers;

	ASSERT(number);
	ASSERT_OK(soft_numbers_init(&numbers));
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT_OK(soft_numbers_alloc(&numbers, 3, &number[i], &number[i]));
	ASSERT_ERR(soft_numbers_alloc(&numbers, 3, &more, &more), ENOSPC);
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT(soft_numbers_find(&numbers, 3, number[i]) == &number[i]);
	soft_numbers_dealloc(&numbers, number[777]);
	ASSERT_OK(soft_numbers_alloc(&numbers, 3, &more, &more));
	ASSERT_NE(more, number[777]); /* the same slot, another generation */
	ASSERT_EQ(more & 0xffff, number[777] & 0xffff);
	soft_numbers_deinit(&numbers);
	free(number);
}

/* All executors of a NIC number their QPs from one table, and none sees what another has. */
TEST(numbers_are_found_by_the_executor_that_has_them)
{
	struct soft_numbers numbers = {0};
	uint32_t one, other;
	int a, b;

	ASSERT_EQ(soft_numbers_exec(&numbers, 0x010000), -1); /* before the first executor */
	ASSERT_OK(soft_numbers_init(&numbers));
	ASSERT_OK(soft_numbers_alloc(&numbers, 1, &a, &one));
	ASSERT_OK(soft_numbers_alloc(&numbers, 2, &b, &other));
	ASSERT_NE(one, other);
	ASSERT_EQ(soft_numbers_exec(&numbers, one), 1);
	ASSERT_EQ(soft_numbers_exec(&numbers, other), 2);
	ASSERT(soft_numbers_find(&numbers, 1, one) == &a);
	ASSERT(!soft_numbers_find(&numbers, 2, one));
	soft_numbers_dealloc(&numbers, one);
	ASSERT_EQ(soft_numbers_exec(&numbers, one), -1);
	ASSERT_EQ(soft_numbers_exec(&numbers, 0), -1);
	soft_numbers_deinit(&numbers);
}

#define N_PUSHERS 4
#define N_ITEMS 20000

struct pusher {
	pthread_t thread;
	struct soft_lane *lane;
	struct list items[N_ITEMS];
};

static void *pusher_main(void *arg)
{
	struct pusher *pusher = arg;

	for (unsigned int i = 0; i < N_ITEMS; i++)
		soft_lane_push(pusher->lane, &pusher->lane->packets, &pusher->items[i]);
	return NULL;
}

/* Nothing is lost, nothing comes twice, and what one thread pushed stays in its order. */
TEST(a_mailbox_keeps_the_order_of_each_sender)
{
	struct pusher *pushers = calloc(N_PUSHERS, sizeof(*pushers));
	unsigned int next[N_PUSHERS] = {0}, n = 0;
	struct soft_lane *lane = soft_lane_new();
	struct list items, *link;

	ASSERT(pushers && lane);
	for (unsigned int p = 0; p < N_PUSHERS; p++) {
		pushers[p].lane = lane;
		ASSERT_OK(pthread_create(&pushers[p].thread, NULL, pusher_main, &pushers[p]));
	}
	list_init(&items);
	while (n < N_PUSHERS * N_ITEMS) {
		soft_lane_take(&lane->packets, &items);
		for (; !list_empty(&items); n++) {
			unsigned int p = 0;

			link = items.next;
			list_del(link);
			while (link < pushers[p].items || link >= pushers[p].items + N_ITEMS)
				p++;
			ASSERT(link == &pushers[p].items[next[p]++]);
		}
	}
	for (unsigned int p = 0; p < N_PUSHERS; p++)
		ASSERT_OK(pthread_join(pushers[p].thread, NULL));
	ASSERT(!soft_lane_take(&lane->packets, &items));
	soft_lane_free(lane);
	free(pushers);
}

TEST(taking_appends_behind_what_is_there)
{
	struct soft_lane *lane = soft_lane_new();
	struct list items, a, b, c;

	ASSERT(lane);
	list_init(&items);
	soft_lane_push(lane, &lane->packets, &a);
	ASSERT(soft_lane_take(&lane->packets, &items));
	soft_lane_push(lane, &lane->packets, &b);
	soft_lane_push(lane, &lane->packets, &c);
	ASSERT(soft_lane_take(&lane->packets, &items));
	ASSERT(items.next == &a && a.next == &b && b.next == &c && c.next == &items);
	ASSERT(items.prev == &c && c.prev == &b && b.prev == &a && a.prev == &items);
	soft_lane_free(lane);
}

TEST(ports_are_found_by_gid_and_outlive_their_nic)
{
	const uint8_t gid[2][16] = {{1}, {2}};
	struct soft_fabric *fabric = soft_fabric_new();
	struct soft_port *port = soft_port_new(gid[0]), *route = NULL;
	struct soft_lane *lane;

	ASSERT(fabric && port);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_add(fabric, port));
	ASSERT_ERR(soft_fabric_find(fabric, gid[1], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_find(fabric, gid[0], &route));
	ASSERT(route == port);
	ASSERT_OK(soft_port_lane(port, 2, &lane));
	ASSERT(!soft_port_find_lane(route, 5));
	soft_fabric_remove(fabric, port);
	soft_port_unref(port);
	soft_lane_wake(lane);
	ASSERT_MEMEQ(route->gid, gid[0], 16);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &port), EHOSTUNREACH);
	soft_port_unref(route);
	soft_fabric_unref(fabric);
}

/* More sessions have news than there is room for, and the port goes down. */
TEST(news_of_the_port_are_not_pushed_out_by_those_of_sessions)
{
	static struct soft_port port;
	static struct soft_nic nic = {.port = &port};
	struct soft_exec exec = {.nic = &nic, .index = 3};
	struct engine_event error = {.kind = ENGINE_EVENT_QP_ERROR, .syndrome = 1};
	struct soft_ctx ctx = {.nic = &nic};
	struct soft_queues queues = {.ctx = &ctx};
	uint32_t word = 0;
	struct soft_qp qp = {.queues = &queues, .error = &word};
	struct nic_event event, last = {0};
	unsigned int n = 0;

	nic.base.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_OK(soft_events_init(&nic.events));
	ASSERT_OK(soft_numbers_init(&port.qpns));
	ASSERT_OK(soft_numbers_alloc(&port.qpns, 3, &qp, &error.number));
	for (ctx.base.session_id = 1; ctx.base.session_id <= 300; ctx.base.session_id++)
		soft_event(&exec, &error);
	for (int i = 0; i < 5; i++)
		soft_event_port(&nic, i % 2 ? NIC_PORT_ACTIVE : NIC_PORT_DOWN);
	for (; soft_next_event(&nic.base, &event) == 0; n++)
		if (event.session_id == 0 && event.kind != NIC_EVENT_DROPPED)
			last = event;
	ASSERT_EQ(n, SOFT_MAX_EVENTS + 3); /* and how many were lost */
	ASSERT_EQ(last.kind, NIC_EVENT_PORT_STATE);
	ASSERT_EQ(last.state, NIC_PORT_DOWN);
	soft_numbers_deinit(&port.qpns);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}

/* In any order, reported and lost events add up to all events; then nothing is readable. */
TEST(events_that_find_no_room_are_counted)
{
	static struct soft_port port;
	static struct soft_nic nic = {.port = &port};
	struct soft_exec exec = {.nic = &nic, .index = 3};
	struct engine_event error = {.kind = ENGINE_EVENT_QP_ERROR, .syndrome = 1};
	struct soft_ctx ctx = {.nic = &nic};
	struct soft_queues queues = {.ctx = &ctx};
	uint32_t word = 0, n_told = 0, n_lost = 0, n_merged = 0;
	struct soft_qp qp = {.queues = &queues, .error = &word};
	struct nic_event event;
	uint64_t count;

	nic.base.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ASSERT_OK(soft_events_init(&nic.events));
	ASSERT_OK(soft_numbers_init(&port.qpns));
	ASSERT_OK(soft_numbers_alloc(&port.qpns, 3, &qp, &error.number));
	for (unsigned int i = 0; i < 900; i++) {
		ctx.base.session_id = 1 + i % 300;
		soft_event(&exec, &error);
	}
	while (soft_next_event(&nic.base, &event) == 0) {
		n_told += event.kind == NIC_EVENT_QP_ERROR;
		n_lost += event.n_lost;
		n_merged += event.kind == NIC_EVENT_QP_ERROR && event.n_lost > 0;
		ASSERT_EQ(event.number == 0, event.n_lost > 0);
	}
	ASSERT_EQ(event.kind, NIC_EVENT_DROPPED);
	ASSERT_EQ(n_told + n_lost, 900);
	ASSERT_GT(n_merged, 0);
	ASSERT_EQ(read(nic.base.event_fd, &count, sizeof(count)), -1);
	soft_numbers_deinit(&port.qpns);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}
