/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of nic.h: what a NIC reports, its port, and the doorbell modes of a context. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "contract.h"
#include "tests/lib/test.h"

static void judge_info(const struct nic_info *info)
{
	const struct contract_backend *backend = contract_backend();
	static const uint8_t none[16];

	ASSERT_STREQ(info->backend, backend->backend);
	ASSERT_EQ(info->port, 1u);
	ASSERT_EQ(info->state, NIC_PORT_ACTIVE);
	ASSERT_GE(info->mtu_bytes, 1024u);
	ASSERT_EQ(info->rate_mbps, backend->rate_mbps);
	ASSERT_GE(info->max_qps, 1024u);
	ASSERT_GE(info->max_cqs, 1024u);
	ASSERT_GE(info->max_log2_sq_wqebbs, 10u);
	ASSERT_EQ(strlen(info->pci), backend->has_pci ? 12u : 0u);
	ASSERT(memcmp(info->gid, none, 16) != 0);
	ASSERT(info->link == NIC_LINK_INFINIBAND ? info->lid != 0 : memcmp(info->mac, none, 6) != 0);
	ASSERT_MEMEQ(info->accepted_kinds, backend->kinds, sizeof(backend->kinds));
	ASSERT_EQ(info->doorbell_uar_mmap, backend->best == NIC_DOORBELL_UAR_MMAP);
	ASSERT_EQ(info->doorbell_cpu, backend->has_doorbell_cpu);
}

TEST(each_nic_reports_its_own_name_address_and_limits)
{
	struct nic_info info[2];
	struct rig rig;

	contract_open(&rig, 2);
	for (unsigned int i = 0; i < 2; i++) {
		ASSERT_OK(nic_query(rig.nic[i], &info[i]));
		ASSERT_STREQ(info[i].name, rig.nic[i]->name);
		ASSERT_EQ(info[i].name[strlen(info[i].name) - 1], '0' + (char)i);
		judge_info(&info[i]);
	}
	ASSERT(memcmp(info[0].gid, info[1].gid, 16) != 0);
	rig_close(&rig);
}

TEST(a_port_is_set_or_the_request_changes_nothing)
{
	const bool can = contract_backend()->has_port_set;
	struct nic_event event;
	struct nic_info info;
	struct rig rig;

	contract_open(&rig, 1);
	ASSERT_EQ(rig.nic[0]->ops->port_set(rig.nic[0], NIC_PORT_DOWN), can ? 0 : -EOPNOTSUPP);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	ASSERT_EQ(info.state, can ? NIC_PORT_DOWN : NIC_PORT_ACTIVE);
	ASSERT_EQ(client_next_event(rig.nic[0], &event), can ? 0 : -EAGAIN);
	if (can)
		ASSERT_EQ(event.state, NIC_PORT_DOWN);
	rig_close(&rig);
}

TEST(doorbell_modes_that_a_nic_lacks_are_refused)
{
	struct nic_ctx_attr attr = {.session_id = 1, .doorbell = 9, .health_fd = -1};
	struct nic_ctx *ctx = NULL;
	struct nic_info info;
	struct rig rig;

	contract_open(&rig, 1);
	ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EINVAL);
	ASSERT_OK(nic_query(rig.nic[0], &info));
	attr.doorbell = info.doorbell_uar_mmap ? NIC_DOORBELL_CPU : NIC_DOORBELL_UAR_MMAP;
	if (!info.doorbell_uar_mmap || !info.doorbell_cpu)
		ASSERT_ERR(rig.nic[0]->ops->ctx_open(rig.nic[0], &attr, &ctx), EOPNOTSUPP);
	ASSERT(!ctx);
	rig_close(&rig);
}

TEST(auto_chooses_the_best_doorbell_mode_and_gives_no_reason_for_it)
{
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	client_open_ctx(&c, rig.nic[0], 1);
	ASSERT_EQ(c.ctx->doorbell.mode, contract_backend()->best);
	ASSERT_STREQ(c.ctx->doorbell.reason, "");
	client_close(&c);
	rig_close(&rig);
}

/* Descriptors of memory are regular files; a command descriptor is not. */
TEST(mode_cpu_gives_a_client_memory_only)
{
	const struct nic_doorbell *doorbell;
	struct client c;
	struct stat st;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_ctx_cpu(&c, rig.nic[0], 1);
	doorbell = &c.ctx->doorbell;
	ASSERT_EQ(doorbell->page_offset, 0u);
	ASSERT_OK(fstat(doorbell->page_fd, &st));
	ASSERT(S_ISREG(st.st_mode));
	ASSERT_OK(fstat(doorbell->nic_page_fd, &st));
	ASSERT(S_ISREG(st.st_mode));
	ASSERT_GE(doorbell->wake_fd, 0);
	client_close(&c);
	rig_close(&rig);
}

/* The thread that reads doorbells must reach dbrecs. */
TEST(mode_cpu_refuses_queue_memory_that_the_cpu_does_not_reach)
{
	struct nic_queue_mem mem = {.kind = NIC_MEM_DMABUF, .fd = -1, .length_bytes = 1u << 20};
	struct nic_queues *queues = NULL;
	struct nic_queues_attr attr;
	struct nic_layout layout;
	struct client c;
	struct rig rig;

	contract_open(&rig, 1);
	contract_open_ctx_cpu(&c, rig.nic[0], 1);
	client_attr(&attr, 1, 0);
	ASSERT_OK(nic_layout_init(&layout, &attr));
	ASSERT_ERR(rig.nic[0]->ops->queues_create(c.ctx, &mem, &layout, &queues), EOPNOTSUPP);
	ASSERT(!queues);
	nic_layout_deinit(&layout);
	client_close(&c);
	rig_close(&rig);
}
