/* SPDX-License-Identifier: Apache-2.0 */
/* The dumper: its text for known bytes, and that it survives any other bytes. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <shmd/abi/cqe.h>
#include <shmd/abi/wqe.h>

#include "kernels/host/wqe-dump.h"
#include "tests/lib/test.h"

static void words(uint8_t *to, const uint32_t *from, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		uint32_t be = htobe32(from[i]);

		memcpy(to + 4 * i, &be, 4);
	}
}

static void expect_wqe(const uint32_t *w, unsigned int n, const char *text)
{
	uint8_t bytes[256];
	char buf[500];

	words(bytes, w, n);
	ASSERT_EQ(wqe_dump(buf, sizeof(buf), bytes, n * 4, 0), (int)strlen(text));
	ASSERT_STREQ(buf, text);
}

TEST(wqes_in_words)
{
	static const uint32_t write[] = {0x00000508, 0x00123403, 0x08, 0,    0x1, 0x2000,
					 0x77,	     0,		 64,   0x88, 0,	  0x3000};
	static const uint32_t send_imm[] = {0x0000000b, 0x00123402, 0x4a, 0xcafe,
					    0x80000004, 0xdeadbeef, 0,	  0};
	static const uint32_t add[] = {0x00000012, 0x00123404, 0, 0, 0, 0x10, 0x77, 0,
				       0,	   5,	       0, 0, 8, 0x88, 0,    0x30};
	static const uint32_t swap[] = {0x08000014, 0x00123404, 0, 0, 0, 0x10, 0x77, 0,
					1,	    2,		3, 4, 4, 0x88, 0,    0x30};
	static const uint32_t nop[] = {0x00000100, 0x00123401, 0, 0};
	static const uint32_t other[] = {0x0000012f, 0x00123402, 0, 0, 1, 2, 3, 4};

	expect_wqe(write, 12,
		   "rdma-write index 5 qpn 0x1234 ds 3 signaled, raddr 0x100002000 rkey 0x77, "
		   "64 bytes at 0x3000 lkey 0x88");
	expect_wqe(send_imm, 8,
		   "send-imm index 0 qpn 0x1234 ds 2 signaled fence solicited imm 0xcafe, inline 4 "
		   "bytes, hex "
		   "deadbeef 00000000 00000000");
	expect_wqe(add, 16,
		   "atomic-fa index 0 qpn 0x1234 ds 4, raddr 0x10 rkey 0x77, add 0x5, 8 bytes at "
		   "0x30 lkey 0x88");
	expect_wqe(swap, 16,
		   "atomic-masked-cs index 0 qpn 0x1234 ds 4, raddr 0x10 rkey 0x77, 4 bytes swap "
		   "0x1 compare 0x2 "
		   "swap-mask 0x3 compare-mask 0x4, 4 bytes at 0x30 lkey 0x88");
	expect_wqe(nop, 4, "nop index 1 qpn 0x1234 ds 1");
	expect_wqe(other, 8,
		   "unknown-0x2f index 1 qpn 0x1234 ds 2, hex 00000001 00000002 00000003 00000004");
}

TEST(receive_wqes_in_words)
{
	static const uint32_t recv[] = {64, 0x88, 0, 0x3000, 0, SHMD_LKEY_TERMINATE, 0, 0};
	uint8_t bytes[32];
	char buf[200];

	words(bytes, recv, 8);
	wqe_dump_recv(buf, sizeof(buf), bytes, sizeof(bytes), 0);
	ASSERT_STREQ(buf, "receive, 64 bytes at 0x3000 lkey 0x88, end of list");
}

TEST(cqes_in_words)
{
	struct shmd_err_cqe err = {.syndrome = SHMD_SYNDROME_REMOTE_ACCESS_ERR,
				   .s_wqe_opcode_qpn = htobe32(0x08001234),
				   .wqe_counter = htobe16(7),
				   .op_own = SHMD_CQE_REQ_ERR << 4};
	struct shmd_cqe cqe = {.byte_cnt = htobe32(64),
			       .sop_drop_qpn = htobe32(0x10001234),
			       .wqe_counter = htobe16(9),
			       .op_own = SHMD_CQE_REQ << 4 | 1};
	char buf[200];

	cqe_dump(buf, sizeof(buf), &err);
	ASSERT_STREQ(buf, "requester-error owner 0 qpn 0x1234 wqe 7 remote access error, syndrome "
			  "0x13 vendor 0x00");
	cqe_dump(buf, sizeof(buf), &cqe);
	ASSERT_STREQ(buf, "requester owner 1 qpn 0x1234 wqe 9 rdma-read 64 bytes");
	cqe.op_own = SHMD_CQE_RESP_WRITE_IMM << 4;
	cqe.imm_inval_pkey = htobe32(0xcafe);
	cqe_dump(buf, sizeof(buf), &cqe);
	ASSERT_STREQ(buf, "responder-write-imm owner 0 qpn 0x1234 wqe 9 64 bytes imm 0xcafe");
	memset(&cqe, 0xff, sizeof(cqe));
	cqe_dump(buf, sizeof(buf), &cqe);
	ASSERT_STREQ(buf, "invalid owner 1 qpn 0xffffff wqe 65535");
}

TEST(every_number_has_a_name)
{
	for (unsigned int i = 0; i < 256; i++) {
		ASSERT(wqe_opcode_name(i)[0]);
		ASSERT(cqe_opcode_name(i)[0]);
		ASSERT(cqe_syndrome_name(i)[0]);
	}
	ASSERT_STREQ(wqe_opcode_name(0x08), "rdma-write");
	ASSERT_STREQ(wqe_opcode_name(0x2f), "unknown");
	ASSERT_STREQ(cqe_syndrome_name(0x13), "remote access error");
	ASSERT_STREQ(cqe_syndrome_name(0x05), "flushed");
}

/* Any bytes, any room: terminated, and the length does not depend on the room. */
TEST(random_bytes_and_small_buffers)
{
	uint64_t seed = 5;

	for (unsigned int i = 0; i < 3000; i++) {
		size_t bytes, room;
		char big[16384], *small;
		uint8_t *wqe;
		int length;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		bytes = (seed >> 33) % 130;
		room = (seed >> 45) % 200;
		wqe = malloc(bytes + 1);
		small = malloc(room + 1);
		for (size_t k = 0; k < bytes; k++)
			wqe[k] = (uint8_t)((seed + k * 0x9e3779b97f4a7c15ull) >> 40);
		if (bytes > 3)
			wqe[3] = (uint8_t)(seed >> 20) % 0x30;
		length = wqe_dump(big, sizeof(big), wqe, bytes, 0);
		ASSERT_EQ(length, (int)strlen(big));
		ASSERT_EQ(wqe_dump(small, room, wqe, bytes, 0), length);
		if (room) {
			ASSERT_LT(strlen(small), room);
			ASSERT_MEMEQ(small, big, strlen(small));
		}
		wqe_dump_recv(small, room, wqe, bytes, 0);
		if (bytes >= 64)
			cqe_dump(small, room, wqe);
		ASSERT_EQ(wqe_dump(NULL, 0, wqe, bytes, 0), length);
		length = wqe_dump(big, sizeof(big), wqe, bytes, WQE_HAS_AV);
		ASSERT_EQ(length, (int)strlen(big));
		ASSERT_EQ(wqe_dump(small, room, wqe, bytes, WQE_HAS_AV), length);
		free(wqe);
		free(small);
	}
}

static const uint32_t dci_head[] = {0x00000508, 0x00123406, 0x08, 0};
static const uint32_t roce_av[] = {0x11223344, 0x55667788, 0x80000456, 0xc123, 0, 0x02030405, 0x06076840, 0,
				   0xfd000000, 0, 0, 0x9};
static const uint32_t ib_av[] = {0x11223344, 0x55667788, 0x80000456, 0x7, 0, 0, 0, 0, 0, 0, 0, 0};

/* A write of a DCI with this address vector of n words, in words. */
static void expect_dci(const uint32_t *av, unsigned int n, unsigned int flags, const char *text)
{
	static const uint32_t rest[] = {0x1, 0x2000, 0x77, 0, 64, 0x88, 0, 0x3000};
	uint8_t bytes[128];
	char buf[500];

	words(bytes, dci_head, 4);
	words(bytes + 16, av, n);
	words(bytes + 16 + 4 * n, rest, 8);
	ASSERT_EQ(wqe_dump(buf, sizeof(buf), bytes, 16 + 4 * n + 32, flags), (int)strlen(text));
	ASSERT_STREQ(buf, text);
}

TEST(address_vectors_in_words)
{
	expect_dci(roce_av, 12, WQE_HAS_AV,
		   "rdma-write index 5 qpn 0x1234 ds 6 signaled, to 0x456 dc-key 0x1122334455667788 lid or port 49443 "
		   "mac 02:03:04:05:06:07 gid fd000000000000000000000000000009 class 104, raddr 0x100002000 rkey 0x77, "
		   "64 bytes at 0x3000 lkey 0x88");
	expect_dci(ib_av, 12, WQE_HAS_AV | WQE_HIDE_KEYS,
		   "rdma-write index 5 qpn 0x1234 ds 6 signaled, to 0x456 dc-key hidden lid or port 7, "
		   "raddr 0x100002000 rkey hidden, 64 bytes at 0x3000 lkey hidden");
}

/* Its first 16 bytes alone, where the bit of the long form is not set. */
TEST(short_address_vectors_in_words)
{
	static const uint32_t av[] = {0x11223344, 0x55667788, 0x456, 0x7};

	expect_dci(av, 4, WQE_HAS_AV,
		   "rdma-write index 5 qpn 0x1234 ds 6 signaled, to 0x456 dc-key 0x1122334455667788 lid or port 7, "
		   "raddr 0x100002000 rkey 0x77, 64 bytes at 0x3000 lkey 0x88");
}

TEST(the_key_of_an_address_vector_is_hidden_whatever_the_opcode)
{
	uint8_t bytes[64];
	char buf[500];

	words(bytes, dci_head, 4);
	words(bytes + 16, roce_av, 12);
	for (unsigned int opcode = 1; opcode < 256; opcode++) {
		bytes[3] = (uint8_t)opcode;
		wqe_dump(buf, sizeof(buf), bytes, sizeof(bytes), WQE_HAS_AV | WQE_HIDE_KEYS);
		ASSERT(strstr(buf, "dc-key hidden"));
		ASSERT(!strstr(buf, "11223344"));
	}
}

TEST(keys_and_data_can_be_hidden)
{
	static const uint32_t send[] = {0x0000000a, 0x00123403, 0, 0, 64, 0x88, 0, 0x30, 0x80000004, 0xdeadbeef, 0, 0};
	static const uint32_t recv[] = {64, 0x88, 0, 0x30};
	static const uint32_t other[] = {0x0000012f, 0x00123402, 0, 0, 1, 2, 3, 4};
	uint8_t bytes[64];
	char buf[500];

	words(bytes, send, 12);
	wqe_dump(buf, sizeof(buf), bytes, 48, WQE_HIDE_KEYS);
	ASSERT_STREQ(buf, "send index 0 qpn 0x1234 ds 3, 64 bytes at 0x30 lkey hidden, inline 4 bytes, hex deadbeef "
			  "00000000 00000000");
	wqe_dump(buf, sizeof(buf), bytes, 48, WQE_HIDE_DATA);
	ASSERT_STREQ(buf, "send index 0 qpn 0x1234 ds 3, 64 bytes at 0x30 lkey 0x88, inline 4 bytes, 12 bytes hidden");
	words(bytes, recv, 4);
	wqe_dump_recv(buf, sizeof(buf), bytes, 16, WQE_HIDE_KEYS);
	ASSERT_STREQ(buf, "receive, 64 bytes at 0x30 lkey hidden");
	words(bytes, other, 8);
	wqe_dump(buf, sizeof(buf), bytes, 32, WQE_HIDE_DATA);
	ASSERT_STREQ(buf, "unknown-0x2f index 1 qpn 0x1234 ds 2, 16 bytes hidden");
}
