/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a backend that offers nothing. */
#include <errno.h>
#include <string.h>

#include "daemon/nic/nic.h"
#include "tests/lib/test.h"

TEST(default_ops_has_no_empty_slot)
{
	void (*slots[sizeof(struct nic_ops) / sizeof(void (*)(void))])(void);

	memcpy(slots, &nic_ops_default, sizeof(slots));
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++)
		ASSERT(slots[i]);
}

TEST(default_ops_offer_nothing)
{
	const struct nic_ops *ops = &nic_ops_default;
	struct nic nic = {.ops = ops};
	struct nic_event event;
	struct nic_info info;
	unsigned int n_done;

	ASSERT_ERR(nic_query(&nic, &info), EOPNOTSUPP);
	ASSERT_ERR(ops->next_event(&nic, &event), EAGAIN);
	ASSERT_ERR(ops->ctx_open(&nic, NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->mr_reg(NULL, NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->queues_create(NULL, NULL, NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->queues_destroy(NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->connect(NULL, 0, NULL, NULL, &n_done), EOPNOTSUPP);
	ASSERT_ERR(ops->qp_modify(NULL, 2, NIC_QPS_ERR), EOPNOTSUPP);
	ASSERT_ERR(ops->qp_query(NULL, 2, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->counters(&nic, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->port_set(&nic, NIC_PORT_DOWN), EOPNOTSUPP);
	ASSERT_ERR(ops->queues_read(NULL, 0, NULL, 0), EOPNOTSUPP);
	ASSERT_ERR(ops->ctx_counters(NULL, NULL), EOPNOTSUPP);
	ASSERT(!ops->close(&nic) && !ops->ctx_close(NULL) && !ops->mr_dereg(NULL));
	ops->ctx_quiesce(NULL, 0);
	ops->ctx_look(NULL);
	ASSERT_ERR(ops->ctx_to_cpu(NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->ctx_export(NULL, NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->ctx_import(&nic, NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->ctx_keep(NULL, NULL), EOPNOTSUPP);
	ASSERT(!ops->ctx_unimport(NULL));
	ops->resume(&nic);
	ASSERT_ERR(ops->warm_set(&nic, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->warm_query(&nic, NULL), EOPNOTSUPP);
	ASSERT_ERR(ops->warm_step(&nic), EAGAIN);
	ASSERT_ERR(ops->queues_take(NULL, NULL, NULL, NULL), ENOENT);
}

TEST(every_wqe_kind_has_a_name)
{
	for (size_t i = 0; i < sizeof(nic_wqe_kind_names) / sizeof(nic_wqe_kind_names[0]); i++)
		ASSERT(nic_wqe_kind_names[i] && nic_wqe_kind_names[i][0]);
}
