/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that a simulated device enforces, seen through libibverbs. Runs under mlx5sim with two devices. */
#include "tests/lib/test.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#define BYTES 65536u
#define GID_INDEX 3
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* One end: a context of its own, memory, and a QP. */
struct end {
	struct ibv_context *context;
	struct ibv_pd *pd, *other_pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *memory;
};

static struct ibv_context *open_nic(unsigned int index)
{
	struct ibv_device **list;
	struct ibv_context *context;
	int n;

	list = ibv_get_device_list(&n);
	ASSERT(list);
	ASSERT_EQ(n, 2);
	context = ibv_open_device(list[index]);
	ASSERT(context);
	ibv_free_device_list(list);
	return context;
}

static struct ibv_qp *make_qp(const struct end *end)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 2,
			.max_recv_sge = 2,
			.max_inline_data = 64},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(end->pd, &attr);
}

static void end_init(struct end *end, unsigned int nic)
{
	memset(end, 0, sizeof(*end));
	end->context = open_nic(nic);
	end->pd = ibv_alloc_pd(end->context);
	end->other_pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	ASSERT(end->pd && end->other_pd && end->channel);
	end->cq = ibv_create_cq(end->context, 64, NULL, end->channel, 0);
	ASSERT(end->cq);
	end->memory = aligned_alloc(4096, BYTES);
	ASSERT(end->memory);
	memset(end->memory, (int)nic + 1, BYTES);
	end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	ASSERT(end->mr);
	end->qp = make_qp(end);
	ASSERT(end->qp);
}

static void end_deinit(struct end *end)
{
	ASSERT_EQ(ibv_destroy_qp(end->qp), 0);
	ASSERT_EQ(ibv_dereg_mr(end->mr), 0);
	ASSERT_EQ(ibv_destroy_cq(end->cq), 0);
	ASSERT_EQ(ibv_destroy_comp_channel(end->channel), 0);
	ASSERT_EQ(ibv_dealloc_pd(end->pd), 0);
	ASSERT_EQ(ibv_dealloc_pd(end->other_pd), 0);
	ASSERT_EQ(ibv_close_device(end->context), 0);
	free(end->memory);
}

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR_MASK                                                                                   \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |            \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |     \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static int to_init(const struct end *end, unsigned int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};

	return ibv_modify_qp(end->qp, &attr, INIT_MASK);
}

static struct ibv_qp_attr path_to(const struct end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp->qp_num,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.sgid_index = GID_INDEX, .hop_limit = 64}},
	};

	ASSERT_EQ(ibv_query_gid(peer->context, 1, GID_INDEX, &attr.ah_attr.grh.dgid), 0);
	return attr;
}

static struct ibv_qp_attr rts_attr(void)
{
	return (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 16};
}

static void connect_to(const struct end *end, const struct end *peer, unsigned int access)
{
	struct ibv_qp_attr attr = path_to(peer);

	ASSERT_EQ(to_init(end, access), 0);
	ASSERT_EQ(ibv_modify_qp(end->qp, &attr, RTR_MASK), 0);
	attr = rts_attr();
	ASSERT_EQ(ibv_modify_qp(end->qp, &attr, RTS_MASK), 0);
}

static void pair_init(struct end ends[2], unsigned int access)
{
	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	connect_to(&ends[0], &ends[1], ALL_ACCESS);
	connect_to(&ends[1], &ends[0], access);
}

static void pair_deinit(struct end ends[2])
{
	end_deinit(&ends[0]);
	end_deinit(&ends[1]);
}

static enum ibv_qp_state state_of(const struct end *end)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ASSERT_EQ(ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

static struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, &wc);
		ASSERT_LE(0, n);
		if (!n)
			nanosleep(&(struct timespec){0, 50000}, NULL);
	} while (!n);
	return wc;
}

/* One request of 64 bytes at offset 128 of both sides. */
static enum ibv_wc_status request(struct end ends[2], enum ibv_wr_opcode opcode, uint32_t lkey,
				  uint64_t raddr, uint32_t rkey)
{
	struct ibv_sge sge = {.addr = (uintptr_t)ends[0].memory + 128, .length = 64, .lkey = lkey};
	struct ibv_send_wr wr = {.wr_id = 7,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {raddr, rkey}},
			   *bad;
	struct ibv_wc wc;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.remote_addr = raddr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
	}
	ASSERT_EQ(ibv_post_send(ends[0].qp, &wr, &bad), 0);
	wc = wait_wc(ends[0].cq);
	ASSERT_EQ(wc.wr_id, 7);
	ASSERT_EQ(wc.qp_num, ends[0].qp->qp_num);
	return wc.status;
}

static enum ibv_wc_status plain(struct end ends[2], enum ibv_wr_opcode opcode)
{
	return request(ends, opcode, ends[0].mr->lkey, (uintptr_t)ends[1].memory + 128,
		       ends[1].mr->rkey);
}

TEST(write_read_and_atomic_do_what_they_say)
{
	struct end ends[2];
	uint64_t word;

	pair_init(ends, ALL_ACCESS);
	memset(ends[0].memory + 128, 0xab, 64);
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(ends[1].memory + 128, ends[0].memory + 128, 64);
	ASSERT_EQ(ends[1].memory[127], 2);
	ASSERT_EQ(ends[1].memory[192], 2);
	memset(ends[1].memory + 128, 0x11, 64);
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_READ), IBV_WC_SUCCESS);
	ASSERT_MEMEQ(ends[0].memory + 128, ends[1].memory + 128, 64);
	ASSERT_EQ(ends[0].memory[192], 1);
	ASSERT_EQ(plain(ends, IBV_WR_ATOMIC_FETCH_AND_ADD), IBV_WC_SUCCESS);
	memcpy(&word, ends[1].memory + 128, 8);
	ASSERT_EQ(word, 0x1111111111111116u);
	memcpy(&word, ends[0].memory + 128, 8);
	ASSERT_EQ(word, 0x1111111111111111u);
	pair_deinit(ends);
}

/* ---- protection ---- */

TEST(wrong_lkey_or_memory_of_another_pd_is_a_local_protection_error)
{
	struct end ends[2];
	struct ibv_mr *other;

	for (int foreign = 0; foreign < 2; foreign++) {
		pair_init(ends, ALL_ACCESS);
		other = ibv_reg_mr(ends[0].other_pd, ends[0].memory, BYTES, ALL_ACCESS);
		ASSERT(other);
		ASSERT_EQ(request(ends, IBV_WR_RDMA_WRITE, foreign ? other->lkey : 0x123400,
				  (uintptr_t)ends[1].memory, ends[1].mr->rkey),
			  IBV_WC_LOC_PROT_ERR);
		ASSERT_EQ(ends[1].memory[0], 2);
		ASSERT_EQ(state_of(&ends[0]), IBV_QPS_ERR);
		ASSERT_EQ(ibv_dereg_mr(other), 0);
		pair_deinit(ends);
	}
}

TEST(wrong_rkey_range_or_pd_at_the_peer_is_a_remote_access_error)
{
	for (int kind = 0; kind < 3; kind++) {
		struct end ends[2];
		struct ibv_mr *other;
		uint64_t raddr;
		uint32_t rkey;

		pair_init(ends, ALL_ACCESS);
		other = ibv_reg_mr(ends[1].other_pd, ends[1].memory, BYTES, ALL_ACCESS);
		ASSERT(other);
		raddr = (uintptr_t)ends[1].memory + (kind == 1 ? BYTES - 63 : 0);
		rkey = kind == 0 ? 0x123400 : kind == 1 ? ends[1].mr->rkey : other->rkey;
		ASSERT_EQ(request(ends, IBV_WR_RDMA_WRITE, ends[0].mr->lkey, raddr, rkey),
			  IBV_WC_REM_ACCESS_ERR);
		ASSERT_EQ(ends[1].memory[0], 2);
		ASSERT_EQ(state_of(&ends[1]), IBV_QPS_ERR);
		ASSERT_EQ(ibv_dereg_mr(other), 0);
		pair_deinit(ends);
	}
}

/* The peer gets an asynchronous event; destroying its QP before the event is read must not hang. */
TEST(qp_and_mr_access_are_enforced_and_the_peer_gets_an_event)
{
	static const struct {
		unsigned int denied;
		enum ibv_wr_opcode opcode;
	} cases[] = {{IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
		     {IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
		     {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD}};

	for (unsigned int i = 0; i < 6; i++) {
		unsigned int allowed = ALL_ACCESS & ~cases[i / 2].denied;
		struct ibv_async_event event;
		struct ibv_mr *narrow;
		struct end ends[2];

		pair_init(ends, i % 2 ? ALL_ACCESS : allowed);
		narrow =
			ibv_reg_mr(ends[1].pd, ends[1].memory, BYTES, i % 2 ? allowed : ALL_ACCESS);
		ASSERT(narrow);
		ASSERT_EQ(request(ends, cases[i / 2].opcode, ends[0].mr->lkey,
				  (uintptr_t)ends[1].memory, narrow->rkey),
			  i % 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
		if (i < 2) {
			ASSERT_EQ(ibv_get_async_event(ends[1].context, &event), 0);
			ASSERT_EQ(event.event_type, i % 2 ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
			ASSERT(event.element.qp == ends[1].qp);
			ibv_ack_async_event(&event);
		}
		ASSERT_EQ(ibv_dereg_mr(narrow), 0);
		pair_deinit(ends);
	}
}

/* ---- states and limits ---- */

TEST(transitions_that_do_not_exist_are_refused)
{
	struct ibv_qp_attr attr;
	struct end end;

	end_init(&end, 0);
	attr = rts_attr();
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTS_MASK), EINVAL);
	attr = path_to(&end);
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), EINVAL);
	ASSERT_EQ(state_of(&end), IBV_QPS_RESET);
	ASSERT_EQ(to_init(&end, 0), 0);
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK & ~IBV_QP_DEST_QPN), EINVAL);
	attr.ah_attr.is_global = 0;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), EINVAL);
	attr = path_to(&end);
	attr.ah_attr.grh.dgid.raw[15] ^= 0x80;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), EHOSTUNREACH);
	attr = path_to(&end);
	attr.ah_attr.grh.sgid_index = 4;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), EINVAL);
	ASSERT_EQ(state_of(&end), IBV_QPS_INIT);
	attr = path_to(&end);
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), 0);
	attr = rts_attr();
	attr.max_rd_atomic = 17;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTS_MASK), EINVAL);
	ASSERT_EQ(state_of(&end), IBV_QPS_RTR);
	end_deinit(&end);
}

TEST(qp_in_error_flushes_and_lives_again_after_reset)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_recv_wr recv = {.wr_id = 9}, *bad;
	struct end ends[2];
	struct ibv_wc wc;

	pair_init(ends, ALL_ACCESS);
	ASSERT_EQ(ibv_post_recv(ends[0].qp, &recv, &bad), 0);
	ASSERT_EQ(ibv_modify_qp(ends[0].qp, &attr, IBV_QP_STATE), 0);
	wc = wait_wc(ends[0].cq);
	ASSERT_EQ(wc.wr_id, 9);
	ASSERT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	for (int i = 0; i < 2; i++) {
		attr.qp_state = IBV_QPS_RESET;
		ASSERT_EQ(ibv_modify_qp(ends[i].qp, &attr, IBV_QP_STATE), 0);
		connect_to(&ends[i], &ends[!i], ALL_ACCESS);
	}
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	pair_deinit(ends);
}

TEST(regions_that_make_no_sense_are_refused)
{
	void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct end end;

	end_init(&end, 0);
	ASSERT(!ibv_reg_mr(end.pd, end.memory, BYTES, IBV_ACCESS_REMOTE_WRITE));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!ibv_reg_mr(end.pd, end.memory, BYTES, IBV_ACCESS_LOCAL_WRITE | 0x800));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!ibv_reg_mr(end.pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EFAULT);
	ASSERT(!ibv_reg_mr(end.pd, read_only, 4096, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EFAULT);
	ASSERT(!ibv_reg_mr_iova(end.pd, end.memory, BYTES, 8, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EINVAL);
	ASSERT_EQ(munmap(read_only, 4096), 0);
	end_deinit(&end);
}

TEST(objects_in_use_are_not_destroyed)
{
	struct end end;

	end_init(&end, 0);
	ASSERT_EQ(ibv_dealloc_pd(end.pd), EBUSY);
	ASSERT_EQ(ibv_destroy_cq(end.cq), EBUSY);
	end_deinit(&end);
}

/* ---- events ---- */

/* The first arming has the record 0, which is also what a record begins with. */
TEST(each_arming_has_one_event)
{
	struct ibv_cq *cq;
	struct end ends[2];
	struct pollfd pfd;
	void *context;

	pair_init(ends, ALL_ACCESS);
	pfd = (struct pollfd){.fd = ends[0].channel->fd, .events = POLLIN};
	for (int i = 0; i < 10; i++) {
		ASSERT_EQ(ibv_req_notify_cq(ends[0].cq, 0), 0);
		ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
		ASSERT_EQ(ibv_get_cq_event(ends[0].channel, &cq, &context), 0);
		ASSERT(cq == ends[0].cq);
		ibv_ack_cq_events(cq, 1);
		ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
		ASSERT_EQ(poll(&pfd, 1, i ? 0 : 20), 0);
	}
	/* An unread event does not keep the CQ. */
	ASSERT_EQ(ibv_req_notify_cq(ends[0].cq, 0), 0);
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	ASSERT_EQ(poll(&pfd, 1, 5000), 1);
	pair_deinit(ends);
}

/* ---- the ioctl itself ---- */

static int raw_ioctl(const struct ibv_context *context, uint16_t object, uint16_t method,
		     const struct ib_uverbs_attr *attrs, uint16_t n)
{
	size_t attrs_bytes = n * sizeof(attrs[0]),
	       bytes = sizeof(struct ib_uverbs_ioctl_hdr) + attrs_bytes;
	struct ib_uverbs_ioctl_hdr *hdr = calloc(1, bytes);
	int r;

	ASSERT(hdr);
	*hdr = (struct ib_uverbs_ioctl_hdr){.length = (uint16_t)bytes,
					    .object_id = object,
					    .method_id = method,
					    .num_attrs = n,
					    .driver_id = RDMA_DRIVER_MLX5};
	memcpy(hdr->attrs, attrs, attrs_bytes);
	r = ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, hdr) < 0 ? -errno : 0;
	free(hdr);
	return r;
}

TEST(unknown_methods_attributes_and_commands_are_refused)
{
	struct ibv_context *context = open_nic(0);
	struct ib_uverbs_query_port_resp_ex resp;
	struct ib_uverbs_attr attrs[3] = {
		{.attr_id = UVERBS_ATTR_QUERY_PORT_PORT_NUM,
		 .len = 1,
		 .flags = UVERBS_ATTR_F_MANDATORY,
		 .data = 1},
		{.attr_id = UVERBS_ATTR_QUERY_PORT_RESP,
		 .len = sizeof(resp),
		 .data = (uintptr_t)&resp},
		{.attr_id = 77, .len = 4, .flags = UVERBS_ATTR_F_MANDATORY, .data = 1},
	};
	struct ib_uverbs_attr write[2] = {
		{.attr_id = UVERBS_ATTR_WRITE_CMD, .len = 8, .data = 49},
		{.attr_id = UVERBS_ATTR_CORE_OUT, .len = sizeof(resp), .data = (uintptr_t)&resp},
	};

	ASSERT_OK(raw_ioctl(context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, attrs, 2));
	ASSERT_EQ(resp.legacy_resp.state, IBV_PORT_ACTIVE);
	ASSERT_ERR(raw_ioctl(context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, attrs, 3),
		   EPROTONOSUPPORT);
	ASSERT_ERR(raw_ioctl(context, UVERBS_OBJECT_DEVICE, 99, attrs, 2), EPROTONOSUPPORT);
	ASSERT_ERR(raw_ioctl(context, 0x7777, 0, attrs, 2), EPROTONOSUPPORT);
	ASSERT_ERR(raw_ioctl(context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, write, 2),
		   EOPNOTSUPP);
	attrs[1].data = 4096;
	ASSERT_ERR(raw_ioctl(context, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, attrs, 2),
		   EFAULT);
	ASSERT(ioctl(context->cmd_fd, _IO(RDMA_IOCTL_MAGIC, 99), 0) < 0);
	ASSERT_EQ(errno, ENOTTY);
	ASSERT_EQ(ibv_close_device(context), 0);
}

/* ---- processes ---- */

/* Pages that are exchanged for shared ones must not be shared with a child. */
TEST(forked_child_has_copies_of_registered_memory)
{
	struct end ends[2];
	int status;
	pid_t pid;

	pair_init(ends, ALL_ACCESS);
	ends[1].memory[128] = 77;
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		bool same = ends[1].memory[128] == 77;

		memset(ends[0].memory, 0xee, BYTES);
		memset(ends[1].memory, 0xee, BYTES);
		_exit(same ? 0 : 1);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	ASSERT_EQ(status, 0);
	ASSERT_EQ(ends[1].memory[128], 77);
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	ASSERT_EQ(ends[1].memory[128], 1);
	pair_deinit(ends);
}

/* A second registration of a page is the same page, also when the first is gone. */
TEST(memory_registered_twice_is_one_memory)
{
	struct ibv_mr *again;
	struct end ends[2];

	pair_init(ends, ALL_ACCESS);
	again = ibv_reg_mr(ends[1].pd, ends[1].memory + 100, 1000, ALL_ACCESS);
	ASSERT(again);
	ASSERT_EQ(ibv_dereg_mr(ends[1].mr), 0);
	ASSERT_EQ(request(ends, IBV_WR_RDMA_WRITE, ends[0].mr->lkey,
			  (uintptr_t)ends[1].memory + 128, again->rkey),
		  IBV_WC_SUCCESS);
	ASSERT_EQ(ends[1].memory[128], 1);
	ASSERT_EQ(ibv_dereg_mr(again), 0);
	ends[1].mr = ibv_reg_mr(ends[1].pd, ends[1].memory, BYTES, ALL_ACCESS);
	ASSERT(ends[1].mr);
	ends[1].memory[128] = 9;
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	ASSERT_EQ(ends[1].memory[128], 1);
	pair_deinit(ends);
}

/* A registration over both must not give the page of the one that lives another memory. */
TEST(page_of_a_region_that_lives_stays_one_beside_that_of_one_that_is_gone)
{
	struct ibv_mr *lives, *gone, *both;
	struct end ends[2];

	pair_init(ends, ALL_ACCESS);
	ASSERT_EQ(ibv_dereg_mr(ends[1].mr), 0);
	lives = ibv_reg_mr(ends[1].pd, ends[1].memory, 4096, ALL_ACCESS);
	gone = ibv_reg_mr(ends[1].pd, ends[1].memory + 4096, 4096, ALL_ACCESS);
	ASSERT(lives && gone);
	ASSERT_EQ(ibv_dereg_mr(gone), 0);
	both = ibv_reg_mr(ends[1].pd, ends[1].memory, 8192, ALL_ACCESS);
	ASSERT(both);
	ASSERT_EQ(request(ends, IBV_WR_RDMA_WRITE, ends[0].mr->lkey,
			  (uintptr_t)ends[1].memory + 128, lives->rkey),
		  IBV_WC_SUCCESS);
	ASSERT_EQ(ends[1].memory[128], 1);
	ASSERT_EQ(ibv_dereg_mr(lives), 0);
	ends[1].mr = both;
	pair_deinit(ends);
}

/* The client is killed in mid-life; its peer finds out by retries, and the device is as good as new. */
TEST(killed_client_leaves_nothing_behind)
{
	struct ibv_qp_attr attr;
	struct end end, peer;
	int pair[2], status;
	uint32_t qpn = 0;
	pid_t pid;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? -errno : 0);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		end_init(&peer, 1);
		ASSERT_EQ(write(pair[1], &peer.qp->qp_num, 4), 4);
		pause();
		_exit(0);
	}
	ASSERT_EQ(read(pair[0], &qpn, 4), 4);
	end_init(&end, 0);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	close(pair[0]);
	close(pair[1]);
	end_init(&peer, 1);
	ASSERT_NE(peer.qp->qp_num, qpn);
	connect_to(&peer, &end, ALL_ACCESS);
	ASSERT_EQ(to_init(&end, ALL_ACCESS), 0);
	attr = path_to(&peer);
	attr.dest_qp_num = qpn;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTR_MASK), 0);
	attr = rts_attr();
	attr.timeout = 8;
	ASSERT_EQ(ibv_modify_qp(end.qp, &attr, RTS_MASK), 0);
	ASSERT_EQ(request((struct end[2]){end, peer}, IBV_WR_RDMA_WRITE, end.mr->lkey,
			  (uintptr_t)peer.memory, peer.mr->rkey),
		  IBV_WC_RETRY_EXC_ERR);
	end_deinit(&end);
	end_deinit(&peer);
}

struct greeting {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static void send_greeting(int sock, const struct end *end)
{
	struct greeting greeting = {end->qp->qp_num, end->mr->rkey, (uintptr_t)end->memory};
	union {
		struct cmsghdr cmsg;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.cmsg = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {&greeting, sizeof(greeting)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};

	memcpy(CMSG_DATA(&control.cmsg), &end->context->cmd_fd, sizeof(int));
	ASSERT_EQ(sendmsg(sock, &msg, 0), (ssize_t)sizeof(greeting));
}

static int receive_greeting(int sock, struct greeting *ret_greeting)
{
	union {
		struct cmsghdr cmsg;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = {ret_greeting, sizeof(*ret_greeting)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	int fd;

	ASSERT_EQ(recvmsg(sock, &msg, 0), (ssize_t)sizeof(*ret_greeting));
	ASSERT(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	return fd;
}

/* A new UAR page of the context behind a descriptor, mapped. */
static void *map_page(int cmd_fd)
{
	struct ibv_context context = {.cmd_fd = cmd_fd};
	uint32_t length = 0, page_id = 0;
	uint64_t offset = 0;
	struct ib_uverbs_attr attrs[] = {
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
		 .len = 4,
		 .data = MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
		 .len = 8,
		 .data = (uintptr_t)&offset},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
		 .len = 4,
		 .data = (uintptr_t)&length},
		{.attr_id = MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
		 .len = 4,
		 .data = (uintptr_t)&page_id},
	};

	ASSERT_OK(raw_ioctl(&context, MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, attrs, 5));
	ASSERT_EQ(length, 4096);
	ASSERT(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, cmd_fd, (off_t)offset + 4096) ==
	       MAP_FAILED);
	return mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, cmd_fd, (off_t)offset);
}

/* As in a kernel: what the killed process made and pinned lives as long as a descriptor or a mapping of its device. */
TEST(passed_command_fd_and_then_a_mapped_page_keep_the_queues_of_a_killed_process)
{
	struct ibv_qp far = {0};
	struct greeting greeting;
	struct end end, peer, there = {.qp = &far};
	int pair[2], status, fd;
	void *page;
	pid_t pid;

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ? -errno : 0);
	end_init(&end, 0);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		end_init(&peer, 1);
		connect_to(&peer, &end, ALL_ACCESS);
		send_greeting(pair[1], &peer);
		pause();
		_exit(0);
	}
	fd = receive_greeting(pair[0], &greeting);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	close(pair[0]);
	close(pair[1]);
	there.context = open_nic(1);
	far.qp_num = greeting.qpn;
	connect_to(&end, &there, ALL_ACCESS);
#define WRITE()                                                                                    \
	request((struct end[2]){end, there}, IBV_WR_RDMA_WRITE, end.mr->lkey, greeting.addr,       \
		greeting.rkey)
	ASSERT_EQ(WRITE(), IBV_WC_SUCCESS);
	page = map_page(fd);
	ASSERT(page != MAP_FAILED);
	close(fd);
	ASSERT_EQ(WRITE(), IBV_WC_SUCCESS);
	ASSERT_EQ(munmap(page, 4096), 0);
	/* The simulator hears of it a moment later. */
	do
		status = (int)WRITE();
	while (status == IBV_WC_SUCCESS);
	ASSERT_EQ(status, IBV_WC_RETRY_EXC_ERR);
	ASSERT_EQ(ibv_close_device(there.context), 0);
	end_deinit(&end);
}

/* A second context on the same device file, as after SCM_RIGHTS: it sees the first one's PDs and regions by handle. */
TEST(imported_context_uses_objects_of_the_first)
{
	struct end ends[2], second;
	struct ibv_qp *first;
	struct ibv_mr *mr;

	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	second = ends[0];
	first = ends[0].qp;
	second.context = ibv_import_device(dup(ends[0].context->cmd_fd));
	ASSERT(second.context);
	ASSERT(!ibv_import_pd(second.context, 0xffff));
	second.pd = ibv_import_pd(second.context, ends[0].pd->handle);
	ASSERT(second.pd);
	ASSERT(!ibv_import_mr(second.pd, ends[0].pd->handle));
	mr = ibv_import_mr(second.pd, ends[0].mr->handle);
	ASSERT(mr);
	ASSERT_EQ(mr->lkey, ends[0].mr->lkey);
	ASSERT_EQ(mr->length, BYTES);
	second.cq = ibv_create_cq(second.context, 16, NULL, NULL, 0);
	ASSERT(second.cq);
	second.qp = make_qp(&second);
	ASSERT(second.qp);
	ends[0].qp = second.qp;
	ends[0].cq = second.cq;
	connect_to(&ends[0], &ends[1], ALL_ACCESS);
	connect_to(&ends[1], &ends[0], ALL_ACCESS);
	ASSERT_EQ(request(ends, IBV_WR_RDMA_WRITE, mr->lkey, (uintptr_t)ends[1].memory,
			  ends[1].mr->rkey),
		  IBV_WC_SUCCESS);
	ASSERT_EQ(ends[1].memory[0], 1);
	ibv_unimport_mr(mr);
	ASSERT_EQ(ibv_destroy_qp(second.qp), 0);
	ASSERT_EQ(ibv_destroy_cq(second.cq), 0);
	ibv_unimport_pd(second.pd);
	ASSERT_EQ(ibv_close_device(second.context), 0);
	ends[0].qp = first;
	ends[0].cq = first->send_cq;
	end_deinit(&ends[0]);
	end_deinit(&ends[1]);
}

/* Makes, uses and destroys everything, over and over. */
static void live_wildly(void)
{
	struct end ends[2];

	for (;;) {
		pair_init(ends, ALL_ACCESS);
		for (int i = 0; i < 3; i++)
			ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
		pair_deinit(ends);
	}
}

/* At its end mlx5sim asserts that no device has an object left: this test fails by the status of mlx5sim. */
TEST_TIMEOUT(randomly_killed_clients_leave_no_object, 300)
{
	unsigned int n = test_is_full() ? 1000 : 60;
	unsigned int seed = 5;
	struct end ends[2];

	for (unsigned int i = 0; i < n; i++) {
		long usec = rand_r(&seed) % 40000;
		pid_t pid = fork();
		int status;

		ASSERT_LE(0, pid);
		if (!pid)
			live_wildly();
		nanosleep(&(struct timespec){0, usec * 1000}, NULL);
		ASSERT_EQ(kill(pid, SIGKILL), 0);
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		ASSERT_EQ(WTERMSIG(status), SIGKILL);
	}
	pair_init(ends, ALL_ACCESS);
	ASSERT_EQ(plain(ends, IBV_WR_RDMA_WRITE), IBV_WC_SUCCESS);
	pair_deinit(ends);
}
