/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the seed corpus of fuzz-decode into a folder. "valid-*" are packets of version 1 as first released and are
 * never made again: test-codec-corpus holds every later decoder to them. Run it for a new kind only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/unit/proto/sample.h"

#define N_TRIES 12

static uint8_t packet[FRAMING_MAX_PACKET_BYTES];

static const struct {
	const char *name;
	const char *bytes;
	size_t n;
} hostile[] = {
#define HOSTILE(name, literal) {name, literal, sizeof(literal) - 1}
	HOSTILE("hostile-no-body", "\x08\x05"),
	HOSTILE("hostile-unknown-body", "\x08\x05\xa2\x38\x03new"),
	HOSTILE("hostile-two-bodies", "\x92\x03\x00\xb2\x01\x02\x08\x07"),
	HOSTILE("hostile-body-too-long", "\x08\x05\x52\x7f\x08\x01"),
	HOSTILE("hostile-nul-in-text", "\x82\x01\x07\x12\x05so\0ft"),
	HOSTILE("hostile-escape-in-text", "\x82\x01\x06\x12\x04\x1b[2J"),
	HOSTILE("deceptive-override-in-text", "\x82\x01\x07\x12\x05\xe2\x80\xae" "so"),
	HOSTILE("deceptive-separator-in-text", "\x82\x01\x07\x12\x05so\xe2\x80\xa8"),
	HOSTILE("hostile-seventeen-fds", "\x10\x11\x92\x03\x00"),
	HOSTILE("hostile-short-world", "\xd2\x02\x05\x0a\x03" "abc"),
	HOSTILE("hostile-enum", "\x52\x02\x20\x63"),
	HOSTILE("hostile-wrong-wire-type", "\x52\x05\x0d\x01\x02\x03\x04"),
	HOSTILE("hostile-group", "\x53\x08\x01\x54"),
	HOSTILE("hostile-endless-varint", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
	HOSTILE("hostile-nine-wqe-kinds", "\xaa\x02\x0d\x0a\x0b\x12\x09\x01\x01\x01\x01\x01\x01\x01\x01\x01"),
};

/* An existing file stays as it is. */
static int write_file(const char *folder, const char *name, const void *bytes, size_t n)
{
	_cleanup_close_ int fd = -1;
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return errno == EEXIST ? 0 : -errno;
	return write(fd, bytes, n) == (ssize_t)n ? 0 : -EIO;
}

static int encode_sample(unsigned int kind, unsigned int variant, uint64_t seed)
{
	struct msg msg;
	int n;

	sample_init(&msg, kind, variant, SAMPLE_RANDOM, seed);
	n = msg_encode(&msg, packet, sizeof(packet));
	msg_deinit(&msg);
	return n;
}

/* Picks the largest packet of a few random messages: most fields, most elements. */
static int write_kind(const char *folder, unsigned int kind, unsigned int variant)
{
	uint64_t best = 0;
	char name[128];
	int n, most = -1;

	for (uint64_t seed = 0; seed < N_TRIES; seed++) {
		n = encode_sample(kind, variant, seed);
		if (n > most) {
			most = n;
			best = seed;
		}
	}
	n = encode_sample(kind, variant, best);
	if (n < 0)
		return n;
	snprintf(name, sizeof(name), "valid-%s-%u", msg_kind_name(kind), variant);
	return write_file(folder, name, packet, (size_t)n);
}

int main(int argc, char **argv)
{
	int r = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	sample_for_each_kind (kind)
		for (unsigned int v = 0; v < sample_n_variants(kind) && r == 0; v++)
			r = write_kind(argv[1], kind, v);
	for (size_t i = 0; i < sizeof(hostile) / sizeof(hostile[0]) && r == 0; i++)
		r = write_file(argv[1], hostile[i].name, hostile[i].bytes, hostile[i].n);
	if (r < 0)
		fprintf(stderr, "%s: %s\n", argv[1], strerror(-r));
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
