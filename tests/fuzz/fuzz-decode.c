/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a packet of the control protocol. A packet that decodes must encode, decode to the same bytes again, and be
 * formatted within its buffer; the others must fail with a documented error.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/base/assert.h"
#include "proto/codec.h"
#include "proto/framing.h"
#include "tests/fuzz/fuzz.h"

static uint8_t first[FRAMING_MAX_PACKET_BYTES];
static uint8_t second[FRAMING_MAX_PACKET_BYTES];

static void check_message(const struct msg *msg)
{
	char line[512];
	struct msg again;
	int n;

	assert_bug(msg_format(msg, line, sizeof(line)) < (int)sizeof(line));
	n = msg_encode(msg, first, sizeof(first));
	if (n == -EMSGSIZE)
		return; /* absent sub-messages are written out: a packet near the limit may pass it */
	assert_bug(n > 0);
	assert_bug(msg_decode(first, (size_t)n, &again) == 0);
	assert_bug(msg_encode(&again, second, sizeof(second)) == n);
	assert_bug(!memcmp(first, second, (size_t)n));
	msg_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct msg msg;
	int r = msg_decode(bytes, n, &msg);

	assert_bug(r == 0 || r == -EBADMSG || r == -ENOSYS || r == -EMSGSIZE || r == -ENOMEM);
	if (r == 0) {
		check_message(&msg);
		msg_deinit(&msg);
	}
	return 0;
}
