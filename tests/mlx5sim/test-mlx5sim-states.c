/* SPDX-License-Identifier: Apache-2.0 */
/* The state table of simulated QPs against the whole of its input. */
#include "tests/lib/test.h"

#include <errno.h>

#include <infiniband/verbs.h>

#include "tests/mlx5sim/sim/qp-table.h"

#define INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define RTR                                                                                        \
	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                           \
	 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS                                                                                        \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)

static int check(uint32_t from, uint32_t to, uint32_t mask)
{
	const char *reason = NULL;
	int r = qp_table_check(ENGINE_QP_RC, from, to, mask, &reason);

	ASSERT(r == 0 || (reason && reason[0]));
	return r;
}

static int check_type(enum engine_qp_type type, uint32_t from, uint32_t to, uint32_t mask)
{
	const char *reason = NULL;
	int r = qp_table_check(type, from, to, mask | IBV_QP_STATE, &reason);

	ASSERT(r == 0 || (reason && reason[0]));
	return r;
}

#define PORT (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define N_TYPES 8

/* The attributes that each type needs on its way up. */
static const struct way {
	enum engine_qp_type type;
	uint32_t init, rtr, rts; /* rts UINT32_MAX: does not go there */
} ways_up[N_TYPES] = {
	{ENGINE_QP_RC, INIT, RTR, RTS},
	{ENGINE_QP_UC, INIT, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	 IBV_QP_SQ_PSN},
	{ENGINE_QP_UD, PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN},
	{ENGINE_QP_DCI, PORT, IBV_QP_PATH_MTU, RTS},
	{ENGINE_QP_DCT, INIT, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER, UINT32_MAX},
	{ENGINE_QP_XRC_INI, INIT, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, RTS},
	{ENGINE_QP_XRC_TGT, INIT, RTR, IBV_QP_TIMEOUT | IBV_QP_SQ_PSN},
	{ENGINE_QP_RAW, IBV_QP_PORT, 0, 0},
};

static void check_step(enum engine_qp_type type, uint32_t from, uint32_t to, uint32_t mask)
{
	ASSERT_OK(check_type(type, from, to, mask));
	for (uint32_t bit = 1; bit; bit <<= 1) {
		if (mask & bit)
			ASSERT_ERR(check_type(type, from, to, mask & ~bit), EINVAL);
	}
	ASSERT_ERR(check_type(type, from, to, mask | IBV_QP_ALT_PATH), EINVAL);
}

TEST(every_type_needs_just_its_own_attributes)
{
	for (unsigned int i = 0; i < N_TYPES; i++) {
		const struct way *way = &ways_up[i];

		check_step(way->type, IBV_QPS_RESET, IBV_QPS_INIT, way->init);
		check_step(way->type, IBV_QPS_INIT, IBV_QPS_RTR, way->rtr);
		if (way->rts != UINT32_MAX)
			check_step(way->type, IBV_QPS_RTR, IBV_QPS_RTS, way->rts);
		else
			ASSERT_ERR(check_type(way->type, IBV_QPS_RTR, IBV_QPS_RTS, 0), EINVAL);
	}
	ASSERT_ERR(check_type(ENGINE_QP_UD, IBV_QPS_RESET, IBV_QPS_INIT, INIT | IBV_QP_QKEY),
		   EINVAL);
	ASSERT_ERR(check_type(ENGINE_QP_RC, IBV_QPS_RESET, IBV_QPS_INIT, INIT | IBV_QP_QKEY),
		   EINVAL);
	ASSERT_OK(
		check_type(ENGINE_QP_DCI, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_PATH_MTU | IBV_QP_AV));
}

TEST(only_unreliable_qps_leave_sqe_and_a_dct_never_goes_back)
{
	for (unsigned int i = 0; i < N_TYPES; i++) {
		enum engine_qp_type type = ways_up[i].type;
		bool unreliable = type == ENGINE_QP_UC || type == ENGINE_QP_UD || type == ENGINE_QP_RAW;

		ASSERT_EQ(check_type(type, IBV_QPS_SQE, IBV_QPS_RTS, 0) == 0, unreliable);
		ASSERT_EQ(check_type(type, IBV_QPS_RTR, IBV_QPS_RESET, 0) == 0,
			  type != ENGINE_QP_DCT);
		ASSERT_EQ(check_type(type, IBV_QPS_RTR, IBV_QPS_ERR, 0) == 0,
			  type != ENGINE_QP_DCT);
		ASSERT_ERR(check_type(type, IBV_QPS_ERR, IBV_QPS_INIT, ways_up[i].init), EINVAL);
	}
}

/* The engine accepts every set that the table passes: it makes an error of sets that it does not know. */
TEST(engine_gets_the_fields_of_its_type)
{
	const struct ib_uverbs_modify_qp cmd = {.attr_mask = INIT | RTR | RTS | IBV_QP_QKEY,
						.port_num = 1,
						.path_mtu = 3,
						.qkey = 0x99};
	const uint32_t sets[N_TYPES] = {
		ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN |
			ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RNR_TIMER |
			ENGINE_QP_SET_RD_ATOMIC,
		ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN |
			ENGINE_QP_SET_SQ_PSN,
		ENGINE_QP_SET_QKEY | ENGINE_QP_SET_SQ_PSN,
		ENGINE_QP_SET_SQ_PSN | ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RD_ATOMIC,
		ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_RNR_TIMER,
		ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_SQ_PSN |
			ENGINE_QP_SET_RETRY | ENGINE_QP_SET_RD_ATOMIC,
		ENGINE_QP_SET_ACCESS | ENGINE_QP_SET_PATH | ENGINE_QP_SET_RQ_PSN | ENGINE_QP_SET_SQ_PSN |
			ENGINE_QP_SET_RNR_TIMER | ENGINE_QP_SET_RD_ATOMIC,
		0,
	};

	for (unsigned int i = 0; i < N_TYPES; i++) {
		struct engine_qp_modify mod;
		const char *reason = NULL;

		ASSERT_OK(qp_table_translate(ways_up[i].type, &cmd, IBV_QPS_RTR, &mod, &reason));
		ASSERT_EQ(mod.set, sets[i]);
		ASSERT_EQ(mod.qkey, 0x99);
	}
}

TEST(qp_goes_from_reset_to_rts_in_three_steps)
{
	ASSERT_OK(check(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | INIT));
	ASSERT_OK(check(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE | RTR));
	ASSERT_OK(check(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | RTS));
}

TEST(every_required_attribute_is_required)
{
	static const struct {
		uint32_t from, to, mask;
	} steps[] = {{IBV_QPS_RESET, IBV_QPS_INIT, INIT},
		     {IBV_QPS_INIT, IBV_QPS_RTR, RTR},
		     {IBV_QPS_RTR, IBV_QPS_RTS, RTS}};

	for (unsigned int i = 0; i < 3; i++) {
		for (uint32_t bit = 1; bit; bit <<= 1) {
			if (steps[i].mask & bit)
				ASSERT_ERR(check(steps[i].from, steps[i].to,
						 IBV_QP_STATE | (steps[i].mask & ~bit)),
					   EINVAL);
		}
	}
}

TEST(attributes_of_other_steps_and_unknown_bits_are_refused)
{
	ASSERT_ERR(check(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | INIT | IBV_QP_AV), EINVAL);
	ASSERT_ERR(check(IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_STATE | INIT | 1u << 31), EINVAL);
	ASSERT_ERR(check(IBV_QPS_INIT, IBV_QPS_RTR, IBV_QP_STATE | RTR | IBV_QP_SQ_PSN), EINVAL);
	ASSERT_ERR(check(IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_STATE | RTS | IBV_QP_AV), EINVAL);
	ASSERT_ERR(check(IBV_QPS_RTS, IBV_QPS_ERR, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
}

TEST(only_transitions_of_the_standard_exist)
{
	/* [from] bits of to, apart from RESET and ERR; SQE has no way out for RC. */
	static const uint32_t ways[] = {
		[IBV_QPS_RESET] = 1u << IBV_QPS_INIT,
		[IBV_QPS_INIT] = 1u << IBV_QPS_INIT | 1u << IBV_QPS_RTR,
		[IBV_QPS_RTR] = 1u << IBV_QPS_RTS,
		[IBV_QPS_RTS] = 1u << IBV_QPS_RTS | 1u << IBV_QPS_SQD,
		[IBV_QPS_SQD] = 1u << IBV_QPS_RTS,
		[IBV_QPS_SQE] = 0,
		[IBV_QPS_ERR] = 0,
	};

	for (uint32_t from = 0; from <= IBV_QPS_ERR; from++) {
		for (uint32_t to = 0; to < 32; to++) {
			uint32_t mask = IBV_QP_STATE |
					(to == IBV_QPS_INIT && from == IBV_QPS_RESET ? INIT : 0) |
					(to == IBV_QPS_RTR ? RTR : 0) |
					(to == IBV_QPS_RTS && from == IBV_QPS_RTR ? RTS : 0);
			bool allowed =
				to == IBV_QPS_RESET || to == IBV_QPS_ERR || (ways[from] >> to & 1);

			ASSERT_EQ(check(from, to, mask) == 0, allowed);
		}
	}
}

#define VALUE_REFUSED(bit, field, value)                                                           \
	do {                                                                                       \
		struct ib_uverbs_modify_qp cmd = {.attr_mask = (bit), .port_num = 1};              \
		struct engine_qp_modify mod;                                                       \
		const char *reason = NULL;                                                         \
		cmd.field = (value);                                                               \
		ASSERT_ERR(qp_table_translate(ENGINE_QP_RC, &cmd, IBV_QPS_RTS, &mod, &reason),     \
			   EINVAL);                                                                \
		cmd.attr_mask = 0;                                                                 \
		ASSERT_OK(qp_table_translate(ENGINE_QP_RC, &cmd, IBV_QPS_RTS, &mod, &reason));     \
	} while (0)

TEST(values_beyond_the_device_are_refused)
{
	VALUE_REFUSED(IBV_QP_PORT, port_num, 2);
	VALUE_REFUSED(IBV_QP_PORT, port_num, 0);
	VALUE_REFUSED(IBV_QP_PKEY_INDEX, pkey_index, 1);
	VALUE_REFUSED(IBV_QP_ACCESS_FLAGS, qp_access_flags, 0x400);
	VALUE_REFUSED(IBV_QP_PATH_MTU, path_mtu, 0);
	VALUE_REFUSED(IBV_QP_PATH_MTU, path_mtu, 6);
	VALUE_REFUSED(IBV_QP_DEST_QPN, dest_qp_num, 0x1000000);
	VALUE_REFUSED(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 17);
	VALUE_REFUSED(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 17);
	VALUE_REFUSED(IBV_QP_TIMEOUT, timeout, 32);
	VALUE_REFUSED(IBV_QP_RETRY_CNT, retry_cnt, 8);
	VALUE_REFUSED(IBV_QP_RNR_RETRY, rnr_retry, 8);
	VALUE_REFUSED(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 32);
}

TEST(one_read_may_be_in_flight_by_default)
{
	struct ib_uverbs_modify_qp cmd = {.attr_mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_ACCESS_FLAGS,
					  .qp_access_flags = 0x300 | IBV_ACCESS_REMOTE_READ};
	struct engine_qp_modify mod;
	const char *reason = NULL;

	ASSERT_OK(qp_table_translate(ENGINE_QP_RC, &cmd, IBV_QPS_RTS, &mod, &reason));
	ASSERT_EQ(mod.max_rd_atomic, 1);
	ASSERT_EQ(mod.access, ENGINE_ACCESS_REMOTE_READ);
}
