/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From facts to needs. A need that holds says what was found; one that does not says what it keeps shmemd from, and what
 * to do. A fact that could not be read is unknown, never good or bad.
 */
#include "daemon/nic/mlx5/mlx5-needs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Fewer QPs than one GPU's kernels ask for at once. */
#define FEW_LOG_QPS 10u

struct teller {
	const char *nic;
	nic_need_fn tell;
	void *arg;
};

static void __attribute__((format(printf, 5, 6)))
say(const struct teller *to, enum nic_need_state state, const char *name, const char *fix, const char *fmt, ...)
{
	struct nic_need need = {.state = state};
	va_list ap;

	snprintf(need.nic, sizeof(need.nic), "%s", to->nic);
	snprintf(need.name, sizeof(need.name), "%s", name);
	snprintf(need.fix, sizeof(need.fix), "%s", fix);
	va_start(ap, fmt);
	vsnprintf(need.reason, sizeof(need.reason), fmt, ap);
	va_end(ap);
	to->tell(to->arg, &need);
}

/* ---- the host ------------------------------------------------------------------------------------------------------ */

static void judge_devices(const struct teller *to, const struct mlx5_host_facts *facts)
{
	if (!facts->has_verbs)
		say(to, NIC_NEED_FAIL, "devices", "load mlx5_ib and ib_uverbs, or use --backend soft, which needs no NIC",
		    "the kernel has no RDMA device: /sys/class/infiniband_verbs is not there");
	else if (facts->list_error < 0)
		say(to, NIC_NEED_FAIL, "devices", "install an rdma-core that is as new as the kernel's modules",
		    "libibverbs cannot list devices: %s", strerror(-facts->list_error));
	else if (facts->n_devices == 0)
		say(to, NIC_NEED_FAIL, "devices", "load mlx5_ib, install libmlx5, or use --backend soft, which needs no NIC",
		    "libibverbs lists no ConnectX device");
	else
		say(to, NIC_NEED_OK, "devices", "", "%u ConnectX device%s", facts->n_devices, facts->n_devices > 1 ? "s" : "");
}

static void judge_exports(const struct teller *to, const struct mlx5_host_facts *facts)
{
	if (facts->exports)
		say(to, NIC_NEED_OK, "rdma-core", "", "libmlx5 exports its objects (rdma-core 63 or later)");
	else
		say(to, NIC_NEED_OK, "rdma-core", "", "libmlx5 exports no objects (before rdma-core 63): shmemd makes them by calls of its own");
}

static bool has_cap(const struct mlx5_host_facts *facts, unsigned int cap)
{
	return facts->capabilities_error == 0 && facts->capabilities >> cap & 1;
}

static void judge_memory_lock(const struct teller *to, const struct mlx5_host_facts *facts)
{
	if (facts->memory_lock_error < 0)
		say(to, NIC_NEED_UNKNOWN, "memory-lock", "", "cannot ask: %s", strerror(-facts->memory_lock_error));
	else if (facts->memory_lock_bytes == UINT64_MAX || has_cap(facts, CAP_IPC_LOCK))
		say(to, NIC_NEED_OK, "memory-lock", "", "this process may lock all memory");
	else
		say(to, NIC_NEED_WARN, "memory-lock", "LimitMEMLOCK=infinity in the service's unit, or ulimit -l unlimited",
		    "this process may lock %" PRIu64 " KiB, for the queues and regions of all sessions together",
		    facts->memory_lock_bytes >> 10);
}

static void judge_capabilities(const struct teller *to, const struct mlx5_host_facts *facts)
{
	bool raw = has_cap(facts, CAP_NET_RAW), io = has_cap(facts, CAP_SYS_RAWIO);

	if (facts->capabilities_error < 0)
		say(to, NIC_NEED_UNKNOWN, "capabilities", "", "cannot ask: %s", strerror(-facts->capabilities_error));
	else if (raw || io)
		say(to, NIC_NEED_OK, "capabilities", "", "none is needed; %s%s%s laid down while contexts are opened",
		    raw ? "CAP_NET_RAW" : "", raw && io ? " and " : "", raw && io ? "CAP_SYS_RAWIO are" : io ? "CAP_SYS_RAWIO is" : " is");
	else
		say(to, NIC_NEED_OK, "capabilities", "", "none is needed, and none that sticks to contexts is there");
}

void mlx5_needs_of_host(const struct mlx5_host_facts *facts, nic_need_fn tell, void *arg)
{
	const struct teller to = {"", tell, arg};

	judge_devices(&to, facts);
	judge_exports(&to, facts);
	judge_memory_lock(&to, facts);
	judge_capabilities(&to, facts);
}

void mlx5_need_of_node(const char *path, int error, nic_need_fn tell, void *arg)
{
	const struct teller to = {"", tell, arg};
	bool is_there = error != -ENOENT;

	say(&to, NIC_NEED_FAIL, "command-descriptor",
	    is_there ? "give the user of shmemd the node, with udev's rule of rdma-core (mode 0666) or a group"
		     : "mount /dev/infiniband where shmemd runs (containers, PrivateDevices=)",
	    "%s: %s", path, strerror(-error));
}

/* ---- a device ------------------------------------------------------------------------------------------------------ */

static void judge_open(const struct teller *to, int error)
{
	bool may_not = error == -EACCES || error == -EPERM;

	if (error == 0 || error == -EOPNOTSUPP)
		say(to, NIC_NEED_OK, "command-descriptor", "", "the device can be opened");
	else if (may_not)
		say(to, NIC_NEED_FAIL, "command-descriptor",
		    "give the user of shmemd the node, with udev's rule of rdma-core (mode 0666) or a group",
		    "the device may not be opened: %s", strerror(-error));
	else
		say(to, NIC_NEED_FAIL, "command-descriptor", error == -ENODEV ? "reset the device; dmesg says what happened" : "",
		    error == -ENODEV ? "the device is lost (%s)" : "the device cannot be opened: %s", strerror(-error));
	if (error == 0)
		say(to, NIC_NEED_OK, "devx", "", "firmware commands are let through, each context with an id (uid) of its own");
	else if (error == -EOPNOTSUPP)
		say(to, NIC_NEED_FAIL, "devx", "kernel 5.3 or later, and a firmware with DEVX",
		    "the kernel or the firmware lets no commands through (DEVX)");
	else
		say(to, NIC_NEED_UNKNOWN, "devx", "", "the device cannot be opened");
}

static void judge_uar(const struct teller *to, int error)
{
	if (error == 0)
		say(to, NIC_NEED_OK, "doorbell-page", "", "a page that is nobody else's can be made and mapped");
	else
		say(to, NIC_NEED_FAIL, "doorbell-page",
		    error == -ENOSPC || error == -ENOMEM ? "fewer contexts, or more UARs in the firmware's settings (NUM_OF_VFS, LOG_BAR_SIZE)"
							 : "kernel 5.7 or later",
		    "no doorbell page can be made and mapped: %s", strerror(-error));
}

static void judge_dmabuf(const struct teller *to, int error)
{
	if (error == 0 || error == -EBADF)
		say(to, NIC_NEED_OK, "dmabuf", "", "memory of GPUs can be registered as dmabufs");
	else
		say(to, NIC_NEED_WARN, "dmabuf", "kernel 5.12 and rdma-core 34 or later",
		    "no dmabuf can be registered, so queues lie in host memory, and regions unless there is peermem: %s", strerror(-error));
}

/* Clients register memory of GPUs by it where that cannot be exported. A module is a hint: they try, and so know. */
static void judge_peermem(const struct teller *to, const char *module, int dmabuf_error)
{
	bool has_dmabuf = dmabuf_error == 0 || dmabuf_error == -EBADF;

	if (module)
		say(to, NIC_NEED_OK, "peermem", "", "%s is loaded: clients in doorbell mode uar-mmap register memory of GPUs without dmabufs",
		    module);
	else if (has_dmabuf)
		say(to, NIC_NEED_OK, "peermem", "", "no peer memory module is loaded; GPUs whose driver exports dmabufs need none");
	else
		say(to, NIC_NEED_WARN, "peermem", "modprobe nvidia_peermem, with a kernel that has peer memory (DOCA-OFED, MLNX_OFED)",
		    "neither dmabuf nor a peer memory module: memory of GPUs is not reached");
}

static const char *atomic_words(uint8_t mode)
{
	switch (mode) {
	case PRM_ATOMIC_UP_TO_8B:
		return "of 4 and 8 bytes, masked ones too";
	case PRM_ATOMIC_IB_SPEC:
	case PRM_ATOMIC_ONLY_8B:
		return "of 8 bytes, as InfiniBand has them";
	default:
		return "none";
	}
}

static void judge_caps(const struct teller *to, const struct mlx5_caps *caps)
{
	if (caps->rc)
		say(to, NIC_NEED_OK, "rc", "", "reliable connections");
	else
		say(to, NIC_NEED_FAIL, "rc", "", "the firmware has no reliable connections");
	if (caps->dct)
		say(to, NIC_NEED_OK, "dc", "", "dynamic connections: queues do not grow with peers");
	else
		say(to, NIC_NEED_WARN, "dc", "ConnectX-5 or later", "no dynamic connections: a QP for each peer");
	if (caps->atomic_mode == PRM_ATOMIC_UP_TO_8B)
		say(to, NIC_NEED_OK, "atomics", "", "%s", atomic_words(caps->atomic_mode));
	else
		say(to, NIC_NEED_WARN, "atomics", "ConnectX-5 or later, or a newer firmware", "%s", atomic_words(caps->atomic_mode));
	if (caps->log_max_qp < FEW_LOG_QPS)
		say(to, NIC_NEED_WARN, "limits", "a larger profile of mlx5_core, or fewer virtual functions", "at most %u QPs",
		    1u << caps->log_max_qp);
	else
		say(to, NIC_NEED_OK, "limits", "", "2^%u QPs of 2^%u WQEBBs, 2^%u CQs of 2^%u entries, 2^%u keys", caps->log_max_qp,
		    caps->log_max_qp_sz, caps->log_max_cq, caps->log_max_cq_sz, caps->log_max_mkey);
}

static void say_unknown(const struct teller *to, const char *const *names, const char *why, int error)
{
	for (; *names; names++)
		say(to, NIC_NEED_UNKNOWN, *names, "", "%s: %s", why, strerror(-error));
}

void mlx5_needs_of_device(const struct mlx5_device_facts *facts, nic_need_fn tell, void *arg)
{
	static const char *const of_context[] = {"doorbell-page", "dmabuf", "peermem", NULL};
	static const char *const of_caps[] = {"rc", "dc", "atomics", "limits", NULL};
	const struct teller to = {facts->name, tell, arg};

	judge_open(&to, facts->open_error);
	if (facts->open_error < 0) {
		say_unknown(&to, of_context, "the device cannot be opened", facts->open_error);
	} else {
		judge_uar(&to, facts->uar_error);
		judge_dmabuf(&to, facts->dmabuf_error);
		judge_peermem(&to, facts->peer_module, facts->dmabuf_error);
	}
	if (facts->caps_error < 0)
		say_unknown(&to, of_caps, "the firmware tells no capabilities", facts->caps_error);
	else
		judge_caps(&to, &facts->caps);
}

/* ---- a port -------------------------------------------------------------------------------------------------------- */

static void judge_gid(const struct teller *to, const struct mlx5_port_facts *facts)
{
	char text[INET6_ADDRSTRLEN] = "";

	inet_ntop(AF_INET6, facts->gid, text, sizeof(text));
	if (facts->gid_error == 0 && facts->link == NIC_LINK_ETHERNET && facts->gid[0] == 0xfe && (facts->gid[1] & 0xc0) == 0x80)
		say(to, NIC_NEED_WARN, "gid", "give the port's network interface an IP address",
		    "%s, RoCE v2, is link-local: peers behind a router are not reached", text);
	else if (facts->gid_error == 0)
		say(to, NIC_NEED_OK, "gid", "", "%s%s", text, facts->link == NIC_LINK_ETHERNET ? ", RoCE v2" : "");
	else if (facts->gid_error == -ENOENT)
		say(to, NIC_NEED_FAIL, "gid", "give the port's network interface an IP address, and set RoCE version 2",
		    "the port has no address that peers reach (%s)", facts->link == NIC_LINK_ETHERNET ? "RoCE v2" : "InfiniBand");
	else
		say(to, NIC_NEED_UNKNOWN, "gid", "", "cannot ask: %s", strerror(-facts->gid_error));
}

void mlx5_needs_of_port(const struct mlx5_port_facts *facts, nic_need_fn tell, void *arg)
{
	const struct teller to = {facts->name, tell, arg};

	if (facts->state_error < 0)
		say(&to, NIC_NEED_UNKNOWN, "port", "", "cannot ask: %s", strerror(-facts->state_error));
	else if (facts->state == NIC_PORT_ACTIVE)
		say(&to, NIC_NEED_OK, "port", "", "active");
	else
		say(&to, NIC_NEED_WARN, "port",
		    facts->link == NIC_LINK_ETHERNET ? "cable, switch, ip link set up" : "cable, switch, subnet manager",
		    "down: clients are not assigned to it");
	judge_gid(&to, facts);
}
