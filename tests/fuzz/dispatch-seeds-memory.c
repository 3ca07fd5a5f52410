/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Registering memory, and descriptors that are no memory. */
#include <stdlib.h>

#include "proto/framing.h"
#include "tests/fuzz/dispatch-seeds.h"
#include "tests/lib/strange-fd.h"

#define STRANGE(kind) (uint8_t)(0x40 | (kind))

static void reg_as(const struct msg_mem_reg_req *req, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_MEM_REG_REQ, 0);
	msg.mem_reg_req = *req;
	seed_say(0, &msg, fd);
}

static void memory(void)
{
	struct msg_mem_reg_req req = {.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 4096};

	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_named(0, "fake1", "", 2);
	for (uint8_t kind = 0; kind < STRANGE_FD_N; kind++) {
		reg_as(&req, STRANGE(kind));
		seed_handle(0, MSG_MEM_DEREG_REQ, 1);
	}
	req.kind = MSG_MEM_DMABUF;
	reg_as(&req, 1);
	reg_as(&req, STRANGE(STRANGE_PATH));
	req.kind = MSG_MEM_AGENT;
	reg_as(&req, 0);
	req = (struct msg_mem_reg_req){.kind = MSG_MEM_PEERMEM, .length_bytes = 4096, .reason = "no dmabuf"};
	reg_as(&req, 0);
	req.kernel_handle = UINT32_MAX;
	reg_as(&req, 0);
	seed_list(0);
}

static void attach(uint32_t nic, uint32_t ring_fd, uint8_t fd)
{
	struct msg msg;

	msg_init(&msg, MSG_AGENT_ATTACH_REQ, 0);
	msg.agent_attach_req = (struct msg_agent_attach_req){.nic = nic, .ring_fd = ring_fd};
	seed_say(0, &msg, fd);
}

static void agent(void)
{
	const struct msg_mem_reg_req req = {.kind = MSG_MEM_AGENT, .access = 0xf, .length_bytes = 4096, .offset = 77};

	seed_hello(0, MSG_ROLE_CLIENT);
	attach(0, 0, STRANGE(STRANGE_SEALED));
	seed_open_named(0, "fake0", "", 0);
	reg_as(&req, 0);
	for (uint8_t kind = 0; kind < STRANGE_FD_N; kind++)
		attach(0, 0, STRANGE(kind));
	reg_as(&req, 0);
	seed_handle(0, MSG_MEM_DEREG_REQ, 1);
	attach(1, 0, STRANGE(STRANGE_SEALED));
	seed_list(0);
	attach(0, 1, STRANGE(STRANGE_SEALED));
}

static void memory_not_taken(void)
{
	struct msg_mem_reg_req req = {.kind = MSG_MEM_DMABUF, .access = 0xf, .length_bytes = 4096};

	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_named(0, "fake0", "", 0);
	reg_as(&req, 1);
	req.fd = 1;
	reg_as(&req, 1);
	seed_hello(0, MSG_ROLE_CLIENT);
}

static void memory_out_of_range(void)
{
	const struct msg_mem_reg_req good = {.kind = MSG_MEM_MEMFD, .access = 4, .length_bytes = 4096};
	struct msg_mem_reg_req bad[] = {good, good, good, good, good, good, good, good};

	seed_begin();
	bad[0].length_bytes = 0;
	bad[1].length_bytes = UINT64_MAX;
	bad[2].offset = UINT64_MAX - 4095, bad[2].iova = 0;
	bad[3].iova = UINT64_MAX - 4095, bad[3].length_bytes = 4097;
	bad[4].iova = 1;
	bad[5].access = 16;
	bad[6].kind = MSG_MEM_UNSET;
	bad[7].nic = 1;
	for (unsigned int i = 0; i < 8; i++)
		reg_as(&bad[i], STRANGE(i == 1 ? STRANGE_HUGE : STRANGE_SEALED));
	seed_handle(0, MSG_MEM_DEREG_REQ, 77);
	seed_record(SEED_DEED(3), 0x18, NULL, 0);
	reg_as(&good, 1);
	for (unsigned int i = 0; i < 7; i++)
		reg_as(&good, STRANGE(STRANGE_READ_ONLY));
}

static void cut_memory(void)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	struct msg msg;
	int n;

	seed_begin();
	msg_init(&msg, MSG_MEM_REG_REQ, 99);
	msg.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 1 << 16};
	msg.n_fds = 1;
	n = msg_encode(&msg, packet, sizeof(packet));
	if (n < 0)
		abort();
	for (uint8_t kind = STRANGE_SEALED; kind <= STRANGE_FILE; kind++)
		seed_record(SEED_DEED(7), (uint8_t)(kind << 3 | 6), packet, (size_t)n);
}

static void bad_descriptors(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_nic(0);
	for (uint8_t fd = 0; fd < 8; fd++)
		seed_reg(0, fd);
	seed_reg(0, 0x09);
	seed_record(0x04, 0, NULL, 0);
	seed_record(0x88, 0x80, "\x08\x05", 2);
}

const struct dispatch_seed dispatch_memory_seeds[] = {
	{"bad-descriptors", bad_descriptors},
	{"memory", memory},
	{"agent", agent},
	{"memory-not-taken", memory_not_taken},
	{"memory-out-of-range", memory_out_of_range},
	{"cut-memory", cut_memory},
	{NULL, NULL},
};
