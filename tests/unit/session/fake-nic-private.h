/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that fake-nic.c makes and fake-save.c makes again. */
#ifndef SHMD_TESTS_FAKE_NIC_PRIVATE_H
#define SHMD_TESTS_FAKE_NIC_PRIVATE_H

#include "tests/unit/session/fake-nic.h"

struct fake_qp {
	struct list link;
	uint32_t qpn;
	enum nic_qp_state state;
	struct nic_addr remote;
};

struct fake_queues {
	struct nic_queues base;
	struct list link; /* fake_ctx.queues, oldest first */
	int fd; /* queue memory */
	uint64_t offset;
};

struct fake_mr {
	struct nic_mr base;
	struct list link; /* fake_ctx.mrs, oldest first */
};

struct fake_ctx {
	struct nic_ctx base;
	bool is_saved;
	struct list qps; /* struct fake_qp */
	struct list mrs; /* struct fake_mr, oldest first */
	struct list queues;
};

static inline struct fake_nic *fake_of(struct nic *nic)
{
	return container_of(nic, struct fake_nic, base);
}

/* fake-save.c */
int fake_ctx_export(struct nic_ctx *ctx, void **ret_part, size_t *ret_bytes);
int fake_mr_export(const struct nic_mr *mr, void **ret_part, size_t *ret_bytes);
int fake_queues_export(const struct nic_queues *queues, void **ret_part, size_t *ret_bytes);
int fake_ctx_saved_fds(struct nic_ctx *ctx, struct nic_saved_fds *ret_saved);
int fake_ctx_import(struct nic *nic, const struct nic_import_attr *attr, struct nic_imported *ret_imported);
struct nic_ctx *fake_ctx_unimport(struct nic_ctx *ctx);
void fake_resume(struct nic *nic);

#endif
