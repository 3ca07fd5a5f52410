/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inventory of this machine's NICs, ports, addresses and GPUs: the types, and everything that the rest of the daemon asks.
 *
 * The readers trust the kernel's files in what they say, not in how much they say: names, texts, addresses and ports are
 * bounded here. A missing or malformed file leaves its field unknown and never fails the rest. Reading may make a driver
 * ask its firmware: not for the control thread, unless a function says otherwise. Only a watch keeps anything.
 */
#ifndef SHMEMD_HOST_H
#define SHMEMD_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HOST_NAME_BYTES 64
#define HOST_NETDEV_BYTES 16
#define HOST_MAX_GIDS 64 /* of a port */

/* Facts that only some sources have. */
enum host_known {
	HOST_NOT_KNOWN,
	HOST_NO,
	HOST_YES,
};

enum host_state {
	HOST_STATE_UNKNOWN,
	HOST_STATE_DOWN,
	HOST_STATE_ACTIVE,
};

enum host_fabric {
	HOST_FABRIC_UNKNOWN,
	HOST_FABRIC_ETHERNET,
	HOST_FABRIC_INFINIBAND,
};

enum host_gid_type {
	HOST_GID_UNKNOWN,
	HOST_GID_IB,
	HOST_GID_ROCE_V1,
	HOST_GID_ROCE_V2,
};

/* An address of a port. */
struct host_gid {
	uint8_t bytes[16];
	uint32_t index; /* in the port's table */
	enum host_gid_type type;
	char netdev[HOST_NETDEV_BYTES]; /* the interface that has this address */
};

/* A PCI link: transfers per second in units of a million, and lanes. */
struct host_link {
	uint32_t mtps;
	uint32_t width;
	uint32_t max_mtps;
	uint32_t max_width;
};

/* A port of an RDMA device. Numbers that are 0 and texts that are empty are unknown. */
struct host_nic {
	char name[HOST_NAME_BYTES]; /* the device's; in a host_list "NAME:2" where the device has several ports */
	char driver[HOST_NETDEV_BYTES * 2]; /* in the kernel: "rdma_rxe"; in a host_list only */
	char netdev[HOST_NAME_BYTES];
	char bond[HOST_NAME_BYTES]; /* the bond that has its interface */
	char firmware[HOST_NAME_BYTES];
	unsigned int port; /* from 1 */
	enum host_state state;
	enum host_fabric fabric;
	enum host_known manages_switches; /* by its product data */
	uint32_t phys_state; /* IBTA PortInfo PortPhysicalState: 1 sleep .. 5 link up .. 7 */
	uint32_t lid;
	uint32_t mtu_bytes; /* of the interface */
	uint32_t active_mtu_bytes; /* of the port */
	uint32_t max_mtu_bytes;
	uint64_t rate_mbps;
	uint32_t n_lanes; /* that the rate is over */
	uint64_t max_rate_mbps; /* that the port could have, on InfiniBand at least */
	uint32_t max_lanes; /* the most that this may be over; of Ethernet alone */
	uint64_t node_guid; /* of the device, and of no other */
	uint64_t pci; /* HOST_NO_PCI: a software device; in a host_list only */
	uint64_t pf; /* PCI address of the physical function of a VF, else HOST_NO_PCI */
	uint64_t life; /* changes when the device goes and is made anew; in a host_list only */
	struct host_link link;
	enum host_known netdev_is_up;
	enum host_known has_gids; /* HOST_NOT_KNOWN also where some row could not be read */
	unsigned int n_gids;
	struct host_gid gids[HOST_MAX_GIDS]; /* by index */
	enum host_known has_devx;
	enum host_known has_masked_atomics;
	enum host_known has_dmabuf;
	enum host_known has_blueflame;
};

/* ---- PCI addresses, pure ------------------------------------------------------------------------------------------- */

#define HOST_PCI_BYTES 20
#define HOST_NO_PCI UINT64_MAX

/* "0000:3b:00.0" and back. A domain may be left out. */
const char *host_pci_text(uint64_t pci, char buf[HOST_PCI_BYTES]);
bool host_pci_parse(const char *text, uint64_t *ret_pci);

/* ---- one device, by an open folder of sysfs -------------------------------------------------------------------------- */

uint64_t host_read_guid(int device); /* of the device; 0: unknown */
/* Firmware, GUID, PCI link and PF of the RDMA device whose folder is `device`. */
void host_read_device(int device, struct host_nic *nic);
/*
 * State, rate, interface and addresses of nic->port. `sys` is the root of sysfs; -1 leaves out what the interface says.
 * False: the device has no such port, and nic says that it is down.
 */
bool host_read_port(int sys, int device, struct host_nic *nic);
/* Drops the GID when the list is full. */
void host_add_gid(struct host_nic *nic, const struct host_gid *gid);
/*
 * Whether the product data of an InfiniBand function says that it manages switches. Root may read it, and the daemon's user
 * by 60-shmemd.rules. The kernel reads it four bytes at a time through a register: ask only where it matters.
 */
enum host_known host_manages_switches(int device);
/*
 * The PCI function of the RDMA device `name` in the folder `at`; software has none. A subfunction has the address and the
 * port numbers of its PF, and a child device those of its parent; neither counts as a NIC of that function.
 */
bool host_find_function(int at, const char *name, uint64_t *ret_pci);
/* Whether an interface carries anything, by its "operstate". */
enum host_known host_read_operstate(int folder, const char *path);

/* ---- all devices that no backend manages ----------------------------------------------------------------------------- */

#define HOST_LIST_MAX 64u /* ports */
#define HOST_SHOWN_BYTES 32 /* of a name in a list, with its 0 */

/* A port that has a backend: of the device with this GUID; where there is none, with this name. */
struct host_managed {
	char name[HOST_SHOWN_BYTES];
	uint64_t node_guid;
	uint32_t port;
};

static inline bool host_is_managed(const struct host_managed *managed, const char *name, uint64_t node_guid, uint32_t port)
{
	return managed->node_guid && node_guid ? managed->node_guid == node_guid && managed->port == port
					       : strcmp(managed->name, name) == 0;
}

/* By name and port. */
struct host_list {
	unsigned int n;
	unsigned int n_left_out; /* ports beyond HOST_LIST_MAX, and devices whose names cannot be printed or do not fit */
	struct host_nic nics[HOST_LIST_MAX];
};

/*
 * One look, by the calling thread. A tree that is not there is empty. Nothing that firmware must answer is read of a managed
 * device. active_mtu_bytes stays 0. sysfs is "/sys", or a tree that looks like it.
 */
void host_scan(const char *sysfs, const struct host_managed *managed, unsigned int n_managed, struct host_list *ret_list);

struct host_watch;

struct host_watch_attr {
	const char *sysfs;
	const char *procfs;
	const char *file; /* describes the machine, in place of sysfs and procfs; NULL: none does */
	uint64_t scan_nsec; /* between two scans for unmanaged devices */
	uint64_t machine_nsec; /* between two looks for changes of the machine; 0: it does not look for them */
	unsigned int n_managed;
	const struct host_managed *managed; /* borrowed during the call */
};

/* Everything is the newest state; earlier ones that nobody took are dropped. */
struct host_news {
	struct host_list *list; /* of unmanaged devices, to be freed by the caller; NULL: as before */
	/*
	 * One of these has changed: PCI functions, RDMA devices, the bonds and bridges of their interfaces, the owner of their product
	 * data, GPUs that NVIDIA's driver has; or the file. States and rates of ports do not count.
	 */
	bool is_machine_changed;
};

/* Whether the kernel has RDMA; without, there are no unmanaged devices. Never blocks. */
bool host_watch_wanted(const char *sysfs);
/*
 * A thread that scans, and finds out active_mtu_bytes too; another one looks for changes from this call on, also while a driver
 * holds up the scan. -ENOMEM, -EMFILE, or what pthread_create says.
 */
int host_watch_new(const struct host_watch_attr *attr, struct host_watch **ret_watch);
/* One more that a backend manages, from the next look on. At most HOST_LIST_MAX with those of before; the rest is reported. */
void host_watch_manage(struct host_watch *watch, const struct host_managed *managed);
/* Waits for a look under way, two seconds at most; abandons one that hangs in the kernel. */
struct host_watch *host_watch_free(struct host_watch *watch);
/* Readable while host_watch_take() has something; the watch's own. */
int host_watch_fd(const struct host_watch *watch);
/* Returns the changes since the last call. Never blocks for longer than a copy. */
void host_watch_take(struct host_watch *watch, struct host_news *ret_news);

/* ---- which address a port uses --------------------------------------------------------------------------------------- */

/* A row of the table of all ports of a device. */
struct host_gid_row {
	uint8_t bytes[16];
	uint32_t index;
	uint8_t port;
	bool is_roce_v2;
	bool is_netdev_down; /* the interface that has this address; false: it is up, or its state is unknown */
	bool is_netdev_own; /* the port's own interface, not one upon it */
};

/*
 * Pure. The row that peers reach best, whatever its index: of an interface that is up; of a scope that passes routers; of
 * the port's own interface; IPv4; the first. On InfiniBand the first. -ENOENT: a RoCE port has none of version 2.
 */
int host_gid_choose(const struct host_gid_row *rows, size_t n, uint8_t port, bool is_roce);
/* Reads what sysfs says about a row's interface: `nic` is the folder of the device, `net` the one of all interfaces. */
void host_gid_look(const char *nic, const char *net, struct host_gid_row *row);

/* ---- rates ----------------------------------------------------------------------------------------------------------- */

/* 0: unknown. `nic`: the folder of the device; width and speed: active_width and active_speed of verbs. */
uint64_t host_rate_mbps(const char *nic, uint8_t port, uint8_t width, uint8_t speed);

/* ---- libraries that are loaded for the question ---------------------------------------------------------------------- */

#define HOST_VERBS "libibverbs.so.1"
#define HOST_MLX5 "libmlx5.so.1"
#define HOST_NVML "libnvidia-ml.so.1"

/*
 * MTUs of present NICs; of a ConnectX also what its firmware offers and how fast its InfiniBand ports can be. Each device
 * is opened, asked and closed. mlx5 NULL: nothing that only a ConnectX has.
 */
void host_ask_verbs(const char *verbs, const char *mlx5, struct host_nic *const *nics, unsigned int n);
/* The active MTU of a port in bytes, or 0 where the device does not answer. `name` as in a host_list. */
uint32_t host_ask_mtu(const char *verbs, const char *name, unsigned int port);
/* The fastest rate of each Ethernet port. Asks the kernel for interfaces by name: for the machine that this runs on. */
void host_ask_speeds(struct host_nic *const *nics, unsigned int n);

#define HOST_GPU_LINKS 36

/* A GPU as NVML reports it. */
struct host_gpu {
	uint64_t pci;
	char uuid[HOST_NAME_BYTES];
	char name[HOST_NAME_BYTES];
	bool has_mig;
	unsigned int n_links; /* enabled ones, but those to a CPU */
	struct host_gpu_link {
		uint64_t to; /* what NVML calls the other end, or HOST_NO_PCI */
		bool is_to_gpu; /* NVML says so */
	} links[HOST_GPU_LINKS];
};

/* At most `max` GPUs; returns how many. 0 where there is no library. The library is loaded for the call alone. */
unsigned int host_ask_nvml(const char *library, struct host_gpu *gpus, unsigned int max);

/* ---- GPUs, without asking a driver: the control thread may call these ---------------------------------------------------- */

/* Whether sysfs shows a display controller or an accelerator at this address. */
bool host_sees_gpu(const char *sysfs, const char *pci);
/* Whether NVIDIA's driver has exactly n_gpus GPUs and has split none into instances. */
bool host_has_whole_gpus(const char *procfs, unsigned int n_gpus);

#endif
