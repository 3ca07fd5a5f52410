/* SPDX-License-Identifier: Apache-2.0 */
/* The output of shmemctl for a daemon whose answers are known: tables, JSON keys, pages, empty lists. */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libclient/ctl/commands.h"
#include "libclient/ctl/ctl.h"
#include "proto/codec.h"
#include "tests/lib/test.h"
#include "tests/unit/client/fake-daemon.h"

static bool is_empty; /* the lists */

static void fill_counters(struct msg_counters *counters)
{
	*counters = (struct msg_counters){
		.wqes = 12, .wqes_by_kind = {0, 10, 0, 2}, .bytes_sent = 4096, .bytes_read = 16, .error_cqes = 1};
}

static void fill_nic(struct msg_nic *nic)
{
	*nic = (struct msg_nic){
		.name = "soft0", .backend = "soft", .port = 1, .link = 1, .state = 2, .mtu_bytes = 4096,
		.gid = {0xfe, 0x80, [15] = 1}, .mac = {2, 0, 0, 0, 0, 1}, .rate_mbps = 100000,
		.n_mem_kinds = 2, .mem_kinds = {1, 3}, .max_log2_sq_wqebbs = 15, .max_log2_cq_entries = 22,
		.max_qps = 1000, .n_sessions = 2, .n_qps = 3, .atomics = MSG_ATOMICS_TOLD | 0xd, .atomics_dc = MSG_ATOMICS_TOLD};
	fill_counters(&nic->counters);
}

static void fill_session(struct msg_session_item *item, uint64_t session)
{
	*item = (struct msg_session_item){
		.session = session, .uid = 1000, .gid = 100, .pid = 4242, .command = "a \"b\"",
		.cgroup = "/user.slice", .library = "libshmemclient 0.1.0", .nics = "soft0", .doorbell = "cpu",
		.n_qps = 2, .n_dc_peers = 30, .n_rc_peers = 2, .n_cqs = 2, .n_mrs = 1, .n_fds = 7, .registered_bytes = 1 << 20,
		.age_nsec = 1500000000, .kept = session == 12};
	fill_counters(&item->counters);
}

/* Two pages of one session each. */
static void fill_sessions(struct msg_list_rep *rep, uint64_t cursor)
{
	rep->sessions = calloc(1, sizeof(*rep->sessions));
	ASSERT(rep->sessions);
	rep->n_sessions = 1;
	fill_session(&rep->sessions[0], cursor ? 12 : 5);
	rep->next_cursor = cursor ? 0 : 99;
}

#define UNDRIVEN_PAGE (1ull << 40)

static void fill_undriven(struct msg_undriven_nic *nic)
{
	*nic = (struct msg_undriven_nic){
		.name = "rxe0", .driver = "rdma_rxe", .netdev = "veth0", .reason = "nobody does", .port = 1, .link = 1,
		.state = 1, .phys_state = 3, .mtu_bytes = 1024, .rate_mbps = 2500, .n_gids = 2,
		.gids = {{.gid = {0xfe, 0x80, [15] = 2}, .type = 2},
			 {.gid = {[10] = 0xff, 0xff, 10, 0, 0, 2}, .index = 3, .type = 3}}};
}

static void fill_list(struct msg_list_rep *rep, const struct msg_list_req *req)
{
	if (is_empty)
		return;
	switch (req->what) {
	case MSG_LIST_SESSIONS:
		ASSERT(req->cursor == 0 || req->cursor == 99);
		fill_sessions(rep, req->cursor);
		break;
	case MSG_LIST_QPS:
		rep->qps = calloc(2, sizeof(*rep->qps));
		rep->n_qps = 2;
		rep->qps[0] = (struct msg_qp_item){
			.session = 5, .nic = "soft0", .qpn = 0x101, .type = 1, .state = 3, .dest_qpn = 0x102,
			.sq_pi = 9, .sq_ci = 8, .log2_sq_wqebbs = 8, .wqes = 8, .bytes = 65536};
		rep->qps[1] = (struct msg_qp_item){
			.session = 5, .nic = "soft0", .qpn = 0x102, .type = 1, .state = 6, .log2_sq_wqebbs = 4,
			.first_error = 5};
		break;
	case MSG_LIST_MRS:
		rep->mrs = calloc(1, sizeof(*rep->mrs));
		rep->n_mrs = 1;
		rep->mrs[0] = (struct msg_mr_item){.session = 5, .nic = "soft0", .mr = 1, .kind = 1, .access = 7,
						   .iova = 0x7f0000001000, .length_bytes = 4096,
						   .reason = "no dmabuf"};
		break;
	case MSG_LIST_PES:
		rep->pes = calloc(2, sizeof(*rep->pes));
		rep->n_pes = 2;
		rep->pes[0] = (struct msg_pe_item){.session = 5, .uid = 1000, .pid = 4242, .command = "ring", .nics = "soft0,soft1",
						   .gpus = "0000:3b:00.0", .world = 0x00c0ffee12345678, .pe = 1, .n_pes = 5, .node_pe = 1,
						   .heap_bytes = 64 << 20, .n_mapped = 1, .n_rc = 2, .n_dc = 1, .reason = "another user"};
		rep->pes[1] = (struct msg_pe_item){.session = 6, .uid = 1000, .pid = 4243, .command = "ring", .world = 0x00c0ffee12345678,
						   .n_pes = 5, .heap_bytes = 64 << 20, .n_mapped = 4,
						   .has_gpu = true, .gpu = {.gpu = "0000:5e:00.0", .heap_bytes = 8 << 20, .used_bytes = 6 << 20, .n_chunks = 2,
							   .n_mapped = 3, .mem_kind = MSG_MEM_DMABUF, .bytes_put = 77, .bytes_got = 5}};
		break;
	case MSG_LIST_PATHS:
		rep->paths = calloc(3, sizeof(*rep->paths));
		rep->n_paths = 3;
		rep->paths[0] = (struct msg_path_item){.session = 5, .world = 0x00c0ffee12345678, .pe = 1, .n_pes = 1024, .last = 7,
						       .path = MSG_PE_PATH_MAPPED};
		rep->paths[1] = (struct msg_path_item){.session = 5, .world = 0x00c0ffee12345678, .pe = 1, .n_pes = 1024, .first = 8,
						       .last = 1023, .path = MSG_PE_PATH_DC, .nic = "soft0", .reason = "another user"};
		rep->paths[2] = (struct msg_path_item){.session = 6, .world = 0x00c0ffee12345678, .n_pes = 1024, .first = 1, .last = 1,
						       .path = MSG_PE_PATH_MORE};
		break;
	case MSG_LIST_NICS:
		if (req->cursor == UNDRIVEN_PAGE) {
			rep->undriven = calloc(1, sizeof(*rep->undriven));
			rep->n_undriven = 1;
			fill_undriven(&rep->undriven[0]);
			break;
		}
		rep->next_cursor = UNDRIVEN_PAGE;
		rep->nics = calloc(1, sizeof(*rep->nics));
		rep->n_nics = 1;
		fill_nic(&rep->nics[0]);
		break;
	}
}

static const struct msg_event events[] = {
	{.kind = MSG_EVENT_SESSION_OPENED, .session = 7, .uid = 1000, .pid = 42, .text = "demo, lib 1"},
	{.kind = MSG_EVENT_QUEUES_CREATED, .session = 7, .uid = 1000, .pid = 42, .nic_name = "soft0", .number = 0x101,
	 .detail = 4},
	{.kind = MSG_EVENT_QP_ERROR, .session = 7, .uid = 1000, .pid = 42, .nic_name = "soft0", .number = 0x102,
	 .detail = 0x13, .text = "QP 0x102"},
	{.kind = MSG_EVENT_PORT_STATE, .nic_name = "soft0", .detail = 1},
	{.kind = MSG_EVENT_NIC_LOST, .nic_name = "soft0", .text = "its thread stopped"},
	{.kind = MSG_EVENT_CQ_ERROR, .session = 7, .uid = 1000, .pid = 42, .nic_name = "soft0", .number = 0x55,
	 .detail = 1, .text = "overrun"},
	{.kind = MSG_EVENT_SESSION_CLOSED, .session = 7, .uid = 1000, .pid = 42, .detail = 66, .text = "user 0 killed it"},
	{.kind = MSG_EVENT_DRAIN, .detail = 1, .text = "sessions end in 30 s"},
	{.kind = MSG_EVENT_DROPPED, .number = 12},
	{.kind = MSG_EVENT_REFUSED, .uid = 1000, .pid = 43, .detail = 16, .text = "limit reached: max-sessions"},
};
#define N_EVENTS (sizeof(events) / sizeof(events[0]))

static void send_events(struct fake_daemon *fake, uint64_t id)
{
	struct msg msg;

	fake_send_ok(fake, id);
	for (size_t i = 0; i < N_EVENTS; i++) {
		msg_init(&msg, MSG_EVENT, 0);
		msg.event = events[i];
		msg.event.time_nsec = 1767225600123456789;
		fake_send(fake, &msg, NULL, 0);
		msg_deinit(&msg);
	}
}

static uint32_t n_hidden = 3;

static void answer(struct fake_daemon *fake, const struct msg *req, struct fdlist *fds)
{
	struct msg rep;

	if (req->kind == MSG_MONITOR_REQ) {
		send_events(fake, req->id);
		return;
	}
	if (req->kind == MSG_STATUS_REQ) {
		msg_init(&rep, MSG_STATUS_REP, req->id);
		rep.status_rep = (struct msg_status_rep){
			.daemon = "shmemd 0.1.0", .pid = 77, .protocol_version = 1, .uptime_nsec = 80000000000,
			.n_nics = 1, .n_sessions = 2, .n_qps = 4, .n_cqs = 4, .n_mrs = 2, .n_fds = 14,
			.n_published = 1, .registered_bytes = 2 << 20, .sessions_total = 30, .refused_total = 3,
			.keeps_sessions = true, .restart_grace_nsec = 5000000000, .n_resumed = 2,
			.n_hidden_sessions = n_hidden, .settings_warning = "nics-include names sotf0"};
		fill_counters(&rep.status_rep.counters);
	} else {
		ASSERT_EQ(req->kind, MSG_LIST_REQ);
		msg_init(&rep, MSG_LIST_REP, req->id);
		fill_list(&rep.list_rep, &req->list_req);
	}
	fake_send(fake, &rep, NULL, 0);
	msg_deinit(&rep);
}

static char text[16384];

/* Puts the line's output into `text`. */
static const char *printed_words(char **words)
{
	struct shmd_client_attr attr = {.role = SHMD_ROLE_CONTROL};
	struct fake_daemon fake = {.handle = answer};
	struct args args;
	struct ctl ctl = {.args = &args, .out = tmpfile()};

	ASSERT_OK(fake_open(&fake, &attr, &ctl.client));
	ASSERT_OK(args_read(ctl_commands, words, &args));
	ctl.is_json = args_has(&args, OPTION_JSON);
	ASSERT_OK(args.command->run(&ctl));
	fflush(ctl.out);
	memset(text, 0, sizeof(text));
	ASSERT_GT(pread(fileno(ctl.out), text, sizeof(text) - 1, 0), 0);
	fclose(ctl.out);
	shmd_client_close(ctl.client);
	fake_join(&fake);
	return text;
}

/* what: NULL for status. */
static const char *printed(const char *what, bool as_json)
{
	char words[3][16] = {"", "--json", ""};
	char *line[] = {words[0], as_json ? words[1] : words[2], as_json ? words[2] : NULL, NULL};

	strcpy(words[0], what ? "list" : "status");
	strcpy(words[2], what ? what : "--");
	return printed_words(line);
}

#define COUNTERS                                                                                          \
	"{\"wqes\":12,\"wqes_by_kind\":{\"nop\":0,\"write\":10,\"write_imm\":0,\"read\":2,\"send\":0,"    \
	"\"send_imm\":0,\"atomic\":0,\"other\":0},\"bytes_sent\":4096,\"bytes_read\":16,\"recv_wqes\":0," \
	"\"error_cqes\":1,\"rnr_naks\":0,\"retries\":0}"

#define SESSION(number, kept)                                                                                          \
	"{\"session\":" number ",\"uid\":1000,\"gid\":100,\"pid\":4242,\"command\":\"a \\\"b\\\"\","             \
	"\"cgroup\":\"/user.slice\",\"library\":\"libshmemclient 0.1.0\",\"nics\":\"soft0\",\"doorbell\":\"cpu\",\"doorbell_reason\":\"\"," \
	"\"n_qps\":2,\"n_dcis\":0,\"n_dcts\":0,\"n_dc_peers\":30,\"n_rc_peers\":2,\"n_cqs\":2,\"n_mrs\":1,\"n_fds\":7,"     \
	"\"registered_bytes\":1048576,\"age_nsec\":1500000000,\"kept\":" kept ",\"unkept_reason\":\"\",\"gpu_nics\":\"\","                                                     \
	"\"counters\":" COUNTERS "}"

#define NIC                                                                                                      \
	"{\"name\":\"soft0\",\"backend\":\"soft\",\"pci\":\"\",\"port\":1,\"link\":\"ethernet\","                \
	"\"state\":\"active\",\"gid\":\"fe80::1\",\"mac\":\"02:00:00:00:00:01\",\"lid\":0,\"mtu_bytes\":4096,"   \
	"\"rate_mbps\":100000,\"mem_kinds\":[\"memfd\",\"agent\"],"                                    \
	"\"atomics\":[\"8\",\"masked-8\",\"result-big-endian\"],\"atomics_dc\":[],\"max_log2_sq_wqebbs\":15,"                    \
	"\"max_log2_cq_entries\":22,\"max_qps\":1000,\"n_sessions\":2,\"n_qps\":3,\"counters\":" COUNTERS ","        \
	"\"warm\":{\"n_wanted\":0,\"n_ready\":0,\"n_made\":0,\"n_handed_out\":0,\"n_batches_handed_out\":0,"          \
	"\"missed_empty\":0,\"missed_shape\":0,\"missed_memory\":0,\"n_failed\":0}}"

#define UNDRIVEN                                                                                                 \
	"{\"name\":\"rxe0\",\"driver\":\"rdma_rxe\",\"pci\":\"\",\"netdev\":\"veth0\",\"port\":1,\"link\":\"ethernet\"," \
	"\"state\":\"down\",\"phys_state\":\"disabled\",\"lid\":0,\"mtu_bytes\":1024,\"rate_mbps\":2500,\"gids\":["  \
	"{\"index\":0,\"gid\":\"fe80::2\",\"type\":\"roce-v1\"},{\"index\":3,\"gid\":\"::ffff:10.0.0.2\","       \
	"\"type\":\"roce-v2\"}],\"reason\":\"nobody does\"}"

TEST(json_of_sessions_joins_pages)
{
	ASSERT_STREQ(printed("sessions", true),
		     "{\"schema_version\":1,\"sessions\":[" SESSION("5", "false") "," SESSION("12", "true") "],\"n_hidden_sessions\":3}\n");
}

TEST(json_of_qps)
{
	ASSERT_STREQ(printed("qps", true),
		     "{\"schema_version\":1,\"qps\":[{\"session\":5,\"nic\":\"soft0\",\"qpn\":257,\"type\":\"RC\","
		     "\"state\":\"RTS\",\"dest_qpn\":258,\"sq_wqebbs\":256,\"sq_pi\":9,\"sq_ci\":8,"
		     "\"first_error\":0,\"wqes\":8,\"bytes\":65536},"
		     "{\"session\":5,\"nic\":\"soft0\",\"qpn\":258,\"type\":\"RC\","
		     "\"state\":\"ERR\",\"dest_qpn\":0,\"sq_wqebbs\":16,\"sq_pi\":0,\"sq_ci\":0,"
		     "\"first_error\":5,\"wqes\":0,\"bytes\":0}],\"n_hidden_sessions\":3}\n");
}

TEST(json_of_mrs)
{
	ASSERT_STREQ(printed("mrs", true),
		     "{\"schema_version\":1,\"mrs\":[{\"session\":5,\"nic\":\"soft0\",\"mr\":1,\"kind\":\"memfd\","
		     "\"access\":[\"local_write\",\"remote_write\",\"remote_read\"],\"iova\":\"0x7f0000001000\","
		     "\"length_bytes\":4096,\"reason\":\"no dmabuf\"}],\"n_hidden_sessions\":3}\n");
}

TEST(json_of_paths)
{
	ASSERT_STREQ(printed("paths", true),
		     "{\"schema_version\":1,\"paths\":[{\"world\":\"00c0ffee12345678\",\"pe\":1,\"n_pes\":1024,\"session\":5,\"first\":0,"
		     "\"last\":7,\"path\":\"mapped\",\"nic\":\"\",\"reason\":\"\"},"
		     "{\"world\":\"00c0ffee12345678\",\"pe\":1,\"n_pes\":1024,\"session\":5,\"first\":8,\"last\":1023,\"path\":\"DC\","
		     "\"nic\":\"soft0\",\"reason\":\"another user\"},"
		     "{\"world\":\"00c0ffee12345678\",\"pe\":0,\"n_pes\":1024,\"session\":6,\"first\":1,\"last\":1,\"path\":\"several\","
		     "\"nic\":\"\",\"reason\":\"\"}],\"n_hidden_sessions\":3}\n");
}

TEST(json_of_pes)
{
	ASSERT_STREQ(printed("pes", true),
		     "{\"schema_version\":1,\"pes\":[{\"world\":\"00c0ffee12345678\",\"pe\":1,\"n_pes\":5,\"node\":0,\"node_pe\":1,"
		     "\"session\":5,\"uid\":1000,\"pid\":4242,\"command\":\"ring\",\"nics\":\"soft0,soft1\",\"gpus\":\"0000:3b:00.0\","
		     "\"heap_bytes\":67108864,\"n_mapped\":1,\"n_rc\":2,\"n_dc\":1,\"reason\":\"another user\",\"gpu_heap\":{\"gpu\":\"\",\"heap_bytes\":0,"
		     "\"used_bytes\":0,\"n_chunks\":0,\"n_mapped\":0,\"registered\":\"\",\"bytes_put\":0,\"bytes_got\":0}},"
		     "{\"world\":\"00c0ffee12345678\",\"pe\":0,\"n_pes\":5,\"node\":0,\"node_pe\":0,"
		     "\"session\":6,\"uid\":1000,\"pid\":4243,\"command\":\"ring\",\"nics\":\"\",\"gpus\":\"\","
		     "\"heap_bytes\":67108864,\"n_mapped\":4,\"n_rc\":0,\"n_dc\":0,\"reason\":\"\",\"gpu_heap\":{\"gpu\":\"0000:5e:00.0\","
		     "\"heap_bytes\":8388608,\"used_bytes\":6291456,\"n_chunks\":2,\"n_mapped\":3,\"registered\":\"dmabuf\",\"bytes_put\":77,"
		     "\"bytes_got\":5}}],\"n_hidden_sessions\":3}\n");
}

TEST(json_of_nics)
{
	ASSERT_STREQ(printed("nics", true), "{\"schema_version\":1,\"nics\":[" NIC "],\"undriven\":[" UNDRIVEN "],\"settings_warning\":\"nics-include names sotf0\"}\n");
}

TEST(json_of_status)
{
	ASSERT_STREQ(printed(NULL, true),
		     "{\"schema_version\":1,\"daemon\":\"shmemd 0.1.0\",\"pid\":77,\"uptime_nsec\":80000000000,"
		     "\"protocol_version\":1,\"draining\":false,\"drain_left_nsec\":0,\"n_nics\":1,\"n_sessions\":2,"
		     "\"n_monitors\":0,\"n_qps\":4,\"n_dcis\":0,\"n_dcts\":0,\"n_cqs\":4,\"n_mrs\":2,"
		     "\"n_fds\":14,\"n_published\":1,\"registered_bytes\":2097152,\"sessions_total\":30,"
		     "\"refused_total\":3,\"keeps_sessions\":true,\"restart_grace_nsec\":5000000000,"
		     "\"n_resumed\":2,"
		     "\"n_hidden_sessions\":3,\"settings_warning\":\"nics-include names sotf0\",\"counters\":" COUNTERS ",\"nics\":[" NIC "],\"undriven\":[" UNDRIVEN "],\"sessions\":["
		     SESSION("5", "false") "," SESSION("12", "true") "]}\n");
}

TEST(empty_lists_are_arrays_in_json_and_sentences_in_text)
{
	is_empty = true;
	n_hidden = 0;
	ASSERT_STREQ(printed("sessions", true), "{\"schema_version\":1,\"sessions\":[],\"n_hidden_sessions\":0}\n");
	ASSERT_STREQ(printed("sessions", false), "no sessions\n");
	ASSERT_STREQ(printed("qps", false), "no QPs\n");
	ASSERT_STREQ(printed("mrs", false), "no memory regions\n");
	ASSERT_STREQ(printed("pes", false), "no PEs\n");
	ASSERT_STREQ(printed("paths", false), "no paths\n");
	ASSERT_STREQ(printed("nics", false), "no NICs\nwarning: nics-include names sotf0\n");
	n_hidden = 1;
	ASSERT_STREQ(printed("sessions", false), "no sessions\n1 session of other users is hidden; root and the user of shmemd see all\n");
}

TEST(table_of_sessions)
{
	ASSERT_STREQ(printed("sessions", false),
		     "SESSION   UID   PID  COMMAND  NICS   DOORBELL  QPS  DCIS  DCTS        PEERS  CQS  MRS   MEMORY  FDS  WQES  ERRORS    AGE  KEPT\n"
		     "      5  1000  4242  a \"b\"    soft0  cpu         2     0     0  30 DC, 2 RC    2    1  1.0 MiB    7    12       1  1.5 s  no\n"
		     "     12  1000  4242  a \"b\"    soft0  cpu         2     0     0  30 DC, 2 RC    2    1  1.0 MiB    7    12       1  1.5 s  yes\n"
		     "3 sessions of other users are hidden; root and the user of shmemd see all\n");
}

TEST(table_of_qps)
{
	ASSERT_STREQ(printed("qps", false),
		     "SESSION  NIC      QPN  TYPE  STATE   PEER  WQEBBS  PI  CI  WQES      DATA  FIRST ERROR\n"
		     "      5  soft0  0x101  RC    RTS    0x102     256   9   8     8  64.0 KiB  -\n"
		     "      5  soft0  0x102  RC    ERR        -      16   0   0     0       0 B  "
		     "flushed: the QP was in error state\n"
		     "3 sessions of other users are hidden; root and the user of shmemd see all\n");
}

TEST(table_of_mrs)
{
	ASSERT_STREQ(printed("mrs", false),
		     "SESSION  NIC    MR  KIND   ACCESS              IOVA     SIZE  REASON\n"
		     "      5  soft0   1  memfd  lw,rw,rr  0x7f0000001000  4.0 KiB  no dmabuf\n"
		     "3 sessions of other users are hidden; root and the user of shmemd see all\n");
}

TEST(table_of_paths_has_them_by_world_and_number)
{
	ASSERT_STREQ(printed("paths", false),
		     "WORLD            PE      TO  PATH     NIC    REASON\n"
		     "00c0ffee  0 of 1024       1  several  -      -\n"
		     "00c0ffee  1 of 1024     0-7  mapped   -      -\n"
		     "00c0ffee  1 of 1024  8-1023  DC       soft0  another user\n"
		     "3 sessions of other users are hidden; root and the user of shmemd see all\n");
}

TEST(table_of_pes_has_them_by_world_and_number)
{
	ASSERT_STREQ(printed("pes", false),
		     "WORLD         PE  NODE  SESSION   UID   PID  COMMAND  GPUS          NICS             HEAP  GPU HEAP                              PATHS                 REASON\n"
		     "00c0ffee  0 of 5     0        6  1000  4243  ring     0000:5e:00.0  -            64.0 MiB  "
		     "6.0 MiB of 8.0 MiB, 2 chunks, dmabuf  4 mapped              -\n"
		     "00c0ffee  1 of 5     0        5  1000  4242  ring     0000:3b:00.0  soft0,soft1  64.0 MiB  "
		     "-                                     1 mapped, 2 RC, 1 DC  another user\n"
		     "3 sessions of other users are hidden; root and the user of shmemd see all\n");
}

TEST(table_of_nics_that_no_backend_drives)
{
	ASSERT(strstr(printed("nics", false),
		      "\n\nNICs that shmemd does not manage, so no session can open them:\n"
		      "NIC   DRIVER    PCI  NETDEV  PORT  LINK      STATE  PHYSICAL      RATE   MTU  GID              TYPE\n"
		      "rxe0  rdma_rxe  -    veth0      1  ethernet  down   disabled  2.5 Gb/s  1024  fe80::2          roce-v1\n"
		      "                                                                              ::ffff:10.0.0.2  roce-v2\n"));
}

TEST(text_of_status)
{
	const char *out = printed(NULL, false);

	ASSERT_EQ(out, strstr(out, "shmemd 0.1.0, pid 77, up 1 min 20 s, protocol version 1\n"
				   "\n"
				   "NICs            1 simulated NIC, for tests without hardware\n"
				   "sessions        2 now, 30 since start, 3 refused\n"
				   "restart         sessions outlive the daemon; clients wait 5.0 s for the next one; 2 came from a previous daemon\n"
				   "queues          4 QPs (4 RC, 0 DCI, 0 DCT), 4 CQs\n"
				   "memory          2 regions, 2.0 MiB registered\n"
				   "held            14 descriptors, 1 published entry\n"
				   "work requests   12 (write 10, read 2)\n"
				   "payload         4.0 KiB sent, 16 B read\n"
				   "errors          1 error CQE, 0 RNR NAKs, 0 retries\n"
				   "\n"
				   "NIC    BACKEND  PCI  PORT  STATE       RATE   MTU  MEMORY "));
	ASSERT(strstr(out, "\nsoft0  soft     -       1  active  100 Gb/s  4096  memfd,agent"));
	ASSERT(strstr(out, "\n\nSESSION   UID   PID  COMMAND"));
}

TEST(events_are_sentences)
{
	char line[3][16] = {"monitor", "--count", "10"};

	setenv("TZ", "UTC", 1);
	ASSERT_STREQ(printed_words((char *[]){line[0], line[1], line[2], NULL}),
		     "2026-01-01 00:00:00.123  session-opened    session 7 (uid 1000, pid 42): demo, lib 1\n"
		     "2026-01-01 00:00:00.123  queues-created    session 7 (uid 1000, pid 42), soft0: 4 QPs from 0x101\n"
		     "2026-01-01 00:00:00.123  qp-error          session 7 (uid 1000, pid 42), QP soft0/0x102: "
		     "remote access error: wrong rkey or range, or the peer's region does not allow it\n"
		     "2026-01-01 00:00:00.123  port-state        soft0 is down\n"
		     "2026-01-01 00:00:00.123  nic-lost          soft0 is gone: its thread stopped\n"
		     "2026-01-01 00:00:00.123  cq-error          session 7 (uid 1000, pid 42), CQ 0x55 on soft0: "
		     "error 0x1: overrun\n"
		     "2026-01-01 00:00:00.123  session-closed    session 7 (uid 1000, pid 42): user 0 killed it\n"
		     "2026-01-01 00:00:00.123  drain             drain began: sessions end in 30 s\n"
		     "2026-01-01 00:00:00.123  dropped           lost 12 events: this reader is too slow\n"
		     "2026-01-01 00:00:00.123  refused           uid 1000, pid 43: limit reached: max-sessions\n");
}

TEST(events_in_json_are_one_object_a_line)
{
	char line[6][16] = {"monitor", "--count", "1", "--json", "--kind", "port-state"};

	ASSERT_STREQ(printed_words((char *[]){line[0], line[1], line[2], line[3], line[4], line[5], NULL}),
		     "{\"schema_version\":1,\"kind\":\"port-state\",\"time\":\"2026-01-01T00:00:00.123456Z\","
		     "\"time_nsec\":1767225600123456789,\"session\":0,\"uid\":0,\"pid\":0,\"nic\":\"soft0\",\"number\":0,"
		     "\"detail\":1,\"text\":\"\"}\n");
}
