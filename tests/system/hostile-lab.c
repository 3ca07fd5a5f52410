/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/hostile-lab.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/daemon-usage.h"

#define SETTLED_LOOKS 20u
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)

static const struct timespec pause_time = {.tv_nsec = 5000000};

unsigned int hostile_settled_fds(const struct fixture_daemon *daemon)
{
	unsigned int n = daemon_n_fds(daemon->pid), now;

	for (unsigned int n_same = 0; n_same < SETTLED_LOOKS; n_same = now == n ? n_same + 1 : 0, n = now) {
		nanosleep(&pause_time, NULL);
		now = daemon_n_fds(daemon->pid);
	}
	return n;
}

uint64_t hostile_rss_bytes(pid_t pid)
{
	unsigned long long kib = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	ASSERT(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %llu", &kib) == 1)
			break;
	fclose(f);
	ASSERT_GT(kib, 0);
	return kib * 1024;
}

void hostile_expect_fds(const struct fixture_daemon *daemon, unsigned int n)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	unsigned int now;

	while ((now = daemon_n_fds(daemon->pid)) > n) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "the daemon holds %u descriptors, and %u before", now, n);
		nanosleep(&pause_time, NULL);
	}
}

void hostile_expect_alone(struct raw_client *raw)
{
	uint64_t end = nsec_now() + PATIENCE_NSEC;
	struct msg_status_rep status;

	for (raw_status(raw, &status); status.n_sessions > 1; raw_status(raw, &status)) {
		if (nsec_now() > end)
			test_fail(TEST_WHERE, "%u sessions are still there", status.n_sessions);
		nanosleep(&pause_time, NULL);
	}
}

uint64_t hostile_slowest_reply_nsec(struct raw_client *raw, unsigned int n)
{
	uint64_t slowest = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t begin = nsec_now(), took;
		struct msg_status_rep status;

		raw_status(raw, &status);
		took = nsec_now() - begin;
		slowest = took > slowest ? took : slowest;
	}
	return slowest;
}

static void try_published(struct raw_client *raw, enum strange_fd kind, int fd)
{
	struct msg req, rep;

	msg_init(&req, MSG_PUBLISH_REQ, 0);
	req.publish_req.key.pe = kind;
	req.publish_req.has_fd = true;
	if (!strange_fd_is_taken(kind, fd)) {
		raw_expect_error(raw, &req, &fd, 1, SHMD_STATUS_MEM_FD);
		return;
	}
	raw_expect(raw, &req, &fd, 1, MSG_OK_REP, &rep);
	msg_init(&req, MSG_FETCH_REQ, 0);
	req.fetch_req.pe = kind;
	raw_expect(raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
}

void hostile_try_everything(struct raw_client *raw, enum strange_fd kind)
{
	int fd = strange_fd_new(kind);
	bool is_memory = strange_fd_is_memory(kind);
	struct msg req, rep;

	msg_init(&req, MSG_MEM_REG_REQ, 0);
	req.mem_reg_req = (struct msg_mem_reg_req){.kind = MSG_MEM_MEMFD, .access = 0xf, .length_bytes = 4096};
	raw_ask(raw, &req, &fd, 1, &rep);
	ASSERT_EQ(rep.kind == MSG_MEM_REG_REP, is_memory);
	raw_fill_create(&req, 1);
	req.queue_create_req.mem_kind = MSG_MEM_MEMFD;
	req.queue_create_req.mem_bytes = STRANGE_FD_BYTES;
	raw_ask(raw, &req, &fd, 1, &rep);
	ASSERT_EQ(rep.kind == MSG_QUEUE_CREATE_REP, is_memory);
	msg_deinit(&rep);
	try_published(raw, kind, fd);
	close(fd);
}
