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

TEST(parameters_of_a_connection_have_the_widths_of_their_fields)
{
	const struct nic_qp_params most = {.timeout = 31, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 31};
	struct nic_qp_params params[4] = {most, most, most, most};

	ASSERT(nic_qp_params_are_right(&most));
	params[0].timeout++;
	params[1].retry_count++;
	params[2].rnr_retry++;
	params[3].min_rnr_timer++;
	for (size_t i = 0; i < 4; i++)
		ASSERT(!nic_qp_params_are_right(&params[i]));
}

TEST(an_rc_qp_has_a_peer_of_its_kind_and_link_and_a_dci_none)
{
	const struct nic_qp rc = {.type = NIC_QP_RC}, dci = {.type = NIC_QP_DCI}, dct = {.type = NIC_QP_DCT};
	const struct nic_addr none = {0}, peer = {.link = NIC_LINK_ETHERNET, .qp_type = NIC_QP_RC, .mtu_log2 = 12,
						  .psn = NIC_PSN_MASK, .qpn = 0xffffff};
	struct nic_addr wrong[] = {peer, peer, peer, peer, peer, none};

	ASSERT(nic_remote_is_right(&rc, &peer, NIC_LINK_ETHERNET));
	ASSERT(!nic_remote_is_right(&rc, &peer, NIC_LINK_INFINIBAND));
	ASSERT(nic_remote_is_right(&dci, &none, NIC_LINK_ETHERNET));
	ASSERT(!nic_remote_is_right(&dci, &peer, NIC_LINK_ETHERNET));
	ASSERT(!nic_remote_is_right(&dct, &peer, NIC_LINK_ETHERNET));
	wrong[0].qp_type = NIC_QP_DCT;
	wrong[1].mtu_log2 = 7;
	wrong[2].mtu_log2 = 13;
	wrong[3].psn++;
	wrong[4].qpn++;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ASSERT(!nic_remote_is_right(&rc, &wrong[i], NIC_LINK_ETHERNET));
}

TEST(a_region_has_bytes_known_rights_and_addresses_that_agree)
{
	const struct nic_mr_attr right = {.length_bytes = 1, .iova = UINT64_MAX - 1, .offset = 0xffe, .access = NIC_ACCESS_ALL};
	struct nic_mr_attr wrong[4] = {right, right, right, right};

	ASSERT(nic_mr_attr_is_right(&right));
	wrong[0].length_bytes = 0;
	wrong[1].access = NIC_ACCESS_ALL + 1;
	wrong[2].length_bytes = 2;
	wrong[3].offset = 0xfff;
	for (size_t i = 0; i < 4; i++)
		ASSERT(!nic_mr_attr_is_right(&wrong[i]));
}
