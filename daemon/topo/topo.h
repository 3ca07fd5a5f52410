/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs and NICs of a node: where they hang, how near they are to each other, and which GPU uses which NIC.
 *
 * A struct topo is read once, from the running machine or from a file that was captured on another, and never changes but for the
 * states of ports, which its owner may set. Others may read it in any thread. Files are hostile: what they may hold is bounded here, and refused with a reason.
 */
#ifndef SHMEMD_TOPO_H
#define SHMEMD_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/host/host.h"

#define TOPO_MAX_GPUS 64
#define TOPO_MAX_NICS 1024 /* ports count */
#define TOPO_MAX_NODES 8192
#define TOPO_MAX_DEPTH 62 /* a dump has two elements more: a NIC and its address */
#define TOPO_MAX_FILE_BYTES (16u << 20)

#define TOPO_NAME_BYTES HOST_NAME_BYTES
#define TOPO_WHY_BYTES 192
#define TOPO_WORD_BYTES 16
#define TOPO_UNREAD_BYTES 96

/* RDMA ports run at rates between these. Any other rate is a mistake of the source, for instance in its units, and counts as unknown. */
#define TOPO_MIN_RATE_MBPS 1000u
#define TOPO_MAX_RATE_MBPS 3200000u

#define TOPO_NO_NUMA (-1)
#define TOPO_MAX_NUMA 1024 /* numbers from here on tell places apart, and are no node's */

enum topo_kind {
	TOPO_MACHINE, /* the root, node 0 */
	TOPO_CPU, /* stands for all its host bridges, where they are not told apart */
	TOPO_HOST, /* a host bridge */
	TOPO_BRIDGE,
	TOPO_FUNCTION,
};

struct topo_node {
	enum topo_kind kind;
	int parent; /* -1: the root */
	unsigned int depth;
	unsigned int n_hops; /* bridges that this node stands for: 2 where a whole switch is one node */
	int numa; /* its own or of the nearest above that has one; else TOPO_NO_NUMA */
	uint64_t pci; /* or HOST_NO_PCI */
	uint16_t class_code; /* base class and sub-class */
	uint16_t vendor; /* 0: unknown, as all numbers here */
	uint16_t device;
	uint32_t link_mbps; /* of a function: the most that its PCIe link carries in one direction, as far as the source knows */
};

struct topo_gpu {
	unsigned int node;
	char uuid[TOPO_NAME_BYTES]; /* "": unknown, as all texts here */
	char name[TOPO_NAME_BYTES];
	bool has_mig;
	unsigned int n_switch_links; /* NVLinks that end in a switch, through which any other GPU is reached */
};

enum topo_role {
	TOPO_ROLE_NONE,
	TOPO_ROLE_MANAGEMENT,
	TOPO_ROLE_STORAGE,
	TOPO_ROLE_BRIDGE, /* manages switches of GPU links */
};

/* A port of an RDMA device. */
struct topo_nic {
	unsigned int node;
	enum topo_role role;
	bool has_no_driver; /* a function without an RDMA device */
	bool is_unmanaged; /* by the daemon, whose map alone says so */
	uint64_t guid; /* of the device or its card, as the source has it */
	struct host_nic seen; /* what the source says; of other machines in the same form. Port 0: unknown */
};

struct topo {
	unsigned int n_nodes;
	unsigned int n_gpus; /* in the order of PCI addresses */
	unsigned int n_nics; /* the same, ports of one function by number */
	unsigned int n_numa; /* 0: unknown */
	unsigned int n_hosts; /* host bridges with GPUs below */
	/* The first file, below the root, that decides what is here and could not be read; "": all could. Of the running machine alone. */
	char unread[TOPO_UNREAD_BYTES];
	int unread_error; /* negative errno */
	bool has_xgmi; /* links between GPUs are XGMI, not NVLink */
	struct topo_node *nodes; /* a parent stands before its children */
	struct topo_gpu *gpus;
	struct topo_nic *nics;
	uint8_t (*gpu_links)[TOPO_MAX_GPUS]; /* direct ones, by the indexes of two GPUs */
};

void topo_free(struct topo *topo);

/* Where the running machine is looked at; NULL leaves one out. */
struct topo_host_attr {
	const char *sys; /* "/sys" */
	const char *proc; /* "/proc" */
	const char *nvml; /* "libnvidia-ml.so.1" */
	/* "libibverbs.so.1"; opens each NIC and asks its interface: for who asks one question, not for who runs on */
	const char *verbs;
	const char *mlx5; /* "libmlx5.so.1"; only with verbs */
	/* TOPO_WHY_BYTES for what -E2BIG or -EBADMSG is about, and on success for what was left out, in words; "": nothing was. Or NULL */
	char *why;
};

/*
 * -ENOMEM; -E2BIG with more of something than the limits above; -EBADMSG with a GPU that is there twice. An unreadable fact stays
 * unknown. Left out are the later of two RDMA devices of one function, by name, and VFs of PFs that are there where there is no room.
 */
int topo_read_host(const struct topo_host_attr *attr, struct topo **ret_topo);

/*
 * An hwloc XML, a topology XML of NCCL, or what topo_dump() wrote; told apart by the outermost element. -EBADMSG: none of them, or
 * damaged; -E2BIG; -ENOMEM; -errno of reading. `why` has the reason in words, and on success what is odd about the file or was left
 * out; "": nothing. "-" is standard input. topo_parse: `text` is changed.
 */
int topo_read_file(const char *path, struct topo **ret_topo, char why[TOPO_WHY_BYTES]);
int topo_parse(char *text, size_t n_bytes, struct topo **ret_topo, char why[TOPO_WHY_BYTES]);

/* GPUs, NICs and what is above them, for topo_parse(). Errors stay in `out`. */
void topo_dump(const struct topo *topo, FILE *out);

/* Its name, or its PCI address where it has none. */
const char *topo_nic_text(const struct topo *topo, unsigned int nic, char buf[TOPO_NAME_BYTES]);
/* By index, PCI address or UUID; -1: there is none. */
int topo_find_gpu(const struct topo *topo, const char *text);

/* ---- distances */

/* Nearest first. */
enum topo_distance {
	TOPO_SELF,
	TOPO_PIX, /* one PCI switch */
	TOPO_PXB, /* several, no host bridge */
	TOPO_PHB, /* one host bridge */
	TOPO_NODE, /* host bridges of one NUMA node */
	TOPO_SYS, /* between NUMA nodes, or nobody knows */
};

/* Of two nodes. */
enum topo_distance topo_distance(const struct topo *topo, unsigned int a, unsigned int b);
/*
 * Orders what may serve `from`: less is nearer. Below a shared bridge the deepest one decides, since traffic turns round there;
 * then the words above.
 */
unsigned int topo_rank(const struct topo *topo, unsigned int from, unsigned int to);
const char *topo_word(enum topo_distance distance);
/* Links between two GPUs, direct or through a switch; 0: none. */
unsigned int topo_gpu_links(const struct topo *topo, unsigned int a, unsigned int b);
/* "NV18" or "XGMI" where two GPUs have links, else the word. */
const char *topo_gpu_word(const struct topo *topo, unsigned int a, unsigned int b, char buf[TOPO_WORD_BYTES]);

/* ---- policy: what an administrator wants */

#define TOPO_MAX_GIVEN 1024
#define TOPO_POLICY_WHY_BYTES 1024 /* the names of 64 NICs */
#define TOPO_POLICY_TEXT_BYTES 4096 /* of one setting */
#define TOPO_MAX_WEIGHT 1000

/* A NIC by its name or its PCI address. */
struct topo_named {
	char name[TOPO_NAME_BYTES];
	unsigned int port; /* 0: each */
	enum topo_role role; /* what it is set aside for, or TOPO_ROLE_NONE */
};

/* A NIC for a GPU, which is named as for topo_find_gpu(). */
struct topo_given {
	char gpu[TOPO_NAME_BYTES];
	struct topo_named nic;
	unsigned int weight; /* 0: none was written */
};

struct topo_policy {
	unsigned int n_included; /* 0: all */
	unsigned int n_excluded;
	unsigned int n_given;
	struct topo_named included[TOPO_MAX_NICS];
	struct topo_named excluded[TOPO_MAX_NICS];
	struct topo_given given[TOPO_MAX_GIVEN];
};

/*
 * Reads the value of "nics-include", "nics-exclude" or "gpu-nic-map", entries with commas or blanks between them, in place of what the
 * policy has of it. -ENOENT: another key; -EINVAL, and why: also of TOPO_POLICY_TEXT_BYTES or more.
 */
int topo_policy_set(struct topo_policy *policy, const char *key, const char *value, char why[TOPO_POLICY_WHY_BYTES]);
/* The same keys from a file of "key = value" lines; others are passed over. -errno of opening and reading, -EINVAL; why has the reason. */
int topo_policy_read(struct topo_policy *policy, const char *path, char why[TOPO_POLICY_WHY_BYTES]);
/*
 * Whether this machine can do it: -EINVAL, and why with what would be valid, where the map names a GPU or a NIC that is not there or
 * a NIC that cannot be used, and where nothing is included that is there. -ENETDOWN: nothing but ports that are down is in the way.
 * Names to exclude may be absent.
 */
int topo_policy_check(const struct topo_policy *policy, const struct topo *topo, char why[TOPO_POLICY_WHY_BYTES]);
/* Whether the lists leave a NIC to anybody. policy may be NULL, here and below. */
bool topo_policy_allows(const struct topo_policy *policy, const struct topo *topo, unsigned int nic);
/* The same for one that is none of the machine's, as the daemon knows it. */
struct topo_apart {
	const char *name; /* topo_is_of_device() */
	const char *pci; /* "0000:3b:00.0", or empty */
	unsigned int port;
};
#define TOPO_DOUBTS_BYTES 256
/*
 * Names in the policy that neither the machine nor `apart`, NICs of the daemon's own, has: how many, and in words which, with what
 * was probably meant; "" for none. They are no error: a NIC may come later, and one file may serve many nodes.
 */
unsigned int topo_policy_doubts(const struct topo_policy *policy, const struct topo *topo, const struct topo_apart *apart,
				unsigned int n_apart, char text[TOPO_DOUBTS_BYTES]);
bool topo_policy_allows_apart(const struct topo_policy *policy, const struct topo_apart *nic);
/* Whether a NIC as the daemon calls it, "mlx5_0" or a port of two as "mlx5_0:2", is of the device. */
bool topo_is_of_device(const char *nic, const char *device);

/* ---- assignment */

enum topo_exclusion {
	TOPO_USED,
	TOPO_BY_POLICY,
	TOPO_IS_MANAGEMENT,
	TOPO_IS_STORAGE,
	TOPO_IS_BRIDGE,
	TOPO_SEEMS_BRIDGE, /* its product data was not read, and it looks like a manager of switches */
	TOPO_NO_DRIVER,
	TOPO_DOWN,
	TOPO_PF_DOWN,
	TOPO_PF_TAKEN,
	TOPO_BOND_MEMBER,
	TOPO_SLOW,
	TOPO_NOT_INCLUDED,
};

struct topo_gpu_map {
	unsigned int n_nics; /* 0: none can be had */
	uint16_t nics[TOPO_MAX_NICS]; /* the default first, then the others in PCI order; given ones by weight */
	uint16_t weights[TOPO_MAX_NICS]; /* of given ones */
	bool is_given; /* the administrator's choice */
	bool is_weighted; /* contexts are to be divided by weights */
	bool lost_given; /* its given ones cannot be used now, so it has others */
};

/* Who uses what. */
struct topo_map {
	struct topo_gpu_map gpus[TOPO_MAX_GPUS];
	enum topo_exclusion excluded[TOPO_MAX_NICS];
	uint16_t other[TOPO_MAX_NICS]; /* the NIC because of which it is excluded */
	uint16_t n_gpus[TOPO_MAX_NICS]; /* how many GPUs have it */
	bool is_reserved[TOPO_MAX_NICS]; /* used only since it is given: no other GPU gets it */
};

/*
 * The map of the whole node. It follows from the machine alone: not from names, nor from who asks. policy may be NULL.
 *
 * Every GPU has NICs of the nearest kind that there is; as few GPUs as possible share one; NICs that are left go to the GPU that has
 * them nearest and the fewest so far. Ties go by PCI addresses.
 *
 * What the policy gives a GPU comes before all that, as long as it can be used.
 */
void topo_assign(const struct topo *topo, const struct topo_policy *policy, struct topo_map *ret_map);

/* Why this GPU has this NIC, or does not have it, in words. */
const char *topo_reason(const struct topo *topo, const struct topo_map *map, unsigned int gpu, unsigned int nic,
			char buf[TOPO_WHY_BYTES]);
/* Why this GPU has no NIC at all. */
const char *topo_reason_none(const struct topo *topo, const struct topo_map *map, char buf[TOPO_WHY_BYTES]);
/* Why no GPU gets this one: it is excluded, or left over. */
const char *topo_reason_excluded(const struct topo *topo, const struct topo_map *map, unsigned int nic,
				 char buf[TOPO_WHY_BYTES]);

#endif
