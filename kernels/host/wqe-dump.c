/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WQEs and CQEs in words.
 *
 * Shows what is there, right or wrong: a WQE that the parser refuses is shown with its segments as far as they
 * can be recognised, the rest as hex. Reads at most the bytes it was given. Any thread.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "wqe-dump.h"

/* snprintf into what is left, counting what would have been written. */
struct text {
	char *buf;
	size_t size;
	size_t length;
	unsigned int hide; /* WQE_HIDE_*, WQE_HAS_AV */
};

static void put(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *fmt, ...)
{
	size_t used = t->length < t->size ? t->length : t->size;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->size ? t->buf + used : NULL, t->size - used, fmt, args);
	va_end(args);
	if (n > 0)
		t->length += (size_t)n;
}

static uint16_t load16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load32(const uint8_t *p)
{
	return (uint32_t)load16(p) << 16 | load16(p + 2);
}

static uint64_t load64(const uint8_t *p)
{
	return (uint64_t)load32(p) << 32 | load32(p + 4);
}

const char *wqe_opcode_name(unsigned int opcode)
{
	switch (opcode) {
	case SHMD_OPCODE_NOP:
		return "nop";
	case SHMD_OPCODE_SEND_INVAL:
		return "send-inval";
	case SHMD_OPCODE_RDMA_WRITE:
		return "rdma-write";
	case SHMD_OPCODE_RDMA_WRITE_IMM:
		return "rdma-write-imm";
	case SHMD_OPCODE_SEND:
		return "send";
	case SHMD_OPCODE_SEND_IMM:
		return "send-imm";
	case SHMD_OPCODE_TSO:
		return "tso";
	case SHMD_OPCODE_RDMA_READ:
		return "rdma-read";
	case SHMD_OPCODE_ATOMIC_CS:
		return "atomic-cs";
	case SHMD_OPCODE_ATOMIC_FA:
		return "atomic-fa";
	case SHMD_OPCODE_ATOMIC_MASKED_CS:
		return "atomic-masked-cs";
	case SHMD_OPCODE_ATOMIC_MASKED_FA:
		return "atomic-masked-fa";
	case SHMD_OPCODE_LOCAL_INVAL:
		return "local-inval";
	case SHMD_OPCODE_DUMP:
		return "dump";
	case SHMD_OPCODE_UMR:
		return "umr";
	}
	return "unknown";
}

const char *cqe_opcode_name(unsigned int opcode)
{
	switch (opcode) {
	case SHMD_CQE_REQ:
		return "requester";
	case SHMD_CQE_RESP_WRITE_IMM:
		return "responder-write-imm";
	case SHMD_CQE_RESP_SEND:
		return "responder-send";
	case SHMD_CQE_RESP_SEND_IMM:
		return "responder-send-imm";
	case SHMD_CQE_RESP_SEND_INV:
		return "responder-send-inv";
	case SHMD_CQE_RESIZE:
		return "resize";
	case SHMD_CQE_SIG_ERR:
		return "signature-error";
	case SHMD_CQE_REQ_ERR:
		return "requester-error";
	case SHMD_CQE_RESP_ERR:
		return "responder-error";
	case SHMD_CQE_INVALID:
		return "invalid";
	}
	return "unknown";
}

const char *cqe_syndrome_name(unsigned int syndrome)
{
	switch (syndrome) {
	case SHMD_SYNDROME_LOCAL_LENGTH_ERR:
		return "local length error";
	case SHMD_SYNDROME_LOCAL_QP_OP_ERR:
		return "local qp operation error";
	case SHMD_SYNDROME_LOCAL_PROT_ERR:
		return "local protection error";
	case SHMD_SYNDROME_WR_FLUSH_ERR:
		return "flushed";
	case SHMD_SYNDROME_MW_BIND_ERR:
		return "memory window bind error";
	case SHMD_SYNDROME_BAD_RESP_ERR:
		return "bad response error";
	case SHMD_SYNDROME_LOCAL_ACCESS_ERR:
		return "local access error";
	case SHMD_SYNDROME_REMOTE_INVAL_REQ_ERR:
		return "remote invalid request error";
	case SHMD_SYNDROME_REMOTE_ACCESS_ERR:
		return "remote access error";
	case SHMD_SYNDROME_REMOTE_OP_ERR:
		return "remote operation error";
	case SHMD_SYNDROME_TRANSPORT_RETRY_EXC_ERR:
		return "transport retries exceeded";
	case SHMD_SYNDROME_RNR_RETRY_EXC_ERR:
		return "receiver-not-ready retries exceeded";
	case SHMD_SYNDROME_REMOTE_ABORTED_ERR:
		return "remote aborted error";
	case SHMD_SYNDROME_OUTCOME_UNKNOWN:
		return "outcome unknown";
	}
	return "unknown syndrome";
}

static void dump_hex(struct text *t, const uint8_t *at, size_t bytes)
{
	if (!bytes)
		return;
	if (t->hide & WQE_HIDE_DATA) {
		put(t, ", %zu bytes hidden", bytes);
		return;
	}
	put(t, ", hex");
	for (size_t i = 0; i < bytes; i++)
		put(t, "%s%02x", i % 4 ? "" : " ", at[i]);
}

static void dump_key(struct text *t, const char *name, uint32_t key)
{
	if (t->hide & WQE_HIDE_KEYS)
		put(t, " %s hidden", name);
	else
		put(t, " %s 0x%x", name, key);
}

static bool any_set(const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (at[i])
			return true;
	return false;
}

/* Bytes that were shown. Fields that are 0 are left out: one kind of link has a MAC, the other may have no GID. */
static size_t dump_av(struct text *t, const uint8_t *at, size_t bytes)
{
	bool extended = bytes >= sizeof(struct shmd_wqe_av_seg) && (load32(at + 8) & SHMD_AV_EXTENDED);

	if (bytes < SHMD_AV_SHORT_BYTES)
		return 0;
	put(t, ", to 0x%x", load32(at + 8) & 0xffffff);
	if (t->hide & WQE_HIDE_KEYS)
		put(t, " dc-key hidden");
	else
		put(t, " dc-key 0x%" PRIx64, load64(at));
	put(t, " lid or port %u", load16(at + 14));
	if (!extended)
		return SHMD_AV_SHORT_BYTES;
	if (any_set(at + 20, 6))
		put(t, " mac %02x:%02x:%02x:%02x:%02x:%02x", at[20], at[21], at[22], at[23], at[24], at[25]);
	if (any_set(at + 32, 16))
		put(t, " gid %016" PRIx64 "%016" PRIx64, load64(at + 32), load64(at + 40));
	if (at[26])
		put(t, " class %u", at[26]);
	return sizeof(struct shmd_wqe_av_seg);
}

static bool has_raddr(unsigned int opcode)
{
	switch (opcode) {
	case SHMD_OPCODE_RDMA_WRITE:
	case SHMD_OPCODE_RDMA_WRITE_IMM:
	case SHMD_OPCODE_RDMA_READ:
	case SHMD_OPCODE_ATOMIC_CS:
	case SHMD_OPCODE_ATOMIC_FA:
	case SHMD_OPCODE_ATOMIC_MASKED_CS:
	case SHMD_OPCODE_ATOMIC_MASKED_FA:
		return true;
	}
	return false;
}

static bool has_data(unsigned int opcode)
{
	return has_raddr(opcode) || opcode == SHMD_OPCODE_SEND || opcode == SHMD_OPCODE_SEND_IMM;
}

/* Bytes of the atomic segment that were shown, 0 when this WQE has none. */
static size_t dump_atomic(struct text *t, uint32_t head, const uint8_t *at, size_t bytes)
{
	unsigned int opcode = head & 0xff;
	bool wide = head >> 24 == SHMD_OPMOD_EXT_ATOMIC_8;

	if (opcode < SHMD_OPCODE_ATOMIC_CS || opcode > SHMD_OPCODE_ATOMIC_MASKED_FA || bytes < 16)
		return 0;
	if (opcode == SHMD_OPCODE_ATOMIC_CS) {
		put(t, ", swap 0x%" PRIx64 " compare 0x%" PRIx64, load64(at), load64(at + 8));
	} else if (opcode == SHMD_OPCODE_ATOMIC_FA) {
		put(t, ", add 0x%" PRIx64, load64(at));
	} else if (opcode == SHMD_OPCODE_ATOMIC_MASKED_FA && wide) {
		put(t, ", 8 bytes add 0x%" PRIx64 " boundary 0x%" PRIx64, load64(at),
		    load64(at + 8));
	} else if (opcode == SHMD_OPCODE_ATOMIC_MASKED_FA) {
		put(t, ", 4 bytes add 0x%x boundary 0x%x", load32(at), load32(at + 4));
	} else if (wide && bytes >= 32) {
		put(t, ", 8 bytes swap 0x%" PRIx64 " compare 0x%" PRIx64, load64(at),
		    load64(at + 8));
		put(t, " swap-mask 0x%" PRIx64 " compare-mask 0x%" PRIx64, load64(at + 16),
		    load64(at + 24));
		return 32;
	} else {
		put(t, ", 4 bytes swap 0x%x compare 0x%x swap-mask 0x%x compare-mask 0x%x",
		    load32(at), load32(at + 4), load32(at + 8), load32(at + 12));
	}
	return 16;
}

static void dump_data(struct text *t, const uint8_t *at, size_t bytes)
{
	while (bytes >= SHMD_DS_BYTES) {
		uint32_t count = load32(at);

		if (count & SHMD_INLINE_SEG) {
			put(t, ", inline %u bytes", count & ~SHMD_INLINE_SEG);
			dump_hex(t, at + 4, bytes - 4);
			return;
		}
		if (!count && load32(at + 4) == SHMD_LKEY_TERMINATE) {
			put(t, ", end of list");
			return;
		}
		put(t, ", %u bytes at 0x%" PRIx64, count, load64(at + 8));
		dump_key(t, "lkey", load32(at + 4));
		at += SHMD_DS_BYTES;
		bytes -= SHMD_DS_BYTES;
	}
	dump_hex(t, at, bytes);
}

static void dump_flags(struct text *t, uint8_t flags)
{
	static const char *const completion[] = {"", " ce-first-error", " signaled",
						 " signaled-eqe"};
	static const char *const fence[] = {
		"",	 " small-fence", " fence", " strong-fence", " fence-small",
		" fm-5", " fm-6",	 " fm-7"};

	put(t, "%s%s%s", completion[(flags & SHMD_WQE_CE_MASK) >> 2], fence[flags >> 5],
	    flags & SHMD_WQE_SOLICITED ? " solicited" : "");
}

int wqe_dump(char *buf, size_t size, const void *wqe, size_t bytes, unsigned int hide)
{
	struct text t = {buf, size, 0, hide};
	const uint8_t *at = wqe;
	size_t wqe_bytes;
	uint32_t head;

	if (size)
		buf[0] = 0;
	if (bytes < SHMD_DS_BYTES) {
		put(&t, "truncated wqe");
		dump_hex(&t, at, bytes);
		return (int)t.length;
	}
	head = load32(at);
	put(&t, "%s", wqe_opcode_name(head & 0xff));
	if (!strcmp(wqe_opcode_name(head & 0xff), "unknown"))
		put(&t, "-0x%02x", head & 0xff);
	put(&t, " index %u qpn 0x%x ds %u", (head >> 8) & 0xffff, load32(at + 4) >> 8,
	    at[7] & 0x3f);
	dump_flags(&t, at[11]);
	if ((head & 0xff) == SHMD_OPCODE_RDMA_WRITE_IMM || (head & 0xff) == SHMD_OPCODE_SEND_IMM)
		put(&t, " imm 0x%x", load32(at + 12));
	wqe_bytes = (size_t)(at[7] & 0x3f) * SHMD_DS_BYTES;
	bytes = wqe_bytes < bytes ? wqe_bytes : bytes;
	bytes = bytes > SHMD_DS_BYTES ? bytes - SHMD_DS_BYTES : 0;
	at += SHMD_DS_BYTES;
	/* Also before what is not understood: its key is not for everybody's eyes. */
	if ((hide & WQE_HAS_AV) && (head & 0xff) != SHMD_OPCODE_NOP) {
		size_t n = dump_av(&t, at, bytes);

		at += n;
		bytes -= n;
	}
	if (has_raddr(head & 0xff) && bytes >= sizeof(struct shmd_wqe_raddr_seg)) {
		size_t n;

		put(&t, ", raddr 0x%" PRIx64, load64(at));
		dump_key(&t, "rkey", load32(at + 8));
		n = 16 + dump_atomic(&t, head, at + 16, bytes - 16);
		at += n;
		bytes -= n;
	}
	if (has_data(head & 0xff))
		dump_data(&t, at, bytes);
	else
		dump_hex(&t, at, bytes);
	return (int)t.length;
}

int wqe_dump_recv(char *buf, size_t size, const void *wqe, size_t bytes, unsigned int hide)
{
	struct text t = {buf, size, 0, hide};

	if (size)
		buf[0] = 0;
	put(&t, "receive");
	dump_data(&t, wqe, bytes);
	return (int)t.length;
}

int cqe_dump(char *buf, size_t size, const void *cqe)
{
	struct text t = {buf, size, 0, 0};
	const uint8_t *at = cqe;
	unsigned int opcode = at[63] >> 4;

	if (size)
		buf[0] = 0;
	put(&t, "%s", cqe_opcode_name(opcode));
	if (!strcmp(cqe_opcode_name(opcode), "unknown"))
		put(&t, "-0x%x", opcode);
	put(&t, " owner %u qpn 0x%x wqe %u", at[63] & SHMD_CQE_OWNER_MASK,
	    load32(at + 56) & 0xffffff, load16(at + 60));
	switch (opcode) {
	case SHMD_CQE_REQ_ERR:
	case SHMD_CQE_RESP_ERR:
		put(&t, " %s, syndrome 0x%02x vendor 0x%02x", cqe_syndrome_name(at[55]), at[55],
		    at[54]);
		break;
	case SHMD_CQE_RESP_WRITE_IMM:
	case SHMD_CQE_RESP_SEND_IMM:
		put(&t, " %u bytes imm 0x%x", load32(at + 44), load32(at + 36));
		break;
	case SHMD_CQE_RESP_SEND:
		put(&t, " %u bytes", load32(at + 44));
		break;
	case SHMD_CQE_REQ:
		put(&t, " %s %u bytes", wqe_opcode_name(at[56]), load32(at + 44));
		break;
	default:
		break;
	}
	return (int)t.length;
}
