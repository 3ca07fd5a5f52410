/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a context: its objects as bytes for another process. This is the part that all backends share.
 *
 * Little-endian, without gaps: magic, version, length of all; the backend's fields, with the number of regions, the regions, the
 * number of batches and the batches last; a check sum over everything before it. Records
 * come from a daemon's own memory and are read as if they did not: what is taken is complete and in its ranges, and its parts fit
 * each other. Whether the objects are there only their NIC can say.
 *
 * Pure; any thread.
 */
#ifndef SHMEMD_NIC_RECORD_H
#define SHMEMD_NIC_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/nic/nic.h"
#include "proto/base/coder.h"

/* One backend's record. */
struct nic_record_form {
	uint32_t magic;
	uint32_t version;
	/* One walk of all fields; stores nothing but when reading. */
	void (*code)(struct coder *c, void *record);
	/* Checks a record that was read: whether its parts fit each other. -EINVAL, -ENOMEM. */
	int (*check)(const void *record);
	/* Also of one that was read in part; zeros are left. */
	void (*deinit)(void *record);
};

/* *ret_data is to be freed. -EINVAL a field out of its range, -ENOSPC more than NIC_RECORD_MAX_BYTES, -ENOMEM. */
int nic_record_encode(const struct nic_record_form *form, const void *record, void **ret_data, size_t *ret_bytes);
/* Fields of one part of a record alone, without head and sum, for nic_record_join(). Errors as above. */
int nic_record_encode_part(void (*code)(struct coder *c, void *part), const void *part, void **ret_data, size_t *ret_bytes);
/* Into a record of zeros, which a failure leaves. -EINVAL it is none, -EPROTONOSUPPORT of another version, -ENOMEM. */
int nic_record_decode(const struct nic_record_form *form, const void *data, size_t bytes, void *record);

/* ---- parts of a walk --------------------------------------------------------------------------------------------------- */

/* Least bytes of each, so that no count makes more memory than the record has bytes for. */
#define NIC_RECORD_LAYOUT_BYTES 24u
#define NIC_RECORD_CQ_BYTES 28u
#define NIC_RECORD_QP_BYTES 72u

/* When reading: room for n elements that coder_count() let pass. *ret_array is a pointer to them. */
void nic_record_room(struct coder *c, uint32_t n, size_t bytes_each, void *ret_array);

/*
 * Where a batch lies in its memory, and how many CQs and QPs it has, each of so many bytes or more. Their arrays are there
 * then, with nothing in them when they are read.
 */
void nic_record_code_layout(struct coder *c, uint64_t *mem_offset, struct nic_layout *layout, size_t cq_bytes,
			    size_t qp_bytes);
void nic_record_code_cq(struct coder *c, struct nic_cq *cq, uint64_t total_bytes);
/* And of its address the first PSN and the key: the rest is the NIC's, or the backend's to add. */
void nic_record_code_qp(struct coder *c, struct nic_qp *qp, uint64_t total_bytes);

#endif
