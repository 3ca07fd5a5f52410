/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Sessions as a whole: Hello, a life, publishing, clients that do not read. */
#include <string.h>

#include "daemon/nic/nic.h"
#include "tests/fuzz/dispatch-seeds.h"

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
	seed_say(client, &msg, fd);
}

/* Each kind of refusal that Hello knows. */
static void hellos(void)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 9;
	msg.hello_req.role = MSG_ROLE_CLIENT;
	seed_say(0, &msg, 0);
	seed_record(SEED_DEED(2), 0, NULL, 0);
	msg.hello_req.version_min = 0;
	seed_say(0, &msg, 1);
	seed_record(SEED_DEED(2), 0, NULL, 0);
	for (unsigned int i = 0; i < 8; i++) {
		seed_say(0, &msg, 0);
		seed_open_nic(0);
		seed_record(SEED_DEED(2), 0, NULL, 0);
	}
	seed_last_id_is(UINT64_MAX); /* the next one is 0 */
	seed_hello(1, MSG_ROLE_CONTROL);
}

/* Sessions that have a pipe to watch, until it would be a descriptor too many. */
static void watched(void)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 1;
	msg.hello_req.resumes = true;
	for (unsigned int role = MSG_ROLE_CONTROL; role >= MSG_ROLE_CLIENT; role--) {
		msg.hello_req.role = role;
		for (unsigned int client = 0; client < 2; client++) {
			seed_record((uint8_t)(SEED_DEED(2) | client), 0, NULL, 0);
			seed_say(client, &msg, 0);
			seed_open_nic(client);
		}
	}
	seed_create(0, 2, false);
	seed_reg(0, 1);
	seed_record(SEED_DEED(2), 0, NULL, 0);
	seed_say(0, &msg, 0);
}

static void life(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_nic(0);
	seed_reg(0, 1);
	seed_create(0, 2, false);
	seed_create(0, 1, true);
	seed_qp(0, MSG_QP_QUERY_REQ, 0);
	seed_qp(0, MSG_QP_MODIFY_REQ, 1);
	seed_hello(1, MSG_ROLE_CONTROL);
	seed_list(1);
	seed_handle(0, MSG_QUEUE_DESTROY_REQ, 2);
	seed_handle(0, MSG_MEM_DEREG_REQ, 1);
}

static void publishing(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_hello(1, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 1);
	world(1, MSG_PUBLISH_REQ, 0);
	world(1, MSG_FETCH_REQ, 0);
	world(1, MSG_UNPUBLISH_REQ, 0);
	world(0, MSG_UNPUBLISH_REQ, 0);
}

static void reporting(void)
{
	struct msg msg;

	seed_hello(0, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < 6; i++) {
		msg_init(&msg, MSG_PE_REPORT_REQ, 0);
		msg.pe_report_req = (struct msg_pe_report_req){.pe = i % 3, .ends = i == 4, .n_pes = 2};
		seed_say(0, &msg, 0);
	}
}

/* A PE that reaches the others in two ways; i counts on from reports that fit to those that do not. */
static void report_paths(unsigned int i)
{
	struct msg msg;

	msg_init(&msg, MSG_PE_REPORT_REQ, 0);
	msg.pe_report_req = (struct msg_pe_report_req){.world = 1, .n_pes = 8, .n_ways = 2, .n_runs = 3};
	msg.pe_report_req.ways[0] = (struct msg_pe_way){.path = MSG_PE_PATH_MAPPED};
	msg.pe_report_req.ways[1] = (struct msg_pe_way){.path = MSG_PE_PATH_DC, .nic = "fake0", .reason = "another user"};
	msg.pe_report_req.runs[0] = (struct msg_pe_run){.last = 1};
	msg.pe_report_req.runs[1] = (struct msg_pe_run){.first = 2, .last = 5 + i % 2, .way = 1 + i / 2};
	msg.pe_report_req.runs[2] = (struct msg_pe_run){.first = 6, .last = 7 + i / 2};
	seed_say(0, &msg, 0);
}

static void list_paths(unsigned int client, uint64_t cursor)
{
	struct msg msg;

	msg_init(&msg, MSG_LIST_REQ, 0);
	msg.list_req.what = MSG_LIST_PATHS;
	msg.list_req.cursor = cursor;
	seed_say(client, &msg, 0);
}

static void reporting_paths(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_hello(1, MSG_ROLE_CONTROL);
	for (unsigned int i = 0; i < 4; i++) {
		report_paths(i);
		list_paths(1, 0);
	}
	/* In the middle of a report of session 1, and behind all. */
	list_paths(1, UINT64_C(1) << (20 + 12) | 2);
	list_paths(1, UINT64_MAX);
}

/* A client that publishes its own socket. */
static void own_socket(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	world(0, MSG_PUBLISH_REQ, 7);
	world(0, MSG_FETCH_REQ, 0);
}

static void early(void)
{
	seed_open_nic(0);
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_hello(1, MSG_ROLE_CLIENT);
	seed_hello(1, MSG_ROLE_CLIENT);
}

static void never_reads(void)
{
	seed_read_nothing();
	seed_hello(0, MSG_ROLE_CLIENT);
	for (unsigned int i = 0; i < 12; i++) {
		struct msg msg;

		msg_init(&msg, MSG_NIC_LIST_REQ, 0);
		seed_say(0, &msg, 0);
	}
}

const struct dispatch_seed dispatch_session_seeds[] = {
	{"life", life},
	{"publishing", publishing},
	{"reporting", reporting},
	{"reporting-paths", reporting_paths},
	{"own-socket", own_socket},
	{"early", early},
	{"never-reads", never_reads},
	{"hellos", hellos},
	{"watched", watched},
	{NULL, NULL},
};
