/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for one, some or all of many words: the bodies. Contracts are in pe.h, which includes this.
 */
#include <shmd/dev/pe.h>

#ifndef SHMDI_PE_WAIT_MANY_H
#define SHMDI_PE_WAIT_MANY_H

#include <shmd/dev/impl/pe-wait.h>

SHMDI_FN int shmdi_many_is_valid(const struct shmd_dev_wait *many)
{
	return shmdi_until_is_valid(many->words, many->bytes, many->cmp);
}

/* Value i of those that words are compared with. */
SHMDI_FN uint64_t shmdi_many_value(const struct shmd_dev_wait *many, uint64_t i)
{
	if (!many->values)
		return many->value;
	if (many->bytes == 8)
		return ((const uint64_t *)many->values)[i];
	return many->bytes == 4 ? ((const uint32_t *)many->values)[i] : ((const uint16_t *)many->values)[i];
}

SHMDI_FN int shmdi_many_wants(const struct shmd_dev_wait *many, uint64_t i)
{
	return !many->status || many->status[i] == 0;
}

SHMDI_FN struct shmdi_pe_until shmdi_many_until(const struct shmd_dev_wait *many, uint64_t i)
{
	return shmdi_pe_until_of((const uint8_t *)many->words + i * many->bytes, many->bytes, many->cmp,
				 shmdi_many_value(many, i));
}

SHMDI_FN int shmdi_many_holds(const struct shmd_dev_wait *many, uint64_t i)
{
	struct shmdi_pe_until until = shmdi_many_until(many, i);

	return shmdi_pe_until_holds(&until);
}

/* The first index from `i` on whose word is wanted, and holds if `holds`; n if there is none. */
SHMDI_APART uint64_t shmdi_many_next(const struct shmd_dev_wait *many, uint64_t i, int holds)
{
	for (; i < many->n; i++) {
		if (shmdi_many_wants(many, i) && (!holds || shmdi_many_holds(many, i)))
			break;
	}
	return i;
}

/* ---- all --------------------------------------------------------------------------------------------------------------------- */

SHMDI_FN int shmd_dev_wait_until_all(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait)
{
	struct shmdi_pe_wait rounds;
	uint64_t i;
	int rc;

	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	shmdi_pe_wait_init(&rounds, ctx, SHMDI_CTX(ctx->timeout_nsec));
	for (i = shmdi_many_next(wait, 0, 0); i < wait->n; i = shmdi_many_next(wait, i + 1, 0)) {
		while (!shmdi_many_holds(wait, i)) {
			rc = shmdi_pe_wait_round(&rounds);
			if (rc)
				return rc;
		}
	}
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_test_all(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait)
{
	uint64_t i;

	(void)ctx;
	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	for (i = shmdi_many_next(wait, 0, 0); i < wait->n; i = shmdi_many_next(wait, i + 1, 0)) {
		if (!shmdi_many_holds(wait, i))
			return SHMD_DEV_AGAIN;
	}
	return SHMD_DEV_OK;
}

/* ---- any and some --------------------------------------------------------------------------------------------------------------- */

/* Until one holds: its index. SHMD_DEV_NO_INDEX if there is no word to wait for. */
SHMDI_APART int shmdi_many_wait(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *many, uint64_t *ret_index)
{
	struct shmdi_pe_wait rounds;
	uint64_t i;
	int rc;

	*ret_index = SHMD_DEV_NO_INDEX;
	if (shmdi_many_next(many, 0, 0) == many->n)
		return SHMD_DEV_OK;
	shmdi_pe_wait_init(&rounds, ctx, SHMDI_CTX(ctx->timeout_nsec));
	while ((i = shmdi_many_next(many, 0, 1)) == many->n) {
		rc = shmdi_pe_wait_round(&rounds);
		if (rc)
			return rc;
	}
	*ret_index = i;
	return SHMD_DEV_OK;
}

/* The indexes from `i` on that hold. */
SHMDI_FN uint64_t shmdi_many_collect(const struct shmd_dev_wait *many, uint64_t i, uint64_t *ret_indexes)
{
	uint64_t n = 0;

	for (; i < many->n; i = shmdi_many_next(many, i + 1, 1))
		ret_indexes[n++] = i;
	return n;
}

SHMDI_FN int shmd_dev_wait_until_any(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	uint64_t i;
	int rc;

	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	rc = shmdi_many_wait(ctx, wait, &i);
	if (!rc)
		*ret_index = i;
	return rc;
}

SHMDI_FN int shmd_dev_wait_until_some(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes,
				      uint64_t *ret_n)
{
	uint64_t i;
	int rc;

	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	rc = shmdi_many_wait(ctx, wait, &i);
	if (!rc)
		*ret_n = shmdi_many_collect(wait, i, ret_indexes);
	return rc;
}

SHMDI_FN int shmd_dev_test_any(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_index)
{
	uint64_t i;

	(void)ctx;
	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	i = shmdi_many_next(wait, 0, 1);
	if (i == wait->n)
		return SHMD_DEV_AGAIN;
	*ret_index = i;
	return SHMD_DEV_OK;
}

SHMDI_FN int shmd_dev_test_some(struct shmd_dev_ctx *ctx, const struct shmd_dev_wait *wait, uint64_t *ret_indexes,
				uint64_t *ret_n)
{
	uint64_t i;

	(void)ctx;
	if (!shmdi_many_is_valid(wait))
		return SHMD_DEV_INVALID;
	i = shmdi_many_next(wait, 0, 1);
	if (i == wait->n)
		return SHMD_DEV_AGAIN;
	*ret_n = shmdi_many_collect(wait, i, ret_indexes);
	return SHMD_DEV_OK;
}

#endif
