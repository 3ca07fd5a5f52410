/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/dispatch-seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/framing.h"

#define READS 0x80 /* the client takes replies at once */

static uint8_t out[1 << 17];
static size_t n_out;
static uint64_t last_id;
static uint8_t reads = READS;

void seed_start(void)
{
	n_out = 0;
	reads = READS;
	last_id = 0;
}

void seed_read_nothing(void)
{
	reads = 0;
}

void seed_last_id_is(uint64_t id)
{
	last_id = id;
}

size_t seed_bytes(const uint8_t **ret_bytes)
{
	*ret_bytes = out;
	return n_out;
}

void seed_record(uint8_t what, uint8_t fds, const void *data, size_t bytes)
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
void seed_say(unsigned int client, struct msg *msg, uint8_t fds)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	int n;

	msg->id = ++last_id;
	msg->n_fds = fds & 0x40 ? 1u + (fds >> 5 & 1) : (unsigned int)!!(fds & 7) + !!(fds & 0x38);
	n = msg_encode(msg, packet, sizeof(packet));
	if (n < 0)
		abort();
	seed_record((uint8_t)(0x08 | reads | client), fds, packet, (size_t)n);
}

void seed_hello(unsigned int client, enum msg_role role)
{
	struct msg msg;

	msg_init(&msg, MSG_HELLO_REQ, 0);
	msg.hello_req.version_min = msg.hello_req.version_max = 1;
	msg.hello_req.role = role;
	seed_say(client, &msg, 0);
}

void seed_open_named(unsigned int client, const char *nic, const char *gpu, uint32_t doorbell)
{
	struct msg msg;

	msg_init(&msg, MSG_NIC_OPEN_REQ, 0);
	msg.nic_open_req.doorbell = doorbell;
	snprintf(msg.nic_open_req.nic, sizeof(msg.nic_open_req.nic), "%s", nic);
	snprintf(msg.nic_open_req.gpu, sizeof(msg.nic_open_req.gpu), "%s", gpu);
	seed_say(client, &msg, 0);
}

void seed_open_nic(unsigned int client)
{
	seed_open_named(client, "", "", 0);
}

void seed_begin(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_nic(0);
}

void seed_reg(unsigned int client, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = (struct msg_mem_reg_req){
		.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 1 << 16, .iova = 0x10000};
	seed_say(client, &msg, fd);
}

void seed_create(unsigned int client, uint32_t n_qps, bool own_memory)
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
	seed_say(client, &msg, own_memory ? 1 : 0);
}

void seed_create_as(const struct msg_queue_create_req *req, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_QUEUE_CREATE_REQ, 0);
	msg.queue_create_req = *req;
	seed_say(0, &msg, fd);
}

void seed_handle(unsigned int client, enum msg_kind kind, uint32_t number)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.mem_dereg_req.handle = number;
	seed_say(client, &msg, 0);
}

void seed_qp(unsigned int client, enum msg_kind kind, uint32_t state)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	msg.qp_modify_req.qpn = 2;
	if (kind == MSG_QP_MODIFY_REQ)
		msg.qp_modify_req.state = state;
	seed_say(client, &msg, 0);
}

void seed_list(unsigned int client)
{
	struct msg msg;

	for (unsigned int what = MSG_LIST_SESSIONS; what <= MSG_LIST_NICS; what++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = what;
		seed_say(client, &msg, 0);
	}
	msg_init(&msg, MSG_STATUS_REQ, 0);
	seed_say(client, &msg, 0);
}

void seed_plain(unsigned int client, enum msg_kind kind)
{
	struct msg msg;

	msg_init(&msg, kind, 0);
	seed_say(client, &msg, 0);
}
