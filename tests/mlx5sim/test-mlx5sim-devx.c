/* SPDX-License-Identifier: Apache-2.0 */
/* Queues made by firmware commands through libmlx5's DEVX, and driven by hand. Runs under mlx5sim with two devices. */
#include "tests/lib/sim-nic.h"
#include "tests/mlx5sim/devx.h"

/* ---- traffic ---- */

TEST(queues_made_by_commands_write_read_and_do_atomics)
{
	struct end ends[2];
	uint8_t cqe[64];
	uint64_t word;

	pair_init(ends);
	memset(data_of(&ends[0]) + 128, 0xab, 64);
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA + 256, ends[1].key, 64);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_MEMEQ(data_of(&ends[1]) + 256, data_of(&ends[0]) + 128, 64);
	ASSERT_EQ(data_of(&ends[1])[255], 2);
	ASSERT_EQ(data_of(&ends[1])[320], 2);
	/* qpn, wqe_counter and user index of the CQE. */
	ASSERT_EQ(get(cqe, 57 * 8, 24), ends[0].qpn);
	ASSERT_EQ(get(cqe, 60 * 8, 16), 0);
	ASSERT_EQ(get(cqe, 33 * 8, 24), 0xabc);

	memset(data_of(&ends[1]) + 256, 0x11, 64);
	post_rdma(&ends[0], WQE_READ, DATA_IOVA + 256, ends[1].key, 64);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_EQ(get(cqe, 60 * 8, 16), 1);
	ASSERT_MEMEQ(data_of(&ends[0]) + 128, data_of(&ends[1]) + 256, 64);

	post_fetch_add(&ends[0], DATA_IOVA + 256, ends[1].key, 5);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	memcpy(&word, data_of(&ends[1]) + 256, 8);
	ASSERT_EQ(word, 0x1111111111111116u);
	memcpy(&word, data_of(&ends[0]) + 128, 8);
	ASSERT_EQ(word, 0x1111111111111111u);
	pair_deinit(ends);
}

TEST(sends_find_receives_of_the_ring_in_front_of_the_send_ring)
{
	struct end ends[2];
	uint8_t cqe[64];

	pair_init(ends);
	for (uint32_t i = 0; i < 100; i++) {
		memset(data_of(&ends[0]) + 128, (int)i, 64);
		post_recv(&ends[1], DATA_IOVA + 512, 64);
		post_send_imm(&ends[0], 0xc0ffee00 + i, 64);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
		ASSERT_EQ(wait_cqe(&ends[1], cqe), CQE_SEND_IMM);
		ASSERT_EQ(get(cqe, 36 * 8, 32), 0xc0ffee00 + i);
		ASSERT_EQ(get(cqe, 44 * 8, 32), 64);
		ASSERT_EQ(get(cqe, 60 * 8, 16), i);
		ASSERT_MEMEQ(data_of(&ends[1]) + 512, data_of(&ends[0]) + 128, 64);
	}
	pair_deinit(ends);
}

/* Every CQE at entry 0: the poller looks at the counter alone. */
TEST(collapsed_cq_has_the_last_counter_at_its_first_entry)
{
	struct end ends[2];
	const uint8_t *cqe;

	end_open(&ends[0], 0);
	end_init(&ends[1], 1);
	ends[0].collapsed = true;
	make_cq(&ends[0]);
	make_qp(&ends[0]);
	make_mkey(&ends[0]);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
	cqe = ends[0].memory + CQ_AT;
	for (uint32_t i = 0; i < 200; i++) {
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
		while (__atomic_load_n(cqe + 63, __ATOMIC_ACQUIRE) >> 4 == 0xf ||
		       get(cqe, 60 * 8, 16) != i)
			nanosleep(&(struct timespec){0, 50000}, NULL);
		ASSERT_EQ(cqe[63] >> 4, CQE_REQUESTER);
	}
	/* The rest of the ring is the device's too. */
	ASSERT_EQ(cqe[64 + 63], 0xb4);
	ASSERT_EQ(cqe[(64u << LOG_CQES) - 1], 0xb4);
	pair_deinit(ends);
}

TEST(collapsed_cq_needs_room_for_its_whole_ring)
{
	struct command cmd;
	struct end end;

	end_open(&end, 0);
	cq_command(&end, &cmd);
	put(cmd.in, 0x80 + 0x0b, 1, 1); /* cc */
	put(cmd.in, 0x280, 64, END_BYTES - 64);
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	/* One of one entry is all there. */
	put(cmd.in, 0x80 + 0x63, 5, 0);
	end.cq = create(end.context, &cmd);
	ASSERT(end.cq);
	end_deinit(&end);
}

TEST(key_of_another_pd_and_range_outside_are_refused)
{
	for (int kind = 0; kind < 3; kind++) {
		struct end ends[2], other;
		uint32_t first = 0;
		uint8_t cqe[64];

		pair_init(ends);
		other = ends[1];
		make_pd(&other);
		make_mkey(&other);
		if (kind == 2) {
			first = ends[0].key;
			ends[0].key = 0x12345678;
		}
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA + (kind == 1 ? DATA_BYTES - 63 : 0),
			  kind == 0 ? other.key : ends[1].key, 64);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER_ERROR);
		ASSERT_EQ(cqe[55], kind == 2 ? 0x04 : 0x13); /* local protection, remote access */
		ASSERT_EQ(data_of(&ends[1])[0], 2);
		if (first)
			ends[0].key = first;
		destroy(other.mkey);
		destroy(other.pd);
		pair_deinit(ends);
	}
}

#define KSM_IOVA 0x7000000u

/* Two parts of 4096 bytes each of the end's key, the second first; klm_pas_mtt begins at 0x880: mkey 0x20, address 0x40. */
static void ksm_command(const struct end *end, struct command *cmd)
{
	begin(cmd, OP_CREATE_MKEY, 0x130, 0x10);
	put(cmd->in, MKC + 0x11, 5, 0x1f);
	put(cmd->in, MKC + 0x16, 2, 3); /* access_mode_1_0: KSM */
	put(cmd->in, MKC + 0x20, 24, 0xffffff);
	put(cmd->in, MKC + 0x38, 8, 0x5b);
	put(cmd->in, MKC + 0x68, 24, end->pdn);
	put(cmd->in, MKC + 0x80, 64, KSM_IOVA);
	put(cmd->in, MKC + 0xc0, 64, 8192);
	put(cmd->in, MKC + 0x1a0, 32, 2);
	put(cmd->in, MKC + 0x1da, 6, 12);
	put(cmd->in, 0x300, 32, 2);
	for (unsigned int i = 0; i < 2; i++) {
		put(cmd->in, 0x880 + 128 * i + 0x20, 32, end->key);
		put(cmd->in, 0x880 + 128 * i + 0x40, 64, DATA_IOVA + (i ? 0 : 4096));
	}
}

TEST(key_of_keys_leads_to_the_bytes_of_its_parts)
{
	struct mlx5dv_devx_obj *ksm;
	struct command cmd;
	struct end ends[2];
	uint8_t cqe[64];
	uint32_t key;

	pair_init(ends);
	ksm_command(&ends[1], &cmd);
	ksm = create(ends[1].context, &cmd);
	ASSERT(ksm);
	key = (uint32_t)get(cmd.out, 0x48, 24) << 8 | 0x5b;
	for (uint32_t i = 0; i < 64; i++)
		data_of(&ends[0])[128 + i] = (uint8_t)(100 + i);
	post_rdma(&ends[0], WQE_WRITE, KSM_IOVA + 4096 - 32, key, 64);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_MEMEQ(data_of(&ends[1]) + 8192 - 32, data_of(&ends[0]) + 128, 32);
	ASSERT_MEMEQ(data_of(&ends[1]), data_of(&ends[0]) + 160, 32);
	ASSERT_EQ(data_of(&ends[1])[32], 2);
	/* The kernel would destroy what it consists of, and so would hardware: its bytes are gone then. */
	destroy(ends[1].mkey);
	ends[1].mkey = NULL;
	post_rdma(&ends[0], WQE_READ, KSM_IOVA, key, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER_ERROR);
	ASSERT_EQ(cqe[55], 0x13);
	destroy(ksm);
	pair_deinit(ends);
}

TEST(key_of_keys_that_makes_no_sense_is_refused)
{
	static const struct {
		uint32_t bit, width;
		uint64_t value;
	} wrong[] = {
		{0x61, 1, 1},		       /* mkey_umem_valid */
		{0x300, 32, 3},		       /* more parts than room for them */
		{MKC + 0x1a0, 32, 0},	       /* no room */
		{MKC + 0x1a0, 32, 0x10000},
		{MKC + 0x1da, 6, 32},	       /* parts of 4 GiB */
		{MKC + 0x80, 64, UINT64_MAX},  /* start_addr */
		{MKC + 0x16, 2, 2},	       /* KLMs without a length */
		{MKC + 0x61, 1, 1},	       /* bsf_en: signatures */
		{0x880 + 0x20, 32, 0},	       /* no part at all */
	};
	struct command cmd;
	struct end end;

	end_init(&end, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ksm_command(&end, &cmd);
		put(cmd.in, wrong[i].bit, wrong[i].width, wrong[i].value);
		ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	}
	mkey_command(&end, &cmd);
	cmd.in_bytes = 0x130;
	put(cmd.in, 0x880, 64, 0x1000); /* the address of a page */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	end_deinit(&end);
}

/* The command does not check the path's destination: hardware sends, and gets no answer. */
TEST(path_that_leads_nowhere_is_found_out_by_retries)
{
	for (int kind = 0; kind < 2; kind++) {
		struct command cmd;
		struct end ends[2];
		uint8_t cqe[64];

		end_init(&ends[0], 0);
		end_init(&ends[1], 1);
		connect_to(&ends[1], &ends[0]);
		init_command(&ends[0], &cmd);
		ASSERT_EQ(modify(&ends[0], &cmd), 0);
		rtr_command(&ends[0], &ends[1], &cmd);
		cmd.in[(ADS + (kind ? 0x130 : 0x80)) / 8 + 5] ^= 0x40; /* MAC, GID */
		ASSERT_EQ(modify(&ends[0], &cmd), 0);
		rts_command(&ends[0], &cmd);
		put(cmd.in, ADS + 0x40, 5, 8); /* 1 ms */
		put(cmd.in, QPC + 0x38d, 3, 2);
		ASSERT_EQ(modify(&ends[0], &cmd), 0);
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER_ERROR);
		ASSERT_EQ(cqe[55], 0x15); /* transport retry counter exceeded */
		pair_deinit(ends);
	}
}

TEST(doorbell_through_another_page_rings_nothing)
{
	struct mlx5dv_devx_uar *same, *other;
	struct end ends[2];
	uint8_t cqe[64];

	pair_init(ends);
	/* libmlx5 gives out both registers of a page. */
	same = mlx5dv_devx_alloc_uar(ends[0].context, MLX5DV_UAR_ALLOC_TYPE_BF);
	ASSERT(same);
	ASSERT_EQ(same->page_id, ends[0].uar->page_id);
	other = mlx5dv_devx_alloc_uar(ends[0].context, MLX5DV_UAR_ALLOC_TYPE_BF);
	ASSERT(other);
	ASSERT_NE(other->page_id, ends[0].uar->page_id);
	/* While the other end has work, the device is done with this one, which it looks at when it comes to RTS. */
	for (int i = 0; i < 10; i++) {
		post_rdma(&ends[1], WQE_READ, DATA_IOVA, ends[0].key, 8);
		ASSERT_EQ(wait_cqe(&ends[1], cqe), CQE_REQUESTER);
	}
	ends[0].doorbell = other->reg_addr;
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	/* The register is read, and then nothing comes. */
	while (__atomic_load_n(ends[0].doorbell, __ATOMIC_ACQUIRE))
		nanosleep(&(struct timespec){0, 50000}, NULL);
	nanosleep(&(struct timespec){0, 20000000}, NULL);
	ASSERT(!poll_cqe(&ends[0], cqe));
	ASSERT_EQ(data_of(&ends[1])[0], 2);
	ends[0].doorbell = ends[0].uar->reg_addr;
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	mlx5dv_devx_free_uar(other);
	mlx5dv_devx_free_uar(same);
	pair_deinit(ends);
}

TEST(each_type_of_uar_page_is_mapped)
{
	static const uint32_t types[] = {MLX5DV_UAR_ALLOC_TYPE_BF, MLX5DV_UAR_ALLOC_TYPE_NC};
	struct ibv_context *context = open_devx(0);

	for (size_t i = 0; i < 2; i++) {
		struct mlx5dv_devx_uar *uar = mlx5dv_devx_alloc_uar(context, types[i]);

		ASSERT(uar);
		ASSERT_NE(uar->page_id, 0);
		ASSERT_EQ((uint8_t *)uar->reg_addr - (uint8_t *)uar->base_addr, 0x800);
		mlx5dv_devx_free_uar(uar);
	}
	ASSERT_EQ(ibv_close_device(context), 0);
}

/* One that is carried out, one that is refused, and two: of a device alone. */
static void send_four(struct end *end)
{
	struct mlx5dv_devx_obj *made;
	uint8_t caps[0x1010] = {0};
	struct command cmd;

	begin(&cmd, OP_QUERY_HCA_CAP, 0x10, sizeof(caps));
	ASSERT_EQ(mlx5dv_devx_general_cmd(end->context, cmd.in, 0x10, caps, sizeof(caps)), 0);
	begin(&cmd, 0x904, 0x110, 0x10);
	create_fails(end->context, &cmd);
	cq_command(end, &cmd);
	made = create(end->context, &cmd);
	ASSERT(made);
	destroy(made);
}

TEST(commands_are_counted_for_each_device)
{
	struct end end;

	end_init(&end, 1);
	/* Contexts of other tests may still be at their end. */
	for (int i = 0;; i++) {
		uint64_t before[2] = {sim_nic_commands(0), sim_nic_commands(1)};

		send_four(&end);
		if (sim_nic_commands(0) == before[0] && sim_nic_commands(1) == before[1] + 4)
			break;
		ASSERT_LT(i, 1000);
		usleep(10000);
	}
	end_deinit(&end);
}

/* ---- what commands are checked for ---- */

TEST(unknown_commands_bits_and_lengths_are_refused_with_status_and_syndrome)
{
	struct command cmd;
	struct end end;

	end_init(&end, 0);
	begin(&cmd, 0x904, 0x110,
	      0x10); /* CREATE_SQ: uverbs lets it through, the firmware has none */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_OP);
	begin(&cmd, 0xa00, 0x50, 0x10); /* CREATE_GENERAL_OBJECT, of a type that there is not */
	put(cmd.in, 0x30, 16, 0x0c);
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	begin(&cmd, OP_QUERY_QP, 0x10, 0x10); /* not a command that makes something */
	ASSERT(!create(end.context, &cmd));
	ASSERT_EQ(errno, EINVAL);
	ASSERT_EQ(mlx5dv_devx_general_cmd(end.context, cmd.in, 0x10, cmd.out, 0x10), EINVAL);

	cq_command(&end, &cmd);
	put(cmd.in, 0x2e1, 1, 1); /* reserved */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	ASSERT_EQ(syndrome_of(&cmd), OP_CREATE_CQ << 16 | 0x2e1);
	cq_command(&end, &cmd);
	put(cmd.in, 0x80 + 0x05, 1, 1); /* initiator_src_dct: known, and not there */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	ASSERT_EQ(syndrome_of(&cmd), OP_CREATE_CQ << 16 | (0x80 + 0x05));
	cq_command(&end, &cmd);
	put(cmd.in, 0x30, 16, 1); /* op_mod */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	cq_command(&end, &cmd);
	cmd.in_bytes = 0x100;
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_INPUT_LENGTH);
	qp_command(&end, &cmd);
	put(cmd.in, QPC + 0x20, 1, 1); /* wq_signature */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	qp_command(&end, &cmd);
	put(cmd.in, QPC + 0x220 + 0x30, 16, 1); /* rlid of the secondary path */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	qp_command(&end, &cmd);
	cmd.in_bytes = 0x118;
	cmd.in[0x117] = 1; /* a physical address, in the clear */
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	end_deinit(&end);
}

TEST(values_out_of_range_are_refused)
{
	static const struct {
		int kind; /* CQ, QP, key */
		uint32_t bit, width;
		uint64_t value;
		uint32_t status;
	} cases[] = {
		{0, 0x80 + 0x63, 5, 23, STATUS_BAD_PARAM},    /* log_cq_size */
		{0, 0x80 + 0x63, 5, 10, STATUS_BAD_PARAM},    /* ring beyond the umem */
		{0, 0x80 + 0xb8, 8, 99, STATUS_BAD_RES},      /* c_eqn */
		{0, 0x80 + 0x68, 24, 0x7777, STATUS_BAD_RES}, /* uar_page */
		{0, 0x80 + 0x20, 32, 0x7777, STATUS_BAD_RES}, /* dbr_umem_id */
		{0, 0x80 + 0x1c0, 64, 4, STATUS_BAD_PARAM},   /* dbr_addr */
		{0, 0x80 + 0x1c0, 64, END_BYTES, STATUS_BAD_PARAM},
		{0, 0x280, 64, 32, STATUS_BAD_PARAM}, /* cq_umem_offset */
		{0, 0x280, 64, UINT64_MAX - 63, STATUS_BAD_PARAM},
		{1, QPC + 0x08, 8, 7, STATUS_BAD_PARAM},      /* st */
		{1, QPC + 0x28, 24, 0x7777, STATUS_BAD_RES},  /* pd */
		{1, QPC + 0x51, 4, 15, STATUS_BAD_PARAM},     /* rings beyond the umem */
		{1, QPC + 0x68, 24, 0x7777, STATUS_BAD_RES},  /* uar_page */
		{1, QPC + 0x3e8, 24, 0x7777, STATUS_BAD_RES}, /* cqn_snd */
		{1, QPC + 0x4e8, 24, 0x7777, STATUS_BAD_RES}, /* cqn_rcv */
		{1, QPC + 0x565, 3, 2, STATUS_BAD_PARAM},     /* rq_type */
		{1, QPC + 0x565, 3, 1, STATUS_BAD_RES},	  /* rq_type: an SRQ, and none is named */
		{1, QPC + 0x58, 2, 2, STATUS_BAD_PARAM},  /* ts_format: real time */
		{2, MKC + 0x16, 2, 2, STATUS_BAD_PARAM},  /* access mode: KLM, over a umem */
		{2, MKC + 0x16, 2, 0, STATUS_BAD_PARAM},  /* physical addresses */
		{2, MKC + 0x01, 1, 1, STATUS_BAD_PARAM},  /* free */
		{2, MKC + 0x10, 1, 1, STATUS_BAD_PARAM},  /* umr_en */
		{2, MKC + 0x14, 1, 0, STATUS_BAD_PARAM},  /* lw, with rw set */
		{2, MKC + 0x20, 24, 5, STATUS_BAD_PARAM}, /* qpn */
		{2, MKC + 0x68, 24, 0x7777, STATUS_BAD_RES}, /* pd */
		{2, MKC + 0xc0, 64, 0, STATUS_BAD_PARAM},    /* len */
		{2, MKC + 0xc0, 64, DATA_BYTES + 1, STATUS_BAD_PARAM},
		{2, MKC + 0x1a0, 32, 1, STATUS_BAD_PARAM}, /* too few translations */
		{2, MKC + 0x1da, 6, 3, STATUS_BAD_PARAM},  /* log_page_size */
		{2, 0x320, 32, 0x7777, STATUS_BAD_RES},	   /* mkey_umem_id */
		{2, 0x340, 64, 0x800, STATUS_BAD_PARAM},   /* mkey_umem_offset */
	};
	struct command cmd;
	struct end end;

	end_init(&end, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].kind == 0)
			cq_command(&end, &cmd);
		else if (cases[i].kind == 1)
			qp_command(&end, &cmd);
		else
			mkey_command(&end, &cmd);
		put(cmd.in, cases[i].bit, cases[i].width, cases[i].value);
		ASSERT_EQ(create_fails(end.context, &cmd), cases[i].status);
	}
	end_deinit(&end);
}

/* Firmware tags what a context makes; a command of another context does not see it. */
TEST(objects_of_another_context_are_invisible)
{
	struct end ends[2];
	struct command cmd;

	end_init(&ends[0], 0);
	end_init(&ends[1], 0);
	for (int i = 0; i < 4; i++) {
		qp_command(&ends[0], &cmd);
		if (i == 0)
			put(cmd.in, QPC + 0x28, 24, ends[1].pdn);
		else if (i == 1)
			put(cmd.in, QPC + 0x3e8, 24, ends[1].cqn);
		else if (i == 2)
			put(cmd.in, QPC + 0x68, 24, ends[1].uar->page_id);
		else
			put(cmd.in, 0x840, 32, ends[1].umem->umem_id);
		ASSERT_EQ(create_fails(ends[0].context, &cmd), STATUS_BAD_RES);
	}
	/* Nor is the handle of one object good for another one. */
	begin(&cmd, OP_2ERR, 0x10, 0x10);
	put(cmd.in, 0x48, 24, ends[1].qpn);
	ASSERT_EQ(modify(&ends[0], &cmd), EINVAL);
	ASSERT_EQ(mlx5dv_devx_obj_modify(ends[0].cq, cmd.in, 0x10, cmd.out, 0x10), EINVAL);
	end_deinit(&ends[0]);
	end_deinit(&ends[1]);
}

static uint32_t state_of(const struct end *end)
{
	struct command cmd;

	begin(&cmd, OP_QUERY_QP, 0x10, 0x110);
	put(cmd.in, 0x48, 24, end->qpn);
	ASSERT_EQ(mlx5dv_devx_obj_query(end->qp, cmd.in, 0x10, cmd.out, 0x110), 0);
	return (uint32_t)get(cmd.out, QPC + 0x00, 4);
}

TEST(transitions_that_do_not_exist_are_refused)
{
	struct end ends[2];
	struct command cmd;

	end_init(&ends[0], 0);
	end_init(&ends[1], 1);
	ASSERT_EQ(state_of(&ends[0]), 0);
	rtr_command(&ends[0], &ends[1], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), EREMOTEIO);
	ASSERT_EQ(status_of(&cmd), STATUS_BAD_QP_STATE);
	init_command(&ends[0], &cmd);
	put(cmd.in, ADS + 0x128, 8, 2); /* port */
	ASSERT_EQ(modify(&ends[0], &cmd), EREMOTEIO);
	ASSERT_EQ(status_of(&cmd), STATUS_BAD_PARAM);
	init_command(&ends[0], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	ASSERT_EQ(state_of(&ends[0]), 1);
	rts_command(&ends[0], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), EREMOTEIO);
	ASSERT_EQ(status_of(&cmd), STATUS_BAD_QP_STATE);
	rtr_command(&ends[0], &ends[1], &cmd);
	put(cmd.in, QPC + 0x40, 3, 0); /* mtu */
	ASSERT_EQ(modify(&ends[0], &cmd), EREMOTEIO);
	ASSERT_EQ(status_of(&cmd), STATUS_BAD_PARAM);
	rtr_command(&ends[0], &ends[1], &cmd);
	put(cmd.in, 0x80, 32, 1u << 13); /* opt_param_mask: rnr_retry does not belong there */
	ASSERT_EQ(modify(&ends[0], &cmd), EREMOTEIO);
	ASSERT_EQ(status_of(&cmd), STATUS_BAD_PARAM);
	ASSERT_EQ(state_of(&ends[0]), 1);
	rtr_command(&ends[0], &ends[1], &cmd);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	ASSERT_EQ(state_of(&ends[0]), 2);
	begin(&cmd, OP_2RST, 0x10, 0x10);
	put(cmd.in, 0x48, 24, ends[0].qpn);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	ASSERT_EQ(state_of(&ends[0]), 0);
	end_deinit(&ends[0]);
	end_deinit(&ends[1]);
}

/* Access follows the option mask; without its bit a field is not looked at. */
TEST(options_of_a_transition_apply_by_their_mask)
{
	for (int masked = 0; masked < 2; masked++) {
		struct end ends[2];
		struct command cmd;
		uint8_t cqe[64];

		pair_init(ends);
		begin(&cmd, OP_RTS2RTS, 0x110, 0x10);
		put(cmd.in, 0x48, 24, ends[1].qpn);
		put(cmd.in, 0x80, 32, masked ? 1u << 3 : 0); /* rwe, which is 0 */
		ASSERT_EQ(modify(&ends[1], &cmd), 0);
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), masked ? CQE_REQUESTER_ERROR : CQE_REQUESTER);
		pair_deinit(ends);
	}
}

/* As UCX does it: the ring is cleared, the record is left as it was until the next request is posted. */
TEST(qp_that_was_reset_has_nothing_posted_whatever_its_record_says)
{
	struct command cmd;
	struct end ends[2];
	uint8_t cqe[64];

	pair_init(ends);
	for (int i = 0; i < 3; i++) {
		post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
		ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	}
	for (int i = 0; i < 2; i++) {
		begin(&cmd, OP_2RST, 0x10, 0x10);
		put(cmd.in, 0x48, 24, ends[i].qpn);
		ASSERT_EQ(modify(&ends[i], &cmd), 0);
	}
	memset(ends[0].memory + SQ_AT, 0, 64u << LOG_SQ);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
	nanosleep(&(struct timespec){0, 20000000}, NULL);
	ASSERT(!poll_cqe(&ends[0], cqe));
	ASSERT_EQ(state_of(&ends[0]), 3);
	ends[0].sq_pi = 0;
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA, ends[1].key, 8);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_EQ(get(cqe, 60 * 8, 16), 0);
	pair_deinit(ends);
}

TEST(qp_in_error_flushes_its_receives)
{
	struct command cmd;
	struct end ends[2];
	uint8_t cqe[64];

	pair_init(ends);
	post_recv(&ends[0], DATA_IOVA, 64);
	begin(&cmd, OP_2ERR, 0x10, 0x10);
	put(cmd.in, 0x48, 24, ends[0].qpn);
	ASSERT_EQ(modify(&ends[0], &cmd), 0);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_RESPONDER_ERROR);
	ASSERT_EQ(cqe[55], 0x05); /* flushed */
	ASSERT_EQ(state_of(&ends[0]), 6);
	pair_deinit(ends);
}

TEST(objects_in_use_are_not_destroyed)
{
	struct end end;

	end_init(&end, 0);
	ASSERT_EQ(mlx5dv_devx_obj_destroy(end.cq), EINVAL);
	ASSERT_EQ(mlx5dv_devx_obj_destroy(end.pd), EINVAL);
	ASSERT_EQ(mlx5dv_devx_umem_dereg(end.umem), EINVAL);
	end_deinit(&end);
}

/* ---- memory ---- */

TEST(umem_is_what_its_caller_could_do_itself)
{
	void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mlx5dv_devx_umem *umem;
	struct command cmd;
	struct end end;

	end_init(&end, 0);
	ASSERT(!mlx5dv_devx_umem_reg(end.context, read_only, 4096, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EFAULT);
	ASSERT(!mlx5dv_devx_umem_reg(end.context, (void *)4096, 4096, 0));
	ASSERT_EQ(errno, EFAULT);
	ASSERT(!mlx5dv_devx_umem_reg(end.context, end.memory, 4096, IBV_ACCESS_REMOTE_WRITE));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!mlx5dv_devx_umem_reg(end.context, end.memory, 4096, IBV_ACCESS_ON_DEMAND));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!mlx5dv_devx_umem_reg(end.context, end.memory, 0, 0));
	ASSERT_EQ(errno, EINVAL);
	/* A ring that the device has to write needs a umem that it may write. */
	umem = mlx5dv_devx_umem_reg(end.context, end.memory, END_BYTES, 0);
	ASSERT(umem);
	cq_command(&end, &cmd);
	put(cmd.in, 0x2c0, 32, umem->umem_id);
	ASSERT_EQ(create_fails(end.context, &cmd), STATUS_BAD_PARAM);
	ASSERT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
	ASSERT_EQ(munmap(read_only, 4096), 0);
	end_deinit(&end);
}

/* mlx5sim runs this with --memfd-dmabuf: a memfd stands for one. */
TEST(umem_of_a_dmabuf_begins_at_its_offset)
{
	struct mlx5dv_devx_umem_in in = {.size = 0x2000,
					 .access = IBV_ACCESS_LOCAL_WRITE,
					 .pgsz_bitmap = UINT64_MAX & ~(uint64_t)4095,
					 .comp_mask = MLX5DV_UMEM_MASK_DMABUF};
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_obj *cq;
	struct command cmd;
	struct end end;

	end_init(&end, 0);
	in.dmabuf_fd = end.memfd;
	in.addr = (void *)(uintptr_t)DATA_AT;
	umem = mlx5dv_devx_umem_reg_ex(end.context, &in);
	ASSERT(umem);
	cq_command(&end, &cmd);
	put(cmd.in, 0x2c0, 32, umem->umem_id);
	put(cmd.in, 0x280, 64, 0x1000);
	put(cmd.in, 0x80 + 0x0b, 1, 1); /* cc: what lies behind the first entry is the device's */
	memset(end.memory + DATA_AT, 7, DATA_BYTES);
	cq = create(end.context, &cmd);
	ASSERT(cq);
	/* Only its maker fills a ring. */
	ASSERT_EQ(end.memory[DATA_AT + 0xfff], 7);
	ASSERT_EQ(end.memory[DATA_AT + 0x1000 + 63], 7);
	ASSERT_EQ(end.memory[DATA_AT + 0x1000 + 64], 0xb4);
	ASSERT_EQ(end.memory[DATA_AT + 0x1fff], 0xb4);
	ASSERT_EQ(end.memory[DATA_AT + 0x2000], 7);
	destroy(cq);
	ASSERT_EQ(mlx5dv_devx_umem_dereg(umem), 0);
	in.addr = (void *)(uintptr_t)(END_BYTES - 0x1000);
	ASSERT(!mlx5dv_devx_umem_reg_ex(end.context, &in));
	ASSERT_EQ(errno, EINVAL);
	in.addr = NULL;
	in.dmabuf_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	ASSERT(!mlx5dv_devx_umem_reg_ex(end.context, &in));
	ASSERT_EQ(errno, EINVAL);
	close(in.dmabuf_fd);
	end_deinit(&end);
}

/* With a memfd that stands for a dmabuf: the bytes at its offset are written, and no others. */
TEST(region_of_a_dmabuf_begins_at_its_offset)
{
	struct end ends[2];
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	uint8_t cqe[64];
	int null;

	end_open(&ends[1], 1);
	pd = ibv_alloc_pd(ends[1].context);
	ASSERT(pd);
	mr = ibv_reg_dmabuf_mr(pd, DATA_AT + 0x1000, 0x1000, DATA_IOVA, ends[1].memfd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ASSERT(mr);
	destroy(ends[1].pd);
	ends[1].pd = NULL;
	ends[1].pdn = pd_number(pd);
	make_cq(&ends[1]);
	make_qp(&ends[1]);
	end_init(&ends[0], 0);
	connect_to(&ends[0], &ends[1]);
	connect_to(&ends[1], &ends[0]);
	post_rdma(&ends[0], WQE_WRITE, DATA_IOVA + 8, mr->rkey, 64);
	ASSERT_EQ(wait_cqe(&ends[0], cqe), CQE_REQUESTER);
	ASSERT_EQ(data_of(&ends[1])[0x1007], 2);
	ASSERT_EQ(data_of(&ends[1])[0x1008], 1);
	ASSERT_EQ(data_of(&ends[1])[0x1008 + 63], 1);
	ASSERT_EQ(data_of(&ends[1])[0x1008 + 64], 2);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ASSERT(!ibv_reg_dmabuf_mr(pd, 0, 0x1000, 0, null, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!ibv_reg_dmabuf_mr(pd, END_BYTES - 0x1000, 0x2000, 0, ends[1].memfd,
				  IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EINVAL);
	ASSERT(!ibv_reg_dmabuf_mr(pd, 8, 0x1000, 0, ends[1].memfd, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(errno, EINVAL);
	close(null);
	ASSERT_EQ(ibv_dereg_mr(mr), 0);
	destroy(ends[1].qp);
	ends[1].qp = NULL;
	ASSERT_EQ(ibv_dealloc_pd(pd), 0);
	pair_deinit(ends);
}
