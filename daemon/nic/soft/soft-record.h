/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a soft context, as bytes for another process: identities of NICs, regions, batches. State that changes without a
 * request (indexes, QP states, connections) is in the context's ledger instead.
 *
 * In the form of nic-record.h.
 */
#ifndef SHMEMD_NIC_SOFT_RECORD_H
#define SHMEMD_NIC_SOFT_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/nic.h"

#define SOFT_RECORD_VERSION 2u
#define SOFT_RECORD_PORTS 64u
#define SOFT_RECORD_MAX_PDN 0x7fffffffu /* far from where they begin anew */

struct soft_record_mr {
	uint32_t key;
	uint32_t access;
	uint64_t iova;
	uint64_t offset; /* in its memfd */
	uint64_t length_bytes;
};

struct soft_record_batch {
	uint64_t mem_offset;
	struct nic_layout layout; /* owned */
};

struct soft_record {
	uint32_t n_ports; /* all NICs of that daemon */
	uint32_t nic; /* which of them */
	uint8_t gids[SOFT_RECORD_PORTS][16];
	uint32_t pdn;
	struct nic_counters past; /* of queues that are gone */
	uint32_t n_mrs;
	struct soft_record_mr *mrs; /* owned */
	uint32_t n_batches;
	struct soft_record_batch *batches; /* owned */
};

/* Errors are those of nic-record.h. */
int soft_record_export_mr(uint32_t key, const struct nic_mr_attr *attr, void **ret_data, size_t *ret_bytes); /* a part */
int soft_record_export_batch(uint64_t mem_offset, const struct nic_layout *layout, void **ret_data, size_t *ret_bytes);
int soft_record_encode(const struct soft_record *record, void **ret_data, size_t *ret_bytes);
int soft_record_decode(const void *data, size_t bytes, struct soft_record *ret_record);
void soft_record_deinit(void *record);

#endif
