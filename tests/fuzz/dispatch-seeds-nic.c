/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds of fuzz-dispatch. Opening NICs, doorbells, NICs that fail. */
#include <stdio.h>

#include "daemon/nic/nic.h"
#include "tests/fuzz/dispatch-seeds.h"

/* A cursor into a list of NICs: the page, as a cursor has it (handle-list.c). */
#define PAGE_CURSOR_SHIFT (20 + 12)

static void nics(void)
{
	struct msg msg;

	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_named(0, "none", "", 0);
	seed_open_named(0, "", "0000:3b:00.0", 0);
	seed_open_named(0, "", "0000:3b:00.0", 0);
	seed_open_named(0, "", "GPU-01234567-89ab-cdef-0123-456789abcdef", 0);
	seed_open_named(0, "", "neither", 0);
	seed_open_named(0, "fake0", "", 0);
	seed_open_named(0, "fake1", "", 3);
	seed_hello(1, MSG_ROLE_CLIENT);
	seed_open_named(1, "fake1", "", 2);
	seed_open_named(1, "fake1", "", 1);
	msg_init(&msg, MSG_NIC_LIST_REQ, 0);
	seed_say(1, &msg, 0);
}

static void to_cpu(unsigned int client, uint32_t nic, uint32_t doorbell, const char *reason)
{
	struct msg msg;

	msg_init(&msg, MSG_NIC_DOORBELL_REQ, 0);
	msg.nic_doorbell_req.nic = nic;
	msg.nic_doorbell_req.doorbell = doorbell;
	snprintf(msg.nic_doorbell_req.reason, sizeof(msg.nic_doorbell_req.reason), "%s", reason);
	seed_say(client, &msg, 0);
}

/* The first NIC of a session is its number 0; "fake1" has a page of its own to give. */
static void doorbells(void)
{
	seed_begin();
	seed_open_named(0, "fake1", "", 0);
	to_cpu(0, 0, 1, "the first NIC has no other mode");
	to_cpu(0, 1, 2, "back again");
	to_cpu(0, 1, 1, "");
	to_cpu(0, 2, 1, "no such NIC");
	seed_create(0, 1, false);
	to_cpu(0, 1, 1, "cannot map it\nnor say why");
	to_cpu(0, 1, 1, "again");
	seed_hello(1, MSG_ROLE_CONTROL);
	to_cpu(1, 0, 1, "not for administrators");
	seed_list(1);
}

static void undriven(void)
{
	struct msg msg;

	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_named(0, "rxe0", "", 0);
	seed_open_named(0, "", "", 3);
	seed_hello(1, MSG_ROLE_CONTROL);
	for (uint64_t page = 0; page < 4; page++) {
		msg_init(&msg, MSG_LIST_REQ, 0);
		msg.list_req.what = MSG_LIST_NICS;
		msg.list_req.cursor = page << PAGE_CURSOR_SHIFT;
		seed_say(1, &msg, 0);
	}
}

static void failing_nic(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	for (uint8_t i = 0; i < 3; i++) {
		seed_record(0x06, i, NULL, 0);
		seed_open_nic(0);
		seed_reg(0, 1);
		seed_create(0, 2, false);
	}
}

static void events(void)
{
	seed_hello(0, MSG_ROLE_CLIENT);
	seed_open_nic(0);
	seed_create(0, 1, false);
	for (uint8_t kind = 0; kind < 8; kind += 2)
		seed_record(0x02, kind, "\x02\0\0\0", 4);
	seed_record(0x00, 0, NULL, 0);
}

const struct dispatch_seed dispatch_nic_seeds[] = {
	{"failing-nic", failing_nic},
	{"events", events},
	{"nics", nics},
	{"doorbells", doorbells},
	{"undriven", undriven},
	{NULL, NULL},
};
