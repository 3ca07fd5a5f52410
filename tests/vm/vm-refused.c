/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client for the cases of the VM lab: puts with a key that does not exist, from one of two queues to the other. Says the syndrome of
 * its error, and how many error CQEs both of them have when two other queues have done what they should.
 */
#include <inttypes.h>
#include <stdio.h>

#include <shmd/abi/cqe.h>

#include "vm-client.h"

#define N_QPS 2u

static const struct shmd_queues_attr two_qps = {.n_qps = N_QPS, .cq_mode = SHMD_CQ_MODE_ORDINARY};
static const unsigned int each_other[N_QPS] = {1, 0};

/* Nothing polls these rings any more. */
static unsigned int error_cqes(struct shmd_queues *queues)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < N_QPS; i++) {
		const struct shmd_dev_qp *qp = shmd_queues_dev_qp(queues, i);
		const struct shmd_cqe *cqes = (const struct shmd_cqe *)(uintptr_t)qp->cq_addr;

		for (uint32_t k = 0; k < qp->cq_entries; k++) {
			unsigned int opcode = cqes[k].op_own >> 4;

			n += opcode == SHMD_CQE_REQ_ERR || opcode == SHMD_CQE_RESP_ERR;
		}
	}
	return n;
}

int main(void)
{
	struct shmd_queues *queues;
	struct shmd_dev_qp *qp;
	uint32_t wqe_index;
	struct vm_client c;
	int status;

	vm_client_open(&c, NULL);
	queues = vm_client_queues(&c, &two_qps, each_other);
	qp = shmd_queues_dev_qp(queues, 0);
	status = vm_client_put(&c, qp, 1, ~shmd_mr_rkey_be(c.mr));
	printf("put: %s, 0x%02" PRIx32 "\n", shmd_dev_status_text(status), shmd_dev_qp_error(qp, &wqe_index));
	vm_client_check(&c, shmd_queues_dev_qp(vm_client_queues(&c, &two_qps, each_other), 0));
	printf("error CQEs: %u; session %" PRIu64 " goes on\n", error_cqes(queues), shmd_client_session(c.client));
	shmd_client_close(c.client);
	return 0;
}
