/* SPDX-License-Identifier: Apache-2.0 */
/* For every attr and every function: zero in a field means the default, and an unwanted output may be NULL. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/fake-cuda.h"
#include "tests/lib/test.h"
#include "tests/system/client-lab.h"

#define LONG_NSEC (10 * NSEC_PER_SEC)

static const struct shmd_world_key world = {{3}};

struct lab {
	struct fixture_daemon daemon;
	struct lab_side side;
};

static void lab_init(struct lab *lab)
{
	const struct shmd_queues_attr attr = {.n_qps = 2};

	fixture_daemon_start(&lab->daemon, "--soft-nics=2", NULL);
	lab_side_open(&lab->side, &lab->daemon, &attr);
}

static void lab_deinit(struct lab *lab)
{
	lab_side_close(&lab->side);
	fixture_daemon_stop(&lab->daemon);
}

/* ---- zero is the default ---------------------------------------------------------------------------------------------- */

static bool is_mlx5(void)
{
	const char *backend = getenv("SHMEMD_TEST_BACKEND");

	return backend && !strcmp(backend, "mlx5");
}

static void client_attr(struct lab *lab)
{
	const struct shmd_client_attr attr = {0};
	struct shmd_client *client;

	ASSERT_OK(setenv("SHMEMD_SOCKET", lab->daemon.socket, 1));
	ASSERT_OK(shmd_client_open(&attr, &client));
	/* The role client has a page. */
	ASSERT(shmd_client_health_page(client));
	shmd_client_close(client);
}

/* The best doorbell that the NIC has. */
static void nic_attr(struct lab *lab)
{
	const struct shmd_nic_attr attr = {0};
	struct shmd_client *client = lab_client(&lab->daemon);
	struct shmd_nic_info info;
	struct shmd_nic *nic;

	ASSERT_OK(shmd_nic_open(client, &attr, &nic));
	ASSERT_OK(shmd_nic_info(nic, &info));
	ASSERT_EQ(info.doorbell_mode, is_mlx5() ? SHMD_DOORBELL_UAR_MMAP : SHMD_DOORBELL_CPU);
	shmd_client_close(client);
}

/* A memfd that peers reach in no way. */
static void mr_attr(struct lab *lab)
{
	struct lab_side *side = &lab->side;
	const struct shmd_mr_attr attr = {.fd = shmd_mem_fd(side->mem), .length_bytes = LAB_MEM_BYTES};
	struct shmd_mr_info info;
	struct shmd_mr *mr;

	ASSERT_OK(shmd_mr_reg(side->nic, &attr, &mr));
	ASSERT_OK(shmd_mr_info(mr, &info));
	ASSERT_EQ(info.kind, SHMD_MEM_MEMFD);
	ASSERT_EQ(info.access, 0);
	lab_connect(side, 0, side, 1);
	/* Its own NIC reads it ... */
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side->queues, 0), lab_remote(side, 64),
				  shmd_dev_addr_of(0, shmd_mr_lkey_be(mr)), 8, LONG_NSEC),
		  SHMD_DEV_OK);
	/* ... and it stays unwritten. */
	ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side->queues, 0), shmd_dev_addr_of(0, shmd_mr_rkey_be(mr)),
				  lab_local(side, 0), 8, LONG_NSEC),
		  SHMD_DEV_CQE_ERROR);
	ASSERT_EQ(shmd_dev_qp_error(shmd_queues_dev_qp(side->queues, 0), NULL), SHMD_SYNDROME_REMOTE_ACCESS_ERR);
	ASSERT_OK(shmd_mr_dereg(mr));
	for (unsigned int i = 0; i < 2; i++)
		ASSERT_OK(shmd_queues_modify(side->queues, i, SHMD_QP_RST));
}

static void queues_attr(struct lab *lab)
{
	const struct shmd_queues_attr none = {0}, attr = {.n_qps = 1};
	const struct shmd_dev_qp *qp;
	struct shmd_queues *queues;

	ASSERT_ERR(shmd_queues_create(lab->side.nic, &none, &queues), EINVAL);
	ASSERT_OK(shmd_queues_create(lab->side.nic, &attr, &queues));
	qp = shmd_queues_dev_qp(queues, 0);
	ASSERT_EQ(qp->sq_wqebbs, 256);
	ASSERT_EQ(qp->rq_wqes, 0);
	ASSERT_EQ(qp->sharing, SHMD_SHARING_EXCLUSIVE);
	ASSERT_EQ(qp->flags & (SHMD_QP_CQ_COLLAPSED | SHMD_QP_DC), SHMD_QP_CQ_COLLAPSED);
	ASSERT_OK(shmd_queues_destroy(queues));
}

/* The daemon takes its settings for zeros: zero_in_a_parameter_is_the_daemons_setting_and_255_is_zero. */
static void qp_params(struct lab *lab)
{
	static const struct shmd_qp_params rows[] = {
		{0}, {.timeout = 14}, {.retry_count = SHMD_QP_PARAM_ZERO, .min_rnr_timer = SHMD_QP_PARAM_ZERO}};
	struct lab_side *side = &lab->side;
	struct shmd_addr addr;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ASSERT_OK(shmd_queues_addr(side->queues, 0, &addr));
		ASSERT_OK(shmd_queues_connect(side->queues, 0, 1, &addr, &rows[i], NULL));
		ASSERT_EQ(shmd_dev_qp_put(shmd_queues_dev_qp(side->queues, 0), lab_remote(side, 64), lab_local(side, 0), 8,
					  LONG_NSEC),
			  SHMD_DEV_OK);
		ASSERT_OK(shmd_queues_modify(side->queues, 0, SHMD_QP_RST));
	}
}

/* No QP of n_qps is one QP, and the time limit is the client's. */
static void pair_attr(struct lab *lab)
{
	const struct shmd_pair_attr attr = {.world = world};
	struct shmd_pair pair = {0};

	ASSERT_OK(shmd_pair_connect(lab->side.queues, &attr, &pair, 1));
	ASSERT_EQ(pair.peer_bytes, 0);
	ASSERT_OK(shmd_queues_modify(lab->side.queues, 0, SHMD_QP_RST));
}

static struct shmd_queues *make_dci(const struct lab *lab)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dev_peer peers[9];
	struct shmd_queues *dci;
	struct shmd_addr addr;
	struct shmd_dct *dct;

	ASSERT_OK(shmd_dct_create(lab->side.nic, 0, &dct));
	ASSERT_OK(shmd_dct_addr(dct, &addr));
	for (unsigned int i = 0; i < 9; i++)
		ASSERT_OK(shmd_peers_resolve(lab->side.nic, 1, &addr, 0, &peers[i], NULL));
	ASSERT_OK(shmd_queues_create(lab->side.nic, &attr, &dci));
	ASSERT_OK(shmd_queues_set_peers(dci, 9, peers));
	ASSERT_OK(shmd_dct_destroy(dct));
	return dci;
}

/* Eight peers with a QP, and 1000 operations make one hot. */
static void hot_attr(struct lab *lab)
{
	const struct shmd_hot_attr attr = {0};
	struct shmd_queues *dci = make_dci(lab);
	struct shmd_hot_change changes[16];
	struct shmd_hot *hot;
	unsigned int n;

	ASSERT_OK(shmd_hot_open(dci, &attr, &hot));
	ASSERT_OK(shmd_hot_count(hot, 0, 999));
	for (unsigned int i = 1; i < 9; i++)
		ASSERT_OK(shmd_hot_count(hot, i, 1000));
	ASSERT_OK(shmd_hot_decide(hot, changes, &n));
	ASSERT_EQ(n, 8);
	ASSERT_OK(shmd_hot_close(hot));
	ASSERT_OK(shmd_queues_destroy(dci));
}

/* Without a GPU; test-client-gpu-mem tries the ways that automatic takes. */
static void gpu_modes(struct lab *lab)
{
	(void)lab;
	ASSERT_EQ(SHMD_GPU_MEM_AUTO, 0);
	ASSERT_EQ(SHMD_DOORBELL_AUTO, 0);
}

static const struct {
	const char *name;
	void (*run)(struct lab *lab);
} attrs[] = {
	{"client_attr", client_attr}, {"nic_attr", nic_attr}, {"mr_attr", mr_attr},
	{"queues_attr", queues_attr}, {"qp_params", qp_params}, {"pair_attr", pair_attr},
	{"hot_attr", hot_attr}, {"gpu_mr_attr", gpu_modes}, {"gpu_mem_attr", gpu_modes},
};

TEST(zero_in_every_attr_is_the_documented_default)
{
	struct lab lab;

	lab_init(&lab);
	for (unsigned int i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
		attrs[i].run(&lab);
	lab_deinit(&lab);
}

/* ---- outputs that are not wanted ------------------------------------------------------------------------------------------ */

#define DEFINE_CALL(name, expr)                      \
	static int name(const struct lab *lab)       \
	{                                            \
		const struct lab_side *s = &lab->side; \
                                                     \
		(void)s;                             \
		return expr;                         \
	}

static const struct shmd_queues_attr one_qp = {.n_qps = 1};
static const struct shmd_mr_attr some_mr = {.length_bytes = 1};
static const struct shmd_addr some_addr = {.bytes = 1};

DEFINE_CALL(client_open, shmd_client_open(NULL, NULL))
DEFINE_CALL(client_limits, shmd_client_limits(s->client, NULL))
DEFINE_CALL(client_counters, shmd_client_counters(s->client, NULL))
DEFINE_CALL(event_next, shmd_event_next(s->client, 0, NULL))
DEFINE_CALL(nic_list, shmd_nic_list(s->client, NULL, 0) - 2)
DEFINE_CALL(nic_open, shmd_nic_open(s->client, NULL, NULL))
DEFINE_CALL(nic_info, shmd_nic_info(s->nic, NULL))
DEFINE_CALL(mem_alloc, shmd_mem_alloc(s->client, 1, NULL))
DEFINE_CALL(mem_adopt, shmd_mem_adopt(s->client, shmd_mem_addr(s->mem), LAB_MEM_BYTES, NULL))
DEFINE_CALL(mr_reg, shmd_mr_reg(s->nic, &some_mr, NULL))
DEFINE_CALL(mr_reg_mem, shmd_mr_reg_mem(s->nic, s->mem, 0, NULL))
DEFINE_CALL(mr_info, shmd_mr_info(s->mr, NULL))
DEFINE_CALL(queues_layout, shmd_queues_layout(s->nic, &one_qp, NULL))
DEFINE_CALL(queues_create, shmd_queues_create(s->nic, &one_qp, NULL))
DEFINE_CALL(queues_recv_cq, shmd_queues_recv_cq(s->queues, 0, NULL))
DEFINE_CALL(queues_addr, shmd_queues_addr(s->queues, 0, NULL))
DEFINE_CALL(queues_connect, shmd_queues_connect(s->queues, 0, 0, NULL, NULL, NULL))
DEFINE_CALL(queues_query, shmd_queues_query(s->queues, 0, NULL))
DEFINE_CALL(dct_create, shmd_dct_create(s->nic, 0, NULL))
DEFINE_CALL(peers_resolve, shmd_peers_resolve(s->nic, 0, NULL, 0, NULL, NULL))
DEFINE_CALL(peers_resolve_one, shmd_peers_resolve(s->nic, 1, &some_addr, 0, NULL, NULL))
DEFINE_CALL(fetch, shmd_fetch(s->client, &world, 0, 0, NULL, NULL, NULL, 0))
DEFINE_CALL(admin_status, shmd_admin_status(s->client, NULL))
DEFINE_CALL(admin_queue_head, shmd_admin_queue_head(s->client, "soft0", 1, NULL))
DEFINE_CALL(admin_queue_read, shmd_admin_queue_read(s->client, "soft0", 1, SHMD_PART_SQ, 0, 1, NULL))
DEFINE_CALL(gpu_open, shmd_gpu_open(s->client, 0, NULL))

static int dct_addr(const struct lab *lab)
{
	struct shmd_dct *dct;
	int r;

	ASSERT_OK(shmd_dct_create(lab->side.nic, 0, &dct));
	r = shmd_dct_addr(dct, NULL);
	ASSERT_OK(shmd_dct_destroy(dct));
	return r;
}

/* All that a set of hot peers gives. */
static int hot(const struct lab *lab)
{
	struct shmd_queues *dci = make_dci(lab);
	struct shmd_hot *set;

	ASSERT_ERR(shmd_hot_open(dci, NULL, NULL), EINVAL);
	ASSERT_OK(shmd_hot_open(dci, NULL, &set));
	ASSERT_ERR(shmd_hot_posts(set, 0, NULL), EINVAL);
	ASSERT_ERR(shmd_hot_decide(set, NULL, NULL), EINVAL);
	ASSERT_ERR(shmd_hot_offer(set, 0, NULL), EINVAL);
	ASSERT_OK(shmd_hot_close(set));
	ASSERT_OK(shmd_queues_destroy(dci));
	return -EINVAL;
}

/* All that a GPU gives. */
static int gpu(const struct lab *lab)
{
	const struct shmd_gpu_mem_attr mem_attr = {.bytes = 1, .mode = SHMD_GPU_MEM_HOST};
	const struct shmd_gpu_mr_attr mr_attr_of_gpu = {.length_bytes = 1};
	const struct lab_side *s = &lab->side;
	struct shmd_gpu_mem *mem;
	struct shmd_gpu *opened;

	ASSERT_OK(shmd_gpu_open(s->client, 0, &opened));
	ASSERT_ERR(shmd_gpu_info(opened, NULL), EINVAL);
	ASSERT_ERR(shmd_gpu_map_mem(opened, s->mem, NULL), EINVAL);
	ASSERT_ERR(shmd_gpu_dev_state(opened, s->queues, NULL), EINVAL);
	ASSERT_ERR(shmd_gpu_dev_qp(opened, s->queues, 0, NULL), EINVAL);
	ASSERT_ERR(shmd_gpu_mr_reg(opened, s->nic, &mr_attr_of_gpu, NULL), EINVAL);
	ASSERT_ERR(shmd_gpu_mem_alloc(opened, s->nic, &mem_attr, NULL), EINVAL);
	ASSERT_OK(shmd_gpu_mem_alloc(opened, s->nic, &mem_attr, &mem));
	ASSERT_ERR(shmd_gpu_mem_info(mem, NULL), EINVAL);
	ASSERT_OK(shmd_gpu_mem_free(mem));
	ASSERT_OK(shmd_gpu_close(opened));
	/* Its own libcuda was used. */
	ASSERT_EQ(fake_cuda_counts().pushed, 0);
	return -EINVAL;
}

static const struct {
	const char *name; /* "*": all functions that begin so */
	int (*run)(const struct lab *lab);
	int status;
} calls[] = {
	{"client_open", client_open, -EINVAL},
	{"client_limits", client_limits, -EINVAL},
	{"client_counters", client_counters, -EINVAL},
	{"event_next", event_next, -EINVAL},
	{"nic_list", nic_list, 0},
	{"nic_open", nic_open, -EINVAL},
	{"nic_info", nic_info, -EINVAL},
	{"mem_alloc", mem_alloc, -EINVAL},
	{"mem_adopt", mem_adopt, -EINVAL},
	{"mr_reg", mr_reg, -EINVAL},
	{"mr_reg_mem", mr_reg_mem, -EINVAL},
	{"mr_info", mr_info, -EINVAL},
	{"queues_layout", queues_layout, -EINVAL},
	{"queues_create", queues_create, -EINVAL},
	{"queues_recv_cq", queues_recv_cq, -EINVAL},
	{"queues_addr", queues_addr, -EINVAL},
	{"queues_connect", queues_connect, 0},
	{"queues_query", queues_query, -EINVAL},
	{"dct_create", dct_create, -EINVAL},
	{"dct_addr", dct_addr, -EINVAL},
	{"peers_resolve", peers_resolve, 0},
	{"peers_resolve", peers_resolve_one, -EINVAL},
	{"fetch", fetch, -ENOENT},
	{"admin_status", admin_status, -EINVAL},
	{"admin_queue_head", admin_queue_head, -EINVAL},
	{"admin_queue_read", admin_queue_read, -EINVAL},
	{"gpu_open", gpu_open, -EINVAL},
	{"hot_*", hot, -EINVAL},
	{"gpu_*", gpu, -EINVAL},
};

TEST(an_output_that_is_null_is_left_out_or_refused)
{
	struct lab lab;

	lab_init(&lab);
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int r = calls[i].run(&lab);

		if (r != calls[i].status)
			test_fail(TEST_WHERE, "shmd_%s: %d instead of %d: %s", calls[i].name, r, calls[i].status, shmd_error_text());
	}
	lab_deinit(&lab);
}

/* With an output, and without: what is published is fetched. */
TEST(a_fetch_wants_what_it_has_room_for)
{
	size_t bytes = 8;
	uint8_t data[8];
	struct lab lab;
	int fd = 0;

	lab_init(&lab);
	ASSERT_OK(shmd_publish(lab.side.client, &world, 1, 1, NULL, 0, shmd_mem_fd(lab.side.mem)));
	ASSERT_OK(shmd_fetch(lab.side.client, &world, 1, 1, NULL, NULL, NULL, 0));
	ASSERT_OK(shmd_publish(lab.side.client, &world, 1, 2, "abc", 3, -1));
	ASSERT_ERR(shmd_fetch(lab.side.client, &world, 1, 2, NULL, NULL, NULL, 0), ENOBUFS);
	ASSERT_OK(shmd_fetch(lab.side.client, &world, 1, 2, data, &bytes, &fd, 0));
	ASSERT_EQ(bytes, 3);
	ASSERT_EQ(fd, -1);
	lab_deinit(&lab);
}

/* ---- the tables are complete ------------------------------------------------------------------------------------------------ */

static bool has_row(const char *name)
{
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		size_t n = strcspn(calls[i].name, "*");

		if (calls[i].name[n] ? !strncmp(calls[i].name, name, n) : !strcmp(calls[i].name, name))
			return true;
	}
	return false;
}

static bool has_attr_row(const char *name)
{
	for (unsigned int i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++)
		if (!strcmp(attrs[i].name, name))
			return true;
	return false;
}

static char *read_header(const char *name)
{
	char path[512], *text = calloc(1, 1 << 18);
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", SHMEMCLIENT_HEADERS, name);
	file = fopen(path, "r");
	ASSERT(text && file);
	ASSERT_GT(fread(text, 1, (1 << 18) - 1, file), 0);
	fclose(file);
	return text;
}

/* The name at `at`, which begins with "shmd_". */
static void take_name(const char *at, char name[128])
{
	size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");

	ASSERT_LT(n, 128);
	memcpy(name, at, n);
	name[n] = 0;
}

/* Every declaration with an output, and every attr: how many there are. */
static unsigned int check_header(const char *text)
{
	unsigned int n = 0;
	char name[128];

	for (const char *at = text; (at = strstr(at, "SHMD_EXPORT ")); at++) {
		const char *end = strchr(at, ';'), *out = strstr(at, "ret_"), *function = strstr(at, "shmd_");

		while (function && function[strspn(function, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '(')
			function = strstr(function + 1, "shmd_");
		if (!end || !out || out > end || !function || function > end)
			continue;
		take_name(function + strlen("shmd_"), name);
		if (!has_row(name))
			test_fail(TEST_WHERE, "shmd_%s() has an output, and no row here", name);
		n++;
	}
	for (const char *at = text; (at = strstr(at, "\nstruct shmd_")); at++) {
		take_name(at + strlen("\nstruct shmd_"), name);
		if (!strstr(at, "{") || strcspn(at, "{") > strcspn(at + 1, "\n;") + 1)
			continue;
		if ((strstr(name, "_attr") || strstr(name, "_params")) && !has_attr_row(name))
			test_fail(TEST_WHERE, "struct shmd_%s has no row here", name);
	}
	return n;
}

TEST(every_output_and_every_attr_of_the_headers_has_a_row)
{
	static const char *const headers[] = {"shmemclient.h", "shmemclient-admin.h", "shmemclient-hot.h", "shmemclient-gpu-mem.h"};
	unsigned int n = 0;

	for (unsigned int i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
		char *text = read_header(headers[i]);

		n += check_header(text);
		free(text);
	}
	ASSERT_GE(n, 30);
}

/* ---- health ------------------------------------------------------------------------------------------------------------------ */

static void port_set(const struct lab *lab, const char *nic, bool up)
{
	struct shmd_client *control = lab_control(&lab->daemon);

	ASSERT_OK(shmd_admin_port_set(control, nic, up));
	shmd_client_close(control);
}

static void await_health(struct shmd_client *client, int health)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	while (shmd_client_health(client) != health)
		nanosleep(&pause, NULL);
}

TEST(health_of_a_session_counts_its_nics_and_each_nic_has_its_own)
{
	struct shmd_nic_info infos[2];
	struct shmd_nic *nics[2];
	struct shmd_client *client;
	struct lab lab;

	lab_init(&lab);
	client = lab_client(&lab.daemon);
	ASSERT_ERR(shmd_nic_health(NULL), EINVAL);
	ASSERT_GE(shmd_nic_list(client, infos, 2), 2);
	for (unsigned int i = 0; i < 2; i++) {
		const struct shmd_nic_attr attr = {.nic = infos[i].name};

		ASSERT_OK(shmd_nic_open(client, &attr, &nics[i]));
		ASSERT_EQ(shmd_nic_health(nics[i]), SHMD_HEALTH_OK);
	}
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_OK);
	/* The ports of a ConnectX NIC are not for shmemd to set. */
	if (!is_mlx5()) {
		port_set(&lab, infos[1].name, false);
		await_health(client, SHMD_HEALTH_PORT_DOWN);
		ASSERT_EQ(shmd_nic_health(nics[0]), SHMD_HEALTH_OK);
		ASSERT_EQ(shmd_nic_health(nics[1]), SHMD_HEALTH_PORT_DOWN);
		port_set(&lab, infos[1].name, true);
		await_health(client, SHMD_HEALTH_OK);
		ASSERT_EQ(shmd_nic_health(nics[1]), SHMD_HEALTH_OK);
		/* The session keeps a NIC whose handle was closed. */
		ASSERT_OK(shmd_nic_close(nics[1]));
		port_set(&lab, infos[1].name, false);
		await_health(client, SHMD_HEALTH_PORT_DOWN);
		ASSERT_EQ(shmd_nic_health(nics[0]), SHMD_HEALTH_OK);
	}
	lab_side_close(&lab.side);
	fixture_daemon_stop(&lab.daemon);
	/* Both report the end of the session, whatever the ports do. */
	ASSERT_EQ(shmd_client_health(client), SHMD_HEALTH_SESSION_ENDED);
	ASSERT_EQ(shmd_nic_health(nics[0]), SHMD_HEALTH_SESSION_ENDED);
	shmd_client_close(client);
}
