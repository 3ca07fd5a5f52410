/* SPDX-License-Identifier: Apache-2.0 */
/* Every device function that waits, as one call that test-health-table can make in a thread. */
#include <shmd/abi/doorbell.h>

#include "tests/system/health-lab.h"

#define N_BYTES 8

static struct shmd_dev_signal signal_at(const struct health_call *call)
{
	return shmd_dev_signal_of(call->remote, SHMD_DEV_SIGNAL_SET, 1);
}

/* ---- waits for completion */

static int put(struct health_call *call)
{
	return shmd_dev_qp_put_as(call->qp, call->remote, call->local, N_BYTES, call->mode);
}

static int get(struct health_call *call)
{
	return shmd_dev_qp_get_as(call->qp, call->remote, call->local, N_BYTES, call->mode);
}

static int g(struct health_call *call)
{
	uint64_t value;

	return shmd_dev_qp_g_as(call->qp, call->remote, N_BYTES, call->mode, &value);
}

static int put_signal(struct health_call *call)
{
	return shmd_dev_qp_put_signal_as(call->qp, call->remote, call->local, N_BYTES, signal_at(call), call->mode);
}

static int atomic_fetch(struct health_call *call)
{
	uint64_t old;

	return shmd_dev_qp_atomic_fetch_as(call->qp, call->remote, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), call->mode,
					   &old);
}

static int quiet(struct health_call *call)
{
	return shmd_dev_qp_quiet_as(call->qp, call->mode);
}

/* As if the QP were that of a hot peer as well. */
static int ways_quiet(struct health_call *call)
{
	const uint64_t hot[] = {(uintptr_t)call->qp};
	const struct shmd_dev_state state = {.hot_qps_addr = (uintptr_t)hot, .n_hot_qps = 1};

	return shmd_dev_ways_quiet_as(&state, call->qp, call->mode);
}

static int wait_index(struct health_call *call)
{
	return shmd_dev_qp_wait(call->qp, 1, call->mode.timeout_nsec);
}

/* ---- waits for memory that a peer writes */

static int wait_until64(struct health_call *call)
{
	return shmd_dev_qp_wait_until64_as(call->qp, call->word, SHMD_DEV_CMP_EQ, 1, call->mode);
}

static int wait_until32(struct health_call *call)
{
	return shmd_dev_qp_wait_until32_as(call->qp, (const uint32_t *)call->word, SHMD_DEV_CMP_EQ, 1, call->mode);
}

/* ---- posts, which wait for room */

static int p(struct health_call *call)
{
	return shmd_dev_qp_p_as(call->qp, call->remote, 1, N_BYTES, call->mode);
}

static int put_nbi(struct health_call *call)
{
	return shmd_dev_qp_put_nbi_as(call->qp, call->remote, call->local, N_BYTES, call->mode);
}

static int get_nbi(struct health_call *call)
{
	return shmd_dev_qp_get_nbi_as(call->qp, call->remote, call->local, N_BYTES, call->mode);
}

static int put_signal_nbi(struct health_call *call)
{
	return shmd_dev_qp_put_signal_nbi_as(call->qp, call->remote, call->local, N_BYTES, signal_at(call), call->mode);
}

static int send_signal(struct health_call *call)
{
	return shmd_dev_qp_signal_as(call->qp, signal_at(call), call->mode);
}

static int atomic(struct health_call *call)
{
	return shmd_dev_qp_atomic_as(call->qp, call->remote, shmd_dev_amo_of(SHMD_DEV_AMO_ADD, 8, 1), call->mode);
}

static int send_bytes(struct health_call *call)
{
	return shmd_dev_qp_send(call->qp, call->local, N_BYTES);
}

static int send_imm(struct health_call *call)
{
	return shmd_dev_qp_send_imm(call->qp, call->local, N_BYTES, 7);
}

/* A reserved entry is made ready behind one that is not. */
static int ready(struct health_call *call)
{
	uint64_t index = 0;
	int rc = shmd_dev_qp_reserve(call->qp, 1, &index);

	if (rc)
		return rc;
	shmd_dev_prepare_nop(call->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	return shmd_dev_qp_ready(call->qp, index, 1);
}

static int publish(struct health_call *call)
{
	uint64_t index = 0;
	int rc = shmd_dev_qp_reserve(call->qp, 1, &index);

	if (rc)
		return rc;
	shmd_dev_prepare_nop(call->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	return shmd_dev_qp_publish_as(call->qp, index, 1, call->mode);
}

static int submit(struct health_call *call)
{
	uint64_t index = 0;
	int rc = shmd_dev_qp_reserve(call->qp, 1, &index);

	if (rc)
		return rc;
	shmd_dev_prepare_nop(call->qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS));
	rc = shmd_dev_qp_ready(call->qp, index, 1);
	return rc ? rc : shmd_dev_qp_submit(call->qp, index + 1, 0);
}

static int reserve(struct health_call *call)
{
	uint64_t index;

	return shmd_dev_qp_reserve(call->qp, 1, &index);
}

const struct health_wait health_waits[] = {
	{"put", HEALTH_IN_FLIGHT, put, false, false},
	{"get", HEALTH_IN_FLIGHT, get, false, false},
	{"g", HEALTH_IN_FLIGHT, g, false, false},
	{"put_signal", HEALTH_IN_FLIGHT, put_signal, false, false},
	{"atomic_fetch", HEALTH_IN_FLIGHT, atomic_fetch, false, false},
	{"quiet", HEALTH_IN_FLIGHT, quiet, false, false},
	{"ways_quiet", HEALTH_IN_FLIGHT, ways_quiet, false, false},
	{"wait", HEALTH_IN_FLIGHT, wait_index, true, false},
	{"wait_until64, request under way", HEALTH_IN_FLIGHT, wait_until64, false, false},
	{"wait_until32, request under way", HEALTH_IN_FLIGHT, wait_until32, false, false},
	{"wait_until64, nothing posted", HEALTH_IDLE, wait_until64, false, false},
	{"wait_until32, nothing posted", HEALTH_IDLE, wait_until32, false, false},
	{"p, ring full", HEALTH_FULL, p, false, false},
	{"put_nbi, ring full", HEALTH_FULL, put_nbi, false, false},
	{"get_nbi, ring full", HEALTH_FULL, get_nbi, false, false},
	{"put_signal_nbi, ring full", HEALTH_FULL, put_signal_nbi, false, false},
	{"signal, ring full", HEALTH_FULL, send_signal, false, false},
	{"atomic, ring full", HEALTH_FULL, atomic, false, false},
	{"send, ring full", HEALTH_FULL, send_bytes, true, false},
	{"send_imm, ring full", HEALTH_FULL, send_imm, true, false},
	{"reserve, ring full", HEALTH_FULL, reserve, true, false},
	{"p, behind a caller that is not ready", HEALTH_TURN, p, false, true},
	{"ready, behind a caller that is not", HEALTH_TURN, ready, true, true},
	{"publish, behind a caller that is not", HEALTH_TURN, publish, false, true},
	{"p, another caller rings", HEALTH_LOCK, p, false, true},
	{"submit, another caller rings", HEALTH_LOCK, submit, true, true},
	{"g, result slot unread", HEALTH_SLOT, g, false, true},
};
const unsigned int n_health_waits = sizeof(health_waits) / sizeof(health_waits[0]);

const char *health_scope_name(const struct health_call *call)
{
	static const char *const names[] = {
		[SHMD_DEV_THREAD] = "thread", [SHMD_DEV_WARP] = "warp", [SHMD_DEV_BLOCK] = "block"};

	return names[call->mode.scope];
}

const char *health_sentence(const struct health_call *call)
{
	uint32_t index;

	if (call->status == SHMD_DEV_CQE_ERROR)
		return shmd_syndrome_text(shmd_dev_qp_error(call->qp, &index));
	if (call->status == SHMD_DEV_HEALTH)
		return shmd_health_text((int)*(const volatile uint32_t *)(uintptr_t)call->qp->health_addr);
	return shmd_dev_status_text(call->status);
}
