/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a machine from a file, whose outermost element names its form. The file is read whole, up to a limit. A pipe is read
 * to its end; reading fails if no process writes to it. Any thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/topo/topo-private.h"

#define PIPE_PATIENCE_MSEC 30000 /* lstopo takes a second or two on a large machine; it may run on another one */

void topo_text_deinit(struct topo_text *text)
{
	free(text->bytes);
	*text = (struct topo_text){0};
}

static int read_outermost(struct topo_builder *builder, struct xml *xml)
{
	static const struct {
		const char *name;
		int (*read)(struct topo_builder *builder, struct xml *xml);
	} forms[] = {{"topology", topo_read_hwloc}, {"system", topo_read_nccl}, {"shmemd-topology", topo_read_own}};
	int r = xml_next(xml);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if (strcmp(xml->name, forms[i].name) == 0)
			return forms[i].read(builder, xml);
	return topo_refuse(builder, "this is not a topology of hwloc (lstopo --of xml), NCCL (NCCL_TOPO_DUMP_FILE) or shmemctl (topology dump)");
}

/* A file of something else, or one from which all was filtered. */
static void tell_if_empty(struct topo_builder *builder)
{
	const struct topo *topo = builder->topo;

	for (unsigned int i = 0; i < topo->n_nodes; i++)
		if (topo->nodes[i].kind == TOPO_FUNCTION)
			return;
	snprintf(builder->why, TOPO_WHY_BYTES, "it contains no PCI device; lstopo --whole-io writes all of them");
}

static int parse(struct topo_builder *builder, char *text, size_t n_bytes, struct topo **ret_topo)
{
	struct xml *xml = malloc(sizeof(*xml));
	int r;

	if (!xml)
		return -ENOMEM;
	xml_init(xml, text, n_bytes);
	r = read_outermost(builder, xml);
	if (r == -EBADMSG && !builder->why[0])
		topo_refuse(builder, "line %u: this is not well-formed XML; write the file with \"lstopo --of xml\", NCCL_TOPO_DUMP_FILE or "
			    "\"shmemctl topology dump\"", xml->line);
	else if (r == -E2BIG && !builder->why[0])
		snprintf(builder->why, TOPO_WHY_BYTES, "line %u: this is larger than any machine", xml->line);
	free(xml);
	if (r < 0)
		return r;
	tell_if_empty(builder);
	return topo_finish(builder, ret_topo);
}

int topo_parse(char *text, size_t n_bytes, struct topo **ret_topo, char why[TOPO_WHY_BYTES])
{
	struct topo_builder *builder = malloc(sizeof(*builder));
	int r;

	*why = 0;
	if (!builder)
		return -ENOMEM;
	r = topo_builder_init(builder, why);
	if (!r)
		r = parse(builder, text, n_bytes, ret_topo);
	topo_builder_deinit(builder);
	free(builder);
	return r;
}

/* Waits for the next bytes; -ETIMEDOUT if the pipe is silent for that long. */
static int await_more(int fd, int patience_msec, char why[TOPO_WHY_BYTES])
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r = poll(&p, 1, patience_msec);

	if (r < 0 && errno != EINTR)
		return -errno;
	if (r != 0)
		return 0;
	snprintf(why, TOPO_WHY_BYTES, "nothing came out of this pipe for %d s", patience_msec / 1000);
	return -ETIMEDOUT;
}

/* One byte more than the limit tells a larger file; one more is for the zero behind the text. */
int topo_read_text(int fd, int patience_msec, struct topo_text *ret_text, char why[TOPO_WHY_BYTES])
{
	_cleanup_free_ char *text = malloc(TOPO_MAX_FILE_BYTES + 2);
	size_t n = 0;
	int r;

	if (!text)
		return -ENOMEM;
	while (n <= TOPO_MAX_FILE_BYTES) {
		ssize_t got = read(fd, text + n, TOPO_MAX_FILE_BYTES + 1 - n);

		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
		if (got < 0 && errno != EINTR) {
			r = errno == EAGAIN ? await_more(fd, patience_msec, why) : -errno;
			if (r < 0)
				return r;
		}
	}
	if (n > TOPO_MAX_FILE_BYTES)
		return -EFBIG;
	*ret_text = (struct topo_text){take_ptr(text), n};
	return 0;
}

/* O_NONBLOCK: to open a FIFO without a writer would block for ever. Standard input may be any kind of file. */
static int open_file(const char *path, char why[TOPO_WHY_BYTES])
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (strcmp(path, "-") == 0) {
		fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : take_fd(&fd);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode))
		return take_fd(&fd);
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	snprintf(why, TOPO_WHY_BYTES, "it is neither a file nor a pipe; \"-\" reads standard input");
	return -EINVAL;
}

/* read() finds the end of a FIFO at once if no process has opened it for writing. */
static int check_text(const char *path, const struct topo_text *text, char why[TOPO_WHY_BYTES])
{
	struct stat st;

	if (text->n_bytes > 0 || strcmp(path, "-") == 0 || stat(path, &st) < 0 || !S_ISFIFO(st.st_mode))
		return 0;
	snprintf(why, TOPO_WHY_BYTES, "nobody writes to this pipe; start its writer first, or read its output as \"-\"");
	return -ENODATA;
}

int topo_read_file(const char *path, struct topo **ret_topo, char why[TOPO_WHY_BYTES])
{
	_cleanup_(topo_text_deinit) struct topo_text text = {0};
	_cleanup_close_ int fd = -1;
	int r;

	*why = 0;
	fd = open_file(path, why);
	r = fd < 0 ? fd : topo_read_text(fd, PIPE_PATIENCE_MSEC, &text, why);
	if (r == 0)
		r = check_text(path, &text, why);
	if (r == 0)
		return topo_parse(text.bytes, text.n_bytes, ret_topo, why);
	if (!*why)
		snprintf(why, TOPO_WHY_BYTES, "%s", strerror(-r));
	return r;
}
