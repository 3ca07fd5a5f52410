/* SPDX-License-Identifier: Apache-2.0 */
/* Code that all backends share. */
#include <errno.h>

#include "daemon/nic/nic.h"
#include "tests/lib/test.h"

TEST(slots_that_a_backend_does_not_offer_refuse_as_documented)
{
	ASSERT_ERR(nic_no_port_set(NULL, NIC_PORT_DOWN), EOPNOTSUPP);
	ASSERT_ERR(nic_no_ctx_pool_set(NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(nic_no_ctx_pool_query(NULL, NULL), EOPNOTSUPP);
	ASSERT_ERR(nic_no_ctx_pool_step(NULL), EAGAIN);
	ASSERT_ERR(nic_no_queues_take(NULL, NULL, NULL, NULL), ENOENT);
	nic_no_ctx_look(NULL);
}

TEST(every_wqe_kind_has_a_name)
{
	for (size_t i = 0; i < sizeof(nic_wqe_kind_names) / sizeof(nic_wqe_kind_names[0]); i++)
		ASSERT(nic_wqe_kind_names[i] && nic_wqe_kind_names[i][0]);
}
