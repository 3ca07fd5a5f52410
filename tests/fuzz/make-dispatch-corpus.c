/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seeds of fuzz-dispatch into a folder: whole sessions, good and bad, as records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"
#include "proto/framing.h"

static uint8_t out[1 << 17];
static size_t n_out;
static uint64_t last_id;
static uint8_t reads = 0x80; /* the client takes replies at once */

static void record(uint8_t what, uint8_t fds, const void *data, size_t bytes)
{
	out[n_out++] = what;
	out[n_out++] = fds;
	out[n_out++] = (uint8_t)bytes;
	out[n_out++] = (uint8_t)(bytes >> 8);
	if (bytes)
		memcpy(out + n_out, data, bytes);
	n_out += bytes;
}

/* Kinds of descriptors as in fuzz-dispatch.c. */
static void say(unsigned int client, struct msg *msg, uint8_t fds)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	int n;

	msg->id = ++last_id;
	msg->n_fds = !!(fds & 7) + !!(fds & 0x38);
	n = msg_encode(msg, packet, sizeof(packet));
	if (n < 0)
		abort();
	record((uint8_t)(0x08 | reads | client), fds, packet, (size_t)n);
}

static void hello(unsigned int client, enum msg_role role)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 1;
	msg.hello_req.role = role;
	say(client, &msg, 0);
}

static void open_nic(unsigned int client)
{
	struct msg msg;

	msg_init(&msg, MSG_NIC_OPEN_REQ, 0);
	say(client, &msg, 0);
}

static void reg(unsigned int client, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 1 << 16, .iova = 0x10000};
	say(client, &msg, fd);
}

static void create(unsigned int client, uint32_t n_qps, bool own_memory)
{
	struct msg msg;
	struct msg_queue_specs *specs = &msg.queue_create_req.specs;

	msg_init(&msg, MSG_QUEUE_CREATE_REQ, 0);
	specs->n_cqs = specs->n_qps = 1;
	specs->cqs[0] = (struct msg_cq_spec){.count = 1, .log2_entries = 6};
	specs->qps[0] = (struct msg_qp_spec){.count = n_qps, .type = 1, .log2_sq_wqebbs = 4};
	if (own_memory) {
		msg.queue_create_req.mem_kind = MSG_MEM_MEMFD;
		msg.queue_create_req.mem_bytes = 1 << 20;
	}
	say(client, &msg, own_memory ? 1 : 0);
}

static void handle(unsigned int client, enum msg_kind kind, uint32_t number)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.mem_dereg_req.handle = number;
	say(client, &msg, 0);
}

static void world(unsigned int client, enum msg_kind kind, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	memset(msg.fetch_req.world, 7, MSG_WORLD_BYTES);
	if (kind == MSG_PUBLISH_REQ) {
		memset(msg.publish_req.key.world, 7, MSG_WORLD_BYTES);
		msg.publish_req.has_fd = fd != 0;
		msg.publish_req.data_bytes = 4;
	}
	say(client, &msg, fd);
}

static void qp(unsigned int client, enum msg_kind kind, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.qp_modify_req.qpn = 2;
	if (kind == MSG_QP_MODIFY_REQ)
		msg.qp_modify_req.state = state;
	say(client, &msg, 0);
}

static void list(unsigned int client)
{
	struct msg msg;

	for (unsigned int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = what;
		say(client, &msg, 0);
	}
	msg_init(&msg, MSG_STATUS_REQ, 0);
	say(client, &msg, 0);
}

static void life(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	reg(0, 1);
	create(0, 2, false);
	create(0, 1, true);
	qp(0, MSG_QP_QUERY_REQ, 0);
	qp(0, MSG_QP_MODIFY_REQ, 1);
	hello(1, MSG_ROLE_CONTROL);
	list(1);
	handle(0, MSG_QUEUE_DESTROY_REQ, 2);
	handle(0, MSG_MEM_DEREG_REQ, 1);
}

static void publishing(void)
{
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 1);
	world(1, MSG_PUBLISH_REQ, 0);
	world(1, MSG_FETCH_REQ, 0);
	world(1, MSG_UNPUBLISH_REQ, 0);
	world(0, MSG_UNPUBLISH_REQ, 0);
}

/* A client that publishes its own socket. */
static void own_socket(void)
{
	hello(0, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 7);
	world(0, MSG_FETCH_REQ, 0);
}

static void bad_descriptors(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	for (uint8_t fd = 0; fd < 8; fd++)
		reg(0, fd);
	reg(0, 0x09);
	record(0x04, 0, NULL, 0);
	record(0x88, 0x80, "\x08\x05", 2);
}

static void failing_nic(void)
{
	hello(0, MSG_ROLE_CLIENT);
	for (uint8_t i = 0; i < 3; i++) {
		record(0x06, i, NULL, 0);
		open_nic(0);
		reg(0, 1);
		create(0, 2, false);
	}
}

static void events(void)
{
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	create(0, 1, false);
	for (uint8_t kind = 0; kind < 8; kind += 2)
		record(0x02, kind, "\x02\0\0\0", 4);
	record(0x00, 0, NULL, 0);
}

static void dump(unsigned int client, enum msg_queue_part part, uint32_t first, uint32_t n)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_DUMP_REQ, 0);
	msg.queue_dump_req = (struct msg_queue_dump_req){
		.nic = "fake0", .qpn = 2, .part = part, .first = first, .n = n};
	say(client, &msg, 0);
}

static void plain(unsigned int client, enum msg_kind kind)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	say(client, &msg, 0);
}

static void drain(unsigned int client, bool on)
{
	struct msg msg;

	msg_init(&msg, MSG_DRAIN_REQ, 0);
	msg.drain_req.on = on;
	say(client, &msg, 0);
}

static void port(unsigned int client, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, MSG_PORT_SET_REQ, 0);
	snprintf(msg.port_set_req.nic, sizeof(msg.port_set_req.nic), "fake0");
	msg.port_set_req.state = state;
	say(client, &msg, 0);
}

static void kill_session(unsigned int client, uint64_t session)
{
	struct msg msg;

	msg_init(&msg, MSG_SESSION_KILL_REQ, 0);
	msg.session_kill_req.session = session;
	say(client, &msg, 0);
}

/* A monitor, and all that an administrator may do to the other. */
static void administration(void)
{
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CONTROL);
	plain(1, MSG_MONITOR_REQ);
	open_nic(0);
	create(0, 2, false);
	for (unsigned int part = MSG_PART_NONE; part <= MSG_PART_RECV_CQ; part++)
		dump(1, part, 13, 0x1000);
	record(0x02, 0, "\x02\0\0\0", 4);
	port(1, 1);
	port(1, 7);
	drain(1, true);
	drain(1, false);
	kill_session(1, 9);
	kill_session(1, 1);
	dump(1, MSG_PART_SQ, 0, 1);
	record(0x04, 0, NULL, 0); /* the victim comes again */
	drain(1, true);
	hello(0, MSG_ROLE_CLIENT);
	drain(1, false);
	hello(0, MSG_ROLE_CLIENT);
	kill_session(0, 1);
}

/* A monitor that reads nothing while more happens than fits. */
static void slow_monitor(void)
{
	hello(1, MSG_ROLE_CONTROL);
	plain(1, MSG_MONITOR_REQ);
	reads = 0;
	hello(0, MSG_ROLE_CLIENT);
	open_nic(0);
	for (unsigned int i = 0; i < 24; i++)
		record(0x02, 0x80, "\x02\0\0\0", 4);
	record(0x01, 0, NULL, 0);
	plain(1, MSG_STATUS_REQ);
	record(0x01, 0, NULL, 0);
}

static void early(void)
{
	open_nic(0);
	hello(0, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
	hello(1, MSG_ROLE_CLIENT);
}

static void never_reads(void)
{
	reads = 0;
	hello(0, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < 12; i++) {
		struct msg msg;

		msg_init(&msg, MSG_NIC_LIST_REQ, 0);
		say(0, &msg, 0);
	}
}

static const struct {
	const char *name;
	void (*write)(void);
} seeds[] = {
	{"life", life},
	{"publishing", publishing},
	{"own-socket", own_socket},
	{"bad-descriptors", bad_descriptors},
	{"failing-nic", failing_nic},
	{"events", events},
	{"administration", administration},
	{"slow-monitor", slow_monitor},
	{"early", early},
	{"never-reads", never_reads},
};

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	for (unsigned int i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		char path[512];
		FILE *f;

		n_out = 0;
		reads = 0x80;
		last_id = 0;
		seeds[i].write();
		snprintf(path, sizeof(path), "%s/%s", argv[1], seeds[i].name);
		f = fopen(path, "we");
		if (!f || fwrite(out, 1, n_out, f) != n_out || fclose(f) != 0) {
			fprintf(stderr, "%s: %m\n", path);
			return EXIT_FAILURE;
		}
	}
	return EXIT_SUCCESS;
}
