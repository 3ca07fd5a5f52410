/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One batch of traffic: puts, adds, sends and immediate writes posted together, then all waited for and checked, then a
 * fetching add and a read, whose results are checked.
 *
 * A receive completion has the number of its message, in the order of posting; bytes are those of the number. The peer's
 * count must equal the sum of the adds.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/cqe.h>

#include "traffic.h"

#define OUTCOME_UNKNOWN 0xf1u
#define IS_IMMEDIATE(number) ((number) & 1)

void traffic_die(const struct traffic_side *side, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "shmemd-traffic: side %s: ", side->name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, " (session: %s; health: %s)\n", shmd_error_text(),
		shmd_health_text(shmd_client_health(side->client)));
	exit(EXIT_FAILURE);
}

/* Is this the one error that a restart may leave? Any other ends the program. */
static bool is_unknown(const struct traffic_side *side, int status, const char *what)
{
	uint32_t index = 0, syndrome;

	if (status == SHMD_DEV_OK)
		return false;
	syndrome = shmd_dev_qp_error(side->qp, &index);
	if (status == SHMD_DEV_CQE_ERROR && syndrome == OUTCOME_UNKNOWN)
		return true;
	traffic_die(side, "%s: %s, syndrome 0x%x at WQE %u", what, shmd_dev_status_text(status), syndrome, index);
}

/* ---- numbers and bytes ------------------------------------------------------------------------------------------ */

/* Bytes of a number: each word is another one. */
static void fill(uint8_t *bytes, size_t n, uint64_t number)
{
	for (size_t i = 0; i < n; i += sizeof(number)) {
		uint64_t word = (number + 1) * 0x9e3779b97f4a7c15ull + i;

		memcpy(bytes + i, &word, sizeof(word));
	}
}

static void check(const struct traffic_side *side, const uint8_t *bytes, size_t n, uint64_t number, const char *what)
{
	for (size_t i = 0; i < n; i += sizeof(number)) {
		uint64_t want = (number + 1) * 0x9e3779b97f4a7c15ull + i, word;

		memcpy(&word, bytes + i, sizeof(word));
		if (word != want)
			traffic_die(side, "%s %" PRIu64 " has other bytes at %zu: %016" PRIx64 " and not %016" PRIx64, what,
				    number, i, word, want);
	}
}

static struct shmd_dev_addr here(const struct traffic_side *side, const void *at)
{
	return shmd_dev_addr_of((uintptr_t)at, shmd_mr_lkey_be(side->mr));
}

static struct shmd_dev_addr there(const struct traffic_side *side, const void *at)
{
	return shmd_dev_addr_of((uintptr_t)at, shmd_mr_rkey_be(side->peer->mr));
}

/* ---- receiving -------------------------------------------------------------------------------------------------- */

static uint32_t from_be32(shmd_be32 value)
{
	uint32_t raw;

	memcpy(&raw, &value, sizeof(raw));
	return __builtin_bswap32(raw);
}

static void post_recv(struct traffic_side *side, uint32_t slot)
{
	int status = shmd_dev_qp_post_recv(side->qp, here(side, side->memory->received[slot % TRAFFIC_RECVS]),
					   TRAFFIC_MESSAGE_BYTES);

	if (status != SHMD_DEV_OK)
		traffic_die(side, "receive: %s", shmd_dev_status_text(status));
}

void traffic_begin(struct traffic_side *side)
{
	memset(side->memory, 0, sizeof(*side->memory));
	side->recv_ci = 0;
	side->n_added = side->n_fetched = 0;
	side->n_messages = side->n_heard = 0;
	for (uint32_t i = 0; i < TRAFFIC_RECVS; i++)
		post_recv(side, i);
}

/* The next of the peer's messages, which is there: its sender has its completion. False: not yet visible. */
static bool hear(struct traffic_side *side)
{
	struct shmd_cqe *cqe = (struct shmd_cqe *)side->rcq.ring + (side->recv_ci & (side->rcq.entries - 1));
	uint8_t owner = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE), opcode = owner >> 4;
	uint32_t imm, number = side->n_heard, dbrec;
	bool is_imm = IS_IMMEDIATE(number);

	if (opcode == SHMD_CQE_INVALID || (owner & SHMD_CQE_OWNER_MASK) != (side->recv_ci / side->rcq.entries & 1))
		return false;
	imm = from_be32(cqe->imm_inval_pkey);
	if (opcode != (is_imm ? SHMD_CQE_RESP_WRITE_IMM : SHMD_CQE_RESP_SEND_IMM) || imm != number)
		traffic_die(side, "message %u came as completion %u with number %u", number, opcode, imm);
	if (from_be32(cqe->byte_cnt) != TRAFFIC_MESSAGE_BYTES)
		traffic_die(side, "message %u has %u bytes", number, from_be32(cqe->byte_cnt));
	if (is_imm)
		check(side, side->memory->immediates[number / 2 % TRAFFIC_BATCH], TRAFFIC_MESSAGE_BYTES, number,
		      "immediate write");
	else
		check(side, side->memory->received[number % TRAFFIC_RECVS], TRAFFIC_MESSAGE_BYTES, number, "send");
	dbrec = __builtin_bswap32(++side->recv_ci & 0xffffff);
	__atomic_store_n((uint32_t *)side->rcq.dbrec, dbrec, __ATOMIC_RELEASE);
	post_recv(side, number);
	side->n_heard++;
	return true;
}

static void hear_all(struct traffic_side *side, uint32_t n)
{
	uint64_t end = shmd_dev_host_now_nsec() + side->patience_nsec;

	while (side->n_heard != n) {
		if (hear(side))
			continue;
		if (shmd_dev_host_now_nsec() > end)
			traffic_die(side, "message %u has not come", side->n_heard);
		shmd_dev_host_relax(0);
	}
	/* And none twice. */
	if (hear(side))
		traffic_die(side, "more messages came than were sent");
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

static int write_imm(struct traffic_side *side, struct shmd_dev_addr remote, struct shmd_dev_addr local, uint32_t imm)
{
	struct shmd_dev_wqe wqe;
	uint64_t index;
	int status = shmd_dev_qp_reserve(side->qp, 1, &index);

	if (status != SHMD_DEV_OK)
		return status;
	wqe = shmd_dev_wqe_at(index, SHMD_WQE_CE_ALWAYS | shmd_dev_qp_fence_flags(side->qp));
	wqe.imm = imm;
	shmd_dev_prepare_write_imm(side->qp, wqe, remote, local, TRAFFIC_MESSAGE_BYTES);
	status = shmd_dev_qp_ready(side->qp, index, 1);
	return status == SHMD_DEV_OK ? shmd_dev_qp_submit(side->qp, index + 1, 0) : status;
}

static int send_message(struct traffic_side *side, uint32_t number)
{
	uint8_t *source = side->memory->message_sources[number % (2 * TRAFFIC_BATCH)];
	void *target = side->peer->memory->immediates[number / 2 % TRAFFIC_BATCH];

	fill(source, TRAFFIC_MESSAGE_BYTES, number);
	if (IS_IMMEDIATE(number))
		return write_imm(side, there(side, target), here(side, source), number);
	return shmd_dev_qp_send_imm(side->qp, here(side, source), TRAFFIC_MESSAGE_BYTES, number);
}

static int put_block(struct traffic_side *side, unsigned int i, uint64_t number)
{
	uint8_t *source = side->memory->block_sources[i];

	fill(source, TRAFFIC_BLOCK_BYTES, number);
	return shmd_dev_qp_put_nbi(side->qp, there(side, side->peer->memory->blocks[i]), here(side, source),
				   TRAFFIC_BLOCK_BYTES);
}

/* One of each kind; the first status that is not OK. */
static int post_round(struct traffic_side *side, unsigned int i)
{
	int status = put_block(side, i, side->n_added);

	if (status == SHMD_DEV_OK)
		status = shmd_dev_qp_atomic_add(side->qp, there(side, &side->peer->memory->counter), 8, 1);
	side->n_added++;
	for (unsigned int k = 0; k < 2 && status == SHMD_DEV_OK; k++)
		status = send_message(side, side->n_messages++);
	return status;
}

static bool post_batch(struct traffic_side *side)
{
	for (unsigned int i = 0; i < TRAFFIC_BATCH; i++)
		if (is_unknown(side, post_round(side, i), "post"))
			return false;
	return !is_unknown(side, shmd_dev_qp_quiet(side->qp, side->patience_nsec), "quiet");
}

static void check_batch(struct traffic_side *side)
{
	struct traffic_memory *memory = side->peer->memory;
	uint64_t counter = __atomic_load_n(&memory->counter, __ATOMIC_ACQUIRE);

	if (counter != side->n_added)
		traffic_die(side, "%" PRIu64 " adds happened %" PRIu64 " times", side->n_added, counter);
	for (unsigned int i = 0; i < TRAFFIC_BATCH; i++)
		check(side, memory->blocks[i], TRAFFIC_BLOCK_BYTES, side->n_added - TRAFFIC_BATCH + i, "put");
	hear_all(side->peer, side->n_messages);
}

static bool fetch_and_read(struct traffic_side *side)
{
	unsigned int i = (unsigned int)(side->n_fetched % TRAFFIC_BATCH);
	uint64_t old = UINT64_MAX;
	int status;

	status = shmd_dev_qp_atomic_fetch_add(side->qp, there(side, &side->peer->memory->fetched), 8, 1,
					      side->patience_nsec, &old);
	if (is_unknown(side, status, "fetching add"))
		return false;
	if (old != side->n_fetched)
		traffic_die(side, "fetching add %" PRIu64 " found %" PRIu64, side->n_fetched, old);
	side->n_fetched++;
	status = shmd_dev_qp_get(side->qp, there(side, side->peer->memory->blocks[i]), here(side, side->memory->read),
				 TRAFFIC_BLOCK_BYTES, side->patience_nsec);
	if (is_unknown(side, status, "get"))
		return false;
	check(side, side->memory->read, TRAFFIC_BLOCK_BYTES, side->n_added - TRAFFIC_BATCH + i, "get");
	return true;
}

bool traffic_batch(struct traffic_side *side)
{
	struct traffic_counts *counts = side->counts;

	if (!post_batch(side))
		return false;
	check_batch(side);
	if (!fetch_and_read(side))
		return false;
	counts->batches++;
	counts->puts += TRAFFIC_BATCH;
	counts->adds += TRAFFIC_BATCH;
	counts->sends += TRAFFIC_BATCH;
	counts->immediates += TRAFFIC_BATCH;
	counts->fetches++;
	counts->gets++;
	return true;
}

/* None more than was posted, and of those that were known to have happened none less. */
void traffic_check_unknown(const struct traffic_side *side)
{
	uint64_t counter = side->peer->memory->counter, fetched = side->peer->memory->fetched;

	if (counter > side->n_added || counter + TRAFFIC_BATCH < side->n_added)
		traffic_die(side, "of %" PRIu64 " adds %" PRIu64 " happened", side->n_added, counter);
	if (fetched != side->n_fetched && fetched != side->n_fetched + 1)
		traffic_die(side, "of %" PRIu64 " fetching adds %" PRIu64 " happened", side->n_fetched + 1, fetched);
}
