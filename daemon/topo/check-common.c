/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks: reporting, reading small files, and verdicts on NICs. Calls no check. Keeps nothing. */
#include "daemon/topo/check-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/host/sysfs.h"
#include "proto/base/cleanup.h"

#define VENDOR_MELLANOX 0x15b3
/* PCI device numbers of its NICs: pci.ids. */
#define FIRST_OF_MLX5 0x1011 /* Connect-IB */
#define FIRST_OF_OLD 0x5a44 /* InfiniHost */
#define LAST_OF_OLD 0x6778 /* ConnectX-2 */

/* ---- telling */

/* Names and texts of a machine that was captured elsewhere are for files to be opened, not for a terminal. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

static void tell(struct check_teller *to, struct check_finding *finding)
{
	make_plain(finding->subject);
	make_plain(finding->reason);
	make_plain(finding->fix);
	to->n_bad += finding->state != CHECK_OK;
	to->tell(to->arg, finding);
}

void check_say(struct check_teller *to, enum check_state state, const char *subject, const char *fix, const char *fmt, ...)
{
	struct check_finding finding = {.check = to->check, .state = state};
	va_list list;

	snprintf(finding.subject, sizeof(finding.subject), "%s", subject);
	snprintf(finding.fix, sizeof(finding.fix), "%s", fix);
	va_start(list, fmt);
	vsnprintf(finding.reason, sizeof(finding.reason), fmt, list);
	va_end(list);
	/* There may be a GPU or NIC that could not be read. */
	if (state == CHECK_OK && to->topo && to->topo->unread[0]) {
		check_say_unread(to, subject, to->topo->unread, to->topo->unread_error);
		return;
	}
	tell(to, &finding);
}

void check_say_unread(struct check_teller *to, const char *subject, const char *path, int error)
{
	bool may_not = error == -EACCES || error == -EPERM;
	char fix[CHECK_TEXT_BYTES];

	snprintf(fix, sizeof(fix), may_not ? "run shmemctl doctor as root" : "see what is there: ls -l /%s", path);
	check_say(to, CHECK_WARN, subject, fix, "not known: /%s cannot be read: %s", path, strerror(-error));
}

bool check_has_machine(const struct check_host *host, struct check_teller *to)
{
	int pci = host->topo->n_gpus ? 0 : check_folder(host, CHECK_PCI);

	if (host->topo_error)
		check_say(to, CHECK_WARN, "", "see devices",
			  "not known: GPUs and NICs of this machine could not be read");
	else if (pci == -ENOENT)
		check_say(to, CHECK_WARN, "",
			  "mount -t sysfs sysfs /sys, or give --root the folder that has the "
			  "machine's sys",
			  "not known: there is no /" CHECK_PCI);
	else if (pci)
		check_say_unread(to, "", CHECK_PCI, pci);
	return !host->topo_error && !pci;
}

/* ---- reading */

int check_bytes(const struct check_host *host, const char *path, void *bytes, size_t n_bytes)
{
	_cleanup_close_ int fd = openat(host->root, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (used < n_bytes && (n = read(fd, (char *)bytes + used, n_bytes - used)) > 0)
		used += (size_t)n;
	return used < n_bytes && n < 0 ? -errno : (int)used;
}

int check_text(const struct check_host *host, const char *path, char text[CHECK_FILE_BYTES])
{
	int n = check_bytes(host, path, text, CHECK_FILE_BYTES - 1);

	text[n > 0 ? n : 0] = 0;
	return n;
}

int check_exists(const struct check_host *host, const char *path)
{
	struct stat st;

	if (fstatat(host->root, path, &st, 0) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
}

int check_folder(const struct check_host *host, const char *path)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(host->root, path);

	return dir ? 0 : -errno;
}

const char *check_line(const char *text, const char *key)
{
	size_t n = strlen(key);

	while (text && strncmp(text, key, n)) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return text ? text + n : NULL;
}

int check_kernel(const struct check_host *host, unsigned int version[2])
{
	char text[CHECK_FILE_BYTES];
	int r = check_text(host, CHECK_KERNEL, text);

	if (r < 0)
		return r;
	return sscanf(text, "%5u.%5u", &version[0], &version[1]) == 2 ? 0 : -EBADMSG;
}

/* ---- NICs */

const char *check_nic_name(const struct topo *topo, unsigned int nic, char buf[CHECK_SUBJECT_BYTES])
{
	bool is_one_of_several = (nic > 0 && topo->nics[nic - 1].node == topo->nics[nic].node) ||
				 (nic + 1 < topo->n_nics && topo->nics[nic + 1].node == topo->nics[nic].node);
	char name[TOPO_NAME_BYTES];

	topo_nic_text(topo, nic, name);
	if (is_one_of_several)
		snprintf(buf, CHECK_SUBJECT_BYTES, "%.60s/%u", name, topo->nics[nic].seen.port);
	else
		snprintf(buf, CHECK_SUBJECT_BYTES, "%s", name);
	return buf;
}

bool check_is_spare(const struct topo_map *map, unsigned int nic)
{
	switch (map->excluded[nic]) {
	case TOPO_BY_POLICY:
	case TOPO_NOT_INCLUDED:
	case TOPO_IS_MANAGEMENT:
	case TOPO_IS_STORAGE:
	case TOPO_IS_BRIDGE:
	case TOPO_SEEMS_BRIDGE:
	case TOPO_PF_TAKEN:
	case TOPO_BOND_MEMBER:
		return true;
	default:
		return false;
	}
}

bool check_is_further_port(const struct check_host *host, unsigned int nic)
{
	const struct topo *topo = host->topo;

	for (unsigned int i = nic; i-- > 0 && topo->nics[i].node == topo->nics[nic].node;)
		if (!check_is_spare(host->map, i))
			return true;
	return false;
}

/* Devices of mlx4 (up to ConnectX-3) and mthca are older; those of mthca have a range of their own. 0: unknown number. */
bool check_is_mlx5(const struct topo *topo, unsigned int nic)
{
	const struct topo_node *node = &topo->nodes[topo->nics[nic].node];
	bool is_older = (node->device && node->device < FIRST_OF_MLX5) ||
			(node->device >= FIRST_OF_OLD && node->device <= LAST_OF_OLD);

	return node->vendor == VENDOR_MELLANOX && !is_older;
}

bool check_has_mlx5(const struct topo *topo)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (check_is_mlx5(topo, i))
			return true;
	return false;
}

enum host_known check_dmabuf(const struct check_host *host)
{
	enum host_known known = HOST_NOT_KNOWN;
	unsigned int n = 0, n_yes = 0;

	for (unsigned int i = 0; i < host->topo->n_nics; i++) {
		if (host->map->excluded[i] != TOPO_USED)
			continue;
		n++;
		n_yes += host->topo->nics[i].seen.has_dmabuf == HOST_YES;
		if (host->topo->nics[i].seen.has_dmabuf == HOST_NO)
			known = HOST_NO;
	}
	return n && n_yes == n ? HOST_YES : known;
}

enum host_known check_devx_of_any(const struct topo *topo)
{
	enum host_known known = HOST_NOT_KNOWN;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (check_is_mlx5(topo, i) && topo->nics[i].seen.has_devx > known)
			known = topo->nics[i].seen.has_devx;
	return known;
}
