/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what three PEs write to the launcher's PMI-1 server. An input is a list of pieces, each after a byte that says whose it
 * is (0 to 2; 4 more: the PE ends after it) and one of its length.
 *
 * A client that is broken is reported once and gets nothing more. Each answer is one line that the parser takes, no longer than
 * a client must expect, and there are no more answers than lines, barriers apart. A PE in a barrier that another cannot reach any
 * more is reported.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "libclient/runtime/run/pmi-line.h"
#include "libclient/runtime/run/pmi-server.h"
#include "proto/base/assert.h"
#include "tests/fuzz/fuzz.h"

#define N_PES 3u
#define MOST_REPLY_BYTES (PMI_MAX_VALUE + 64)

struct lab {
	struct pmi_server *server;
	unsigned int n_lines[N_PES], n_replies[N_PES];
	bool is_broken[N_PES], is_ended[N_PES];
};

static void check_reply(void *owner, unsigned int rank, const char *text, size_t bytes)
{
	struct lab *lab = owner;
	char copy[MOST_REPLY_BYTES + 1];
	struct pmi_line line;

	assert_bug(rank < N_PES && !lab->is_broken[rank] && !lab->is_ended[rank]);
	assert_bug(bytes > 1 && bytes <= MOST_REPLY_BYTES && text[bytes - 1] == '\n');
	memcpy(copy, text, bytes - 1);
	copy[bytes - 1] = 0;
	assert_bug(!pmi_line_parse(copy, bytes - 1, &line) && !line.is_multi);
	lab->n_replies[rank]++;
}

static void note_broken(void *owner, unsigned int rank, const char *why)
{
	struct lab *lab = owner;

	assert_bug(!lab->is_broken[rank] && !strncmp(why, "sent ", 5));
	for (; *why; why++)
		assert_bug(*why >= ' ' && *why < 0x7f);
	lab->is_broken[rank] = true;
}

static void note_abort(void *owner, unsigned int rank, int status)
{
	assert_bug(rank < N_PES && status >= 0 && status < 256);
}

static void note_stuck(void *owner, unsigned int waiting, unsigned int gone)
{
	struct lab *lab = owner;

	assert_bug(waiting < N_PES && gone < N_PES && waiting != gone && !lab->is_broken[waiting] && !lab->is_ended[waiting]);
	assert_bug(lab->is_ended[gone] || lab->is_broken[gone] || pmi_server_state(lab->server, gone) == PMI_FINALIZED);
	lab->is_broken[waiting] = true;
}

static void one_piece(struct lab *lab, unsigned int rank, const uint8_t *bytes, size_t n)
{
	/* A copy with an end, so that ASan sees a read behind it. */
	uint8_t *copy = malloc(n ? n : 1);

	assert_bug(copy);
	memcpy(copy, bytes, n);
	for (size_t i = 0; i < n; i++)
		lab->n_lines[rank] += bytes[i] == '\n';
	pmi_server_input(lab->server, rank, copy, n);
	free(copy);
	assert_bug(lab->n_replies[rank] <= lab->n_lines[rank]);
	assert_bug(!lab->is_broken[rank] || pmi_server_state(lab->server, rank) == PMI_BROKEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const struct pmi_server_ops ops = {check_reply, note_broken, note_abort, note_stuck};
	struct lab lab = {0};

	assert_bug(!pmi_server_new(N_PES, "fuzz", &ops, &lab, &lab.server));
	while (n >= 2) {
		unsigned int rank = bytes[0] % 4 % N_PES;
		bool is_end = bytes[0] & 4;
		size_t length = bytes[1];

		bytes += 2;
		n -= 2;
		length = length < n ? length : n;
		one_piece(&lab, rank, bytes, length);
		if (is_end) {
			lab.is_ended[rank] = true;
			pmi_server_end(lab.server, rank);
		}
		bytes += length;
		n -= length;
	}
	pmi_server_free(lab.server);
	return 0;
}
