/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from outside of a bootstrap. The first byte of an input chooses: a hello, a reply, an id as bytes or as text, a launcher's reply, frames
 * of a link.
 *
 * Without the secret no hello or reply counts. With it, one that is accepted has its numbers in range and is the same when it is written again.
 * A value of a launcher's reply lies in its buffer. Frames have ranks of the job and no more bytes than came.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libclient/runtime/bootstrap/bootstrap.h"
#include "libclient/runtime/bootstrap/link.h"
#include "libclient/runtime/bootstrap/pmi.h"
#include "libclient/runtime/bootstrap/wire.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define N_RANKS 5u
#define MOST_FRAME_BYTES 4096u

static const uint8_t secret[UID_SECRET_BYTES] = "a secret of ours", challenge[WIRE_NONCE_BYTES] = "asked";

static void copy(void *to, size_t room, const uint8_t *bytes, size_t n)
{
	memset(to, 0, room);
	if (n)
		memcpy(to, bytes, n < room ? n : room);
}

static void try_hello(const uint8_t *bytes, size_t n)
{
	uint8_t raw[WIRE_HELLO_BYTES], again[WIRE_HELLO_BYTES], nonce[WIRE_NONCE_BYTES];
	struct wire_hello hello, got;

	copy(raw, sizeof(raw), bytes, n);
	wire_challenge_read(raw, nonce);
	assert_bug(wire_hello_read(raw, secret, challenge, &got) < 0);
	copy(&hello, sizeof(hello), bytes, n);
	wire_hello(&hello, secret, challenge, raw);
	if (wire_hello_read(raw, secret, challenge, &got))
		return;
	assert_bug(got.rank < got.size && got.place < got.size && got.size <= WIRE_MOST_RANKS);
	assert_bug(memchr(got.version, 0, sizeof(got.version)));
	wire_hello(&got, secret, challenge, again);
	assert_bug(!memcmp(raw, again, sizeof(raw)));
}

static void try_reply(const uint8_t *bytes, size_t n)
{
	uint8_t raw[WIRE_REPLY_BYTES], again[WIRE_REPLY_BYTES];
	struct wire_reply reply, got;

	copy(raw, sizeof(raw), bytes, n);
	assert_bug(wire_reply_read(raw, secret, challenge, challenge, &got) < 0);
	copy(&reply, sizeof(reply), bytes, n);
	wire_reply(&reply, secret, challenge, challenge, raw);
	if (wire_reply_read(raw, secret, challenge, challenge, &got))
		return;
	assert_bug(got.error <= 0 && memchr(got.text, 0, sizeof(got.text)));
	wire_reply(&got, secret, challenge, challenge, again);
	assert_bug(!memcmp(raw, again, sizeof(raw)));
}

static void check_uid(const struct shmd_uid *uid)
{
	char text[BOOTSTRAP_UID_TEXT_BYTES];
	struct uid_parts parts, other;
	struct shmd_uid packed, again;

	if (uid_unpack(uid, &parts))
		return;
	uid_pack(&parts, &packed);
	assert_bug(!uid_unpack(&packed, &other) && other.n_addresses == parts.n_addresses && other.port == parts.port);
	bootstrap_uid_text(uid, text);
	assert_bug(!bootstrap_uid_from_text(text, &again) && !memcmp(&again, uid, sizeof(again)));
}

static void try_uid(const uint8_t *bytes, size_t n)
{
	struct shmd_uid uid;

	copy(&uid, sizeof(uid), bytes, n);
	check_uid(&uid);
}

static void try_text(const uint8_t *bytes, size_t n)
{
	char *text = calloc(1, n + 1);
	struct shmd_uid uid;

	copy(text, n, bytes, n);
	if (!bootstrap_uid_from_text(text, &uid))
		check_uid(&uid);
	free(text);
}

static void try_pmi(const uint8_t *bytes, size_t n)
{
	static const char *const names[] = {"cmd", "rc", "value", "jobid"};
	char *text = calloc(1, n + 1), *value;
	char digits[6];

	copy(text, n, bytes, n);
	copy(digits, sizeof(digits), bytes, n);
	assert_bug(pmi_length(digits) < PMI_MOST_BYTES && pmi_length(digits));
	for (size_t bytes_of_value = 1; bytes_of_value < 64; bytes_of_value *= 2)
		for (size_t i = 0; i < 8; i++) {
			value = malloc(bytes_of_value);
			if (!pmi_value(text, i % 2 ? ' ' : ';', names[i / 2], value, bytes_of_value))
				assert_bug(strnlen(value, bytes_of_value) < bytes_of_value);
			free(value);
		}
	free(text);
}

/* The link trusts a rank of the job with the memory of a frame; the harness does not. */
static int is_modest(const uint8_t *bytes, size_t n)
{
	struct frame frame;

	for (size_t at = 0; at + FRAME_HEAD_BYTES <= n; at += FRAME_HEAD_BYTES + frame.bytes) {
		if (frame_read_head(bytes + at, N_RANKS, &frame))
			return 1;
		if (frame.bytes > MOST_FRAME_BYTES)
			return 0;
	}
	return 1;
}

static void try_frames(const uint8_t *bytes, size_t n)
{
	struct frame frame;
	struct link *link;
	size_t taken = 0;
	int fds[2];

	if (!is_modest(bytes, n) || n > 32768 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		return;
	link = link_new(fds[0], 1, N_RANKS);
	if (send(fds[1], bytes, n, MSG_NOSIGNAL) < 0 && n)
		n = 0;
	close(fds[1]);
	while (link_receive(link, &frame) > 0) {
		taken += FRAME_HEAD_BYTES + frame.bytes;
		assert_bug(frame.rank < N_RANKS && frame.type <= FRAME_LAST && taken <= n);
		assert_bug(!link_send(link, &frame) && link_has_output(link));
		link_flush(link);
		free(frame.body);
	}
	link_free(link);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static void (*const tries[])(const uint8_t *bytes, size_t n) = {try_hello, try_reply, try_uid, try_text, try_pmi, try_frames};

	if (n)
		tries[bytes[0] % (sizeof(tries) / sizeof(tries[0]))](bytes + 1, n - 1);
	return 0;
}
