/* SPDX-License-Identifier: Apache-2.0 */
/* NICs, publish and fetch, status and lists. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/session/lab.h"
#include "proto/base/nsec.h"
#include "tests/lib/test.h"

static void fill_open(struct msg *req, const char *gpu, const char *nic)
{
	msg_init(req, MSG_NIC_OPEN_REQ, 0);
	snprintf(req->nic_open_req.gpu, sizeof(req->nic_open_req.gpu), "%s", gpu);
	snprintf(req->nic_open_req.nic, sizeof(req->nic_open_req.nic), "%s", nic);
}

TEST(open_tells_what_was_taken_and_why)
{
	struct msg req, rep;
	struct fdlist fds;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 10);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	fill_open(&req, "", "fake1");
	raw_send(&pair.raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&pair.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_NIC_OPEN_REP);
	ASSERT_EQ(fds.n, 1);
	ASSERT_EQ(rep.nic_open_rep.nic, 0);
	ASSERT_EQ(rep.nic_open_rep.page_fd, 0);
	ASSERT_EQ(rep.nic_open_rep.nic_page_fd, 0);
	ASSERT_EQ(rep.nic_open_rep.wake_fd, 0);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_EQ(rep.nic_open_rep.register_offset, 0x800);
	ASSERT_STREQ(rep.nic_open_rep.reason, "it is a fake");
	ASSERT_STREQ(rep.nic_open_rep.assignment, "the client named it");
	ASSERT_STREQ(rep.nic_open_rep.info.name, "fake1");
	ASSERT_EQ(rep.nic_open_rep.info.n_mem_kinds, 2);
	fdlist_deinit(&fds);
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_EXISTS);
	fill_open(&req, "3b:00.0", "");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_STREQ(rep.nic_open_rep.info.name, "fake0");
	fill_open(&req, "", "");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_EXISTS);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* A fake NIC that would hand out pages of its own, and cannot. */
TEST(setting_doorbell_cpu_is_obeyed)
{
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 10);
	for (int i = 0; i < 2; i++)
		lab.nics[i].info.doorbell_uar_mmap = true;
	lab.registry.attr.cpu_doorbells = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	fill_open(&req, "", "fake1");
	req.nic_open_req.doorbell = NIC_DOORBELL_UAR_MMAP;
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_DOORBELL);
	lab.nics[1].info.doorbell_cpu = false;
	req.nic_open_req.doorbell = NIC_DOORBELL_AUTO;
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_DOORBELL);
	lab.nics[1].info.doorbell_cpu = true;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_STREQ(rep.nic_open_rep.reason, "shmemd is set to doorbell = cpu");
	/* A client that asks for it learns nothing new. */
	fill_open(&req, "", "fake0");
	req.nic_open_req.doorbell = NIC_DOORBELL_CPU;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_STREQ(rep.nic_open_rep.reason, "it is a fake");
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void expect_list(struct pair *control, const char *doorbell, const char *reason)
{
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&control->raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 1);
	ASSERT_STREQ(rep.list_rep.sessions[0].doorbell, doorbell);
	ASSERT_STREQ(rep.list_rep.sessions[0].doorbell_reason, reason);
	msg_deinit(&rep);
}

static void fill_doorbell(struct msg *req, uint32_t nic, uint32_t mode, const char *reason)
{
	msg_init(req, MSG_NIC_DOORBELL_REQ, 0);
	req->nic_doorbell_req.nic = nic;
	req->nic_doorbell_req.doorbell = mode;
	snprintf(req->nic_doorbell_req.reason, sizeof(req->nic_doorbell_req.reason), "%s", reason);
}

TEST(client_that_cannot_use_its_page_gets_mode_cpu_once_and_lists_say_why)
{
	struct pair pair, control;
	unsigned int n_calls;
	struct msg req, rep;
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[1].has_uar = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&control, &lab, MSG_ROLE_CONTROL);
	fill_open(&req, "", "fake1");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_UAR_MMAP);
	expect_list(&control, "uar-mmap", "");
	fill_doorbell(&req, 0, NIC_DOORBELL_UAR_MMAP, "it likes to");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	fill_doorbell(&req, 0, NIC_DOORBELL_CPU, "");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	fill_doorbell(&req, 1, NIC_DOORBELL_CPU, "no");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	/* A NIC that cannot stays as it is. */
	lab.nics[1].fail_at = lab.nics[1].n_calls + 1;
	lab.nics[1].fail_err = -EOPNOTSUPP;
	fill_doorbell(&req, 0, NIC_DOORBELL_CPU, "no");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_DOORBELL);
	expect_list(&control, "uar-mmap", "");
	fill_doorbell(&req, 0, NIC_DOORBELL_CPU, "mmap: Permission denied");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_EQ(rep.nic_open_rep.nic, 0);
	ASSERT_STREQ(rep.nic_open_rep.info.name, "fake1");
	ASSERT_STREQ(rep.nic_open_rep.reason, "client: mmap: Permission denied");
	expect_list(&control, "cpu", "fake1: client: mmap: Permission denied");
	/* Again: the page, and the reason of before. */
	fill_doorbell(&req, 0, NIC_DOORBELL_CPU, "it forgot");
	n_calls = lab.nics[1].n_calls;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_STREQ(rep.nic_open_rep.reason, "client: mmap: Permission denied");
	ASSERT_EQ(lab.nics[1].n_calls, n_calls);
	/* Opened in that mode: it has its page. */
	fill_open(&req, "", "fake0");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	fill_doorbell(&req, 1, NIC_DOORBELL_CPU, "no");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_EXISTS);
	pair_deinit(&control);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(change_to_mode_cpu_whose_answer_finds_no_place_is_reported_and_repeated)
{
	struct pair pair, control;
	struct rlimit limit, none;
	struct msg req, rep;
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[1].has_uar = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&control, &lab, MSG_ROLE_CONTROL);
	raw_open_nic(&pair.raw, "fake1");
	fill_doorbell(&req, 0, NIC_DOORBELL_CPU, "mmap: Permission denied");
	ASSERT_OK(getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = (rlim_t)dup(pair.raw.sock);
	close((int)none.rlim_cur);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &none));
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_NO_MEMORY);
	ASSERT_OK(setrlimit(RLIMIT_NOFILE, &limit));
	expect_list(&control, "cpu", "fake1: client: mmap: Permission denied");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	ASSERT_EQ(rep.nic_open_rep.doorbell, NIC_DOORBELL_CPU);
	ASSERT_STREQ(rep.nic_open_rep.reason, "client: mmap: Permission denied");
	pair_deinit(&control);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void fall_back(struct pair *pair, uint32_t nic, const char *reason)
{
	struct msg req, rep;

	fill_open(&req, "", nic ? "fake1" : "fake0");
	raw_expect(&pair->raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
	fill_doorbell(&req, nic, NIC_DOORBELL_CPU, reason);
	raw_expect(&pair->raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
}

static void expect_reasons(const char *first, const char *second, const char *listed)
{
	struct pair pair, control;
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[0].has_uar = lab.nics[1].has_uar = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&control, &lab, MSG_ROLE_CONTROL);
	fall_back(&pair, 0, first);
	fall_back(&pair, 1, second);
	expect_list(&control, "cpu,cpu", listed);
	pair_deinit(&control);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(nics_of_one_reason_tell_it_once_in_lists)
{
	expect_reasons("CUDA refuses to map the page of the NIC: operation not supported (801)",
		       "CUDA refuses to map the page of the NIC: operation not supported (801)",
		       "fake0 and 1 more: client: CUDA refuses to map the page of the NIC: "
		       "operation not supported (801");
}

TEST(long_reasons_leave_room_for_those_of_other_nics_in_lists)
{
	expect_reasons(
		"CUDA refuses to map the page of the NIC: operation not supported (801)",
		"mmap: denied",
		"fake0: client: CUDA refuses to map the page of ; fake1: client: mmap: denied");
	expect_reasons("mmap: denied",
		       "CUDA refuses to map the page of the NIC: operation not supported",
		       "fake0: client: mmap: denied; fake1: client: CUDA refuses to map the page "
		       "of the NIC: operation ");
}

/* In each list it is cut to the same bytes, and never within a character. */
TEST(reasons_of_any_length_are_cut_to_what_lists_hold)
{
	char reason[MSG_TEXT_BYTES];
	struct pair pair, control;
	struct msg req, rep;
	struct lab lab;

	lab_init(&lab, 10);
	lab.nics[0].has_uar = lab.nics[1].has_uar = true;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&control, &lab, MSG_ROLE_CONTROL);
	for (size_t i = 0; i + 2 < sizeof(reason); i += 2)
		memcpy(reason + i, "\xc3\xa9", 3);
	for (uint32_t nic = 0; nic < 2; nic++) {
		fill_open(&req, "", nic ? "fake1" : "fake0");
		raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		fill_doorbell(&req, nic, NIC_DOORBELL_CPU, reason);
		raw_expect(&pair.raw, &req, NULL, 0, MSG_NIC_OPEN_REP, &rep);
		ASSERT_EQ(strlen(rep.nic_open_rep.reason), MSG_TEXT_BYTES - 1);
	}
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&control.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(strlen(rep.list_rep.sessions[0].doorbell_reason), MSG_REASON_BYTES - 1);
	msg_deinit(&rep);
	pair_deinit(&control);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(open_refusals)
{
	struct pair pair;
	struct msg req;
	struct lab lab;

	lab_init(&lab, 10);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	fill_open(&req, "the green one", "");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	fill_open(&req, "", "mlx5_9");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_NO_NIC);
	fill_open(&req, "", "fake0");
	req.nic_open_req.doorbell = 3;
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	req.nic_open_req.doorbell = NIC_DOORBELL_UAR_MMAP;
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_DOORBELL);
	lab.nics[0].info.state = NIC_PORT_LOST;
	req.nic_open_req.doorbell = 0;
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_NO_NIC);
	lab.registry.quota.limits.n[QUOTA_FDS] = 5;
	fill_open(&req, "", "fake1");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_FDS);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

static void fill_publish(struct msg *req, uint32_t pe, const char *data)
{
	msg_init(req, MSG_PUBLISH_REQ, 0);
	memcpy(req->publish_req.key.world, "0123456789abcdef", 16);
	req->publish_req.key.pe = pe;
	req->publish_req.data_bytes = (uint32_t)strlen(data);
	memcpy(req->publish_req.data, data, strlen(data));
}

static void fill_fetch(struct msg *req, enum msg_kind kind, uint32_t pe)
{
	msg_init(req, kind, 0);
	memcpy(req->fetch_req.world, "0123456789abcdef", 16);
	req->fetch_req.pe = pe;
}

TEST(published_is_fetched_until_its_session_ends)
{
	struct msg req, rep;
	struct fdlist fds;
	struct pair a, b;
	struct stat x, y;
	struct lab lab;
	int fd = raw_memfd(4096);

	lab_init(&lab, 20);
	pair_init_hello(&a, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&b, &lab, MSG_ROLE_CLIENT);
	fill_publish(&req, 4, "payload");
	req.publish_req.has_fd = true;
	raw_expect(&a.raw, &req, &fd, 1, MSG_OK_REP, &rep);
	raw_expect_error(&b.raw, &req, &fd, 1, SHMD_STATUS_EXISTS);

	fill_fetch(&req, MSG_FETCH_REQ, 4);
	raw_send(&b.raw, &req, NULL, 0);
	fdlist_init(&fds);
	ASSERT_OK(raw_recv(&b.raw, &rep, &fds));
	ASSERT_EQ(rep.kind, MSG_FETCH_REP);
	ASSERT_EQ(rep.fetch_rep.data_bytes, 7);
	ASSERT_MEMEQ(rep.fetch_rep.data, "payload", 7);
	ASSERT(rep.fetch_rep.has_fd);
	ASSERT_EQ(fds.n, 1);
	ASSERT_OK(fstat(fd, &x));
	ASSERT_OK(fstat(fds.fds[0], &y));
	ASSERT_EQ(x.st_ino, y.st_ino);
	fdlist_deinit(&fds);

	fill_fetch(&req, MSG_UNPUBLISH_REQ, 4);
	raw_expect_error(&b.raw, &req, NULL, 0, SHMD_STATUS_PERMISSION);
	fill_fetch(&req, MSG_FETCH_REQ, 5);
	raw_expect_error(&b.raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	pair_deinit(&a);
	fill_fetch(&req, MSG_FETCH_REQ, 4);
	raw_expect_error(&b.raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	pair_deinit(&b);
	close(fd);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* Descriptors on their way are a resource of all: a client that leaves them unread is ended, one that reads them may ask for ever. */
TEST(unread_descriptors_are_bounded)
{
	static uint8_t buf[65536];
	int fd = raw_memfd(4096), bytes;
	struct msg req, rep;
	struct pair pair;
	struct lab lab;
	unsigned int n;

	lab_init(&lab, 20);
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	fill_publish(&req, 4, "x");
	req.publish_req.has_fd = true;
	raw_expect(&pair.raw, &req, &fd, 1, MSG_OK_REP, &rep);
	fill_fetch(&req, MSG_FETCH_REQ, 4);
	for (n = 0; n < 3 * CONNECTION_MAX_FDS; n++)
		raw_expect(&pair.raw, &req, NULL, 0, MSG_FETCH_REP, &rep);
	req.id = 1;
	req.n_fds = 0;
	bytes = msg_encode(&req, buf, sizeof(buf));
	for (n = 0; n < 3 * CONNECTION_MAX_FDS && !pair.session->ended; n++)
		raw_send_bytes(&pair.raw, buf, (size_t)bytes, NULL, 0);
	ASSERT_EQ(n, CONNECTION_MAX_FDS + 1);
	pair_deinit(&pair);
	close(fd);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* The same answer, word for word, as for what is not there. */
TEST(foreign_entry_is_not_there)
{
	char absent[MSG_TEXT_BYTES];
	struct msg req, rep;
	struct pair a, b;
	struct lab lab;

	lab_init(&lab, 20);
	pair_init_hello(&a, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&b, &lab, MSG_ROLE_CLIENT);
	b.session->identity.uid++;
	fill_fetch(&req, MSG_FETCH_REQ, 4);
	raw_expect(&b.raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	memcpy(absent, rep.error_rep.text, sizeof(absent));
	fill_publish(&req, 4, "x");
	raw_expect(&a.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	fill_fetch(&req, MSG_FETCH_REQ, 4);
	raw_expect(&b.raw, &req, NULL, 0, MSG_ERROR_REP, &rep);
	ASSERT_EQ(rep.error_rep.status, SHMD_STATUS_NOT_PUBLISHED);
	ASSERT_STREQ(rep.error_rep.text, absent);
	req.kind = MSG_UNPUBLISH_REQ;
	raw_expect_error(&b.raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	fill_publish(&req, 4, "mine");
	raw_expect(&b.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	b.session->identity.uid--;
	pair_deinit(&a);
	pair_deinit(&b);
	lab_deinit(&lab);
}

TEST(published_entries_are_bounded_and_withdrawn)
{
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	lab.registry.quota.limits.n[QUOTA_PUBLISHED] = 3;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	for (uint32_t pe = 0; pe < 3; pe++) {
		fill_publish(&req, pe, "");
		raw_expect(&pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	}
	fill_publish(&req, 3, "");
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_PUBLISHED);
	fill_fetch(&req, MSG_UNPUBLISH_REQ, 1);
	raw_expect(&pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	raw_expect_error(&pair.raw, &req, NULL, 0, SHMD_STATUS_NOT_PUBLISHED);
	fill_publish(&req, 3, "");
	raw_expect(&pair.raw, &req, NULL, 0, MSG_OK_REP, &rep);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

/* ---- status and lists -------------------------------------------------------------------------------------------- */

TEST(status_counts_what_there_is)
{
	struct msg req, rep;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 100);
	lab.nics[0].wqes = lab.nics[1].wqes = 1000;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	raw_reg(&pair.raw, 4096);
	raw_create_queues(&pair.raw, 5, &rep);
	msg_deinit(&rep);
	msg_init(&req, MSG_STATUS_REQ, 0);
	raw_expect(&pair.raw, &req, NULL, 0, MSG_STATUS_REP, &rep);
	ASSERT_EQ(rep.status_rep.pid, getpid());
	ASSERT_EQ(rep.status_rep.n_nics, 2);
	ASSERT_EQ(rep.status_rep.n_sessions, 1);
	ASSERT_EQ(rep.status_rep.n_qps, 5);
	ASSERT_EQ(rep.status_rep.n_cqs, 1);
	ASSERT_EQ(rep.status_rep.n_mrs, 1);
	ASSERT_EQ(rep.status_rep.sessions_total, 1);
	ASSERT_EQ(rep.status_rep.counters.wqes, 2000);
	msg_init(&req, MSG_COUNTERS_REQ, 0);
	raw_expect(&pair.raw, &req, NULL, 0, MSG_COUNTERS_REP, &rep);
	ASSERT_EQ(rep.counters_rep.counters.wqes, 7);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

/* Every item once, in rising order, over as many pages as it takes. */
static unsigned int count_items(struct pair *pair, enum msg_list_what what, unsigned int *ret_pages)
{
	uint64_t cursor = 0, last_session = 0;
	unsigned int n = 0;
	struct msg req, rep;

	*ret_pages = 0;
	do {
		msg_init(&req, MSG_LIST_REQ, 0);
		req.list_req = (struct msg_list_req){.what = what, .cursor = cursor};
		raw_expect(&pair->raw, &req, NULL, 0, MSG_LIST_REP, &rep);
		n += rep.list_rep.n_sessions + rep.list_rep.n_qps + rep.list_rep.n_mrs + rep.list_rep.n_nics;
		for (unsigned int i = 0; i < rep.list_rep.n_sessions; i++) {
			ASSERT_GT(rep.list_rep.sessions[i].session, last_session);
			last_session = rep.list_rep.sessions[i].session;
		}
		cursor = rep.list_rep.next_cursor;
		(*ret_pages)++;
		msg_deinit(&rep);
	} while (cursor);
	return n;
}

TEST(lists_come_in_pages)
{
	static struct pair pairs[100];
	struct msg rep;
	struct pair ctl;
	struct lab lab;
	unsigned int pages;

	lab_init(&lab, 5000);
	for (int i = 0; i < 100; i++) {
		pair_init_hello(&pairs[i], &lab, MSG_ROLE_CLIENT);
		raw_open_nic(&pairs[i].raw, i % 2 ? "fake0" : "fake1");
		raw_create_queues(&pairs[i].raw, 7, &rep);
		msg_deinit(&rep);
		for (int k = 0; k < 3; k++)
			raw_reg(&pairs[i].raw, 4096);
	}
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_SESSIONS, &pages), 100);
	ASSERT_EQ(pages, 3);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_QPS, &pages), 700);
	ASSERT_EQ(pages, 3);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_MRS, &pages), 300);
	ASSERT_EQ(pages, 2);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_NICS, &pages), 2);
	for (int i = 0; i < 100; i++)
		pair_deinit(&pairs[i]);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_SESSIONS, &pages), 0);
	pair_deinit(&ctl);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}

TEST(others_see_only_their_own)
{
	struct pair mine, theirs, ctl;
	struct msg_status_rep status;
	unsigned int pages;
	struct msg rep;
	struct lab lab;

	lab_init(&lab, 5000);
	pair_init_hello(&mine, &lab, MSG_ROLE_CLIENT);
	pair_init_hello(&theirs, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&theirs.raw, "fake0");
	raw_create_queues(&theirs.raw, 1, &rep);
	msg_deinit(&rep);
	raw_reg(&theirs.raw, 4096);
	theirs.session->identity.uid = 4321;
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	lab.registry.owner_uid = 99;
	mine.session->identity.uid = ctl.session->identity.uid = 1234;
	ASSERT_EQ(count_items(&ctl, MSG_LIST_SESSIONS, &pages), 1);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_QPS, &pages), 0);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_MRS, &pages), 0);
	raw_status(&ctl.raw, &status);
	ASSERT_EQ(status.n_sessions, 2);
	ASSERT_EQ(status.n_hidden_sessions, 1);
	ctl.session->identity.uid = 99;
	ASSERT_EQ(count_items(&ctl, MSG_LIST_SESSIONS, &pages), 2);
	raw_status(&ctl.raw, &status);
	ASSERT_EQ(status.n_hidden_sessions, 0);
	ctl.session->identity.uid = 0;
	ASSERT_EQ(count_items(&ctl, MSG_LIST_QPS, &pages), 1);
	pair_deinit(&mine);
	pair_deinit(&theirs);
	pair_deinit(&ctl);
	lab_deinit(&lab);
}

#define N_STRANGERS 30000

static uint64_t cpu_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return nsec_from_timespec(&ts);
}

/* A user whose list is empty costs a look at each session, and not one at each pair of them. */
TEST(list_of_one_user_among_many_sessions_is_cheap)
{
	struct session *strangers = calloc(N_STRANGERS, sizeof(*strangers));
	struct msg req, rep;
	struct pair pair;
	struct lab lab;
	uint64_t begin;

	ASSERT(strangers);
	lab_init(&lab, 100);
	pair_init_hello(&pair, &lab, MSG_ROLE_CONTROL);
	pair_make_ordinary(&pair, 4711);
	for (int i = 0; i < N_STRANGERS; i++) {
		strangers[i].id = ++lab.registry.last_id;
		strangers[i].version = 1;
		strangers[i].role = MSG_ROLE_CLIENT;
		list_add_tail(&lab.registry.sessions, &strangers[i].link);
	}
	begin = cpu_nsec();
	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_SESSIONS;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	ASSERT_EQ(rep.list_rep.n_sessions, 0);
	msg_deinit(&rep);
	ASSERT_LT(cpu_nsec() - begin, NSEC_PER_SEC / 5);
	for (int i = 0; i < N_STRANGERS; i++)
		list_del(&strangers[i].link);
	free(strangers);
	pair_deinit(&pair);
	lab_deinit(&lab);
}

TEST(fullest_session_page_fits_a_packet)
{
	static struct pair pairs[MSG_FULL_SESSION_ITEMS];
	unsigned int pages;
	struct pair ctl;
	struct lab lab;

	lab_init(&lab, 5000);
	for (int i = 0; i < MSG_FULL_SESSION_ITEMS; i++) {
		struct session *session;

		pair_init_hello(&pairs[i], &lab, MSG_ROLE_CLIENT);
		session = pairs[i].session;
		memset(session->library, 'l', sizeof(session->library) - 1);
		memset(session->identity.command, 'c', sizeof(session->identity.command) - 1);
		memset(session->identity.cgroup, 'g', sizeof(session->identity.cgroup) - 1);
	}
	pair_init_hello(&ctl, &lab, MSG_ROLE_CONTROL);
	ASSERT_EQ(count_items(&ctl, MSG_LIST_SESSIONS, &pages), MSG_FULL_SESSION_ITEMS);
	ASSERT_EQ(pages, 1);
	for (int i = 0; i < MSG_FULL_SESSION_ITEMS; i++)
		pair_deinit(&pairs[i]);
	pair_deinit(&ctl);
	lab_deinit(&lab);
}

TEST(largest_batch_and_lists_fit_a_packet)
{
	struct msg req, rep;
	unsigned int pages;
	struct pair pair;
	struct lab lab;

	lab_init(&lab, 5000);
	lab.nics[0].last_number = 0xfffc00;
	pair_init_hello(&pair, &lab, MSG_ROLE_CLIENT);
	raw_open_nic(&pair.raw, "fake0");
	raw_fill_create(&req, MSG_MAX_QPS);
	req.queue_create_req.specs.cqs[0].count = MSG_MAX_CQS;
	raw_expect(&pair.raw, &req, NULL, 0, MSG_QUEUE_CREATE_REP, &rep);
	ASSERT_EQ(rep.queue_create_rep.n_cqs, MSG_MAX_CQS);
	ASSERT_EQ(rep.queue_create_rep.n_qps, MSG_MAX_QPS);
	msg_deinit(&rep);
	ASSERT_EQ(count_items(&pair, MSG_LIST_QPS, &pages), MSG_MAX_QPS);
	pair_deinit(&pair);
	lab_assert_empty(&lab);
	lab_deinit(&lab);
}
