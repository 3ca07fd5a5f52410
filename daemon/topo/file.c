/* SPDX-License-Identifier: Apache-2.0 */
/* A machine from a file: told apart by its outermost element. The file is read whole, up to a limit. Any thread. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "daemon/topo/topo-private.h"

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
	return topo_refuse(builder, "it is no topology of hwloc (lstopo --of xml), NCCL (NCCL_TOPO_DUMP_FILE) or shmemctl (topology dump)");
}

/* A file of something else, or one from which all was filtered. */
static void tell_if_empty(struct topo_builder *builder)
{
	const struct topo *topo = builder->topo;

	for (unsigned int i = 0; i < topo->n_nodes; i++)
		if (topo->nodes[i].kind == TOPO_FUNCTION)
			return;
	snprintf(builder->why, TOPO_WHY_BYTES, "there is no PCI device in it: was it written with all of them (lstopo --whole-io)?");
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
		topo_refuse(builder, "line %u: it is no well-formed XML; what can be read is that of \"lstopo --of xml\", of NCCL_TOPO_DUMP_FILE and of "
			    "\"shmemctl topology dump\"", xml->line);
	else if (r == -E2BIG && !builder->why[0])
		snprintf(builder->why, TOPO_WHY_BYTES, "line %u: it is larger than any machine", xml->line);
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

/* One byte more than the limit tells a larger file; one more is for the zero behind the text. */
static int read_all(int fd, char **ret_text, size_t *ret_bytes)
{
	_cleanup_free_ char *text = malloc(TOPO_MAX_FILE_BYTES + 2);
	size_t n = 0;

	if (!text)
		return -ENOMEM;
	while (n <= TOPO_MAX_FILE_BYTES) {
		ssize_t got = read(fd, text + n, TOPO_MAX_FILE_BYTES + 1 - n);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	if (n > TOPO_MAX_FILE_BYTES)
		return -EFBIG;
	*ret_text = take_ptr(text);
	*ret_bytes = n;
	return 0;
}

int topo_read_file(const char *path, struct topo **ret_topo, char why[TOPO_WHY_BYTES])
{
	_cleanup_close_ int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	size_t n_bytes = 0;
	int r = fd < 0 ? -errno : read_all(fd, &text, &n_bytes);

	if (r < 0) {
		snprintf(why, TOPO_WHY_BYTES, "%s", strerror(-r));
		return r;
	}
	return topo_parse(text, n_bytes, ret_topo, why);
}
