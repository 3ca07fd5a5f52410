/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHMD_TESTS_UNIT_NIC_CONTRACT_H
#define SHMD_TESTS_UNIT_NIC_CONTRACT_H

/*
 * The contract of nic.h as one set of cases for a table of backends. SHMEMD_TEST_BACKEND names the row; the first one is the
 * default. A case may use only nic.h and what the row says about its backend. Tests of one backend's own promises are in
 * test-soft-*.c and test-mlx5-*.c.
 */

#include "client.h"

struct contract_backend {
	const char *row;
	const char *backend; /* as in struct nic_info */
	void (*open)(struct rig *rig, unsigned int n_nics);
	enum nic_doorbell_mode doorbell; /* the clients' mode */
	enum nic_doorbell_mode best; /* the mode that the backend chooses itself */
	uint32_t kinds[4]; /* of memory, best first, 0-terminated */
	uint64_t rate_mbps;
	bool has_pci; /* each NIC has a PCI address */
	bool has_doorbell_cpu;
	bool serves_unrung; /* whatever wakes the NIC, it looks at all queues, also at those without a doorbell */
	bool flushes_late; /* what a client posts after quiesce ends in flush CQEs, and not in none */
	bool has_sqd; /* a QP can be stopped and resumed */
	bool has_port_set;
};

const struct contract_backend *contract_backend(void);

void contract_open(struct rig *rig, unsigned int n_nics);
/* A context in the row's doorbell mode; one in mode cpu, or the test is skipped; one with memory and n_qps QPs. */
void contract_open_ctx(struct client *c, struct nic *nic, uint64_t session_id);
void contract_open_ctx_cpu(struct client *c, struct nic *nic, uint64_t session_id);
void contract_open_client(struct client *c, struct nic *nic, uint64_t session_id, unsigned int n_qps);
/* Two NICs, and a session with n_qps QPs on each; contract_close_pair ends all of it. */
struct contract_pair {
	struct rig rig;
	struct client a, b;
};
void contract_open_pair(struct contract_pair *pair, unsigned int n_qps);
void contract_close_pair(struct contract_pair *pair);

enum nic_qp_state contract_state(const struct client *c, unsigned int i);
/* A write with a key that no session has, and n_flushed more behind it; returns when the first error CQE is there. */
void contract_fail(struct client *a, unsigned int i, struct client *b, unsigned int n_flushed);
/* The next event of the NIC; it must come. */
void contract_wait_event(struct nic *nic, struct nic_event *ret_event);

#endif
