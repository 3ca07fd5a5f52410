/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of NICs: state, rate, MTU, addresses. Ports set aside as not for GPUs are left alone. Keeps nothing; see check.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/topo/check-private.h"
#include "daemon/topo/topo-private.h"
#include "proto/base/gid.h"
#include "proto/base/show.h"

#define STATE_INIT 2 /* IBTA PortInfo: PortState */
#define STATE_ACTIVE 4
/* The interface MTU that carries 4096 bytes with the headers of RoCE. */
#define LARGE_MTU 4192u /* RoCE takes 96 bytes of it for headers */
#define NETDEV_STATE "sys/class/net/%s/operstate"

static bool is_used(const struct check_host *host, unsigned int nic)
{
	return host->map->excluded[nic] == TOPO_USED;
}

/* Judges all ports in use; their number. Reports if there are none. */
static unsigned int judge_used(const struct check_host *host, struct check_teller *to,
			       void (*judge)(const struct check_host *host, struct check_teller *to, unsigned int nic))
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (is_used(host, i)) {
			judge(host, to, i);
			n++;
		}
	if (!n)
		check_say(to, CHECK_OK, "", "", "no port is in use");
	return n;
}

/* The interface's name, or a word in its place. */
static const char *netdev_of(const struct topo_nic *nic)
{
	return *nic->seen.netdev ? nic->seen.netdev : "INTERFACE";
}

/* ---- state --------------------------------------------------------------------------------------------------------- */

static unsigned int rank_of(const struct topo *topo, unsigned int gpu, unsigned int nic)
{
	return topo_rank(topo, topo->gpus[gpu].node, topo->nics[nic].node);
}

/* It has no NIC, has one farther away than this, or shares one as near: then it would have this one. */
static bool misses(const struct check_host *host, unsigned int gpu, unsigned int nic)
{
	const struct topo_gpu_map *got = &host->map->gpus[gpu];
	unsigned int now, then;

	if (!got->n_nics)
		return true;
	now = rank_of(host->topo, gpu, got->nics[0]);
	then = rank_of(host->topo, gpu, nic);
	return then < now || (then == now && host->map->n_gpus[got->nics[0]] > 1);
}

/* Many machines have a second port without a cable. Without GPUs the purpose of a NIC is unknown. */
static enum check_state judge_lost(const struct check_host *host, unsigned int nic)
{
	for (unsigned int i = 0; i < host->topo->n_gpus; i++)
		if (misses(host, i, nic))
			return CHECK_FAIL;
	return host->topo->n_gpus ? CHECK_WARN : CHECK_FAIL;
}

static const char *why_down(enum check_state lost, unsigned long state)
{
	if (state == STATE_INIT)
		return lost == CHECK_FAIL ? "its port is not active: it waits for a subnet manager"
					  : "its port is not active: it waits for a subnet manager; no GPU misses it";
	return lost == CHECK_FAIL ? "its port is down: no GPU gets it" : "its port is down; no GPU misses it";
}

static void say_down(const struct check_host *host, struct check_teller *to, unsigned int index, const char *name, unsigned long state)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	enum check_state lost = judge_lost(host, index);
	char fix[CHECK_TEXT_BYTES];

	if (nic->seen.fabric == HOST_FABRIC_ETHERNET)
		snprintf(fix, sizeof(fix), "ip link set %s up; where that is not it: cable, transceiver, port of the switch (ethtool %s)",
			 netdev_of(nic), netdev_of(nic));
	else
		snprintf(fix, sizeof(fix), "%s", state == STATE_INIT ? "start a subnet manager (opensm), or see why it leaves this port out"
								     : "cable, transceiver, port of the switch (ibstat, mlxlink)");
	check_say(to, lost, name, fix, "%s", why_down(lost, state));
}

static void say_no_driver(const struct check_host *host, struct check_teller *to, unsigned int index, const char *name)
{
	enum check_state lost = judge_lost(host, index);
	char path[CHECK_PATH_BYTES], pci[HOST_PCI_BYTES];

	/* It has a driver, but its ports are not visible. */
	snprintf(path, sizeof(path), CHECK_PCI "/%s/infiniband",
		 host_pci_text(host->topo->nodes[host->topo->nics[index].node].pci, pci));
	if (check_exists(host, path)) {
		check_say(to, CHECK_WARN, name, "see devices",
			  "not known: its ports cannot be seen");
		return;
	}
	check_say(to, lost, name, check_is_mlx5(host->topo, index) ? "modprobe mlx5_ib" : "load the driver of this NIC", "it has no RDMA driver%s",
		  lost == CHECK_FAIL ? "" : "; no GPU misses it");
}

/* The port itself is up, but only gpu-nic-map gives it to a GPU. */
static void say_pf_down(const struct check_host *host, struct check_teller *to, unsigned int index,
			const char *name)
{
	enum check_state lost = judge_lost(host, index);
	char why[TOPO_WHY_BYTES];

	check_say(to, lost, name,
		  "bring the port of the physical function up, of which port tells as well; where "
		  "the "
		  "VF works all the same, gpu-nic-map gives it to GPUs",
		  "%s%s", topo_reason_excluded(host->topo, host->map, index, why),
		  lost == CHECK_FAIL ? ": no GPU gets it" : "; no GPU misses it");
}

static void judge_port(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES], name[CHECK_SUBJECT_BYTES];
	unsigned long state;
	int r;

	check_nic_name(host->topo, index, name);
	if (nic->has_no_driver) {
		say_no_driver(host, to, index, name);
		return;
	}
	snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/%u/state", nic->seen.name, nic->seen.port);
	r = check_text(host, path, text);
	state = strtoul(text, NULL, 10);
	if (r < 0 || !state)
		check_say_unread(to, name, path, r < 0 ? r : -EBADMSG);
	else if (state != STATE_ACTIVE)
		say_down(host, to, index, name, state);
	else if (host->map->excluded[index] == TOPO_PF_DOWN)
		say_pf_down(host, to, index, name);
}

void check_port(const struct check_host *host, struct check_teller *to)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < host->topo->n_nics; i++) {
		if (check_is_spare(host->map, i))
			continue;
		judge_port(host, to, i);
		n++;
	}
	if (!n)
		check_say(to, CHECK_OK, "", "", "all NICs are set aside");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u, all active", n);
}

/* ---- rate ---------------------------------------------------------------------------------------------------------- */

/* Another check reports ports that are down. */
static bool has_rate(const struct check_host *host, unsigned int nic)
{
	return is_used(host, nic) || host->map->excluded[nic] == TOPO_SLOW;
}

static uint64_t fastest(const struct check_host *host)
{
	uint64_t most = 0;

	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (has_rate(host, i) && host->topo->nics[i].seen.rate_mbps > most)
			most = host->topo->nics[i].seen.rate_mbps;
	return most;
}

/* " over 1 of 4 lanes", where both are known and the link lacks some. */
static const char *lanes_text(const struct topo_nic *nic, char text[CHECK_SUBJECT_BYTES])
{
	*text = 0;
	if (nic->seen.n_lanes && nic->seen.n_lanes < nic->seen.max_lanes)
		snprintf(text, CHECK_SUBJECT_BYTES, " over %u of %u lanes", nic->seen.n_lanes,
			 nic->seen.max_lanes);
	else if (!nic->seen.max_lanes && (nic->seen.n_lanes == 1 || nic->seen.n_lanes == 2))
		snprintf(text, CHECK_SUBJECT_BYTES, " over part of its lanes");
	return text;
}

/* Firmware tells no lanes where it is sure of a part alone. */
static const char *at_least(const struct topo_nic *nic)
{
	return nic->seen.max_lanes || nic->seen.fabric == HOST_FABRIC_ETHERNET ? "" : " at least";
}

/* Beside others all may be degraded, and one NIC has no others: what the port is capable of tells. */
static bool is_degraded(const struct topo_nic *nic)
{
	return nic->seen.max_rate_mbps && nic->seen.rate_mbps < nic->seen.max_rate_mbps;
}

static void say_degraded(struct check_teller *to, const struct topo_nic *nic, const char *name)
{
	char fix[CHECK_TEXT_BYTES], lanes[CHECK_SUBJECT_BYTES];

	if (nic->seen.fabric == HOST_FABRIC_ETHERNET)
		snprintf(fix, sizeof(fix),
			 "cable, transceiver, and at the port of the switch speed, FEC and "
			 "autonegotiation (ethtool %s)",
			 netdev_of(nic));
	else
		snprintf(fix, sizeof(fix),
			 "cable, transceiver, speed of the switch's port (mlxlink, iblinkinfo)");
	check_say(to, CHECK_WARN, name, fix, "runs at %u Gb/s%s, and could at %u Gb/s%s",
		  (unsigned int)(nic->seen.rate_mbps / 1000), lanes_text(nic, lanes),
		  (unsigned int)(nic->seen.max_rate_mbps / 1000), at_least(nic));
}

static void say_slower(const struct check_host *host, struct check_teller *to, unsigned int index,
		       const char *name, uint64_t most)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char could[CHECK_SUBJECT_BYTES] = "", lanes[CHECK_SUBJECT_BYTES];

	if (is_degraded(nic))
		snprintf(could, sizeof(could), "; it could at %u Gb/s%s",
			 (unsigned int)(nic->seen.max_rate_mbps / 1000), at_least(nic));
	check_say(to, CHECK_WARN, name,
		  "cable, transceiver and port speed (ethtool, mlxlink); where it is meant so, "
		  "exclude this NIC",
		  "%u Gb/s%s, beside others of %u Gb/s%s%s", (unsigned int)(nic->seen.rate_mbps / 1000),
		  lanes_text(nic, lanes), (unsigned int)(most / 1000),
		  is_used(host, index) ? ": its GPU is slower" : ": no GPU gets it", could);
}

static void judge_rate(const struct check_host *host, struct check_teller *to, unsigned int index, uint64_t most)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char name[CHECK_SUBJECT_BYTES], path[CHECK_PATH_BYTES];

	check_nic_name(host->topo, index, name);
	snprintf(path, sizeof(path), "sys/class/infiniband/%s/ports/%u/rate", nic->seen.name, nic->seen.port);
	if (!nic->seen.rate_mbps)
		check_say_unread(to, name, path, -ENODATA);
	else if (nic->seen.rate_mbps < most)
		say_slower(host, to, index, name, most);
	else if (is_degraded(nic))
		say_degraded(to, nic, name);
}

void check_rate(const struct check_host *host, struct check_teller *to)
{
	uint64_t most = fastest(host);
	unsigned int n = 0;
	bool all_tell = true;

	for (unsigned int i = 0; i < host->topo->n_nics; i++) {
		if (!has_rate(host, i))
			continue;
		judge_rate(host, to, i, most);
		all_tell &= host->topo->nics[i].seen.max_rate_mbps != 0;
		n++;
	}
	if (!n)
		check_say(to, CHECK_OK, "", "", "no port is in use");
	else if (!to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u Gb/s everywhere%s", (unsigned int)(most / 1000),
			  all_tell ? ", and no port is capable of more" : "");
}

/* ---- MTU ----------------------------------------------------------------------------------------------------------- */

/* The MTU of RDMA packets if it is known, else of the interface; 0: unknown. */
static uint32_t mtu_of(const struct topo_nic *nic)
{
	if (nic->seen.fabric == HOST_FABRIC_ETHERNET)
		return nic->seen.mtu_bytes;
	return nic->seen.active_mtu_bytes;
}

/* InfiniBand and Ethernet never connect, nor do they count alike. */
static uint32_t largest_mtu(const struct check_host *host, enum host_fabric fabric)
{
	uint32_t largest = 0;

	for (unsigned int i = 0; i < host->topo->n_nics; i++)
		if (is_used(host, i) && host->topo->nics[i].seen.fabric == fabric && mtu_of(&host->topo->nics[i]) > largest)
			largest = mtu_of(&host->topo->nics[i]);
	return largest;
}

static void judge_mtu(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	uint32_t largest = largest_mtu(host, host->topo->nics[index].seen.fabric);
	const struct topo_nic *nic = &host->topo->nics[index];
	bool is_ethernet = nic->seen.fabric == HOST_FABRIC_ETHERNET;
	char name[CHECK_SUBJECT_BYTES], fix[CHECK_TEXT_BYTES];
	uint32_t mtu = mtu_of(nic);

	check_nic_name(host->topo, index, name);
	if (is_ethernet)
		snprintf(fix, sizeof(fix), "ip link set %s mtu %u, and the same on switches and peers", netdev_of(nic),
			 largest >= LARGE_MTU ? largest : 9000);
	else
		snprintf(fix, sizeof(fix), "an MTU of 4096 in the subnet manager's partition");
	if (!mtu)
		check_say(to, CHECK_WARN, name, is_ethernet ? "see what is there: ip link" : "see what is there: ibv_devinfo",
			  "not known: nothing tells its MTU");
	else if (mtu < largest)
		check_say(to, CHECK_WARN, name, fix, "an MTU of %u, beside others of %u: connections between them take the smaller one", mtu, largest);
	else if (is_ethernet && mtu < LARGE_MTU)
		check_say(to, CHECK_WARN, name, fix, "an MTU of %u: RoCE packets carry %u bytes, and could 4096", mtu,
			  mtu >= 2144 ? 2048 : mtu >= 1120 ? 1024 : mtu >= 608 ? 512 : 256);
}

void check_mtu(const struct check_host *host, struct check_teller *to)
{
	unsigned int n = judge_used(host, to, judge_mtu);

	if (n && !to->n_bad)
		check_say(to, CHECK_OK, "", "", "%u port%s, each with the largest of its fabric", n, plural_s(n));
}

/* ---- addresses ----------------------------------------------------------------------------------------------------- */

/* The first of each kind: routed or link-local, and whether its interface is up. */
struct roce_gids {
	const struct host_gid *routed[HOST_YES + 1];
	const struct host_gid *local[HOST_YES + 1];
};

/* A VLAN or a bond has a state of its own, and the kernel keeps addresses of one that is down. */
static enum host_known is_up(const struct check_host *host, const struct topo_nic *nic,
			     const struct host_gid *gid)
{
	char path[CHECK_PATH_BYTES];

	if (!gid->netdev[0])
		return HOST_NOT_KNOWN;
	if (strcmp(gid->netdev, nic->seen.netdev) == 0)
		return nic->seen.netdev_is_up;
	snprintf(path, sizeof(path), NETDEV_STATE, gid->netdev);
	return host_read_operstate(host->root, path);
}

static struct roce_gids find_roce_gids(const struct check_host *host, const struct topo_nic *nic)
{
	struct roce_gids gids = {0};

	for (unsigned int i = 0; i < nic->seen.n_gids; i++) {
		const struct host_gid *gid = &nic->seen.gids[i], **first;
		enum gid_reach reach = gid_reach(gid->bytes);

		if (gid->type != HOST_GID_ROCE_V2 || reach == GID_REACHES_NOBODY)
			continue;
		first = (reach == GID_REACHES_NEIGHBOURS ? gids.local : gids.routed) + is_up(host, nic, gid);
		*first = *first ? *first : gid;
	}
	return gids;
}

static void say_unread_gid(const struct check_host *host, struct check_teller *to,
			   const struct topo_nic *nic, const struct host_gid *gid, const char *name)
{
	char path[CHECK_PATH_BYTES], text[CHECK_FILE_BYTES];
	int r;

	if (gid->netdev[0])
		snprintf(path, sizeof(path), NETDEV_STATE, gid->netdev);
	else
		snprintf(path, sizeof(path), CHECK_NICS "/%s/ports/%u/gid_attrs/ndevs/%u",
			 nic->seen.name, nic->seen.port, gid->index);
	r = check_text(host, path, text);
	check_say_unread(to, name, path, r < 0 ? r : -EBADMSG);
}

static void say_gid_down(struct check_teller *to, const struct host_gid *gid, bool has_local,
			 const char *name)
{
	char fix[CHECK_TEXT_BYTES];

	snprintf(fix, sizeof(fix),
		 "ip link set %s up; ip link tells whether what it is made of is down",
		 gid->netdev);
	if (has_local)
		check_say(to, CHECK_WARN, name, fix,
			  "%s is down, and all its GIDs of RoCE v2 but link-local ones need it: no "
			  "peer behind a router reaches it",
			  gid->netdev);
	else
		check_say(to, CHECK_FAIL, name, fix,
			  "%s is down, and its GIDs of RoCE v2 need it: no peer reaches it",
			  gid->netdev);
}

static void say_unread_table(struct check_teller *to, const struct topo_nic *nic, const char *name)
{
	char path[CHECK_PATH_BYTES];

	snprintf(path, sizeof(path), CHECK_NICS "/%s/ports/%u/gids", nic->seen.name, nic->seen.port);
	check_say_unread(to, name, path, -ENODATA);
}

/* One that cannot be read decides where it might be better than all others. */
static void judge_roce(const struct check_host *host, struct check_teller *to,
		       const struct topo_nic *nic, const char *name)
{
	struct roce_gids gids = find_roce_gids(host, nic);
	const struct host_gid *unread = gids.routed[HOST_NOT_KNOWN];
	char fix[CHECK_TEXT_BYTES], pci[HOST_PCI_BYTES];

	host_pci_text(host->topo->nodes[nic->node].pci, pci);
	if (!unread && !gids.local[HOST_YES])
		unread = gids.local[HOST_NOT_KNOWN];
	snprintf(fix, sizeof(fix),
		 "ip addr add ADDRESS/LENGTH dev %s; where RoCE is off: devlink dev param set pci/%s name enable_roce value true cmode "
		 "driverinit, then devlink dev reload pci/%s",
		 netdev_of(nic), pci, pci);
	if (gids.routed[HOST_YES])
		return;
	if (nic->seen.has_gids == HOST_NOT_KNOWN)
		say_unread_table(to, nic, name);
	else if (unread)
		say_unread_gid(host, to, nic, unread, name);
	else if (gids.routed[HOST_NO])
		say_gid_down(to, gids.routed[HOST_NO], gids.local[HOST_YES], name);
	else if (gids.local[HOST_YES])
		check_say(to, CHECK_WARN, name, fix,
			  "its only GIDs of RoCE v2 are link-local: no peer behind a router "
			  "reaches it");
	else if (gids.local[HOST_NO])
		say_gid_down(to, gids.local[HOST_NO], false, name);
	else
		check_say(to, CHECK_FAIL, name, fix,
			  "it has no GID of RoCE v2: no peer reaches it");
}

static void judge_gid(const struct check_host *host, struct check_teller *to, unsigned int index)
{
	const struct topo_nic *nic = &host->topo->nics[index];
	char name[CHECK_SUBJECT_BYTES], path[CHECK_PATH_BYTES];

	check_nic_name(host->topo, index, name);
	snprintf(path, sizeof(path), CHECK_NICS "/%s/ports/%u/link_layer", nic->seen.name, nic->seen.port);
	if (nic->seen.has_gids == HOST_NOT_KNOWN && !nic->seen.n_gids)
		say_unread_table(to, nic, name);
	else if (nic->seen.fabric == HOST_FABRIC_UNKNOWN)
		check_say_unread(to, name, path, -ENODATA);
	else if (nic->seen.fabric == HOST_FABRIC_ETHERNET)
		judge_roce(host, to, nic, name);
	else if (!nic->seen.n_gids)
		check_say(to, CHECK_FAIL, name, "start a subnet manager (opensm)", "it has no GID");
}

void check_gid(const struct check_host *host, struct check_teller *to)
{
	unsigned int n = judge_used(host, to, judge_gid);

	if (n && !to->n_bad)
		check_say(to, CHECK_OK, "", "", "every port has one that peers reach");
}
