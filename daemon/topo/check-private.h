/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the checks: reporting findings, and reading small files with a reason for each failure. */
#ifndef SHMEMD_TOPO_CHECK_PRIVATE_H
#define SHMEMD_TOPO_CHECK_PRIVATE_H

#include <stddef.h>

#include "daemon/topo/check.h"

#define CHECK_PATH_BYTES 320
#define CHECK_FILE_BYTES 8192

struct check_teller {
	const char *check;
	const struct topo *topo; /* the map that the verdict depends on; NULL: none */
	unsigned int n_bad; /* findings so far that are not good */
	check_tell_fn *tell;
	void *arg;
};

/* `fix` is "" for a good finding. */
void check_say(struct check_teller *to, enum check_state state, const char *subject, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* A warning: `path`, below the root, cannot be read. */
void check_say_unread(struct check_teller *to, const char *subject, const char *path, int error);

/* Reports, as a warning, that a running daemon gives no answer. */
void check_say_unasked(struct check_teller *to, int error);

/*
 * Whether the machine was read and shows PCI functions. If not, it reports that there may be GPUs and NICs that are not in the
 * map.
 */
bool check_has_machine(const struct check_host *host, struct check_teller *to);

/* Reports a warning for each RDMA device of a PCI function without a port in the map, or one if it may not see any. Counts them. */
unsigned int check_unseen_nics(const struct check_host *host, struct check_teller *to);

/* Number of bytes, text ended by 0 and cut at CHECK_FILE_BYTES; or -errno. */
int check_text(const struct check_host *host, const char *path, char text[CHECK_FILE_BYTES]);
int check_bytes(const struct check_host *host, const char *path, void *bytes, size_t n_bytes);
/* 1: there is such a thing; 0: no; or -errno. */
int check_exists(const struct check_host *host, const char *path);
int check_folder(const struct check_host *host, const char *path); /* 0: it can be read; or -errno */
/* The rest of the line that begins with `key`; NULL: there is no such line. */
const char *check_line(const char *text, const char *key);

/* From the field of a stat file of proc on, counted from 1, behind the name, which may hold anything; NULL: it has fewer. */
const char *check_stat_field(const char *stat, unsigned int field);
/* Whether proc/PID, with the daemon's number, is the daemon; if not, it reports why its process is unknown. */
bool check_has_process(const struct check_host *host, struct check_teller *to);

/* "mlx5_0", with "/PORT" where the function has several. */
const char *check_nic_name(const struct topo *topo, unsigned int nic, char buf[CHECK_SUBJECT_BYTES]);
/* Set aside although it works, so its findings do not matter. */
bool check_is_spare(const struct topo_map *map, unsigned int nic);
/* Another port of its function, before it, is judged for the whole function. */
bool check_is_further_port(const struct check_host *host, unsigned int nic);
/* Whether it is for the driver mlx5, loaded or not: ConnectX-4 or later. */
bool check_is_mlx5(const struct topo *topo, unsigned int nic);
bool check_has_mlx5(const struct topo *topo);
/* Whether the NICs that GPUs use register dmabufs, as their drivers said: no where one said so, yes where each did. */
enum host_known check_dmabuf(const struct check_host *host);
/* Whether the driver of any ConnectX let commands through to firmware (DEVX), or told that it does not. */
enum host_known check_devx_of_any(const struct topo *topo);
/* Whether the distribution is one whose kernels have drivers of newer ones, so that the version tells nothing: said as a warning. */
bool check_has_backports(const struct check_host *host);
void check_say_backports(struct check_teller *to, const unsigned int version[2]);
/* Major and minor number of the kernel; 0 or -errno. */
int check_kernel(const struct check_host *host, unsigned int version[2]);

#define CHECK_NICS "sys/class/infiniband"
#define CHECK_PCI "sys/bus/pci/devices"
#define CHECK_KERNEL "proc/sys/kernel/osrelease"

typedef void check_fn(const struct check_host *host, struct check_teller *to);

check_fn check_driver, check_peer_mapping, check_stream_memory, check_gpu_memory, check_gdrcopy;
check_fn check_kernel_version, check_rdma_core, check_device_nodes, check_memory_lock;
check_fn check_iommu, check_acs, check_pci_link;
check_fn check_port, check_rate, check_mtu, check_gid;
check_fn check_devices, check_assignment, check_devx, check_atomics, check_firmware, check_guids;
check_fn check_settings;
check_fn check_driven, check_threads, check_doorbells;

#endif
