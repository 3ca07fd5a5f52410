/* SPDX-License-Identifier: Apache-2.0 */
/* See proxy-requests.h. Fields are in bits that the flag of a word leaves free. */
#include "libclient/compat/nvshmem/proxy-requests.h"

#define BYTE(word, i) ((uint8_t)((word) >> (8 * (i))))
#define LOW16(word) ((uint16_t)((word) >> 16))
#define HIGH32(word) ((word) >> 32)
#define ALL_BUT_FLAG(word) ((word) & ~UINT64_C(0xff))

bool nvs_ring_has(uint64_t index, uint64_t word)
{
	return BYTE(word, 0) == !(index >> NVS_RING_LOG2 & 1);
}

uint32_t nvs_request_words(uint64_t first)
{
	static const uint8_t words[] = {[NVS_REQUEST_PUT] = 4, [NVS_REQUEST_P] = 3, [NVS_REQUEST_GET] = 4, [NVS_REQUEST_G] = 4,
					[NVS_REQUEST_FENCE] = 1, [NVS_REQUEST_ATOMIC] = 5};
	uint8_t op = BYTE(first, 2);

	return op < sizeof(words) ? words[op] : 0;
}

static void read_move(const uint64_t *words, struct nvs_request *request)
{
	request->local = ALL_BUT_FLAG(words[1]) | BYTE(words[2], 1);
	request->bytes = words[2] >> 16;
	request->pe = LOW16(words[3]);
}

/* A value lies in the upper halves of two words. */
static void read_value(const uint64_t *words, struct nvs_request *request)
{
	request->pe = LOW16(words[1]);
	request->value = HIGH32(words[2]) << 32 | HIGH32(words[1]);
	request->bytes = LOW16(words[2]);
}

void nvs_request_read(const uint64_t *words, struct nvs_request *ret_request)
{
	*ret_request = (struct nvs_request){.op = BYTE(words[0], 2), .offset = words[0] >> 24};
	if (ret_request->op == NVS_REQUEST_PUT || ret_request->op == NVS_REQUEST_GET || ret_request->op == NVS_REQUEST_G)
		read_move(words, ret_request);
	if (ret_request->op == NVS_REQUEST_P || ret_request->op == NVS_REQUEST_ATOMIC)
		read_value(words, ret_request);
	if (ret_request->op == NVS_REQUEST_ATOMIC) {
		ret_request->atomic = BYTE(words[1], 1);
		ret_request->compare = ALL_BUT_FLAG(words[3]) | BYTE(words[2], 1);
		ret_request->result = words[4] >> 8;
	}
}
