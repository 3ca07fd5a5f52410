/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of metrics, and the metrics of a look whose numbers are known. */
#include <stdlib.h>
#include <string.h>

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

TEST(values_and_labels_are_those_of_the_items)
{
	struct shmd_nic_item nic = {.info = {.name = "mlx5_0", .backend = "mlx5", .pci = "0000:3b:00.0", .port = 1, .link = 2,
					     .state = 2, .n_sessions = 2}, .counters = {.bytes_sent = 1ull << 40}};
	struct shmd_mr_item mr = {.session = 7, .nic = "mlx5_0", .mr = 3, .kind = 2, .length_bytes = 4096};
	struct metrics_look look;

	metrics_look_init(&look, METRICS_ALL);
	look.status = (struct shmd_daemon_status){.daemon = "shmemd 1", .protocol_version = 1, .draining = true,
						  .refused_total = 6};
	ASSERT(metrics_add(&look.nics, &nic));
	ASSERT(metrics_add(&look.mrs, &mr));
	add_session(&look, 7);
	add_qp(&look, 7, "mlx5_0", 0x1a2);
	print_look(&look);
	assert_line("shmemd_build_info{version=\"shmemd 1\",protocol=\"1\"} 1");
	assert_line("shmemd_draining 1");
	assert_line("shmemd_refused_total 6");
	assert_line("shmemd_nic_info{nic=\"mlx5_0\",backend=\"mlx5\",pci=\"0000:3b:00.0\",port=\"1\",link=\"infiniband\"} 1");
	assert_line("shmemd_nic_up{nic=\"mlx5_0\"} 1");
	assert_line("shmemd_nic_sessions{nic=\"mlx5_0\"} 2");
	assert_line("shmemd_nic_payload_sent_bytes_total{nic=\"mlx5_0\"} 1099511627776");
	assert_line("shmemd_session_info{session=\"7\",uid=\"1000\",gid=\"0\",pid=\"42\",command=\"a \\\"b\\\"\",cgroup=\"\","
		    "library=\"\",nics=\"\",doorbell=\"\"} 1");
	assert_line("shmemd_session_age_seconds{session=\"7\"} 2.500000000");
	assert_line("shmemd_session_qps{session=\"7\"} 3");
	assert_line("shmemd_session_work_requests_total{session=\"7\",kind=\"write\"} 4");
	assert_line("shmemd_session_work_requests_total{session=\"7\",kind=\"read\"} 5");
	assert_line("shmemd_qp_info{session=\"7\",nic=\"mlx5_0\",qpn=\"0x1a2\",type=\"RC\",state=\"ERR\",peer=\"0x0\"} 1");
	assert_line("shmemd_qp_failed{session=\"7\",nic=\"mlx5_0\",qpn=\"0x1a2\"} 1");
	assert_line("shmemd_qp_first_error_syndrome{session=\"7\",nic=\"mlx5_0\",qpn=\"0x1a2\"} 19");
	assert_line("shmemd_mr_info{session=\"7\",nic=\"mlx5_0\",mr=\"3\",kind=\"dmabuf\"} 1");
	assert_line("shmemd_mr_bytes{session=\"7\",nic=\"mlx5_0\",mr=\"3\"} 4096");
	free(text);
}

TEST(nothing_is_told_twice)
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
