/* SPDX-License-Identifier: Apache-2.0 */
/* The path between GPUs and NICs: IOMMU, access control of bridges, PCI links. Keeps nothing; see check.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/topo/check-private.h"
#include "proto/base/show.h"

#define CONFIG_BYTES 4096
#define CONFIG_FOR_ALL 64 /* that others than root may read */
#define EXTENDED_AT 0x100
#define ACS_ID 0x000d
#define ACS_CONTROL 6
/* Bits of the control register: what peers tell each other is sent up to the root complex. */
#define ACS_REQUESTS_UP 0x04
#define ACS_COMPLETIONS_UP 0x08
#define LANES_OF_NOBODY 63u /* all bits of the register: the device does not answer */

static void pci_path(char path[CHECK_PATH_BYTES], const struct topo_node *node, const char *file)
{
	char pci[HOST_PCI_BYTES];

	snprintf(path, CHECK_PATH_BYTES, "sys/bus/pci/devices/%s/%s", host_pci_text(node->pci, pci), file);
}

/* ---- IOMMU --------------------------------------------------------------------------------------------------------- */

struct iommu_seen {
	unsigned int n, n_translated;
	char first[HOST_PCI_BYTES];
	char type[16];
};

/* 1: the function is in a group, whose folder may be out of reach; 0: no; or -errno. */
static int has_group(const struct check_host *host, const struct topo_node *node)
{
	char path[CHECK_PATH_BYTES];
	struct stat st;

	pci_path(path, node, "iommu_group");
	if (fstatat(host->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT ? 0 : -errno;
}

/* "identity", "DMA", "DMA-FQ"; without a group there is no IOMMU, or it is off. Older kernels have groups without a type. */
static void look_at_iommu(const struct check_host *host, struct check_teller *to, const struct topo_node *node,
			  struct iommu_seen *seen)
{
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES];
	int r;

	pci_path(path, node, "iommu_group/type");
	r = check_text(host, path, text);
	seen->n++;
	if (r == -ENOENT && has_group(host, node) == 0)
		return;
	if (r <= 0) {
		check_say_unread(to, "", path, r ? r : -EBADMSG);
		return;
	}
	text[strcspn(text, "\n")] = 0;
	if (strcmp(text, "identity") == 0 || seen->n_translated++)
		return;
	host_pci_text(node->pci, seen->first);
	snprintf(seen->type, sizeof(seen->type), "%.15s", text);
}

void check_iommu(const struct check_host *host, struct check_teller *to)
{
	const struct topo *topo = host->topo;
	struct iommu_seen seen = {0};

	if (!check_has_machine(host, to))
		return;
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		look_at_iommu(host, to, &topo->nodes[topo->gpus[i].node], &seen);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (host->map->excluded[i] == TOPO_USED)
			look_at_iommu(host, to, &topo->nodes[topo->nics[i].node], &seen);
	if (seen.n_translated)
		check_say(to, CHECK_WARN, "", "iommu.passthrough=1 on the command line of the kernel (GRUB_CMDLINE_LINUX and update-grub, or grubby --update-kernel=ALL "
			  "--args=iommu.passthrough=1), then reboot",
			  "the IOMMU translates DMA of %u of %u GPUs and NICs, %s the first (%s): they talk by way of the root complex",
			  seen.n_translated, seen.n, seen.first, seen.type);
	else if (!seen.n)
		check_say(to, CHECK_OK, "", "",
			  "there is no GPU, and no NIC in use, whose DMA it could translate");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "it is off, or passes DMA of all %u GPUs and NICs on", seen.n);
}

/* ---- access control ------------------------------------------------------------------------------------------------ */

static uint32_t load_le32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The control register of ACS in a function's configuration space, 0 without; -1: it ends before that is known. A list in circles ends. */
static int find_acs(const uint8_t config[CONFIG_BYTES], size_t n_bytes)
{
	unsigned int at = EXTENDED_AT;

	for (unsigned int n = 0; n < CONFIG_BYTES / 8 && at >= EXTENDED_AT; n++) {
		uint32_t head;

		if (at + 8 > n_bytes)
			return -1;
		head = load_le32(config + at);
		if ((head & 0xffff) == ACS_ID)
			return config[at + ACS_CONTROL] | config[at + ACS_CONTROL + 1] << 8;
		at = head >> 20 & 0xffc;
	}
	return 0;
}

static void judge_acs(const struct check_host *host, struct check_teller *to, const struct topo_node *node)
{
	char path[CHECK_PATH_BYTES], pci[HOST_PCI_BYTES], fix[CHECK_TEXT_BYTES];
	uint8_t config[CONFIG_BYTES];
	int n, control;

	host_pci_text(node->pci, pci);
	pci_path(path, node, "config");
	n = check_bytes(host, path, config, sizeof(config));
	if (n <= CONFIG_FOR_ALL) {
		check_say_unread(to, pci, path, n < 0 ? n : -EACCES);
		return;
	}
	control = n > EXTENDED_AT && load_le32(config) != UINT32_MAX ? find_acs(config, (size_t)n) : -1;
	if (control < 0) {
		snprintf(fix, sizeof(fix), "see what is there: lspci -vvvs %s, as root", pci);
		check_say(to, CHECK_WARN, pci, fix, "not known: /%s ends before the registers of ACS, or the bridge does not answer", path);
		return;
	}
	if (!(control & (ACS_REQUESTS_UP | ACS_COMPLETIONS_UP)))
		return;
	snprintf(fix, sizeof(fix), "setpci -s %s ECAP_ACS+6.w=%04x, at each start of the machine; for good: ACS off in the firmware's setup",
		 pci, (unsigned int)control & ~(ACS_REQUESTS_UP | ACS_COMPLETIONS_UP));
	check_say(to, CHECK_WARN, pci, fix, "ACS of this bridge sends what GPU and NIC tell each other up to the root complex");
}

/* Bridges from a device up to the one where both ways meet. */
static void mark_way(const struct topo *topo, unsigned int from, unsigned int to, bool *marks)
{
	int at = topo->nodes[from].parent, other;

	for (; at > 0; at = topo->nodes[at].parent) {
		for (other = (int)to; other > 0 && other != at; other = topo->nodes[other].parent)
			;
		if (other == at)
			return;
		marks[at] = topo->nodes[at].kind == TOPO_BRIDGE && topo->nodes[at].pci != HOST_NO_PCI;
	}
}

/* Marks bridges below which a GPU and its NIC meet; all other traffic passes the root complex in any case. */
static void mark_bridges(const struct check_host *host, bool *marks)
{
	const struct topo *topo = host->topo;

	for (unsigned int gpu = 0; gpu < topo->n_gpus; gpu++)
		for (unsigned int i = 0; i < host->map->gpus[gpu].n_nics; i++) {
			unsigned int a = topo->gpus[gpu].node, b = topo->nics[host->map->gpus[gpu].nics[i]].node;

			if (topo_distance(topo, a, b) > TOPO_PXB)
				continue;
			mark_way(topo, a, b, marks);
			mark_way(topo, b, a, marks);
		}
}

void check_acs(const struct check_host *host, struct check_teller *to)
{
	bool *marks = calloc(host->topo->n_nodes, sizeof(*marks));
	unsigned int n = 0;

	if (!marks) {
		check_say(to, CHECK_WARN, "", "try again", "not known: out of memory");
		return;
	}
	mark_bridges(host, marks);
	for (unsigned int i = 0; i < host->topo->n_nodes; i++) {
		if (marks[i])
			judge_acs(host, to, &host->topo->nodes[i]);
		n += marks[i];
	}
	free(marks);
	if (!n)
		check_say(to, CHECK_OK, "", "",
			  "no bridge is between a GPU and its NIC below where they meet");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u bridge%s between GPUs and their NICs: they can talk directly", n, plural_s(n));
}

/* ---- links --------------------------------------------------------------------------------------------------------- */

static void judge_nic_link(const struct check_host *host, struct check_teller *to, unsigned int nic)
{
	const struct host_link *link = &host->topo->nics[nic].seen.link;
	char name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES], pci[HOST_PCI_BYTES];

	check_nic_name(host->topo, nic, name);
	host_pci_text(host->topo->nodes[host->topo->nics[nic].node].pci, pci);
	if (!link->mtps || !link->width || !link->max_mtps || !link->max_width) {
		snprintf(fix, sizeof(fix), "see what is there: grep . /sys/bus/pci/devices/%s/*_link_*", pci);
		check_say(to, CHECK_WARN, name, fix, "not known: sysfs does not say how fast its PCI link is");
	} else if (link->mtps < link->max_mtps || link->width < link->max_width) {
		snprintf(fix, sizeof(fix), "a slot with that many lanes, the card seated anew, the slot's speed in the firmware's setup; see lspci -vvs %s",
			 pci);
		check_say(to, CHECK_WARN, name, fix, "its PCI link runs at %u.%u GT/s x%u, and could at %u.%u GT/s x%u", link->mtps / 1000,
			  link->mtps / 100 % 10, link->width, link->max_mtps / 1000, link->max_mtps / 100 % 10, link->max_width);
	}
}

/* 0: the file says nothing of use; or -errno. */
static int read_width(const struct check_host *host, const struct topo_node *node, const char *file, char path[CHECK_PATH_BYTES],
		      unsigned long *ret_width)
{
	char text[CHECK_FILE_BYTES];
	int r;

	pci_path(path, node, file);
	r = check_text(host, path, text);
	*ret_width = strtoul(text, NULL, 10);
	return r;
}

/* Lanes alone: an idle GPU slows its link down. One whose files are not there, as in a VM, has none to be judged. */
static void judge_gpu_link(const struct check_host *host, struct check_teller *to, unsigned int gpu)
{
	const struct topo_node *node = &host->topo->nodes[host->topo->gpus[gpu].node];
	char path[CHECK_PATH_BYTES], name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES], pci[HOST_PCI_BYTES];
	unsigned long width = 0, max_width = 0;
	int r = read_width(host, node, "current_link_width", path, &width);

	if (r == -ENOENT)
		return;
	if (r >= 0)
		r = read_width(host, node, "max_link_width", path, &max_width);
	snprintf(name, sizeof(name), "GPU%u", gpu);
	host_pci_text(node->pci, pci);
	if (r < 0) {
		check_say_unread(to, name, path, r);
	} else if (!width || !max_width || width >= LANES_OF_NOBODY || max_width >= LANES_OF_NOBODY) {
		snprintf(fix, sizeof(fix), "see what is there: grep . /sys/bus/pci/devices/%s/*_link_*", pci);
		check_say(to, CHECK_WARN, name, fix, "not known: sysfs does not say how many lanes its PCI link has");
	} else if (width < max_width) {
		snprintf(fix, sizeof(fix), "a slot with that many lanes, the card seated anew; see lspci -vvs %s", pci);
		check_say(to, CHECK_WARN, name, fix, "its PCI link has %lu lanes, and could have %lu", width, max_width);
	}
}

void check_pci_link(const struct check_host *host, struct check_teller *to)
{
	const struct topo *topo = host->topo;

	/* A VF's link is its PF's. */
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (!check_is_spare(host->map, i) && topo->nics[i].seen.pf == HOST_NO_PCI &&
		    !topo->nics[i].has_no_driver && !check_is_further_port(host, i))
			judge_nic_link(host, to, i);
	for (unsigned int i = 0; i < topo->n_gpus; i++)
		judge_gpu_link(host, to, i);
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "of NICs as fast as they can be, of GPUs with all lanes");
}
