/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A NIC that does nothing but keep count: what exists, in which order things were done, and a call that fails on
 * demand. For tests of the session room, which must not depend on a backend. Operations may be called by several threads.
 */
#ifndef SHMD_TESTS_FAKE_NIC_H
#define SHMD_TESTS_FAKE_NIC_H

#include <pthread.h>

#include "daemon/nic/nic.h"

#define FAKE_LOG_BYTES 4096

#define FAKE_NO_REGION UINT32_MAX /* a handle of a region that a client did not make */

struct fake_nic {
	struct nic base;
	pthread_mutex_t lock; /* of the counts, the last number and the log */
	struct nic_info info;
	unsigned int n_ctxs, n_mrs, n_queues; /* alive */
	unsigned int n_calls; /* operations that may fail, so far */
	unsigned int n_exports; /* of regions and batches, so far */
	unsigned int fail_at; /* this call fails (from 1), with fail_err; 0: none */
	int fail_err;
	uint32_t last_number; /* of QPs and CQs */
	char log[FAKE_LOG_BYTES]; /* names of operations, space separated */
	struct nic_event event; /* returned once when has_event */
	bool has_event;
	enum nic_port_state port_set; /* what port_set was called with last */
	bool has_uar; /* and takes it for the better mode */
	bool never_flushes; /* quiesce takes all the time it is given */
	unsigned int n_queries; /* of the NIC itself */
	uint64_t query_nsec; /* that a query of a QP takes */
	bool saves; /* contexts can go on in another process */
	unsigned int n_resumes;
	struct nic_qp_params params; /* of the last connect */
	uint64_t wqes; /* counted; each context has 7 in any case */
	uint64_t quiesce_nsec; /* given to all quiesce calls together */
};

void fake_nic_init(struct fake_nic *fake, const char *name);

#endif
