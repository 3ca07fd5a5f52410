/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains and memory keys by command. A key is direct, over the pages of a umem; or indirect, of parts of other keys
 * that follow the command or that a UMR brings later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/mlx5sim/sim/fw.h"
#include "tests/mlx5sim/sim/pd-mr.h"

/* Relaxed ordering is a permission; nothing here is out of order. */
const uint32_t fw_mkey_fields[] = {PRM_MKC_ACCESS_MODE_4_2,
				   PRM_MKC_RELAXED_ORDERING_WRITE,
				   PRM_MKC_FREE,
				   PRM_MKC_UMR_EN,
				   PRM_MKC_EN_RINVAL,
				   PRM_MKC_A,
				   PRM_MKC_RW,
				   PRM_MKC_RR,
				   PRM_MKC_LW,
				   PRM_MKC_LR,
				   PRM_MKC_ACCESS_MODE_1_0,
				   PRM_MKC_QPN,
				   PRM_MKC_MKEY_7_0,
				   PRM_MKC_PD,
				   PRM_MKC_START_ADDR,
				   PRM_MKC_LEN,
				   PRM_MKC_TRANSLATION_OCTWORDS,
				   PRM_MKC_RELAXED_ORDERING_READ,
				   PRM_MKC_LOG_PAGE_SIZE,
				   0};

#define MKC(name) (PRM_CREATE_MKEY_IN_MKC + PRM_MKC_##name)
/* PRM, mkc.access_mode */
enum { MKEY_MTT = 1, MKEY_KLM = 2, MKEY_KSM = 3 };
#define MKEY_ANY_QPN 0xffffffu
#define MTTS_PER_OCTWORD 2u
#define OCTWORD_BYTES 16u

struct mkey {
	struct object object;
	struct pd *pd;
	struct umem *umem;
	uint32_t key; /* 0: not in the engine */
	bool is_indirect;
	uint8_t mkc[PRM_MKC_BYTES];
};

int fw_alloc_pd(struct fw_cmd *cmd)
{
	struct pd *pd;
	int r;

	if (nic_count(cmd->nic, &cmd->nic->n_pds) >= SIM_MAX_PD)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u PDs", SIM_MAX_PD);
	r = pd_new(cmd->call, OBJECT_DEVX, &pd);
	if (r < 0)
		return r;
	fw_set(cmd, PRM_ALLOC_PD_OUT_PD, pd->pdn);
	cmd->created = &pd->object;
	return 0;
}

static void mkey_free(struct object *object)
{
	struct mkey *mkey = container_of(object, struct mkey, object);
	struct nic *nic = object->ufile->nic;

	sim_lock(nic->sim);
	if (mkey->key && mkey->is_indirect)
		engine_indirect_destroy(nic->engine, mkey->key);
	else if (mkey->key)
		engine_mr_destroy(nic->engine, mkey->key);
	nic->n_mrs--;
	sim_unlock(nic->sim);
	if (mkey->pd)
		mkey->pd->object.users--;
	umem_put(mkey->umem);
	free(mkey);
}

/* ---- create ---------------------------------------------------------------------------------------------------- */

static uint64_t page_bytes(const struct fw_cmd *cmd)
{
	return (uint64_t)1 << fw_get(cmd, MKC(LOG_PAGE_SIZE));
}

/* Bytes of the umem that the key is for: from the start of its first page. */
static uint64_t spanned(const struct fw_cmd *cmd)
{
	return (fw_get(cmd, MKC(START_ADDR)) & (page_bytes(cmd) - 1)) + fw_get(cmd, MKC(LEN));
}

static int check_range(struct fw_cmd *cmd)
{
	uint64_t start = fw_get(cmd, MKC(START_ADDR)), len = fw_get(cmd, MKC(LEN));
	uint64_t log_page = fw_get(cmd, MKC(LOG_PAGE_SIZE)), pages, octwords;

	if (log_page < 12 || log_page > 40)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LOG_PAGE_SIZE), "pages of 2^%u bytes",
			       (unsigned int)log_page);
	if (!len || len > UINT64_MAX / 4 || start + len < start)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LEN), "length");
	if (fw_get(cmd, PRM_CREATE_MKEY_IN_UMEM_OFFSET) % page_bytes(cmd))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_MKEY_IN_UMEM_OFFSET,
			       "the offset is not that of a page");
	pages = (spanned(cmd) + page_bytes(cmd) - 1) >> log_page;
	octwords = (pages + MTTS_PER_OCTWORD - 1) / MTTS_PER_OCTWORD;
	if (fw_get(cmd, MKC(TRANSLATION_OCTWORDS)) < octwords)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(TRANSLATION_OCTWORDS),
			       "%u octwords of translations for %u pages",
			       (unsigned int)fw_get(cmd, MKC(TRANSLATION_OCTWORDS)),
			       (unsigned int)pages);
	if (fw_get(cmd, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS) < octwords)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS,
			       "%u octwords of translations for %u pages",
			       (unsigned int)fw_get(cmd, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS),
			       (unsigned int)pages);
	return 0;
}

static uint64_t mode_of(const struct fw_cmd *cmd)
{
	return fw_get(cmd, MKC(ACCESS_MODE_1_0)) | fw_get(cmd, MKC(ACCESS_MODE_4_2)) << 2;
}

static const uint8_t *list_of(const struct fw_cmd *cmd, size_t *ret_bytes)
{
	*ret_bytes = cmd->in_bytes - PRM_CREATE_MKEY_IN_BYTES;
	return cmd->in + PRM_CREATE_MKEY_IN_BYTES;
}

/* Modes for a kernel alone: physical addresses, and those for keys of keys. */
static int check_direct(struct fw_cmd *cmd)
{
	static const uint32_t of_indirect[] = {MKC(FREE), MKC(UMR_EN), MKC(EN_RINVAL)};
	size_t bytes;
	const uint8_t *list = list_of(cmd, &bytes);

	for (size_t i = 0; i < sizeof(of_indirect) / sizeof(of_indirect[0]); i++) {
		if (fw_get(cmd, of_indirect[i]))
			return fw_fail(cmd, PRM_STATUS_BAD_PARAM, of_indirect[i], "of a key over pages");
	}
	for (size_t i = 0; i < bytes; i++) {
		if (list[i])
			return fw_fail(cmd, PRM_STATUS_BAD_PARAM, 0, "addresses of pages");
	}
	return check_range(cmd);
}

static int check_indirect(struct fw_cmd *cmd)
{
	uint64_t log_page = fw_get(cmd, MKC(LOG_PAGE_SIZE)), octwords = fw_get(cmd, MKC(TRANSLATION_OCTWORDS));
	uint64_t listed = fw_get(cmd, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS);
	static const uint32_t of_direct[] = {PRM_CREATE_MKEY_IN_PG_ACCESS, PRM_CREATE_MKEY_IN_UMEM_VALID,
					     PRM_CREATE_MKEY_IN_UMEM_ID, PRM_CREATE_MKEY_IN_UMEM_OFFSET};
	bool is_ksm = mode_of(cmd) == MKEY_KSM;
	size_t bytes;

	list_of(cmd, &bytes);
	for (size_t i = 0; i < sizeof(of_direct) / sizeof(of_direct[0]); i++) {
		if (fw_get(cmd, of_direct[i]))
			return fw_fail(cmd, PRM_STATUS_BAD_PARAM, of_direct[i], "of a key of other keys");
	}
	if (is_ksm ? log_page < 12 || log_page > 31 : log_page)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LOG_PAGE_SIZE), "parts of 2^%u bytes",
			       (unsigned int)log_page);
	if (!octwords || octwords > ENGINE_MAX_PARTS)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(TRANSLATION_OCTWORDS), "room for %u parts",
			       (unsigned int)octwords);
	if (listed > octwords || listed > bytes / OCTWORD_BYTES)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS,
			       "%u parts, room for %u, %zu bytes of them", (unsigned int)listed, (unsigned int)octwords, bytes);
	return 0;
}

static int check(struct fw_cmd *cmd)
{
	bool remote_write = fw_get(cmd, MKC(RW)) || fw_get(cmd, MKC(A));
	uint64_t mode = mode_of(cmd);

	if (mode != MKEY_MTT && mode != MKEY_KLM && mode != MKEY_KSM)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(ACCESS_MODE_1_0), "access mode %u",
			       (unsigned int)mode);
	if (fw_get(cmd, MKC(QPN)) != MKEY_ANY_QPN)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(QPN), "a key for one QP alone");
	if (!fw_get(cmd, MKC(LR)))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LR), "a key without local read");
	if (remote_write && !fw_get(cmd, MKC(LW)))
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LW),
			       "remote write or atomic without local write");
	if (nic_count(cmd->nic, &cmd->nic->n_mrs) >= SIM_MAX_MR)
		return fw_fail(cmd, PRM_STATUS_LIM, 0, "more than %u keys", SIM_MAX_MR);
	return mode == MKEY_MTT ? check_direct(cmd) : check_indirect(cmd);
}

static uint32_t access_of(const struct fw_cmd *cmd)
{
	return (fw_get(cmd, MKC(LW)) ? ENGINE_ACCESS_LOCAL_WRITE : 0) |
	       (fw_get(cmd, MKC(RW)) ? ENGINE_ACCESS_REMOTE_WRITE : 0) |
	       (fw_get(cmd, MKC(RR)) ? ENGINE_ACCESS_REMOTE_READ : 0) |
	       (fw_get(cmd, MKC(A)) ? ENGINE_ACCESS_REMOTE_ATOMIC : 0);
}

static int find_parts(struct fw_cmd *cmd, struct mkey *mkey)
{
	struct object *object = fw_object(cmd, PRM_OP_ALLOC_PD, MKC(PD), "PD");

	if (!object)
		return -EREMOTEIO;
	mkey->pd = container_of(object, struct pd, object);
	object->users++;
	mkey->is_indirect = mode_of(cmd) != MKEY_MTT;
	if (mkey->is_indirect)
		return 0;
	if (!fw_umem(cmd, PRM_CREATE_MKEY_IN_UMEM_ID, PRM_CREATE_MKEY_IN_UMEM_OFFSET, spanned(cmd),
		     fw_get(cmd, MKC(LW)) != 0, &mkey->umem))
		return -EREMOTEIO;
	if (mkey->umem->addr % SIM_PAGE)
		return fw_fail(cmd, PRM_STATUS_BAD_PARAM, PRM_CREATE_MKEY_IN_UMEM_ID,
			       "the umem does not begin at a page");
	return 0;
}

/* Under sim->lock. */
static int enter_direct(struct fw_cmd *cmd, const struct mkey *mkey, uint32_t key)
{
	struct engine_mr_attr attr = {
		.key = key,
		.pdn = mkey->pd->pdn,
		.access = access_of(cmd),
		.iova = fw_get(cmd, MKC(START_ADDR)),
		.length_bytes = fw_get(cmd, MKC(LEN)),
		.mem = &mkey->umem->memory->mem,
		.mem_offset = fw_get(cmd, PRM_CREATE_MKEY_IN_UMEM_OFFSET) + spanned(cmd) -
			      fw_get(cmd, MKC(LEN)),
	};

	return engine_mr_create(cmd->nic->engine, &attr);
}

/* Under sim->lock. */
static int enter_indirect(struct fw_cmd *cmd, const struct mkey *mkey, uint32_t key)
{
	uint64_t log_page = fw_get(cmd, MKC(LOG_PAGE_SIZE));
	struct engine_indirect_attr attr = {
		.key = key,
		.pdn = mkey->pd->pdn,
		.access = access_of(cmd),
		.iova = fw_get(cmd, MKC(START_ADDR)),
		.length_bytes = fw_get(cmd, MKC(LEN)),
		.max_parts = (uint32_t)fw_get(cmd, MKC(TRANSLATION_OCTWORDS)),
		.part_bytes = log_page ? (uint64_t)1 << log_page : 0,
		.is_free = fw_get(cmd, MKC(FREE)) != 0,
		.may_change = fw_get(cmd, MKC(UMR_EN)) != 0,
		.may_invalidate = fw_get(cmd, MKC(EN_RINVAL)) != 0,
		.list_bytes = fw_get(cmd, PRM_CREATE_MKEY_IN_ACTUAL_OCTWORDS) * OCTWORD_BYTES,
	};
	size_t bytes;
	int r;

	attr.list = list_of(cmd, &bytes);
	r = engine_indirect_create(cmd->nic->engine, &attr);
	return r == -EINVAL ? fw_fail(cmd, PRM_STATUS_BAD_PARAM, MKC(LEN), "the parts, or their length") : r;
}

static int enter(struct fw_cmd *cmd, struct mkey *mkey)
{
	struct nic *nic = cmd->nic;
	uint32_t key;
	int r;

	sim_lock(nic->sim);
	key = nic->next_key | (uint32_t)fw_get(cmd, MKC(MKEY_7_0));
	nic->next_key += 0x100;
	r = mkey->is_indirect ? enter_indirect(cmd, mkey, key) : enter_direct(cmd, mkey, key);
	if (r == 0)
		mkey->key = key;
	sim_unlock(nic->sim);
	return r < 0 ? r : object_name(&mkey->object, PRM_OP_CREATE_MKEY, mkey->key >> 8);
}

int fw_create_mkey(struct fw_cmd *cmd)
{
	struct mkey *mkey;
	int r;

	r = check(cmd);
	if (r < 0)
		return r;
	mkey = calloc(1, sizeof(*mkey));
	if (!mkey)
		return -ENOMEM;
	r = object_add(cmd->call->ufile, &mkey->object, OBJECT_DEVX, mkey_free);
	if (r < 0) {
		free(mkey);
		return r;
	}
	sim_lock(cmd->nic->sim);
	cmd->nic->n_mrs++;
	sim_unlock(cmd->nic->sim);
	memcpy(mkey->mkc, cmd->in + PRM_BIT(PRM_CREATE_MKEY_IN_MKC) / 8, sizeof(mkey->mkc));
	r = find_parts(cmd, mkey);
	if (r == 0)
		r = enter(cmd, mkey);
	if (r < 0) {
		object_destroy(&mkey->object);
		return r;
	}
	fw_set(cmd, PRM_CREATE_MKEY_OUT_INDEX, mkey->key >> 8);
	cmd->created = &mkey->object;
	return 0;
}

int fw_query_mkey(struct fw_cmd *cmd)
{
	struct object *object =
		fw_object(cmd, PRM_OP_CREATE_MKEY, PRM_QUERY_MKEY_IN_INDEX, "memory key");
	size_t at = PRM_BIT(PRM_QUERY_MKEY_OUT_MKC) / 8;
	const struct mkey *mkey;

	if (!object)
		return -EREMOTEIO;
	mkey = container_of(object, struct mkey, object);
	if (cmd->out_bytes < at + sizeof(mkey->mkc))
		return fw_fail(cmd, PRM_STATUS_BAD_OUTP_LEN, 0, "%zu bytes", cmd->out_bytes);
	memcpy(cmd->out + at, mkey->mkc, sizeof(mkey->mkc));
	return 0;
}
