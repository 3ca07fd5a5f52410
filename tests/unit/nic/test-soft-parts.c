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

static struct soft_shared_numbers *new_numbers(void)
{
	struct soft_shared_numbers *numbers = aligned_alloc(64, sizeof(*numbers));

	ASSERT(numbers);
	memset(numbers, 0, sizeof(*numbers));
	ASSERT_OK(soft_shared_numbers_init(numbers));
	return numbers;
}

TEST(numbers_are_24_bits_and_never_special)
{
	struct soft_shared_numbers *numbers = new_numbers();
	struct soft_names names;
	uint32_t number;
	int object;

	soft_names_init(&names, numbers, 3);
	/* Far enough to go round, and through the last generation to the first. */
	for (unsigned int i = 0; i < 3 * 65536; i++) {
		if (i == 65536)
			numbers->next = 0xfd * SOFT_NUMBER_SLOTS + numbers->next % SOFT_NUMBER_SLOTS;
		ASSERT_OK(soft_names_alloc(&names, &object, &number));
		ASSERT_GT(number, 1u);
		ASSERT_LT(number, 0xffffffu);
		ASSERT(soft_names_find(&names, number) == &object);
		soft_names_dealloc(&names, number);
		ASSERT(!soft_names_find(&names, number));
	}
	ASSERT(!soft_names_find(&names, 0));
	ASSERT(!soft_names_find(&names, UINT32_MAX));
	soft_names_deinit(&names);
	free(numbers);
}

TEST(numbers_end_when_every_slot_is_taken)
{
	uint32_t *number = calloc(65536, sizeof(*number)), more;
	struct soft_shared_numbers *numbers = new_numbers();
	struct soft_names names;

	ASSERT(number);
	soft_names_init(&names, numbers, 255);
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT_OK(soft_names_alloc(&names, &number[i], &number[i]));
	ASSERT_ERR(soft_names_alloc(&names, &more, &more), ENOSPC);
	for (unsigned int i = 0; i < 65536; i++)
		ASSERT(soft_names_find(&names, number[i]) == &number[i]);
	soft_names_dealloc(&names, number[777]);
	ASSERT_OK(soft_names_alloc(&names, &more, &more));
	ASSERT_NE(more, number[777]); /* the same slot, another generation */
	ASSERT_EQ(more & 0xffff, number[777] & 0xffff);
	soft_names_deinit(&names);
	free(numbers);
	free(number);
}

/* All executors of a NIC number their QPs from one table, and none sees what another has. */
TEST(numbers_are_found_by_the_executor_that_has_them)
{
	struct soft_shared_numbers *numbers = new_numbers();
	struct soft_names names[2];
	uint32_t one, other;
	int a, b;

	soft_names_init(&names[0], numbers, 1);
	soft_names_init(&names[1], numbers, 2);
	ASSERT_OK(soft_names_alloc(&names[0], &a, &one));
	ASSERT_OK(soft_names_alloc(&names[1], &b, &other));
	ASSERT_NE(one, other);
	ASSERT_EQ(soft_shared_number_exec(numbers, one), 1);
	ASSERT_EQ(soft_shared_number_exec(numbers, other), 2);
	ASSERT(soft_names_find(&names[0], one) == &a);
	ASSERT(!soft_names_find(&names[1], one));
	soft_names_dealloc(&names[0], one);
	ASSERT_EQ(soft_shared_number_exec(numbers, one), -1);
	ASSERT_EQ(soft_shared_number_exec(numbers, 0), -1);
	soft_names_deinit(&names[0]);
	soft_names_deinit(&names[1]);
	free(numbers);
}

/* Executors in a process of their own write no table: the daemon has taken the numbers for them. */
TEST(numbers_that_are_given_are_those_that_the_table_has_for_this_executor)
{
	struct soft_shared_numbers *numbers = new_numbers();
	uint32_t own, others, object;
	struct soft_names names;

	soft_names_init(&names, numbers, 5);
	names.are_given = true;
	ASSERT_OK(soft_shared_number_alloc(numbers, 5, &own));
	ASSERT_OK(soft_shared_number_alloc(numbers, 6, &others));
	ASSERT_OK(soft_names_reserve(&names, own, &object));
	ASSERT(soft_names_find(&names, own) == &object);
	ASSERT_ERR(soft_names_reserve(&names, others, &object), EINVAL);
	ASSERT_ERR(soft_names_reserve(&names, own ^ 1, &object), EINVAL);
	soft_names_dealloc(&names, own);
	ASSERT(!soft_names_find(&names, own));
	ASSERT_EQ(soft_shared_number_exec(numbers, own), 5);
	soft_names_deinit(&names);
	free(numbers);
}

#define N_TAKERS 4
#define N_TAKEN 16384

struct taker {
	pthread_t thread;
	struct soft_shared_numbers *numbers;
	uint32_t exec;
	uint32_t number[N_TAKEN];
};

static void *take_numbers(void *arg)
{
	struct taker *taker = arg;

	for (unsigned int i = 0; i < N_TAKEN; i++)
		ASSERT_OK(soft_shared_number_alloc(taker->numbers, taker->exec, &taker->number[i]));
	return NULL;
}

/* All slots at once, from several sides, without a lock. */
TEST(executors_that_take_numbers_at_once_take_different_ones)
{
	struct soft_shared_numbers *numbers = new_numbers();
	struct taker *takers = calloc(N_TAKERS, sizeof(*takers));

	ASSERT(takers);
	for (uint32_t t = 0; t < N_TAKERS; t++) {
		takers[t].numbers = numbers;
		takers[t].exec = 7 * t;
		ASSERT_OK(pthread_create(&takers[t].thread, NULL, take_numbers, &takers[t]));
	}
	for (uint32_t t = 0; t < N_TAKERS; t++)
		ASSERT_OK(pthread_join(takers[t].thread, NULL));
	for (uint32_t t = 0; t < N_TAKERS; t++)
		for (unsigned int i = 0; i < N_TAKEN; i++)
			ASSERT_EQ(soft_shared_number_exec(numbers, takers[t].number[i]), (int)(7 * t));
	free(takers);
	free(numbers);
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
	struct soft_shared_lane shared = {0};
	struct soft_lane *lane = soft_lane_new(NULL, &shared);
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
	struct soft_shared_lane shared = {0};
	struct soft_lane *lane = soft_lane_new(NULL, &shared);
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
	struct soft_port *port, *route = NULL;
	struct soft_lane *lane;

	ASSERT(fabric);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_add(fabric, gid[0], &port));
	ASSERT_ERR(soft_fabric_find(fabric, gid[1], &route), EHOSTUNREACH);
	ASSERT_OK(soft_fabric_find(fabric, gid[0], &route));
	ASSERT(route == port);
	ASSERT_OK(soft_port_lane(port, 2, &lane));
	ASSERT(!soft_port_find_lane(route, 5));
	soft_fabric_remove(fabric, port);
	soft_port_unref(port);
	soft_lane_wake(lane);
	ASSERT_MEMEQ(route->shared->gid, gid[0], 16);
	ASSERT_ERR(soft_fabric_find(fabric, gid[0], &port), EHOSTUNREACH);
	soft_port_unref(route);
	soft_fabric_unref(fabric);
}

/* It may wait for room in a channel that nobody will read. */
TEST(who_has_opened_a_channel_learns_that_it_was_not_taken)
{
	const uint8_t gid[16] = {1};
	struct soft_fabric *fabric = soft_fabric_new();
	struct soft_lane *opener, *peer;
	struct soft_port *port;
	struct soft_end *end;

	ASSERT(fabric);
	ASSERT_OK(soft_fabric_add(fabric, gid, &port));
	ASSERT_OK(soft_port_lane(port, 1, &opener));
	ASSERT_OK(soft_port_lane(port, 2, &peer));
	end = soft_end_new_pair(fabric);
	ASSERT(end);
	end->other->port_id = port->id;
	end->other->exec_id = 1;
	soft_stack_push(&peer->ends, &end->other->link);
	soft_ends_forget(peer);
	ASSERT(end->channel->shared->is_over);
	ASSERT(opener->shared->bell);
	ASSERT(!peer->shared->bell);
	soft_end_bury(end);
	soft_fabric_remove(fabric, port);
	soft_port_unref(port);
	soft_fabric_unref(fabric);
}

/* More sessions have news than there is room for, and the port goes down. */
TEST(news_of_the_port_are_not_pushed_out_by_those_of_sessions)
{
	struct soft_shared_numbers *numbers = new_numbers();
	static struct soft_nic nic;
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
	soft_names_init(&exec.qpns, numbers, 3);
	ASSERT_OK(soft_names_alloc(&exec.qpns, &qp, &error.number));
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
	soft_names_deinit(&exec.qpns);
	free(numbers);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}

/* In any order, reported and lost events add up to all events; then nothing is readable. */
TEST(events_that_find_no_room_are_counted)
{
	struct soft_shared_numbers *numbers = new_numbers();
	static struct soft_nic nic;
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
	soft_names_init(&exec.qpns, numbers, 3);
	ASSERT_OK(soft_names_alloc(&exec.qpns, &qp, &error.number));
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
	soft_names_deinit(&exec.qpns);
	free(numbers);
	soft_events_deinit(&nic.events);
	close(nic.base.event_fd);
}
