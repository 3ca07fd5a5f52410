/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sysfs-tree.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define PATH_BYTES 512

static void in_tree(const struct sysfs_tree *tree, char *buf, const char *path)
{
	ASSERT_LT(snprintf(buf, PATH_BYTES, "%s/%s", tree->root, path), PATH_BYTES);
}

static void make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
}

void sysfs_tree_init(struct sysfs_tree *tree)
{
	const char *tmp = getenv("TMPDIR");

	ASSERT_LT(snprintf(tree->root, sizeof(tree->root), "%s/shmemd-sysfs-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp"),
		  (int)sizeof(tree->root));
	ASSERT(mkdtemp(tree->root));
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

void sysfs_tree_remove(const struct sysfs_tree *tree, const char *path)
{
	char buf[PATH_BYTES];

	in_tree(tree, buf, path);
	ASSERT_OK(nftw(buf, remove_one, 8, FTW_DEPTH | FTW_PHYS));
}

void sysfs_tree_deinit(struct sysfs_tree *tree)
{
	sysfs_tree_remove(tree, "");
}

void sysfs_tree_put(const struct sysfs_tree *tree, const char *path, const char *format, ...)
{
	char to[PATH_BYTES], hidden[PATH_BYTES];
	va_list args;
	FILE *file;

	in_tree(tree, to, path);
	make_parents(to);
	in_tree(tree, hidden, "new");
	file = fopen(hidden, "we");
	ASSERT(file);
	va_start(args, format);
	ASSERT_GE(vfprintf(file, format, args), 0);
	va_end(args);
	ASSERT_OK(fclose(file));
	ASSERT_OK(rename(hidden, to));
}

void sysfs_tree_link(const struct sysfs_tree *tree, const char *path, const char *target)
{
	char buf[PATH_BYTES];

	in_tree(tree, buf, path);
	make_parents(buf);
	ASSERT_OK(symlink(target, buf));
}

/* A link in the class, as the kernel has it: what makes a device one of those there are. */
void sysfs_tree_add_rxe(const struct sysfs_tree *tree, const char *name, const char *netdev, unsigned int guid)
{
	static unsigned int n_made;
	char folder[96], path[160], target[128];

	snprintf(folder, sizeof(folder), "devices/virtual/%u/infiniband/%s", ++n_made, name);
#define PUT(file, ...) (snprintf(path, sizeof(path), "%s/" file, folder), sysfs_tree_put(tree, path, __VA_ARGS__))
	PUT("node_desc", "rxe\n");
	PUT("node_guid", "0250:56ff:fe00:%04x\n", guid);
	PUT("parent", "%s\n", netdev);
	PUT("ports/1/state", "4: ACTIVE\n");
	PUT("ports/1/phys_state", "5: LinkUp\n");
	PUT("ports/1/link_layer", "Ethernet\n");
	PUT("ports/1/lid", "0x0\n");
	PUT("ports/1/rate", "2.5 Gb/sec (1X SDR)\n");
	PUT("ports/1/gids/0", "fe80:0000:0000:0000:0250:56ff:fe00:%04x\n", guid);
	PUT("ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a00:%04x\n", guid);
	PUT("ports/1/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n");
	PUT("ports/1/gid_attrs/types/0", "RoCE v2\n");
	PUT("ports/1/gid_attrs/types/1", "RoCE v2\n");
	PUT("ports/1/gid_attrs/ndevs/0", "%s\n", netdev);
#undef PUT
	snprintf(path, sizeof(path), "class/net/%s/mtu", netdev);
	sysfs_tree_put(tree, path, "1500\n");
	snprintf(path, sizeof(path), "class/infiniband/%s", name);
	snprintf(target, sizeof(target), "../../%s", folder);
	sysfs_tree_link(tree, path, target);
}

void sysfs_tree_delete(const struct sysfs_tree *tree, const char *name)
{
	char path[96], buf[PATH_BYTES];

	snprintf(path, sizeof(path), "class/infiniband/%s", name);
	in_tree(tree, buf, path);
	ASSERT_OK(unlink(buf));
}

void sysfs_tree_port(const struct sysfs_tree *tree, const char *name, unsigned int port, bool active)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%u/state", name, port);
	sysfs_tree_put(tree, path, active ? "4: ACTIVE\n" : "1: DOWN\n");
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%u/phys_state", name, port);
	sysfs_tree_put(tree, path, active ? "5: LinkUp\n" : "3: Disabled\n");
}
