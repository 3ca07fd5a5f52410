/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as they were first released decode for ever: the compatibility half of the fuzz corpus. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/codec-table.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/lib/test.h"

static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
static uint8_t again[FRAMING_MAX_PACKET_BYTES];

static size_t read_file(const char *name)
{
	char path[1024];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", CORPUS_FOLDER, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	n = read(fd, packet, sizeof(packet));
	ASSERT_GT(n, 0);
	close(fd);
	return (size_t)n;
}

static bool begins_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* "valid-nic-open-req-0" holds a nic-open-req. */
static unsigned int check_valid(const char *name)
{
	size_t n = read_file(name);
	unsigned int kind;
	struct msg msg;

	ASSERT_OK(msg_decode(packet, n, &msg));
	ASSERT(begins_with(name + strlen("valid-"), msg_kind_name(msg.kind)));
	ASSERT_EQ(msg_encode(&msg, again, sizeof(again)), (int)n);
	ASSERT_MEMEQ(again, packet, n);
	kind = msg.kind;
	msg_deinit(&msg);
	return kind;
}

TEST(released_packets_decode_and_encode_to_the_same_bytes)
{
	bool seen[MSG_KIND_MAX + 1] = {false};
	DIR *folder = opendir(CORPUS_FOLDER);
	struct dirent *entry;

	ASSERT_NE(folder, NULL);
	while ((entry = readdir(folder)))
		if (begins_with(entry->d_name, "valid-"))
			seen[check_valid(entry->d_name)] = true;
	closedir(folder);
	for (unsigned int kind = 0; kind <= MSG_KIND_MAX; kind++)
		ASSERT_EQ(seen[kind], codec_kind(kind) != NULL);
}

TEST(hostile_packets_are_refused)
{
	DIR *folder = opendir(CORPUS_FOLDER);
	unsigned int n_seen = 0;
	struct dirent *entry;
	struct msg msg;

	ASSERT_NE(folder, NULL);
	while ((entry = readdir(folder))) {
		if (!begins_with(entry->d_name, "hostile-") || begins_with(entry->d_name, "hostile-two-bodies"))
			continue;
		n_seen++;
		ASSERT_LT(msg_decode(packet, read_file(entry->d_name), &msg), 0);
	}
	closedir(folder);
	ASSERT_GT(n_seen, 5);
}
