/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events, DC, and what becomes of objects that commands made when processes pass them on, import them and die. Runs under
 * mlx5sim with two devices.
 */
#include "tests/mlx5sim/devx.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>

/* ---- events ---- */

static struct mlx5dv_devx_event_channel *
make_channel(struct ibv_context *context, enum mlx5dv_devx_create_event_channel_flags flags)
{
	struct mlx5dv_devx_event_channel *channel =
		mlx5dv_devx_create_event_channel(context, flags);

	ASSERT(channel);
	return channel;
}

/* The number of a CQ or a QP is at byte 24 of the data. */
TEST(subscribed_events_are_read_with_cookie_and_entry)
{
	struct devx_event event;
	struct mlx5dv_devx_event_channel *channel;
	uint16_t comp = 0, access = 0x11, port = 9, unknown = 0x77;
	struct end ends[2];
	uint8_t cqe[64];

	pair_init(ends);
	channel = make_channel(ends[1].context, 0);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, ends[1].cq, sizeof(comp), &comp, 11),
		  0);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, ends[1].qp, 2, &access, 12), 0);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, NULL, 2, &port, 13), 0);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, ends[1].qp, 2, &unknown, 14), EINVAL);
	ASSERT_EQ(mlx5dv_devx_subscribe_devx_event(channel, NULL, 2, &access, 14), EINVAL);
	/* Arm: record, then the page's register at 0x20. */
	store_be32(ends[1].memory + CQ_DBREC_AT + 4, 0);
	__atomic_store_n((uint64_t *)(void *)((uint8_t *)ends[1].uar->base_addr + 0x20),
			 (uint64_t)htobe32(ends[1].cqn) << 32, __ATOMIC_RELEASE);
	post_recv(&ends[1], DATA_IOVA, 64);
	post_send_imm(&ends[0], 1, 64);
	read_event(channel, &event);
	ASSERT_EQ(event.cookie, 11);
	ASSERT_EQ(event.eqe[1], 0);
	ASSERT_EQ(get(event.eqe, (32 + 25) * 8, 24), ends[1].cqn);
	ASSERT_EQ(wait_cqe(&ends[1], cqe), CQE_SEND_IMM);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	/* A key that is wrong is an event of the other end. */
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, 0x12345678, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER_ERROR);
	read_event(channel, &event);
	ASSERT_EQ(event.cookie, 12);
	ASSERT_EQ(event.eqe[1], 0x11);
	ASSERT_EQ(get(event.eqe, (32 + 25) * 8, 24), ends[1].qpn);
	mlx5dv_devx_destroy_event_channel(channel);
	pair_deinit(ends);
}

/* ---- DC ---- */

#define DC_KEY 0xfeedfacecafef00d

/* create_rmp_in: rmpc at 0x100, wq at 0x180 of it. */
static struct mlx5dv_devx_obj *make_rmp(const struct end *end, uint32_t *ret_srqn)
{
	const uint32_t rmp = 0x100, wq = rmp + 0x180;
	struct mlx5dv_devx_obj *srq;
	struct command cmd;

	begin(&cmd, OP_CREATE_RMP, 0x110, 0x10);
	put(cmd.in, rmp + 0x08, 4, 1); /* state: ready */
	put(cmd.in, wq + 0x00, 4, 0);  /* wq_type: linked list */
	put(cmd.in, wq + 0x48, 24, end->pdn);
	put(cmd.in, wq + 0x80, 64, QP_DBREC_AT);	 /* dbr_addr */
	put(cmd.in, wq + 0x10c, 4, 5);			 /* log_wq_stride: 32 bytes */
	put(cmd.in, wq + 0x11b, 5, 4);			 /* log_wq_sz */
	put(cmd.in, wq + 0x120, 2, 3);			 /* dbr_umem_valid, wq_umem_valid */
	put(cmd.in, wq + 0x140, 32, end->umem->umem_id); /* dbr_umem_id */
	put(cmd.in, wq + 0x160, 32, end->umem->umem_id); /* wq_umem_id */
	put(cmd.in, wq + 0x180, 64, RQ_AT);		 /* wq_umem_offset */
	srq = create(end->context, &cmd);
	ASSERT(srq);
	*ret_srqn = (uint32_t)get(cmd.out, 0x48, 24);
	return srq;
}

/* create_dct_in: dctc at 0x80. */
#define DCTC 0x80
static void dct_command(const struct end *end, uint32_t srqn, struct command *ret_cmd)
{
	struct command cmd;

	begin(&cmd, OP_CREATE_DCT, 0x80, 0x10);
	put(cmd.in, DCTC + 0x28, 24, 0x77); /* user_index */
	put(cmd.in, DCTC + 0x48, 24, end->cqn);
	put(cmd.in, DCTC + 0x68, 4, 3); /* atomic_mode */
	put(cmd.in, DCTC + 0x6c, 3, 7); /* rre, rwe, rae */
	put(cmd.in, DCTC + 0x93, 5, 1); /* min_rnr_nak */
	put(cmd.in, DCTC + 0xa8, 24, srqn);
	put(cmd.in, DCTC + 0xc8, 24, end->pdn);
	put(cmd.in, DCTC + 0x100, 64, DC_KEY);
	put(cmd.in, DCTC + 0x145, 3, IBV_MTU_1024);
	put(cmd.in, DCTC + 0x148, 8, 1); /* port */
	put(cmd.in, DCTC + 0x168, 8, GID_INDEX);
	put(cmd.in, DCTC + 0x178, 8, 64); /* hop_limit */
	*ret_cmd = cmd;
}

/* By the 128 bytes of Linux or the 176 of UCX and DOCA GPUNetIO. */
static struct mlx5dv_devx_obj *make_dct(const struct end *end, uint32_t srqn, size_t bytes, uint32_t *ret_dctn)
{
	struct mlx5dv_devx_obj *dct;
	struct command cmd;

	dct_command(end, srqn, &cmd);
	cmd.in_bytes = bytes;
	dct = create(end->context, &cmd);
	ASSERT(dct);
	*ret_dctn = (uint32_t)get(cmd.out, 0x48, 24);
	return dct;
}

static void make_dci(struct end *end)
{
	struct command cmd;

	qp_command(end, &cmd);
	put(cmd.in, QPC + 0x08, 8, 5); /* st: DCI */
	ASSERT_EQ(create_fails(end->context, &cmd), STATUS_BAD_PARAM);
	put(cmd.in, QPC + 0x565, 3, 3); /* rq_type: none, and then the send ring comes first */
	put(cmd.in, 0x800, 64, SQ_AT);
	end->qp = create(end->context, &cmd);
	ASSERT(end->qp);
	end->qpn = (uint32_t)get(cmd.out, 0x48, 24);
	init_command(end, &cmd);
	put(cmd.in, QPC + 0x640, 64, DC_KEY);
	ASSERT_EQ(modify(end, &cmd), 0);
	begin(&cmd, OP_INIT2RTR, 0x110, 0x10);
	put(cmd.in, 0x48, 24, end->qpn);
	put(cmd.in, QPC + 0x40, 3, IBV_MTU_1024);
	put(cmd.in, QPC + 0x43, 5, 30);
	put(cmd.in, ADS + 0x128, 8, 1);
	ASSERT_EQ(modify(end, &cmd), 0);
	rts_command(end, &cmd);
	ASSERT_EQ(modify(end, &cmd), 0);
}

/* Control, 48 bytes of address vector, remote address, data: two WQEBBs. */
static void post_dc_write(struct end *end, const struct end *peer, uint32_t dctn, uint8_t hop_limit)
{
	const uint8_t mac[6] = {0x02, 'm', 'l', 'x', '5', (uint8_t)(peer->nic + 1)};
	uint8_t *wqe = begin_wqe(end, WQE_WRITE, 6);
	union ibv_gid gid;

	ASSERT_EQ(ibv_query_gid(peer->context, 1, GID_INDEX, &gid), 0);
	memset(wqe + 64, 0, 64);
	*(uint64_t *)(void *)(wqe + 16) = htobe64(DC_KEY);
	store_be32(wqe + 24, 0x80000000 | dctn);
	put(wqe + 16, 14 * 8, 16, 0xc000); /* rlid: UDP source port */
	memcpy(wqe + 36, mac, 6);
	wqe[43] = hop_limit;
	store_be32(wqe + 44, 0x40000000 | GID_INDEX << 20);
	memcpy(wqe + 48, gid.raw, 16);
	*(uint64_t *)(void *)(wqe + 64) = htobe64(DATA_IOVA + 256);
	store_be32(wqe + 72, peer->key);
	put_data(wqe + 80, 64, end->key, DATA_IOVA + 128);
	ring(end, 2);
}

TEST(dci_and_dct_made_by_commands_move_data)
{
	struct mlx5dv_devx_obj *srq, *dct;
	struct end ends[2];
	struct command cmd;
	uint32_t srqn, dctn;
	uint8_t cqe[64];

	for (unsigned int i = 0; i < 2; i++) {
		end_open(&ends[i], i);
		make_cq(&ends[i]);
		make_mkey(&ends[i]);
	}
	srq = make_rmp(&ends[1], &srqn);
	destroy(make_dct(&ends[1], srqn, 0xb0, &dctn));
	dct = make_dct(&ends[1], srqn, 0x80, &dctn);
	ASSERT_EQ(mlx5dv_devx_obj_destroy(srq), EINVAL);
	make_dci(&ends[0]);
	for (int i = 0; i < 40; i++) {
		memset(data_of(&ends[0]) + 128, i + 10, 64);
		/* Another address vector for the same target is another connection, or none. */
		post_dc_write(&ends[0], &ends[1], dctn, (uint8_t)(64 + i % 3));
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
		ASSERT_MEMEQ(data_of(&ends[1]) + 256, data_of(&ends[0]) + 128, 64);
	}
	begin(&cmd, OP_QUERY_DCT, 0x10, 0x80);
	put(cmd.in, 0x48, 24, dctn);
	ASSERT_EQ(mlx5dv_devx_obj_query(dct, cmd.in, 0x10, cmd.out, 0x80), 0);
	ASSERT_EQ(get(cmd.out, DCTC + 0x100, 64), DC_KEY);
	destroy(dct);
	destroy(srq);
	pair_deinit(ends);
}

TEST(dct_that_others_would_not_make_is_refused)
{
	struct mlx5dv_devx_obj *srq;
	struct command cmd;
	struct end end;
	uint32_t srqn;

	end_open(&end, 0);
	make_cq(&end);
	srq = make_rmp(&end, &srqn);
	dct_command(&end, srqn, &cmd);
	cmd.in_bytes = 0x7f;
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_INPUT_LENGTH);
	cmd.in_bytes = 0xb0;
	cmd.in[0xaf] = 1;
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	/* A CQ of one entry, and a collapsed one. */
	for (unsigned int collapsed = 0; collapsed < 2; collapsed++) {
		destroy(end.cq);
		cq_command(&end, &cmd);
		put(cmd.in, 0x80 + 0x63, 5, collapsed ? LOG_CQES : 0);
		put(cmd.in, 0x80 + 0x0b, 1, collapsed);
		end.cq = create(end.context, &cmd);
		ASSERT(end.cq);
		end.cqn = (uint32_t)get(cmd.out, 0x48, 24);
		dct_command(&end, srqn, &cmd);
		ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	}
	destroy(srq);
	end_deinit(&end);
}

/* ---- processes ---- */

struct greeting {
	uint32_t qpn, key;
	uint64_t mmap_off;
};

/* The command fd and the memory: all that another process needs to drive the queue. */
static void send_greeting(int sock, const struct end *end)
{
	struct greeting greeting = {end->qpn, end->key, (uint64_t)end->uar->mmap_off};
	int fds[2] = {end->context->cmd_fd, end->memfd};
	union {
		struct cmsghdr cmsg;
		char bytes[CMSG_SPACE(sizeof(fds))];
	} control = {.cmsg = {CMSG_LEN(sizeof(fds)), SOL_SOCKET, SCM_RIGHTS}};
	struct iovec iov = {&greeting, sizeof(greeting)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};

	memcpy(CMSG_DATA(&control.cmsg), fds, sizeof(fds));
	ASSERT_EQ(sendmsg(sock, &msg, 0), (ssize_t)sizeof(greeting));
}

static void receive_greeting(int sock, struct greeting *ret_greeting, int ret_fds[2])
{
	union {
		struct cmsghdr cmsg;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec iov = {ret_greeting, sizeof(*ret_greeting)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};

	ASSERT_EQ(recvmsg(sock, &msg, 0), (ssize_t)sizeof(*ret_greeting));
	ASSERT(CMSG_FIRSTHDR(&msg));
	memcpy(ret_fds, CMSG_DATA(CMSG_FIRSTHDR(&msg)), 2 * sizeof(int));
}

/* In a child: an end on device 1, connected with `end`, whose owner waits to be killed. */
static pid_t start_owner(const struct end *end, int sock)
{
	pid_t pid = fork();
	struct end own;

	ASSERT_LE(0, pid);
	if (pid)
		return pid;
	end_init(&own, 1);
	connect_to(&own, end);
	send_greeting(sock, &own);
	pause();
	_exit(0);
}

/* As a client of the daemon: it has a page of the queue's context and the queue's memory, and no library. */
static void write_once(struct end *remote, const struct end *end)
{
	uint8_t cqe[64];

	data_of(remote)[128]++;
	post_rdma(remote, WQE_WRITE, DATA_IOVA + 256, end->key, 64);
	ASSERT_EQ(wait_cqe(remote, cqe), CQE_REQUESTER);
	ASSERT_EQ(data_of(end)[256], data_of(remote)[128]);
}

TEST(second_process_drives_the_queue_by_command_fd_also_when_its_maker_was_killed)
{
	struct end end, remote = {.nic = 1};
	struct greeting greeting;
	int pair[2], fds[2], status;
	uint8_t *page;
	pid_t pid;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	end_init(&end, 0);
	pid = start_owner(&end, pair[1]);
	receive_greeting(pair[0], &greeting, fds);
	remote.qpn = greeting.qpn;
	remote.key = greeting.key;
	remote.context = open_devx(1);
	connect_to(&end, &remote);
	remote.memory = mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	ASSERT(remote.memory != MAP_FAILED);
	page = mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fds[0], (off_t)greeting.mmap_off);
	ASSERT(page != MAP_FAILED);
	remote.doorbell = (uint64_t *)(void *)(page + 0x800);
	write_once(&remote, &end);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	write_once(&remote, &end);
	/* The mapping alone keeps the context. */
	close(fds[0]);
	write_once(&remote, &end);
	ASSERT_EQ(munmap(page, 4096), 0);
	ASSERT_EQ(munmap(remote.memory, END_BYTES), 0);
	close(fds[1]);
	close(pair[0]);
	close(pair[1]);
	ASSERT_EQ(ibv_close_device(remote.context), 0);
	end_deinit(&end);
}

/* One method, as libmlx5 would call it; handles are filled in. 0 or errno. */
static int call(int cmd_fd, uint16_t object, uint16_t method, struct ib_uverbs_attr *attrs,
		uint16_t n)
{
	struct ib_uverbs_ioctl_hdr *hdr = calloc(1, sizeof(*hdr) + n * sizeof(attrs[0]));
	int r;

	ASSERT(hdr);
	hdr->length = (uint16_t)(sizeof(*hdr) + n * sizeof(attrs[0]));
	hdr->object_id = object;
	hdr->method_id = method;
	hdr->num_attrs = n;
	hdr->driver_id = RDMA_DRIVER_MLX5;
	memcpy(hdr->attrs, attrs, n * sizeof(attrs[0]));
	r = ioctl(cmd_fd, RDMA_VERBS_IOCTL, hdr) < 0 ? errno : 0;
	memcpy(attrs, hdr->attrs, n * sizeof(attrs[0]));
	free(hdr);
	return r;
}

/* The objects of a kind, newest first. */
static uint32_t list_handles(int cmd_fd, uint16_t kind, uint32_t handles[8])
{
	uint32_t total = 0;
	struct ib_uverbs_attr attrs[] = {
		{.attr_id = UVERBS_ATTR_INFO_OBJECT_ID, .len = 8, .data = kind},
		{.attr_id = UVERBS_ATTR_INFO_TOTAL_HANDLES, .len = 4, .data = (uintptr_t)&total},
		{.attr_id = UVERBS_ATTR_INFO_HANDLES_LIST, .len = 32, .data = (uintptr_t)handles},
	};

	ASSERT_EQ(call(cmd_fd, UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES, attrs, 3), 0);
	return total;
}

static int destroy_by_handle(int cmd_fd, uint32_t handle)
{
	struct ib_uverbs_attr attr = {.attr_id = MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE, .data = handle};

	return call(cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, &attr, 1);
}

/* A context that another process imports is the same one: it makes objects there, and can destroy those of the first. */
TEST(imported_context_destroys_what_its_killed_maker_left)
{
	struct end end, second = {.nic = 1};
	struct greeting greeting;
	int pair[2], fds[2], status;
	uint32_t handles[8];
	uint8_t cqe[64];
	pid_t pid;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	end_init(&end, 0);
	pid = start_owner(&end, pair[1]);
	receive_greeting(pair[0], &greeting, fds);
	second.context = ibv_import_device(fds[0]);
	ASSERT(second.context);
	ASSERT_EQ(kill(pid, SIGKILL), 0);
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	/* Key, QP, CQ, PD: the QP holds the CQ. */
	ASSERT_EQ(list_handles(second.context->cmd_fd, MLX5_IB_OBJECT_DEVX_UMEM, handles), 1);
	ASSERT_EQ(list_handles(second.context->cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ, handles), 4);
	ASSERT_EQ(destroy_by_handle(second.context->cmd_fd, handles[2]), EINVAL);
	for (int i = 0; i < 4; i++)
		ASSERT_EQ(destroy_by_handle(second.context->cmd_fd, handles[i]), 0);
	ASSERT_EQ(list_handles(second.context->cmd_fd, MLX5_IB_OBJECT_DEVX_OBJ, handles), 0);

	second.memfd = fds[1];
	second.memory = mmap(NULL, END_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	ASSERT(second.memory != MAP_FAILED);
	ASSERT_EQ(mlx5dv_devx_query_eqn(second.context, 0, &second.eqn), 0);
	second.uar = mlx5dv_devx_alloc_uar(second.context, MLX5DV_UAR_ALLOC_TYPE_BF);
	ASSERT(second.uar);
	second.doorbell = second.uar->reg_addr;
	second.umem = mlx5dv_devx_umem_reg(second.context, second.memory, END_BYTES,
					   IBV_ACCESS_LOCAL_WRITE);
	ASSERT(second.umem);
	make_pd(&second);
	make_cq(&second);
	make_qp(&second);
	make_mkey(&second);
	ASSERT_NE(second.qpn, greeting.qpn);
	connect_to(&end, &second);
	connect_to(&second, &end);
	post_rdma(&second, WQE_WRITE, DATA_IOVA + 256, end.key, 64);
	ASSERT_EQ(wait_cqe(&second, cqe), CQE_REQUESTER);
	close(pair[0]);
	close(pair[1]);
	end_deinit(&second);
	end_deinit(&end);
}

/* ---- methods of newer kernels ---- */

/* UVERBS_METHOD_REG_MR and its attributes, as rdma/ib_user_ioctl_cmds.h of rdma-core 64 numbers them. */
enum { METHOD_REG_MR = 5, HANDLE = 0, PD_HANDLE = 1, IOVA = 3, ADDR = 4, LENGTH = 5, ACCESS = 6, FD = 7, FD_OFFSET = 8, LKEY = 9,
       RKEY = 10 };

#define N_REG_ATTRS 9

/* The region at DATA_IOVA; `fd` -1: of memory. 0 or errno. */
static int reg(const struct ibv_pd *pd, int fd, uint64_t at, uint32_t access, struct ib_uverbs_attr attrs[N_REG_ATTRS])
{
	static uint32_t key;
	const struct ib_uverbs_attr all[N_REG_ATTRS] = {
		{.attr_id = HANDLE},
		{.attr_id = PD_HANDLE, .data = pd->handle},
		{.attr_id = IOVA, .len = 8, .data = DATA_IOVA},
		{.attr_id = LENGTH, .len = 8, .data = 0x1000},
		{.attr_id = ACCESS, .len = 4, .data = access},
		{.attr_id = LKEY, .len = 4, .data = (uintptr_t)&key},
		{.attr_id = RKEY, .len = 4, .data = (uintptr_t)&key},
		{.attr_id = fd < 0 ? ADDR : FD_OFFSET, .len = 8, .data = at},
		{.attr_id = FD, .data = (uint64_t)(int64_t)fd},
	};
	int r;

	memcpy(attrs, all, sizeof(all));
	r = call(pd->context->cmd_fd, UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, fd < 0 ? N_REG_ATTRS - 1 : N_REG_ATTRS);
	attrs[1].data = key;
	return r;
}

static int dereg(const struct ibv_pd *pd, uint64_t handle)
{
	struct ib_uverbs_attr attr = {.attr_id = UVERBS_ATTR_DESTROY_MR_HANDLE, .data = handle};

	return call(pd->context->cmd_fd, UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, &attr, 1);
}

TEST(regions_of_either_kind_are_made_by_the_newer_method)
{
	struct ib_uverbs_attr attrs[N_REG_ATTRS];
	const uint32_t access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct end ends[2];
	struct ibv_pd *pd;
	uint8_t cqe[64];
	int r;

	end_open(&ends[1], 1);
	pd = ibv_alloc_pd(ends[1].context);
	ASSERT(pd);
	destroy(ends[1].pd);
	ends[1].pd = NULL;
	ends[1].pdn = pd_number(pd);
	make_cq(&ends[1]);
	make_qp(&ends[1]);
	end_init(&ends[0], 0);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
	for (int of_fd = 0; of_fd < 2; of_fd++) {
		uint64_t at = of_fd ? DATA_AT + 0x1000 : (uintptr_t)data_of(&ends[1]);

		ASSERT_EQ(reg(pd, of_fd ? ends[1].memfd : -1, at, access, attrs), 0);
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA + 8, (uint32_t)attrs[1].data, 64);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
		ASSERT_EQ(data_of(&ends[1])[of_fd * 0x1000 + 7], 2);
		ASSERT_EQ(data_of(&ends[1])[of_fd * 0x1000 + 8], 1);
		ASSERT_EQ(dereg(pd, attrs[0].data), 0);
	}
	/* If no process may read another one's memory there is no paging. */
	r = reg(pd, -1, (uintptr_t)data_of(&ends[1]), IBV_ACCESS_ON_DEMAND, attrs);
	ASSERT(r == EPERM || (r == 0 && dereg(pd, attrs[0].data) == 0));
	ASSERT_EQ(reg(pd, -1, (uintptr_t)data_of(&ends[1]), IBV_ACCESS_REMOTE_WRITE, attrs), EINVAL);
	ASSERT_EQ(reg(pd, 1000, 0, access, attrs), EBADF);
	/* An address as well, or no offset. */
	attrs[1].data = pd->handle;
	attrs[7].attr_id = ADDR;
	ASSERT_EQ(call(pd->context->cmd_fd, UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, N_REG_ATTRS), EINVAL);
	attrs[8].data = (uint64_t)-1;
	attrs[7].attr_id = FD_OFFSET;
	ASSERT_EQ(call(pd->context->cmd_fd, UVERBS_OBJECT_MR, METHOD_REG_MR, attrs, N_REG_ATTRS), EBADF);
	destroy(ends[1].qp);
	ends[1].qp = NULL;
	ASSERT_EQ(ibv_dealloc_pd(pd), 0);
	pair_deinit(ends);
}

/* UVERBS_METHOD_QUERY_PORT_SPEED, in 100 Mb/s: four lanes of 25 Gb/s. */
TEST(port_tells_its_speed_and_that_it_has_no_switch)
{
	uint64_t speed = 0;
	struct ib_uverbs_attr attrs[] = {
		{.attr_id = 0, .len = 4, .data = 1},
		{.attr_id = 1, .len = 8, .data = (uintptr_t)&speed},
	};
	struct ibv_context *context = open_devx(0);
	struct mlx5dv_port port = {.flags = UINT64_MAX};

	ASSERT_EQ(call(context->cmd_fd, UVERBS_OBJECT_DEVICE, 7, attrs, 2), 0);
	ASSERT_EQ(speed, 1000);
	attrs[0].data = 2;
	ASSERT_EQ(call(context->cmd_fd, UVERBS_OBJECT_DEVICE, 7, attrs, 2), EINVAL);
	ASSERT_EQ(mlx5dv_query_port(context, 1, &port), 0);
	ASSERT_EQ(port.flags, 0);
	ASSERT_EQ(mlx5dv_query_port(context, 2, &port), EINVAL);
	ASSERT_EQ(ibv_close_device(context), 0);
}

/* Makes, uses and destroys everything, over and over. */
static void live_wildly(void)
{
	struct end ends[2];
	uint8_t cqe[64];

	for (;;) {
		pair_init(ends);
		for (int i = 0; i < 3; i++) {
			post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
			ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
		}
		pair_deinit(ends);
	}
}

/* At its end mlx5sim asserts that no device has an object left: this test fails by the status of mlx5sim. */
TEST_TIMEOUT(randomly_killed_clients_leave_no_object, 300)
{
	unsigned int n = test_is_full() ? 1000 : 40, seed = 7;

	for (unsigned int i = 0; i < n; i++) {
		long usec = rand_r(&seed) % 30000;
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
}
