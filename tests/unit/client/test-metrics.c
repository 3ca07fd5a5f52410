/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of metrics, and the metrics of a look whose numbers are known. */
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/metrics.h"
#include "tests/lib/test.h"

static char *text;
static size_t text_bytes;

static FILE *open_text(void)
{
	FILE *out = open_memstream(&text, &text_bytes);

	ASSERT(out);
	return out;
}

static void assert_written(FILE *out, const char *expected)
{
	fclose(out);
	ASSERT_STREQ(text, expected);
	free(text);
}

static const struct metric heat = {"heat_seconds", METRIC_GAUGE, "How long."};
static const struct metric work = {"work_total", METRIC_COUNTER, "How much."};

static void write_two(struct exposition *to)
{
	exposition_family(to, &heat);
	exposition_sample(to);
	exposition_seconds(to, 1500000001);
	exposition_family(to, &work);
	exposition_sample(to);
	exposition_label(to, "a", "x");
	exposition_label(to, "b", "");
	exposition_uint(to, 18446744073709551615ull);
	exposition_sample(to);
	exposition_label(to, "a", "y");
	exposition_uint(to, 0);
}

TEST(a_family_has_its_head_once)
{
	struct exposition to;
	FILE *out = open_text();

	exposition_begin(&to, out, NULL);
	write_two(&to);
	exposition_end(&to);
	assert_written(out, "# HELP heat_seconds How long.\n# TYPE heat_seconds gauge\nheat_seconds 1.500000001\n"
			    "# HELP work_total How much.\n# TYPE work_total counter\n"
			    "work_total{a=\"x\",b=\"\"} 18446744073709551615\nwork_total{a=\"y\"} 0\n");
}

TEST(a_family_without_samples_leaves_nothing)
{
	struct exposition to;
	FILE *out = open_text();

	exposition_begin(&to, out, NULL);
	exposition_family(&to, &heat);
	exposition_family(&to, &work);
	exposition_end(&to);
	assert_written(out, "");
}

TEST(json_has_the_same)
{
	struct exposition to;
	struct json json;
	FILE *out = open_text();

	json_init(&json, out);
	json_begin_object(&json, NULL);
	exposition_begin(&to, out, &json);
	exposition_family(&to, &heat);
	write_two(&to);
	exposition_end(&to);
	json_end_object(&json);
	assert_written(out, "{\"metrics\":[{\"name\":\"heat_seconds\",\"type\":\"gauge\",\"help\":\"How long.\",\"samples\":"
			    "[{\"labels\":[],\"value\":1.500000001}]},"
			    "{\"name\":\"work_total\",\"type\":\"counter\",\"help\":\"How much.\",\"samples\":"
			    "[{\"labels\":[{\"name\":\"a\",\"value\":\"x\"},{\"name\":\"b\",\"value\":\"\"}],"
			    "\"value\":18446744073709551615},{\"labels\":[{\"name\":\"a\",\"value\":\"y\"}],\"value\":0}]}]}");
}

static void assert_label(const char *value, const char *expected)
{
	struct exposition to;
	FILE *out = open_text();
	char line[256];

	exposition_begin(&to, out, NULL);
	exposition_family(&to, &work);
	exposition_sample(&to);
	exposition_label(&to, "a", value);
	exposition_uint(&to, 7);
	snprintf(line, sizeof(line), "# HELP work_total How much.\n# TYPE work_total counter\nwork_total{a=\"%s\"} 7\n", expected);
	assert_written(out, line);
}

TEST(labels_are_escaped)
{
	assert_label("", "");
	assert_label("a\"b\\c\nd", "a\\\"b\\\\c\\nd");
	assert_label("{},= #\t", "{},= #\t");
	assert_label("\xc3\xa4\xf0\x9f\x98\x80", "\xc3\xa4\xf0\x9f\x98\x80");
	assert_label("\xff" "a\xc3", "\xef\xbf\xbd" "a\xef\xbf\xbd");
}

static void add_session(struct metrics_look *look, uint64_t session)
{
	struct shmd_session_item item = {.session = session, .uid = 1000, .pid = 42, .command = "a \"b\"", .n_qps = 3,
					 .age_nsec = 2500000000, .counters = {.wqes = 9, .wqes_by_kind = {0, 4, 0, 5}}};

	ASSERT(metrics_add(&look->sessions, &item));
}

static void add_qp(struct metrics_look *look, uint64_t session, const char *nic, uint32_t qpn)
{
	struct shmd_qp_item item = {.session = session, .qpn = qpn, .type = SHMD_QP_TYPE_RC, .state = SHMD_QP_ERR,
				    .first_error = 0x13};

	snprintf(item.nic, sizeof(item.nic), "%s", nic);
	ASSERT(metrics_add(&look->qps, &item));
}

static void print_look(struct metrics_look *look)
{
	struct exposition to;
	FILE *out = open_text();

	metrics_tidy(look);
	exposition_begin(&to, out, NULL);
	metrics_print(look, &to);
	exposition_end(&to);
	fclose(out);
	metrics_look_deinit(look);
}

static void assert_line(const char *line)
{
	char wanted[512];

	snprintf(wanted, sizeof(wanted), "\n%s\n", line);
	if (!strstr(text, wanted))
		test_fail(TEST_WHERE, "no line %s in:\n%s", line, text);
}

static unsigned int count(const char *words)
{
	unsigned int n = 0;

	for (const char *at = strstr(text, words); at; at = strstr(at + 1, words))
		n++;
	return n;
}

/* ---- every family: no two fields have one number, and those of 64 bits more than 32 hold ---------------------------- */

#define WIDE 5000000000ull

static struct shmd_counters count_from(uint64_t first)
{
	struct shmd_counters counters = {.wqes = first,
					 .bytes_sent = first + 1,
					 .bytes_read = first + 2,
					 .recv_wqes = first + 3,
					 .error_cqes = first + 4,
					 .rnr_naks = first + 5,
					 .retries = first + 6};

	for (unsigned int i = 0; i < 8; i++)
		counters.wqes_by_kind[i] = first + 10 + i;
	return counters;
}

static const struct shmd_daemon_status status = {
	.daemon = "shmemd 1",
	.pid = 1,
	.uptime_nsec = 2000000003,
	.protocol_version = 4,
	.n_nics = 5,
	.n_sessions = 6,
	.n_qps = 7,
	.n_cqs = 8,
	.n_mrs = 9,
	.n_fds = 10,
	.n_published = 11,
	.registered_bytes = WIDE + 12,
	.sessions_total = WIDE + 13,
	.refused_total = WIDE + 14,
	.drain_left_nsec = WIDE + 15,
	.n_monitors = 16,
	.n_dcis = 17,
	.n_dcts = 18,
	.keeps_sessions = true,
	.restart_grace_nsec = WIDE + 19,
	.n_resumed = WIDE + 20,
};

static const char daemon_samples[] = "shmemd_build_info{version=\"shmemd 1\",protocol=\"4\"} 1\n"
				     "shmemd_uptime_seconds 2.000000003\n"
				     "shmemd_draining 0\n"
				     "shmemd_nics 5\n"
				     "shmemd_sessions 6\n"
				     "shmemd_sessions_opened_total 5000000013\n"
				     "shmemd_refused_total 5000000014\n"
				     "shmemd_sessions_resumed_total 5000000020\n"
				     "shmemd_monitors 16\n"
				     "shmemd_descriptors 10\n"
				     "shmemd_published_entries 11\n";

static const struct shmd_nic_item nic = {
	.info = {.name = "mlx5_0",
		 .backend = "mlx5",
		 .pci = "0000:3b:00.0",
		 .port = 101,
		 .link = 2,
		 .state = 2,
		 .lid = 102,
		 .mtu_bytes = 103,
		 .rate_mbps = 104,
		 .max_log2_sq_wqebbs = 105,
		 .max_log2_cq_entries = 106,
		 .max_qps = 107,
		 .n_sessions = 108,
		 .n_qps = 109,
		 .index = 110,
		 .doorbell_mode = 111},
	.warm = {.n_wanted = 112,
		 .n_ready = 113,
		 .n_made = WIDE + 114,
		 .n_handed_out = WIDE + 115,
		 .n_batches_handed_out = WIDE + 116,
		 .missed_empty = WIDE + 117,
		 .missed_shape = WIDE + 118,
		 .missed_memory = WIDE + 119,
		 .n_failed = WIDE + 120},
};

static const char nic_samples[] =
	"shmemd_nic_info{nic=\"mlx5_0\",backend=\"mlx5\",pci=\"0000:3b:00.0\",port=\"101\",link="
	"\"infiniband\"} 1\n"
	"shmemd_nic_up{nic=\"mlx5_0\"} 1\n"
	"shmemd_nic_rate_bytes_per_second{nic=\"mlx5_0\"} 13000000\n"
	"shmemd_nic_sessions{nic=\"mlx5_0\"} 108\n"
	"shmemd_nic_qps{nic=\"mlx5_0\"} 109\n"
	"shmemd_nic_max_qps{nic=\"mlx5_0\"} 107\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"nop\"} 5000000140\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"write\"} 5000000141\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"write_imm\"} 5000000142\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"read\"} 5000000143\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"send\"} 5000000144\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"send_imm\"} 5000000145\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"atomic\"} 5000000146\n"
	"shmemd_nic_work_requests_total{nic=\"mlx5_0\",kind=\"other\"} 5000000147\n"
	"shmemd_nic_payload_sent_bytes_total{nic=\"mlx5_0\"} 5000000131\n"
	"shmemd_nic_payload_read_bytes_total{nic=\"mlx5_0\"} 5000000132\n"
	"shmemd_nic_receives_total{nic=\"mlx5_0\"} 5000000133\n"
	"shmemd_nic_error_cqes_total{nic=\"mlx5_0\"} 5000000134\n"
	"shmemd_nic_rnr_naks_total{nic=\"mlx5_0\"} 5000000135\n"
	"shmemd_nic_retries_total{nic=\"mlx5_0\"} 5000000136\n"
	"shmemd_nic_warm_contexts_wanted{nic=\"mlx5_0\"} 112\n"
	"shmemd_nic_warm_contexts{nic=\"mlx5_0\"} 113\n"
	"shmemd_nic_warm_contexts_made_total{nic=\"mlx5_0\"} 5000000114\n"
	"shmemd_nic_warm_contexts_taken_total{nic=\"mlx5_0\"} 5000000115\n"
	"shmemd_nic_warm_queues_taken_total{nic=\"mlx5_0\"} 5000000116\n"
	"shmemd_nic_warm_missed_empty_total{nic=\"mlx5_0\"} 5000000117\n"
	"shmemd_nic_warm_missed_shape_total{nic=\"mlx5_0\"} 5000000118\n"
	"shmemd_nic_warm_missed_memory_total{nic=\"mlx5_0\"} 5000000119\n"
	"shmemd_nic_warm_failed_total{nic=\"mlx5_0\"} 5000000120\n";

static const struct shmd_session_item session = {
	.session = 200,
	.uid = 201,
	.gid = 202,
	.pid = 203,
	.command = "a \"b\"",
	.cgroup = "/c",
	.library = "l",
	.nics = "n0,n1:2",
	.doorbell = "d",
	.n_qps = 204,
	.n_cqs = 205,
	.n_mrs = 206,
	.n_fds = 207,
	.registered_bytes = WIDE + 208,
	.age_nsec = 209000000210,
	.n_dcis = 211,
	.n_dcts = 212,
	.n_dc_peers = 213,
	.n_rc_peers = 214,
	.doorbell_reason = "r",
	.unkept_reason = "u",
	.gpu_nics = "n1:2,n2",
};

static const char session_samples[] =
	"shmemd_session_info{session=\"200\",uid=\"201\",gid=\"202\",pid=\"203\",command=\"a "
	"\\\"b\\\"\",cgroup=\"/c\",library=\"l\","
	"nics=\"n0,n1:2\",doorbell=\"d\"} 1\n"
	"shmemd_session_age_seconds{session=\"200\"} 209.000000210\n"
	"shmemd_session_kept{session=\"200\"} 0\n"
	"shmemd_session_qps{session=\"200\"} 204\n"
	"shmemd_session_dcis{session=\"200\"} 211\n"
	"shmemd_session_dcts{session=\"200\"} 212\n"
	"shmemd_session_dc_peers{session=\"200\"} 213\n"
	"shmemd_session_rc_peers{session=\"200\"} 214\n"
	"shmemd_session_cqs{session=\"200\"} 205\n"
	"shmemd_session_mrs{session=\"200\"} 206\n"
	"shmemd_session_descriptors{session=\"200\"} 207\n"
	"shmemd_session_registered_bytes{session=\"200\"} 5000000208\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"nop\"} 5000000230\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"write\"} 5000000231\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"write_imm\"} 5000000232\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"read\"} 5000000233\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"send\"} 5000000234\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"send_imm\"} 5000000235\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"atomic\"} 5000000236\n"
	"shmemd_session_work_requests_total{session=\"200\",kind=\"other\"} 5000000237\n"
	"shmemd_session_payload_sent_bytes_total{session=\"200\"} 5000000221\n"
	"shmemd_session_payload_read_bytes_total{session=\"200\"} 5000000222\n"
	"shmemd_session_receives_total{session=\"200\"} 5000000223\n"
	"shmemd_session_error_cqes_total{session=\"200\"} 5000000224\n"
	"shmemd_session_rnr_naks_total{session=\"200\"} 5000000225\n"
	"shmemd_session_retries_total{session=\"200\"} 5000000226\n"
	"shmemd_session_nic{session=\"200\",nic=\"n0\"} 1\n"
	"shmemd_session_nic{session=\"200\",nic=\"n1:2\"} 1\n"
	"shmemd_session_nic{session=\"200\",nic=\"n2\"} 1\n";

static const struct shmd_qp_item qp = {
	.session = 200,
	.nic = "mlx5_0",
	.qpn = 0x301,
	.type = SHMD_QP_TYPE_RC,
	.state = SHMD_QP_RTS,
	.dest_qpn = 0x302,
	.sq_pi = 303,
	.sq_ci = 304,
	.sq_wqebbs = 305,
	.first_error = 306,
	.wqes = WIDE + 307,
	.bytes = WIDE + 308,
};

static const char qp_samples[] =
	"shmemd_qp_info{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\",type=\"RC\",state=\"RTS\","
	"peer=\"0x302\"} 1\n"
	"shmemd_qp_failed{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\"} 0\n"
	"shmemd_qp_first_error_syndrome{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\"} 306\n"
	"shmemd_qp_send_queue_wqebbs{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\"} 305\n"
	"shmemd_qp_work_requests_total{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\"} 5000000307\n"
	"shmemd_qp_payload_bytes_total{session=\"200\",nic=\"mlx5_0\",qpn=\"0x301\"} 5000000308\n";

static const struct shmd_mr_item mr = {
	.session = 200,
	.nic = "mlx5_0",
	.mr = 401,
	.kind = 2,
	.access = 402,
	.iova = WIDE + 403,
	.length_bytes = WIDE + 404,
};

static const char mr_samples[] =
	"shmemd_mr_info{session=\"200\",nic=\"mlx5_0\",mr=\"401\",kind=\"dmabuf\"} 1\n"
	"shmemd_mr_bytes{session=\"200\",nic=\"mlx5_0\",mr=\"401\"} 5000000404\n";

/* Without heads. */
static void leave_samples(void)
{
	char *to = text;

	for (char *line = text, *end; *line; line = end) {
		end = strchr(line, '\n') + 1;
		if (*line == '#')
			continue;
		memmove(to, line, (size_t)(end - line));
		to += end - line;
	}
	*to = 0;
}

/* All that is printed, so that a new family needs its line here too. */
static void assert_samples(unsigned int parts, const char *expected)
{
	struct shmd_session_item counted_session = session;
	struct shmd_nic_item counted_nic = nic;
	struct metrics_look look;

	counted_nic.counters = count_from(WIDE + 130);
	counted_session.counters = count_from(WIDE + 220);
	metrics_look_init(&look, parts);
	look.status = status;
	ASSERT(!(parts & METRICS_NICS) || metrics_add(&look.nics, &counted_nic));
	ASSERT(!(parts & METRICS_SESSIONS) || metrics_add(&look.sessions, &counted_session));
	ASSERT(!(parts & METRICS_QPS) || metrics_add(&look.qps, &qp));
	ASSERT(!(parts & METRICS_MRS) || metrics_add(&look.mrs, &mr));
	print_look(&look);
	leave_samples();
	ASSERT_STREQ(text, expected);
	free(text);
}

TEST(every_family_of_the_daemon_has_its_own_number)
{
	assert_samples(METRICS_DAEMON, daemon_samples);
}

TEST(every_family_of_a_nic_has_its_own_number)
{
	assert_samples(METRICS_NICS, nic_samples);
}

TEST(every_family_of_a_session_has_its_own_number)
{
	assert_samples(METRICS_SESSIONS, session_samples);
}

TEST(every_family_of_a_qp_and_an_mr_has_its_own_number)
{
	assert_samples(METRICS_QPS, qp_samples);
	assert_samples(METRICS_MRS, mr_samples);
}

/* The yes-or-no figures, inverted from those above. */
TEST(booleans_are_exported_as_zero_and_one)
{
	struct shmd_session_item kept = session;
	struct shmd_nic_item down = nic;
	struct metrics_look look;

	metrics_look_init(&look, METRICS_ALL);
	look.status = (struct shmd_daemon_status){.draining = true};
	down.info.state = 1;
	kept.kept = true;
	ASSERT(metrics_add(&look.nics, &down));
	ASSERT(metrics_add(&look.sessions, &kept));
	add_qp(&look, 7, "mlx5_0", 0x1a2);
	print_look(&look);
	assert_line("shmemd_draining 1");
	assert_line("shmemd_nic_up{nic=\"mlx5_0\"} 0");
	assert_line("shmemd_session_kept{session=\"200\"} 1");
	assert_line("shmemd_qp_failed{session=\"7\",nic=\"mlx5_0\",qpn=\"0x1a2\"} 1");
	free(text);
}

TEST(no_metric_appears_twice)
{
	struct metrics_look look;

	metrics_look_init(&look, METRICS_QPS | METRICS_SESSIONS);
	for (unsigned int i = 0; i < 200; i++) {
		add_qp(&look, i % 3, i % 2 ? "b" : "a", i % 5);
		add_session(&look, i % 7);
	}
	print_look(&look);
	ASSERT_EQ(count("\nshmemd_qp_failed{"), 30);
	ASSERT_EQ(count("\nshmemd_qp_failed{session=\"2\",nic=\"b\",qpn=\"0x4\"}"), 1);
	ASSERT_EQ(count("\nshmemd_session_qps{"), 7);
	ASSERT_EQ(count("shmemd_build_info"), 0);
	free(text);
}
