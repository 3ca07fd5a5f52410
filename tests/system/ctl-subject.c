/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/ctl-subject.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/nsec.h"
#include "tests/lib/test.h"

#define WAIT (10 * NSEC_PER_SEC)

static void fail_on_purpose(struct lab_side *side)
{
	struct shmd_dev_addr nowhere = shmd_dev_addr_of(4096, shmd_mr_rkey_be(side->mr));
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);

	ASSERT_OK(shmd_dev_qp_put(qp, lab_remote(side, 4096), lab_local(side, 0), 8, WAIT));
	ASSERT_EQ(shmd_dev_qp_put(qp, nowhere, lab_local(side, 0), 8, WAIT), SHMD_DEV_CQE_ERROR);
}

/*
 * An RDMA write with inline data and a nop: both written, the first announced in the dbrec. The QP is stopped before where that can be
 * done, since the soft NIC looks into the dbrecs of a QP that a client asks about; others look when they are rung.
 */
static void leave_work_behind(struct lab_side *side)
{
	struct shmd_dev_qp *qp = shmd_queues_dev_qp(side->queues, 0);
	uint64_t secret, index = qp->sq_wqe_pi;
	uint32_t *dbrec = (uint32_t *)(uintptr_t)qp->sq_dbrec_addr;
	int r = shmd_queues_modify(side->queues, 0, SHMD_QP_SQD);

	if (r != -EOPNOTSUPP)
		ASSERT_OK(r);
	memcpy(&secret, SUBJECT_SECRET, 8);
	shmd_dev_prepare_write_value(qp, shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS), lab_remote(side, 8192), secret, 8);
	shmd_dev_prepare_nop(qp, shmd_dev_wqe_at(index + 1, SHMD_WQE_CE_ALWAYS));
	__atomic_store_n(dbrec, htobe32((uint32_t)index + 1), __ATOMIC_RELEASE);
}

static void work(struct lab_side *side)
{
	struct shmd_dev_qp *sender = shmd_queues_dev_qp(side->queues, 0);
	struct shmd_dev_qp *receiver = shmd_queues_dev_qp(side->queues, 1);
	for (int i = 0; i < 3; i++)
		ASSERT_OK(shmd_dev_qp_post_recv(receiver, lab_local(side, 4096), 64));
	for (int i = 0; i < 6; i++)
		ASSERT_OK(shmd_dev_qp_put(sender, lab_remote(side, 8192), lab_local(side, 0), 1024, WAIT));
	ASSERT_OK(shmd_dev_qp_send(sender, lab_local(side, 0), 16));
	ASSERT_OK(shmd_dev_qp_quiet(sender, WAIT));
}

void subject_open(struct subject *subject, const char *socket)
{
	struct shmd_queues_attr busy = {
		.n_qps = 2, .sq_wqebbs = 16, .rq_wqes = 8, .cq_mode = SHMD_CQ_MODE_ORDINARY};
	struct shmd_queues_attr failed = {.n_qps = 2, .sq_wqebbs = 16};
	const struct shmd_pe_run runs[] = {{.path = SHMD_PE_PATH_MAPPED},
					   {.first = 2, .last = 2, .path = SHMD_PE_PATH_RC, .nic = "soft0", .reason = "another user"}};
	const struct shmd_pe_report report = {.world = 29, .pe = 1, .n_pes = 3, .heap_bytes = 4096, .n_mapped = 1, .n_rc = 1,
					      .reason = "another user", .runs = runs, .n_runs = 2,
					      .gpu = {.gpu = "0000:17:00.0", .heap_bytes = 8192, .used_bytes = 4096, .n_chunks = 2,
						      .n_mapped = 1, .mem_kind = SHMD_MEM_AGENT, .bytes_put = 7}};
	struct fixture_daemon daemon = {0};

	snprintf(daemon.socket, sizeof(daemon.socket), "%s", socket);
	lab_side_open(&subject->failed, &daemon, &failed);
	lab_connect(&subject->failed, 0, &subject->failed, 1);
	fail_on_purpose(&subject->failed);
	lab_side_open(&subject->busy, &daemon, &busy);
	lab_connect(&subject->busy, 0, &subject->busy, 1);
	work(&subject->busy);
	leave_work_behind(&subject->busy);
	ASSERT_OK(shmd_pe_report(subject->busy.client, &report));
}

void subject_close(struct subject *subject)
{
	lab_side_close(&subject->busy);
	lab_side_close(&subject->failed);
}

uint32_t subject_qpn(const struct lab_side *side, unsigned int i)
{
	return shmd_queues_dev_qp(side->queues, i)->qpn;
}
