/* SPDX-License-Identifier: Apache-2.0 */
#include "libclient/runtime/bootstrap/pmi.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <shmemclient.h>

#include "proto/base/nsec.h"
#include "proto/base/show.h"

int pmi_value(const char *reply, char separator, const char *name, char *value, size_t bytes)
{
	const char ends[] = {separator, '\n', 0};
	size_t n = strlen(name);

	while (*reply) {
		size_t word = strcspn(reply, ends);

		if (word > n && !strncmp(reply, name, n) && reply[n] == '=') {
#ifdef FUZZ_PLANT
			if (PLANTED("bootstrap"))
				bytes++;
#endif
			if (word - n > bytes)
				return -EMSGSIZE;
			memcpy(value, reply + n + 1, word - n - 1);
			value[word - n - 1] = 0;
			return 0;
		}
		reply += word;
		reply += strspn(reply, ends);
	}
	return -ENOENT;
}

int pmi_length(const char digits[6])
{
	int length = 0, i = 0;

	while (i < 5 && digits[i] == ' ')
		i++;
	for (; i < 6; i++) {
		if (digits[i] < '0' || digits[i] > '9')
			return -EPROTO;
		length = length * 10 + digits[i] - '0';
	}
	return length > 0 && length < PMI_MOST_BYTES ? length : -EPROTO;
}

/* Only a message that is longer than the room in a pipe could wait here, and all are shorter. */
static ssize_t write_some(int fd, const char *bytes, size_t n)
{
	ssize_t done = send(fd, bytes, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	return done < 0 && errno == ENOTSOCK ? write(fd, bytes, n) : done;
}

/* 1: ready; 0: not within the time; -1: try again. */
static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd entry = {.fd = fd, .events = events};
	uint64_t now = nsec_now();
	struct timespec left = nsec_to_timespec(now < deadline ? deadline - now : 0);

	return ppoll(&entry, 1, &left, NULL);
}

int pmi_send(struct pmi *pmi, const char *message, uint64_t deadline)
{
	char bytes[PMI_MOST_BYTES + 8];
	int n = pmi->version == 2 ? snprintf(bytes, sizeof(bytes), "%6zu%s", strlen(message), message)
				  : snprintf(bytes, sizeof(bytes), "%s\n", message);
	int sent = 0;

	while (sent < n) {
		int ready = wait_for(pmi->fd, POLLOUT, deadline);
		ssize_t done = ready > 0 ? write_some(pmi->fd, bytes + sent, (size_t)(n - sent)) : ready;

		if (!ready)
			return shmd_error_set(-ETIMEDOUT, "the launcher did not read a request within the time limit (PMI_FD)");
		if (done < 0 && errno != EINTR && errno != EAGAIN)
			return shmd_error_set(-ECONNRESET, "cannot write to the launcher (PMI_FD): %m");
		sent += done > 0 ? (int)done : 0;
	}
	return 0;
}

/* One more byte or several; the launcher sends nothing that was not asked for, so no byte of a later reply is read. */
static int read_some(struct pmi *pmi, char *at, size_t bytes, uint64_t deadline)
{
	for (;;) {
		int ready = wait_for(pmi->fd, POLLIN, deadline);
		ssize_t n;

		if (!ready)
			return shmd_error_set(-ETIMEDOUT, "the launcher did not answer within the time limit; not all ranks of the job have opened "
					      "the bootstrap, and the launcher does not say which");
		n = ready < 0 ? -1 : read(pmi->fd, at, bytes);
		if (n > 0)
			return (int)n;
		if (!n)
			return shmd_error_set(-ECONNRESET, "the launcher closed its connection (PMI_FD)");
		if (errno != EINTR && errno != EAGAIN)
			return shmd_error_set(-ECONNRESET, "cannot read from the launcher (PMI_FD): %m");
	}
}

static int wrong(const char *reply, const char *expect)
{
	char shown[SHOW_BUF_BYTES];

	return shmd_error_set(-EPROTO, "the launcher answered \"%s\" where %s was expected (PMI_FD)", show_text(reply, shown), expect);
}

static int read_bytes(struct pmi *pmi, char *at, int bytes, uint64_t deadline)
{
	for (int have = 0; have < bytes;) {
		int n = read_some(pmi, at + have, (size_t)(bytes - have), deadline);

		if (n < 0)
			return n;
		have += n;
	}
	return 0;
}

static int read_counted(struct pmi *pmi, uint64_t deadline)
{
	char digits[7] = "";
	int length, err = read_bytes(pmi, digits, 6, deadline);

	if (err)
		return err;
	length = pmi_length(digits);
	if (length < 0)
		return wrong(digits, "a length");
	pmi->reply[length] = 0;
	return read_bytes(pmi, pmi->reply, length, deadline);
}

static int read_line(struct pmi *pmi, uint64_t deadline)
{
	size_t have = 0;

	while (have < sizeof(pmi->reply) - 1) {
		int n = read_some(pmi, pmi->reply + have, sizeof(pmi->reply) - 1 - have, deadline);

		if (n < 0)
			return n;
		have += (size_t)n;
		if (pmi->reply[have - 1] != '\n')
			continue;
		pmi->reply[have] = 0;
		return 0;
	}
	pmi->reply[have] = 0;
	return wrong("a line without an end", "a reply");
}

int pmi_call(struct pmi *pmi, const char *message, const char *expect, uint64_t deadline)
{
	char separator = pmi->version == 2 ? ';' : ' ', word[PMI_WORD_BYTES];
	int err = pmi_send(pmi, message, deadline);

	if (!err)
		err = pmi->version == 2 ? read_counted(pmi, deadline) : read_line(pmi, deadline);
	if (err)
		return err;
	if (pmi_value(pmi->reply, separator, "cmd", word, sizeof(word)) || strcmp(word, expect))
		return wrong(pmi->reply, expect);
	if (!pmi_value(pmi->reply, separator, "rc", word, sizeof(word)) && strcmp(word, "0"))
		return shmd_error_set(-EIO, "the launcher refuses a request, with %s and rc=%s (PMI_FD)", expect, word);
	return 0;
}

int pmi_reply_value(const struct pmi *pmi, const char *name, char *value, size_t bytes)
{
	return pmi_value(pmi->reply, pmi->version == 2 ? ';' : ' ', name, value, bytes) ? wrong(pmi->reply, name) : 0;
}
