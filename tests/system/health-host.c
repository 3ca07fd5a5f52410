/* SPDX-License-Identifier: Apache-2.0 */
/* Every function of the client library that waits, as one call that test-health-table can make in a thread. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <shmemclient-admin.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"
#include "tests/system/health-lab.h"

static int event_next(struct health_host_call *call)
{
	struct shmd_event event;
	int r = shmd_event_next(call->side.client, call->limit, &event);

	if (r == 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", event.text);
	return r;
}

static int poll_and_event_next(struct health_host_call *call)
{
	struct pollfd pfd = {.fd = shmd_client_fd(call->side.client), .events = POLLIN};
	struct shmd_event event;
	int r;

	poll(&pfd, 1, (int)(call->limit / NSEC_PER_MSEC));
	r = shmd_event_next(call->side.client, 0, &event);
	if (r == 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", event.text);
	return r;
}

static int on_event(void *arg, const struct shmd_admin_event *event)
{
	struct health_host_call *call = arg;

	if (!call->expects_event || !strstr(event->text, call->expected))
		return 0;
	snprintf(call->sentence, sizeof(call->sentence), "%s", event->text);
	return 1;
}

static int admin_monitor(struct health_host_call *call)
{
	return shmd_admin_monitor(call->side.client, on_event, call);
}

static int counters(struct health_host_call *call)
{
	struct shmd_counters out;

	return shmd_client_counters(call->side.client, &out);
}

static int nic_list(struct health_host_call *call)
{
	int r = shmd_nic_list(call->side.client, NULL, 0);

	return r < 0 ? r : 0;
}

/* The session has the only NIC already. */
static int nic_open(struct health_host_call *call)
{
	const struct shmd_nic_attr attr = {.nic = "soft0"};
	struct shmd_nic *nic;
	int r = shmd_nic_open(call->side.client, &attr, &nic);

	return r == -EEXIST ? 0 : r;
}

static int mr_reg_mem(struct health_host_call *call)
{
	struct shmd_mr *mr;
	int r = shmd_mr_reg_mem(call->side.nic, call->side.mem, SHMD_ACCESS_ALL, &mr);

	return r < 0 ? r : shmd_mr_dereg(mr);
}

static int mr_reg(struct health_host_call *call)
{
	const struct shmd_mr_attr attr = {
		.kind = SHMD_MEM_MEMFD,
		.fd = shmd_mem_fd(call->side.mem),
		.length_bytes = LAB_MEM_BYTES,
		.access = SHMD_ACCESS_ALL,
	};
	struct shmd_mr *mr;
	int r = shmd_mr_reg(call->side.nic, &attr, &mr);

	return r < 0 ? r : shmd_mr_dereg(mr);
}

static int mr_dereg(struct health_host_call *call)
{
	int r = shmd_mr_dereg(call->side.mr);

	return r < 0 ? r : shmd_mr_reg_mem(call->side.nic, call->side.mem, SHMD_ACCESS_ALL, &call->side.mr);
}

/* In host memory, as on a NIC that reaches no GPU. */
static int gpu_mem_alloc(struct health_host_call *call)
{
	const struct shmd_gpu_mem_attr attr = {.bytes = 4096, .access = SHMD_ACCESS_ALL, .mode = SHMD_GPU_MEM_HOST};
	struct shmd_gpu_mem *mem;
	struct shmd_gpu *gpu;
	int r = shmd_gpu_open(call->side.client, 0, &gpu);

	if (r < 0)
		return r;
	r = shmd_gpu_mem_alloc(gpu, call->side.nic, &attr, &mem);
	if (!r)
		r = shmd_gpu_mem_free(mem);
	(void)shmd_gpu_close(gpu);
	return r;
}

static int queues_layout(struct health_host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	uint64_t bytes;

	return shmd_queues_layout(call->side.nic, &attr, &bytes);
}

static int queues_create(struct health_host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	struct shmd_queues *queues;
	int r = shmd_queues_create(call->side.nic, &attr, &queues);

	return r < 0 ? r : shmd_queues_destroy(queues);
}

static int queues_destroy(struct health_host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1};
	int r = shmd_queues_destroy(call->side.queues);

	return r < 0 ? r : shmd_queues_create(call->side.nic, &attr, &call->side.queues);
}

static int queues_connect(struct health_host_call *call)
{
	struct shmd_addr addr;
	int r = shmd_queues_addr(call->side.queues, 0, &addr);

	r = r < 0 ? r : shmd_queues_connect(call->side.queues, 0, 1, &addr, NULL, NULL);
	return r < 0 ? r : shmd_queues_modify(call->side.queues, 0, SHMD_QP_RST);
}

static int queues_modify(struct health_host_call *call)
{
	return shmd_queues_modify(call->side.queues, 0, SHMD_QP_RST);
}

static int queues_query(struct health_host_call *call)
{
	struct shmd_qp_info info;

	return shmd_queues_query(call->side.queues, 0, &info);
}

static int dct_create(struct health_host_call *call)
{
	struct shmd_dct *dct;
	int r = shmd_dct_create(call->side.nic, 0, &dct);

	return r < 0 ? r : shmd_dct_destroy(dct);
}

static int dct_destroy(struct health_host_call *call)
{
	int r = shmd_dct_destroy(call->dct);

	return r < 0 ? r : shmd_dct_create(call->side.nic, 0, &call->dct);
}

static int peers_resolve(struct health_host_call *call)
{
	struct shmd_dev_peer peer;
	struct shmd_addr addr;
	int r = shmd_dct_addr(call->dct, &addr);

	return r < 0 ? r : shmd_peers_resolve(call->side.nic, 1, &addr, 0, &peer, NULL);
}

static const struct shmd_world_key world = {{7}};

static int publish(struct health_host_call *call)
{
	int r = shmd_publish(call->side.client, &world, 1, 0, NULL, 0, -1);

	return r < 0 ? r : shmd_unpublish(call->side.client, &world, 1, 0);
}

static int unpublish(struct health_host_call *call)
{
	int r = shmd_unpublish(call->side.client, &world, 2, 0);

	return r == -ENOENT ? 0 : r;
}

static int fetch(struct health_host_call *call)
{
	return shmd_fetch(call->side.client, &world, 3, 0, NULL, NULL, NULL, call->limit);
}

static int pe_report(struct health_host_call *call)
{
	const struct shmd_pe_report report = {.world = 1, .n_pes = 1};

	return shmd_pe_report(call->side.client, &report);
}

static int pe_retract(struct health_host_call *call)
{
	int r = shmd_pe_retract(call->side.client, 2, 0);

	return r == -ENOENT ? 0 : r;
}

/* The QP is its own other end. */
static int pair_connect(struct health_host_call *call)
{
	const struct shmd_pair_attr attr = {.world = world, .pe = 4};
	struct shmd_pair pair = {.pe = 4};
	int r = shmd_pair_connect(call->side.queues, &attr, &pair, 1);

	return r < 0 ? r : shmd_queues_modify(call->side.queues, 0, SHMD_QP_RST);
}

static int admin_status(struct health_host_call *call)
{
	struct shmd_daemon_status status;

	return shmd_admin_status(call->side.client, &status);
}

static int on_session(void *arg, const struct shmd_session_item *item)
{
	return 0;
}

static int admin_sessions(struct health_host_call *call)
{
	return shmd_admin_sessions(call->side.client, on_session, NULL);
}

static int on_qp(void *arg, const struct shmd_qp_item *item)
{
	return 0;
}

static int admin_qps(struct health_host_call *call)
{
	return shmd_admin_qps(call->side.client, on_qp, NULL);
}

static int on_mr(void *arg, const struct shmd_mr_item *item)
{
	return 0;
}

static int admin_mrs(struct health_host_call *call)
{
	return shmd_admin_mrs(call->side.client, on_mr, NULL);
}

static int on_pe(void *arg, const struct shmd_pe_item *item)
{
	return 0;
}

static int admin_pes(struct health_host_call *call)
{
	return shmd_admin_pes(call->side.client, on_pe, NULL);
}

static int on_path(void *arg, const struct shmd_path_item *item)
{
	return 0;
}

static int admin_paths(struct health_host_call *call)
{
	return shmd_admin_paths(call->side.client, on_path, NULL);
}

static int on_nic(void *arg, const struct shmd_nic_item *item)
{
	return 0;
}

static int admin_nics(struct health_host_call *call)
{
	return shmd_admin_nics(call->side.client, on_nic, NULL);
}

static int on_undriven(void *arg, const struct shmd_undriven_nic *nic)
{
	return 0;
}

static int admin_undriven(struct health_host_call *call)
{
	return shmd_admin_undriven(call->side.client, on_undriven, NULL);
}

/* Not allowed to a client of this role, which the daemon must say first. */
static int allowed(int r)
{
	return r == -EPERM ? 0 : r;
}

static int admin_kill(struct health_host_call *call)
{
	return allowed(shmd_admin_kill(call->side.client, 1));
}

static int admin_drain(struct health_host_call *call)
{
	return allowed(shmd_admin_drain(call->side.client, false, 0));
}

static int admin_port_set(struct health_host_call *call)
{
	return allowed(shmd_admin_port_set(call->side.client, "soft0", true));
}

static int admin_queue_head(struct health_host_call *call)
{
	struct shmd_queue_head head;

	return allowed(shmd_admin_queue_head(call->side.client, "soft0", 2, &head));
}

static int admin_queue_read(struct health_host_call *call)
{
	uint8_t entry[64];

	return allowed(shmd_admin_queue_read(call->side.client, "soft0", 2, SHMD_PART_SQ, 0, 1, entry));
}

static int client_open(struct health_host_call *call)
{
	const struct shmd_client_attr attr = {.socket_path = call->daemon->socket, .timeout_nsec = call->request_limit};
	struct shmd_client *client;
	int r = shmd_client_open(&attr, &client);

	if (r == 0)
		shmd_client_close(client);
	return r;
}

/* ---- hot peers: one peer, whose QP is its own other end */

void health_host_open_hot(struct health_host_call *call)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .qp_type = SHMD_QP_TYPE_DCI};
	struct shmd_dev_peer peer;
	struct shmd_addr addr;

	ASSERT_OK(shmd_queues_create(call->side.nic, &attr, &call->dci));
	ASSERT_OK(shmd_dct_addr(call->dct, &addr));
	ASSERT_OK(shmd_peers_resolve(call->side.nic, 1, &addr, 0, &peer, NULL));
	ASSERT_OK(shmd_queues_set_peers(call->dci, 1, &peer));
	ASSERT_OK(shmd_hot_open(call->dci, NULL, &call->hot));
}

static int hot_offer(struct health_host_call *call)
{
	struct shmd_addr addr;
	int r = shmd_hot_offer(call->hot, 0, &addr);

	return r < 0 ? r : shmd_hot_retire(call->hot, 0);
}

static int hot_accept(struct health_host_call *call)
{
	struct shmd_addr addr;
	int r = shmd_hot_offer(call->hot, 0, &addr);

	r = r < 0 ? r : shmd_hot_accept(call->hot, 0, &addr, NULL);
	return r < 0 ? r : shmd_hot_retire(call->hot, 0);
}

/* The table is empty then, and nothing of it is in use. */
static int queues_set_peers(struct health_host_call *call)
{
	int r = call->hot ? shmd_hot_close(call->hot) : 0;

	call->hot = NULL;
	return r < 0 ? r : shmd_queues_set_peers(call->dci, 0, NULL);
}

static int hot_close(struct health_host_call *call)
{
	struct shmd_addr addr;
	int r = shmd_hot_offer(call->hot, 0, &addr);

	r = r < 0 ? r : shmd_hot_close(call->hot);
	return r < 0 ? r : shmd_hot_open(call->dci, NULL, &call->hot);
}

const struct health_host_wait health_host_waits[] = {
	{"shmd_event_next", HEALTH_EVENT, event_next},
	{"poll of shmd_client_fd", HEALTH_EVENT, poll_and_event_next},
	{"shmd_admin_monitor", HEALTH_MONITOR, admin_monitor},
	{"shmd_client_counters", HEALTH_REQUEST, counters},
	{"shmd_nic_list", HEALTH_REQUEST, nic_list},
	{"shmd_nic_open", HEALTH_REQUEST, nic_open},
	{"shmd_mr_reg", HEALTH_REQUEST, mr_reg},
	{"shmd_mr_reg_mem", HEALTH_REQUEST, mr_reg_mem},
	{"shmd_mr_dereg", HEALTH_REQUEST, mr_dereg},
	{"shmd_gpu_mem_alloc", HEALTH_REQUEST, gpu_mem_alloc},
	{"shmd_queues_layout", HEALTH_REQUEST, queues_layout},
	{"shmd_queues_create", HEALTH_REQUEST, queues_create},
	{"shmd_queues_destroy", HEALTH_REQUEST, queues_destroy},
	{"shmd_queues_connect", HEALTH_REQUEST, queues_connect},
	{"shmd_queues_modify", HEALTH_REQUEST, queues_modify},
	{"shmd_queues_query", HEALTH_REQUEST, queues_query},
	{"shmd_dct_create", HEALTH_REQUEST, dct_create},
	{"shmd_dct_destroy", HEALTH_REQUEST, dct_destroy},
	{"shmd_peers_resolve", HEALTH_REQUEST, peers_resolve},
	{"shmd_queues_set_peers", HEALTH_REQUEST, queues_set_peers},
	{"shmd_hot_offer", HEALTH_REQUEST, hot_offer},
	{"shmd_hot_accept", HEALTH_REQUEST, hot_accept},
	{"shmd_hot_retire", HEALTH_REQUEST, hot_offer},
	{"shmd_hot_close", HEALTH_REQUEST, hot_close},
	{"shmd_publish", HEALTH_REQUEST, publish},
	{"shmd_unpublish", HEALTH_REQUEST, unpublish},
	{"shmd_pe_report", HEALTH_REQUEST, pe_report},
	{"shmd_pe_retract", HEALTH_REQUEST, pe_retract},
	{"shmd_pair_connect", HEALTH_REQUEST, pair_connect},
	{"shmd_admin_status", HEALTH_REQUEST, admin_status},
	{"shmd_admin_sessions", HEALTH_REQUEST, admin_sessions},
	{"shmd_admin_qps", HEALTH_REQUEST, admin_qps},
	{"shmd_admin_mrs", HEALTH_REQUEST, admin_mrs},
	{"shmd_admin_pes", HEALTH_REQUEST, admin_pes},
	{"shmd_admin_paths", HEALTH_REQUEST, admin_paths},
	{"shmd_admin_nics", HEALTH_REQUEST, admin_nics},
	{"shmd_admin_undriven", HEALTH_REQUEST, admin_undriven},
	{"shmd_admin_kill", HEALTH_REQUEST, admin_kill},
	{"shmd_admin_drain", HEALTH_REQUEST, admin_drain},
	{"shmd_admin_port_set", HEALTH_REQUEST, admin_port_set},
	{"shmd_admin_queue_head", HEALTH_REQUEST, admin_queue_head},
	{"shmd_admin_queue_read", HEALTH_REQUEST, admin_queue_read},
	{"shmd_fetch", HEALTH_FETCH, fetch},
	{"shmd_client_open", HEALTH_OPEN, client_open},
};
const unsigned int n_health_host_waits = sizeof(health_host_waits) / sizeof(health_host_waits[0]);

/* Requests do not wait while the daemon answers: they are made again and again, until one fails or the time is up. */
void *health_host_main(void *arg)
{
	const struct timespec pause = {.tv_nsec = 5000000};
	struct health_host_call *call = arg;
	uint64_t begin = nsec_now();

	do {
		call->status = call->wait->run(call);
		call->nsec = nsec_now() - begin;
		if (call->status == 0)
			nanosleep(&pause, NULL);
	} while (call->status == 0 && call->wait->kind != HEALTH_EVENT && call->nsec < call->limit);
	if (call->status < 0)
		snprintf(call->sentence, sizeof(call->sentence), "%s", shmd_error_text());
	return NULL;
}
