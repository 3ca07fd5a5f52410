/* SPDX-License-Identifier: Apache-2.0 */
/* The devices: are they there, near their GPUs, and is their firmware what work of GPUs needs? Keeps nothing; see check.h. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/topo/check-private.h"
#include "daemon/host/sysfs.h"
#include "daemon/topo/topo-private.h"
#include "proto/base/cleanup.h"
#include "proto/base/show.h"

#define GUID_FIX "mstflint -d PCI -guid GUID sg; of a VF: ip link set PFDEV vf N node_guid GUID, on RoCE mac MAC, then bind it anew"

/* ---- what is there ------------------------------------------------------------------------------------------------- */

static bool is_seen(const struct topo *topo, const char *device)
{
	char name[TOPO_NAME_BYTES];

	host_copy_text(name, sizeof(name), device);
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (strcmp(topo->nics[i].seen.name, name) == 0)
			return true;
	return false;
}

/* The reader leaves a device out, and reports it, if it is a second one of a function or if there is no room. */
static bool is_left_out(const struct check_host *host, const char *device, uint64_t pci)
{
	bool is_there_twice = false;
	char path[CHECK_PATH_BYTES];

	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		is_there_twice |= !host->topo->nics[i].has_no_driver &&
				  host->topo->nodes[host->topo->nics[i].node].pci == pci;
	snprintf(path, sizeof(path), CHECK_NICS "/%.64s/ports", device);
	return (is_there_twice || host->topo->n_nics == TOPO_MAX_NICS) && check_folder(host, path) == 0;
}

static void say_unseen(const struct check_host *host, struct check_teller *to, const char *device)
{
	char name[CHECK_SUBJECT_BYTES], path[CHECK_PATH_BYTES];
	int r;

	snprintf(name, sizeof(name), "%.64s", device);
	snprintf(path, sizeof(path), CHECK_NICS "/%.64s/ports", device);
	r = check_folder(host, path);
	check_say_unread(to, name, path, r ? r : -ENODATA);
}

unsigned int check_unseen_nics(const struct check_host *host, struct check_teller *to)
{
	_cleanup_(sysfs_close_dir) DIR *dir = sysfs_open_dir(host->root, CHECK_NICS);
	struct dirent *entry;
	unsigned int n = 0;
	uint64_t pci;

	if (!dir && errno != ENOENT) {
		check_say_unread(to, "", CHECK_NICS, -errno);
		return 1;
	}
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || is_seen(host->topo, entry->d_name) ||
		    !host_find_function(dirfd(dir), entry->d_name, &pci) || is_left_out(host, entry->d_name, pci))
			continue;
		say_unseen(host, to, entry->d_name);
		n++;
	}
	return n;
}

void check_devices(const struct check_host *host, struct check_teller *to)
{
	const struct topo *topo = host->topo;
	int pci = check_folder(host, CHECK_PCI);

	if (host->topo_error)
		check_say(to, CHECK_FAIL, "",
			  "ls -l /" CHECK_NICS
			  " and lspci -D show it; unload the driver of what is too much",
			  "this machine cannot be read, so shmemd gives GPUs NICs in turn, near or "
			  "not: %s",
			  host->topo_error);
	else if (pci && pci != -ENOENT)
		check_say_unread(to, "", CHECK_PCI, pci);
	else if (!check_has_machine(host, to) || check_unseen_nics(host, to))
		return;
	else if (!topo->n_nics)
		check_say(to, CHECK_FAIL, "", "modprobe mlx5_ib, or the driver of your NIC; without a NIC shmemd --backend soft works, and tests only",
			  "%u GPU%s and no RDMA NIC", topo->n_gpus, plural_s(topo->n_gpus));
	else if (host->left_out && *host->left_out)
		check_say(to, CHECK_WARN, "",
			  "ls -l /" CHECK_NICS " shows them; unload the driver of what should not be there",
			  "%u GPU%s, %u port%s of RDMA NICs; %s", topo->n_gpus, plural_s(topo->n_gpus), topo->n_nics, plural_s(topo->n_nics),
			  host->left_out);
	else
		check_say(to, CHECK_OK, "", "", "%u GPU%s, %u port%s of RDMA NICs", topo->n_gpus, plural_s(topo->n_gpus), topo->n_nics,
			  plural_s(topo->n_nics));
}

static bool is_numa_known(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo->nodes[topo->gpus[gpu].node].numa >= 0 && topo->nodes[topo->nics[nic].node].numa >= 0;
}

static void judge_gpu(const struct check_host *host, struct check_teller *to, unsigned int gpu)
{
	const struct topo_gpu_map *got = &host->map->gpus[gpu];
	const struct topo *topo = host->topo;
	char name[16], nic[CHECK_SUBJECT_BYTES], why[TOPO_WHY_BYTES];

	snprintf(name, sizeof(name), "GPU%u", gpu);
	if (!got->n_nics) {
		check_say(to, CHECK_FAIL, name, "see devices and port; shmemctl topology has why each NIC is not used", "it has no NIC: %s",
			  topo_reason_none(topo, host->map, why));
		return;
	}
	if (got->lost_given) {
		check_say(to, CHECK_FAIL, name, "bring their ports up, or change gpu-nic-map; shmemctl topology has why",
			  "NICs that gpu-nic-map gives it cannot be used: no daemon starts so");
		return;
	}
	if (topo_distance(topo, topo->gpus[gpu].node, topo->nics[got->nics[0]].node) < TOPO_SYS)
		return;
	check_nic_name(topo, got->nics[0], nic);
	if (topo->n_numa > 1 && !is_numa_known(topo, gpu, got->nics[0]))
		check_say(to, CHECK_WARN, name, "NUMA nodes of PCI devices (ACPI _PXM) in the firmware's setup, or a newer firmware",
			  "not known how far its NIC %s is: sysfs does not say on which NUMA node one of them is", nic);
	else
		check_say(to, CHECK_WARN, name, "a NIC in a slot of the GPU's NUMA node, or bring the nearer one up: shmemctl topology --why",
			  "its NIC %s is on another NUMA node", nic);
}

/* The kernel makes it root's, to read and write; 60-shmemd.rules make it the daemon's, to read. */
static bool may_daemon_read(const struct check_host *host, const char *path)
{
	struct stat st;

	return fstatat(host->root, path, &st, 0) == 0 &&
	       (st.st_mode & S_IROTH || (st.st_uid && !(st.st_mode & S_IWUSR)));
}

/* The fix depends on whether the daemon may read the file. `r`: the result of reading it here. */
static const char *fix_manager(const char *nic, bool may_daemon, int r, char fix[CHECK_TEXT_BYTES])
{
	if (may_daemon)
		return "run shmemctl doctor as root";
	snprintf(fix, CHECK_TEXT_BYTES,
		 "%sudevadm trigger --action=change --subsystem-match=pci "
		 "--attr-match=vendor=0x15b3, with 60-shmemd.rules installed, lets the daemon see "
		 "it; %snics-exclude = %s in shmemd.conf",
		 r < 0 ? "shmemctl doctor as root tells; " : "", r < 0 ? "if it is one, " : "or ",
		 nic);
	return fix;
}

/*
 * A manager of GPU link switches looks like a NIC to every user who may not read its product data: to a
 * daemon without our rule of udev, and to who runs this.
 */
static void judge_manager(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char path[CHECK_PATH_BYTES], name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES], pci[HOST_PCI_BYTES], first;
	bool may_daemon;
	int r;

	if (!check_is_mlx5(host->topo, index) || nic->seen.fabric != HOST_FABRIC_INFINIBAND || nic->seen.state != HOST_STATE_ACTIVE)
		return;
	snprintf(path, sizeof(path), CHECK_PCI "/%s/vpd", host_pci_text(host->topo->nodes[nic->node].pci, pci));
	may_daemon = may_daemon_read(host, path);
	r = check_bytes(host, path, &first, 1);
	check_nic_name(host->topo, index, name);
	if (host->map->excluded[index] == TOPO_IS_BRIDGE && !may_daemon)
		check_say(to, CHECK_WARN, name, fix_manager(nic->seen.name, false, r, fix),
			  "it manages switches of GPU links, and only root sees that: the daemon "
			  "may give it to GPUs");
	else if ((host->map->excluded[index] == TOPO_USED || host->map->excluded[index] == TOPO_SEEMS_BRIDGE) && r < 0 && r != -ENOENT)
		check_say(to, CHECK_WARN, name, fix_manager(nic->seen.name, may_daemon, r, fix),
			  "not known whether it manages switches of GPU links: /%s cannot be read: "
			  "%s",
			  path, strerror(-r));
}

void check_assignment(const struct check_host *host, struct check_teller *to)
{
	if (!host->topo->n_nics && check_unseen_nics(host, to))
		return;
	for (unsigned int i = 0; i < host->topo->n_gpus; i++)
		judge_gpu(host, to, i);
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		judge_manager(host, to, i);
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u GPU%s, each with a NIC on its NUMA node or nearer", host->topo->n_gpus,
			  plural_s(host->topo->n_gpus));
}

/* ---- what firmware allows ------------------------------------------------------------------------------------------ */

/* Reports `lacks` where the firmware says no. */
static void judge_known(const struct check_host *host, struct check_teller *to, unsigned int nic,
			enum host_known known, enum check_state state, const char *lacks,
			const char *fix)
{
	char name[CHECK_SUBJECT_BYTES];

	check_nic_name(host->topo, nic, name);
	if (known == HOST_NO)
		check_say(to, state, name, fix, "%s", lacks);
	else if (known == HOST_NOT_KNOWN)
		check_say(to, CHECK_WARN, name, "run shmemctl doctor as root, or as the user of the daemon; ls -l /dev/infiniband shows who may open the device", "not known: libibverbs does not tell");
}

static bool is_judged(const struct check_host *host, unsigned int nic)
{
	return !check_is_spare(host->map, nic) && !host->topo->nics[nic].has_no_driver &&
	       check_is_mlx5(host->topo, nic) && !check_is_further_port(host, nic);
}

/* Capabilities of all judged NICs; without any, nothing is claimed. */
static void say_good(const struct check_host *host, struct check_teller *to, const char *good)
{
	bool has_any = false;

	for (unsigned int i = 0; i < host->topo->n_nics && !has_any; i++)
		has_any = is_judged(host, i);
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%s",
			  has_any ? good : "no ConnectX that mlx5 drives is here to be judged");
}

void check_devx(const struct check_host *host, struct check_teller *to)
{
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (is_judged(host, i))
			judge_known(host, to, i, host->topo->nics[i].seen.has_devx, CHECK_FAIL,
				    "kernel or firmware lets no commands through (DEVX): no queues",
				    "mlxconfig -d PCI set UCTX_EN=1 and mlxfwreset -d PCI reset, or a newer firmware; ConnectX-5 or later");
	say_good(host, to, "firmware commands are let through");
}

static void judge_atomics(const struct check_host *host, struct check_teller *to, unsigned int nic)
{
	char fix[CHECK_TEXT_BYTES], pci[HOST_PCI_BYTES];

	host_pci_text(host->topo->nodes[host->topo->nics[nic].node].pci, pci);
	snprintf(fix, sizeof(fix),
		 "mlxconfig -d %s -e query PCI_ATOMIC_MODE: usually this setting of the firmware "
		 "is why; else mlxfwmanager --online -u -d %s, then mlxfwreset -d %s reset; "
		 "before ConnectX-5 only another NIC helps",
		 pci, pci, pci);
	judge_known(host, to, nic, host->topo->nics[nic].seen.has_masked_atomics, CHECK_WARN,
		    "no masked atomics: those of 4 bytes, and masked ones, fail", fix);
}

/* Only its vendor knows. */
static void say_foreign(const struct check_host *host, struct check_teller *to, unsigned int nic)
{
	char name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES];

	check_nic_name(host->topo, nic, name);
	snprintf(fix, sizeof(fix),
		 "a ConnectX-5 or later; where no GPU is to use it: nics-exclude = %s in "
		 "shmemd.conf",
		 host->topo->nics[nic].seen.name);
	check_say(to, CHECK_WARN, name, fix, "not known: %s is no ConnectX that mlx5 drives", name);
}

void check_atomics(const struct check_host *host, struct check_teller *to)
{
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (is_judged(host, i))
			judge_atomics(host, to, i);
		else if (host->map->excluded[i] == TOPO_USED && !check_is_mlx5(host->topo, i) &&
			 !check_is_further_port(host, i))
			say_foreign(host, to, i);
	say_good(host, to, "of 4 and 8 bytes, masked ones too");
}

/* ---- firmware ------------------------------------------------------------------------------------------------------ */

/*
 * A version is FAMILY.BRANCH.PATCH. The families of ConnectX-5, -6, -6 Dx, BlueField-2, ConnectX-6 Lx, -7, BlueField-3 and
 * ConnectX-8 have branches in common; 35 is the one of 2022 with long-term support: the release notes of firmware 16.35 LTS and of
 * MLNX_OFED 5.8 LTS. Older ones get no corrections; whether they work is unknown.
 */
static const unsigned int families[] = {16, 20, 22, 24, 26, 28, 32, 40};
#define FIRST_BRANCH 35u

/* The branch of a firmware; 0: its version is none that is known here. `ret_family` is its family then. */
static unsigned int branch_of(const char *firmware, unsigned int *ret_family)
{
	unsigned int branch, patch;

	if (sscanf(firmware, "%4u.%4u.%5u", ret_family, &branch, &patch) != 3)
		return 0;
	for (unsigned int i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (families[i] == *ret_family)
			return branch;
	return 0;
}

/* Another NIC of the same model with another firmware, before this one; -1: none. */
static int find_other_firmware(const struct check_host *host, unsigned int nic)
{
	const struct topo *topo = host->topo;
	const struct topo_node *node = &topo->nodes[topo->nics[nic].node];

	for (unsigned int i = 0; i < nic; i++) {
		const struct topo_node *other = &topo->nodes[topo->nics[i].node];

		if (is_judged(host, i) && other->vendor == node->vendor && other->device == node->device && *topo->nics[i].seen.firmware &&
		    strcmp(topo->nics[i].seen.firmware, topo->nics[nic].seen.firmware))
			return (int)i;
	}
	return -1;
}

static void judge_firmware(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char name[CHECK_SUBJECT_BYTES], other_name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES], path[CHECK_PATH_BYTES], pci[HOST_PCI_BYTES];
	unsigned int family = 0, branch = branch_of(nic->seen.firmware, &family);
	int other = find_other_firmware(host, index);

	check_nic_name(host->topo, index, name);
	snprintf(path, sizeof(path), CHECK_NICS "/%s/fw_ver", nic->seen.name);
	snprintf(fix, sizeof(fix), "mlxfwmanager --online -u -d %s, then mlxfwreset -d %s reset",
		 host_pci_text(host->topo->nodes[nic->node].pci, pci), pci);
	if (!*nic->seen.firmware)
		check_say_unread(to, name, path, -ENODATA);
	else if (!branch)
		check_say(to, CHECK_WARN, name, fix, "not known whether firmware %s is new enough: nobody here knows its versions", nic->seen.firmware);
	else if (branch < FIRST_BRANCH)
		check_say(to, CHECK_WARN, name, fix, "firmware %s is older than %u.%u, the branch of 2022 with long-term support", nic->seen.firmware, family,
			  FIRST_BRANCH);
	else if (other >= 0)
		check_say(to, CHECK_WARN, name, fix, "firmware %s, and %s of %s, which is the same model", nic->seen.firmware,
			  host->topo->nics[other].seen.firmware, check_nic_name(host->topo, (unsigned int)other, other_name));
}

void check_firmware(const struct check_host *host, struct check_teller *to)
{
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (is_judged(host, i))
			judge_firmware(host, to, i);
	say_good(host, to, "none older than branch 35, and one version for each model");
}

/* ---- GUIDs --------------------------------------------------------------------------------------------------------- */

/* A VF has no GUID until an administrator sets one; an unused VF needs none. */
static void say_no_guid(const struct check_host *host, struct check_teller *to, unsigned int nic,
			const char *name, const char *path)
{
	char text[CHECK_FILE_BYTES];
	int r = check_text(host, path, text);

	if (r < 0 || strspn(text, "0:\n") != (size_t)r || !r)
		check_say_unread(to, name, path, r < 0 ? r : -EBADMSG);
	else if (!check_is_spare(host->map, nic))
		check_say(to, CHECK_WARN, name, GUID_FIX, "it has no GUID, only zeros: nobody can tell it from others without one");
}

static void judge_guid(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	const struct topo *topo = host->topo;
	uint64_t guid = topo->nics[index].seen.node_guid;
	char name[CHECK_SUBJECT_BYTES], other[CHECK_SUBJECT_BYTES], path[CHECK_PATH_BYTES];

	check_nic_name(topo, index, name);
	snprintf(path, sizeof(path), CHECK_NICS "/%s/node_guid", topo->nics[index].seen.name);
	if (!guid)
		say_no_guid(host, to, index, name, path);
	for (unsigned int i = 0; i < index && guid; i++)
		if (topo->nics[i].seen.node_guid == guid && topo->nics[i].node != topo->nics[index].node)
			check_say(to, CHECK_FAIL, name, GUID_FIX, "%s has the same GUID: peers and subnet managers take them for one", check_nic_name(topo, i, other));
}

void check_guids(const struct check_host *host, struct check_teller *to)
{
	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (!host->topo->nics[i].has_no_driver)
			judge_guid(host, to, i);
	if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "each device has its own");
}
