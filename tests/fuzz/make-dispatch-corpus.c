/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seeds of fuzz-dispatch into a folder: whole sessions, good and bad, as records (dispatch-seeds.h). Every request that the
 * codec knows is in them, so a new message has its seeds when this program has run again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec-table.h"
#include "tests/fuzz/dispatch-seeds.h"
#include "tests/unit/proto/sample.h"

/* A sample of one kind of request, with and without descriptors, in the middle of a life. */
static void request(enum msg_kind kind, enum msg_role role)
{
	struct msg msg;

	seed_begin();
	seed_reg(0, 1);
	seed_create(0, 2, false);
	seed_hello(1, role);
	for (unsigned int i = 0; i < 4; i++) {
		sample_init(&msg, kind, 0, i == 0 ? SAMPLE_MIN : SAMPLE_RANDOM, i);
		seed_say(1, &msg, i == 2 ? 1 : 0);
		msg_deinit(&msg);
		if (i == 2)
			seed_record(SEED_DEED(2) | 1, 0, NULL, 0);
		if (i == 2)
			seed_hello(1, role);
	}
}

static void a_trick(uint8_t what)
{
	seed_begin();
	seed_record(SEED_DEED(7), what, "\x08\x05\x92\x03\x00", 5);
	seed_open_named(0, "fake1", "", 0);
	seed_record(SEED_DEED(7) | 1, what, "\x08\x05\x92\x03\x00", 5);
}

static int write_seed(const char *folder, const char *name)
{
	const uint8_t *out;
	size_t n_out = seed_bytes(&out);
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "we");
	if (f && fwrite(out, 1, n_out, f) == n_out && fclose(f) == 0)
		return 0;
	fprintf(stderr, "%s: %m\n", path);
	return -1;
}

static int write_table(const char *folder, const struct dispatch_seed *seeds)
{
	int r = 0;

	for (; seeds->name && r == 0; seeds++) {
		seed_start();
		seeds->write();
		r = write_seed(folder, seeds->name);
	}
	return r;
}

static int write_requests(const char *folder)
{
	static const char *const roles[] = {[MSG_ROLE_CLIENT] = "client", [MSG_ROLE_CONTROL] = "control"};
	char name[128];
	int r = 0;

	sample_for_each_kind (kind) {
		if (!strstr(msg_kind_name(kind), "-req"))
			continue;
		for (unsigned int role = MSG_ROLE_CLIENT; role <= MSG_ROLE_CONTROL && r == 0; role++) {
			seed_start();
			request(kind, role);
			snprintf(name, sizeof(name), "request-%s-of-a-%s", msg_kind_name(kind), roles[role]);
			r = write_seed(folder, name);
		}
	}
	return r;
}

static int write_tricks(const char *folder)
{
	static const uint8_t tricks[] = {0, 1, 2, 10, 3, 4, 0x84, 0xcc, 5, 6, 7};
	char name[64];
	int r = 0;

	for (unsigned int i = 0; i < sizeof(tricks) && r == 0; i++) {
		seed_start();
		a_trick(tricks[i]);
		snprintf(name, sizeof(name), "trick-%u", tricks[i]);
		r = write_seed(folder, name);
	}
	return r;
}

static const struct dispatch_seed *const tables[] = {
	dispatch_session_seeds, dispatch_nic_seeds, dispatch_memory_seeds, dispatch_queue_seeds, dispatch_connect_seeds, dispatch_admin_seeds,
};

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	for (unsigned int i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (write_table(argv[1], tables[i]) < 0)
			return EXIT_FAILURE;
	return write_requests(argv[1]) < 0 || write_tricks(argv[1]) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
