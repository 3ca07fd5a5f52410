/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Lists, monitors, and all that an administrator may do. */
#include <stdio.h>

#include "tests/fuzz/dispatch-seeds.h"

static void lists(void)
{
	struct msg msg;

	seed_begin();
	seed_open_named(0, "fake1", "", 0);
	seed_reg(0, 1);
	seed_create(0, 2, false);
	seed_create(0, 2, false);
	seed_hello(1, MSG_ROLE_CONTROL);
	for (unsigned int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = what;
		msg.list_req.cursor = 1;
		seed_say(1, &msg, 0);
	}
	seed_list(1);
	seed_record(SEED_DEED(3), 0, NULL, 0);
	seed_list(1);
	seed_begin();
}

static void dump(unsigned int client, enum msg_queue_part part, uint32_t first, uint32_t n)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_DUMP_REQ, 0);
	msg.queue_dump_req = (struct msg_queue_dump_req){
		.nic = "fake0", .qpn = 2, .part = part, .first = first, .n = n};
	seed_say(client, &msg, 0);
}

static void drain(unsigned int client, bool on)
{
	struct msg msg;

	msg_init(&msg, MSG_DRAIN_REQ, 0);
	msg.drain_req.on = on;
	seed_say(client, &msg, 0);
}

static void port(unsigned int client, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, MSG_PORT_SET_REQ, 0);
	snprintf(msg.port_set_req.nic, sizeof(msg.port_set_req.nic), "fake0");
	msg.port_set_req.state = state;
	seed_say(client, &msg, 0);
}

static void kill_session(unsigned int client, uint64_t session)
{
	struct msg msg;

	msg_init(&msg, MSG_SESSION_KILL_REQ, 0);
	msg.session_kill_req.session = session;
	seed_say(client, &msg, 0);
}

/* A monitor, and all that an administrator may do to the other. */
static void administration(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_hello(1, MSG_ROLE_CONTROL);
	seed_plain(1, MSG_MONITOR_REQ);
	seed_open_nic(0);
	seed_create(0, 2, false);
	for (unsigned int part = MSG_PART_NONE; part <= MSG_PART_RECV_CQ; part++)
		dump(1, part, 13, 0x1000);
	seed_record(0x02, 0, "\x02\0\0\0", 4);
	port(1, 1);
	port(1, 7);
	drain(1, true);
	drain(1, false);
	kill_session(1, 9);
	kill_session(1, 1);
	dump(1, MSG_PART_SQ, 0, 1);
	seed_record(0x04, 0, NULL, 0); /* the victim comes again */
	drain(1, true);
	seed_hello(0, MSG_ROLE_CLIENT);
	drain(1, false);
	seed_hello(0, MSG_ROLE_CLIENT);
	kill_session(0, 1);
}

/* A monitor that reads nothing while more happens than fits. */
static void slow_monitor(void)
{
	seed_hello(1, MSG_ROLE_CONTROL);
	seed_plain(1, MSG_MONITOR_REQ);
	seed_read_nothing();
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_nic(0);
	for (unsigned int i = 0; i < 24; i++)
		seed_record(0x02, 0x80, "\x02\0\0\0", 4);
	seed_record(0x01, 0, NULL, 0);
	seed_plain(1, MSG_STATUS_REQ);
	seed_record(0x01, 0, NULL, 0);
}

const struct dispatch_seed dispatch_admin_seeds[] = {
	{"administration", administration},
	{"slow-monitor", slow_monitor},
	{"lists", lists},
	{NULL, NULL},
};
