/* SPDX-License-Identifier: Apache-2.0 */
/* PEs that clients report, in the list of PEs; and what of it is refused. */
#include <stdlib.h>
#include <string.h>

#include "proto/framing.h"
#include "tests/lib/test.h"
#include "tests/unit/session/lab.h"

struct scene {
	struct lab lab;
	struct pair a, b;
};

static void scene_init(struct scene *s)
{
	lab_init(&s->lab, 100);
	pair_init_hello(&s->a, &s->lab, MSG_ROLE_CLIENT);
	pair_init_hello(&s->b, &s->lab, MSG_ROLE_CLIENT);
}

static void scene_deinit(struct scene *s)
{
	pair_deinit(&s->b);
	pair_deinit(&s->a);
	lab_assert_empty(&s->lab);
	lab_deinit(&s->lab);
}

/* PE `pe` of four, of which two are mapped and one is reached by RC. */
static void fill(struct msg *req, uint64_t world, uint32_t pe)
{
	msg_init(req, MSG_PE_REPORT_REQ, 0);
	req->pe_report_req = (struct msg_pe_report_req){.world = world, .pe = pe, .n_pes = 4, .node = 1, .node_pe = 2,
							.heap_bytes = 1 << 20, .n_mapped = 2, .n_rc = 1, .reason = "another user",
							.has_gpu = true, .gpu = {.gpu = "0000:17:00.0", .heap_bytes = 8, .used_bytes = 8, .n_mapped = 3, .bytes_put = 9}};
}

static void send_ok(struct pair *pair, struct msg *req)
{
	struct msg rep;

	raw_expect(&pair->raw, req, NULL, 0, MSG_OK_REP, &rep);
	msg_deinit(&rep);
}

static void report(struct pair *pair, uint64_t world, uint32_t pe)
{
	struct msg req;

	fill(&req, world, pe);
	send_ok(pair, &req);
}

/* The page of the list that the caller gets at this cursor; the items are the caller's to free. */
static struct msg_list_rep list(struct pair *pair, uint64_t cursor)
{
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_PES;
	req.list_req.cursor = cursor;
	raw_expect(&pair->raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	return rep.list_rep;
}

static unsigned int count(struct pair *pair)
{
	struct msg_list_rep page = list(pair, 0);

	free(page.pes);
	return page.n_pes;
}

TEST(reports_stand_in_the_list_with_what_the_daemon_knows_of_the_session)
{
	struct msg_list_rep page;
	struct scene s;

	scene_init(&s);
	raw_open_nic(&s.a.raw, "fake0");
	report(&s.a, 0xabcdefull << 32, 3);
	page = list(&s.b, 0);
	ASSERT_EQ(page.n_pes, 1);
	ASSERT_EQ(page.next_cursor, 0);
	ASSERT_EQ(page.pes[0].session, s.a.session->id);
	ASSERT_EQ(page.pes[0].pid, s.a.session->identity.pid);
	ASSERT_EQ(page.pes[0].uid, s.a.session->identity.uid);
	ASSERT_STREQ(page.pes[0].nics, "fake0");
	ASSERT_EQ(page.pes[0].world, 0xabcdefull << 32);
	ASSERT_EQ(page.pes[0].pe, 3);
	ASSERT_EQ(page.pes[0].n_pes, 4);
	ASSERT_EQ(page.pes[0].node, 1);
	ASSERT_EQ(page.pes[0].node_pe, 2);
	ASSERT_EQ(page.pes[0].heap_bytes, 1 << 20);
	ASSERT_EQ(page.pes[0].n_mapped, 2);
	ASSERT_EQ(page.pes[0].n_rc, 1);
	ASSERT_EQ(page.pes[0].n_dc, 0);
	ASSERT_STREQ(page.pes[0].reason, "another user");
	ASSERT_STREQ(page.pes[0].gpu.gpu, "0000:17:00.0");
	ASSERT_EQ(page.pes[0].gpu.used_bytes, 8);
	ASSERT_EQ(page.pes[0].gpu.bytes_put, 9);
	free(page.pes);
	scene_deinit(&s);
}

TEST(report_replaces_the_one_of_the_same_world_and_pe_and_ends_on_request)
{
	struct msg_list_rep page;
	struct scene s;
	struct msg req;

	scene_init(&s);
	report(&s.a, 7, 1);
	report(&s.a, 7, 2);
	report(&s.b, 7, 1);
	fill(&req, 7, 1);
	req.pe_report_req.heap_bytes = 5;
	send_ok(&s.a, &req);
	page = list(&s.a, 0);
	ASSERT_EQ(page.n_pes, 3);
	ASSERT_EQ(page.pes[0].heap_bytes, 5);
	free(page.pes);
	msg_init(&req, MSG_PE_REPORT_REQ, 0);
	req.pe_report_req = (struct msg_pe_report_req){.world = 7, .pe = 1, .ends = true};
	send_ok(&s.a, &req);
	raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_NOT_FOUND);
	page = list(&s.a, 0);
	ASSERT_EQ(page.n_pes, 2);
	ASSERT_EQ(page.pes[0].pe, 2);
	ASSERT_EQ(page.pes[1].session, s.b.session->id);
	free(page.pes);
	scene_deinit(&s);
}

TEST(reports_go_with_their_session)
{
	struct scene s;

	scene_init(&s);
	report(&s.a, 7, 1);
	report(&s.b, 7, 2);
	ASSERT_EQ(count(&s.b), 2);
	pair_deinit(&s.a);
	ASSERT_EQ(count(&s.b), 1);
	pair_init_hello(&s.a, &s.lab, MSG_ROLE_CLIENT);
	scene_deinit(&s);
}

TEST(numbers_that_do_not_fit_the_world_are_refused_and_change_nothing)
{
	static const struct msg_pe_report_req wrong[] = {
		{.pe = 0, .n_pes = 0},
		{.pe = 4, .n_pes = 4},
		{.n_pes = 4, .node = 4},
		{.n_pes = 4, .node_pe = 4},
		{.n_pes = 4, .n_mapped = 4},
		{.n_pes = 4, .n_mapped = 1, .n_rc = 1, .n_dc = 2},
		{.n_pes = 4, .n_mapped = 0x80000000u, .n_rc = 0x80000000u},
		{.n_pes = 0x80000000u},
		{.n_pes = 4, .has_gpu = true, .gpu = {.n_mapped = 4}},
		{.n_pes = 4, .has_gpu = true, .gpu = {.heap_bytes = 4096, .used_bytes = 4097}},
	};
	struct scene s;
	struct msg req;

	scene_init(&s);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		msg_init(&req, MSG_PE_REPORT_REQ, 0);
		req.pe_report_req = wrong[i];
		raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	}
	ASSERT_EQ(count(&s.a), 0);
	scene_deinit(&s);
}

TEST(session_has_a_bounded_number_of_reports)
{
	struct scene s;
	struct msg req;

	scene_init(&s);
	for (uint32_t i = 0; i < SESSION_MAX_PES; i++)
		report(&s.a, i, 1);
	fill(&req, SESSION_MAX_PES, 1);
	raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_QUOTA_PES);
	/* A report that is there may still change. */
	report(&s.a, SESSION_MAX_PES - 1, 1);
	req.pe_report_req = (struct msg_pe_report_req){.world = 9, .pe = 1, .ends = true};
	send_ok(&s.a, &req);
	report(&s.a, SESSION_MAX_PES, 1);
	scene_deinit(&s);
}

TEST(list_that_is_longer_than_a_page_goes_on_behind_it)
{
	struct msg_list_rep first, second;
	struct scene s;

	scene_init(&s);
	for (uint32_t i = 0; i < MSG_MAX_PE_ITEMS - 1; i++)
		report(&s.a, i, 1);
	for (uint32_t i = 0; i < 3; i++)
		report(&s.b, 100 + i, 1);
	first = list(&s.a, 0);
	ASSERT_EQ(first.n_pes, MSG_MAX_PE_ITEMS);
	ASSERT_GT(first.next_cursor, 0);
	second = list(&s.a, first.next_cursor);
	ASSERT_EQ(second.n_pes, 2);
	ASSERT_EQ(second.next_cursor, 0);
	ASSERT_EQ(second.pes[0].world, 101);
	ASSERT_EQ(second.pes[1].world, 102);
	free(first.pes);
	free(second.pes);
	scene_deinit(&s);
}

TEST(users_see_their_own_pes_alone)
{
	struct scene s;

	scene_init(&s);
	pair_make_ordinary(&s.b, 4711);
	report(&s.a, 7, 1);
	report(&s.b, 7, 2);
	report(&s.b, 7, 3);
	ASSERT_EQ(count(&s.a), 3);
	ASSERT_EQ(count(&s.b), 2);
	scene_deinit(&s);
}

TEST(fullest_page_fits_a_packet)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	static struct msg_pe_item pes[MSG_MAX_PE_ITEMS];
	struct msg rep;

	msg_init(&rep, MSG_LIST_REP, 1);
	rep.list_rep.next_cursor = UINT64_MAX;
	rep.list_rep.n_pes = MSG_MAX_PE_ITEMS;
	rep.list_rep.pes = pes;
	for (unsigned int i = 0; i < MSG_MAX_PE_ITEMS; i++) {
		memset(&pes[i], 0xff, sizeof(pes[i]));
		memset(pes[i].command, 'x', sizeof(pes[i].command));
		memset(pes[i].nics, 'x', sizeof(pes[i].nics));
		memset(pes[i].gpus, 'x', sizeof(pes[i].gpus));
		memset(pes[i].reason, 'x', sizeof(pes[i].reason));
		pes[i].has_gpu = true;
		memset(pes[i].gpu.gpu, 'x', sizeof(pes[i].gpu.gpu) - 1);
		pes[i].gpu.gpu[sizeof(pes[i].gpu.gpu) - 1] = 0;
		pes[i].command[sizeof(pes[i].command) - 1] = pes[i].nics[sizeof(pes[i].nics) - 1] = 0;
		pes[i].gpus[sizeof(pes[i].gpus) - 1] = pes[i].reason[sizeof(pes[i].reason) - 1] = 0;
	}
	ASSERT_GT(msg_encode(&rep, packet, sizeof(packet)), 40000);
}

/* ---- paths */

static struct msg_list_rep list_paths(struct pair *pair, uint64_t cursor)
{
	struct msg req, rep;

	msg_init(&req, MSG_LIST_REQ, 0);
	req.list_req.what = MSG_LIST_PATHS;
	req.list_req.cursor = cursor;
	raw_expect(&pair->raw, &req, NULL, 0, MSG_LIST_REP, &rep);
	return rep.list_rep;
}

static unsigned int count_paths(struct pair *pair)
{
	struct msg_list_rep page = list_paths(pair, 0);

	free(page.paths);
	return page.n_paths;
}

/* A PE of 1,024 with n_runs runs of eight PEs each, by turns mapped and by DC. */
static void fill_runs(struct msg *req, uint64_t world, unsigned int n_runs)
{
	struct msg_pe_report_req *report = &req->pe_report_req;

	msg_init(req, MSG_PE_REPORT_REQ, 0);
	*report = (struct msg_pe_report_req){.world = world, .pe = 1, .n_pes = 1024, .n_ways = 2, .n_runs = n_runs};
	report->ways[0] = (struct msg_pe_way){.path = MSG_PE_PATH_MAPPED};
	report->ways[1] = (struct msg_pe_way){.path = MSG_PE_PATH_DC, .nic = "soft0", .reason = "another user"};
	for (unsigned int i = 0; i < n_runs; i++)
		report->runs[i] = (struct msg_pe_run){.first = 8 * i, .last = 8 * i + 7, .way = i % 2};
}

TEST(paths_of_a_report_stand_in_their_list_until_the_next_report_or_the_end)
{
	struct msg_list_rep page;
	struct scene s;
	struct msg req;

	scene_init(&s);
	report(&s.a, 6, 1);
	fill_runs(&req, 7, 3);
	send_ok(&s.a, &req);
	page = list_paths(&s.b, 0);
	ASSERT_EQ(page.n_paths, 3);
	ASSERT_EQ(page.next_cursor, 0);
	ASSERT_EQ(page.paths[1].session, s.a.session->id);
	ASSERT_EQ(page.paths[1].world, 7);
	ASSERT_EQ(page.paths[1].pe, 1);
	ASSERT_EQ(page.paths[1].n_pes, 1024);
	ASSERT_EQ(page.paths[1].first, 8);
	ASSERT_EQ(page.paths[1].last, 15);
	ASSERT_EQ(page.paths[1].path, MSG_PE_PATH_DC);
	ASSERT_STREQ(page.paths[1].nic, "soft0");
	ASSERT_STREQ(page.paths[1].reason, "another user");
	ASSERT_EQ(page.paths[2].path, MSG_PE_PATH_MAPPED);
	ASSERT_STREQ(page.paths[2].nic, "");
	free(page.paths);
	fill_runs(&req, 7, 1);
	send_ok(&s.a, &req);
	ASSERT_EQ(count_paths(&s.b), 1);
	req.pe_report_req.ends = true;
	send_ok(&s.a, &req);
	ASSERT_EQ(count_paths(&s.b), 0);
	scene_deinit(&s);
}

TEST(runs_out_of_order_or_without_a_way_are_refused_and_change_nothing)
{
	static const struct msg_pe_run wrong[][2] = {
		{{.first = 4, .last = 3}, {.first = 5, .last = 6}}, {{.first = 0, .last = 3}, {.first = 3, .last = 4}},
		{{.first = 5, .last = 6}, {.first = 0, .last = 1}}, {{.first = 0, .last = 3}, {.first = 4, .last = 1024}},
		{{.first = 0, .last = 3}, {.first = 4, .last = UINT32_MAX}}, {{.first = 0, .last = UINT32_MAX}, {.first = 0, .last = 1}},
		{{.first = 0, .last = 3}, {.first = 4, .last = 5, .way = 2}}, {{.way = UINT32_MAX}, {.first = 4, .last = 5}},
	};
	struct scene s;
	struct msg req;

	scene_init(&s);
	fill_runs(&req, 7, MSG_MAX_PE_RUNS);
	send_ok(&s.a, &req);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fill_runs(&req, 7, 2);
		memcpy(req.pe_report_req.runs, wrong[i], sizeof(wrong[i]));
		raw_expect_error(&s.a.raw, &req, NULL, 0, SHMD_STATUS_INVALID);
	}
	ASSERT_EQ(count_paths(&s.a), MSG_MAX_PE_RUNS);
	scene_deinit(&s);
}

TEST(list_of_paths_that_is_longer_than_a_page_goes_on_within_a_report)
{
	uint32_t next[9] = {0};
	unsigned int n = 0, n_pages = 0;
	uint64_t cursor = 0;
	struct scene s;
	struct msg req;

	scene_init(&s);
	/* 27 runs each: no page ends where a report does. */
	for (uint64_t i = 0; i < 9; i++) {
		fill_runs(&req, i, 27);
		send_ok(i < 7 ? &s.a : &s.b, &req);
	}
	do {
		struct msg_list_rep page = list_paths(&s.a, cursor);

		for (unsigned int i = 0; i < page.n_paths; i++) {
			ASSERT_EQ(page.paths[i].first, next[page.paths[i].world]);
			next[page.paths[i].world] += 8;
		}
		n += page.n_paths;
		n_pages++;
		cursor = page.next_cursor;
		free(page.paths);
	} while (cursor);
	ASSERT_EQ(n, 9 * 27);
	ASSERT_EQ(n_pages, 2);
	scene_deinit(&s);
}

TEST(users_see_the_paths_of_their_own_pes_alone)
{
	struct scene s;
	struct msg req;

	scene_init(&s);
	pair_make_ordinary(&s.b, 4711);
	fill_runs(&req, 7, 2);
	send_ok(&s.a, &req);
	fill_runs(&req, 8, 3);
	send_ok(&s.b, &req);
	ASSERT_EQ(count_paths(&s.a), 5);
	ASSERT_EQ(count_paths(&s.b), 3);
	scene_deinit(&s);
}

TEST(fullest_page_of_paths_fits_a_packet)
{
	static uint8_t packet[FRAMING_MAX_PACKET_BYTES];
	static struct msg_path_item paths[MSG_MAX_PATH_ITEMS];
	struct msg rep;

	msg_init(&rep, MSG_LIST_REP, 1);
	rep.list_rep.next_cursor = UINT64_MAX;
	rep.list_rep.n_paths = MSG_MAX_PATH_ITEMS;
	rep.list_rep.paths = paths;
	for (unsigned int i = 0; i < MSG_MAX_PATH_ITEMS; i++) {
		memset(&paths[i], 0xff, sizeof(paths[i]));
		paths[i].path = MSG_PE_PATH_MORE;
		memset(paths[i].nic, 'x', sizeof(paths[i].nic));
		memset(paths[i].reason, 'x', sizeof(paths[i].reason));
		paths[i].nic[sizeof(paths[i].nic) - 1] = paths[i].reason[sizeof(paths[i].reason) - 1] = 0;
	}
	ASSERT_GT(msg_encode(&rep, packet, sizeof(packet)), 20000);
}
