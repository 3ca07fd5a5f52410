/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs and NICs of a node: where they hang, how near they are to each other, and which GPU uses which NIC.
 *
 * A struct topo is read once, from the running machine or from a file that was captured on another. After that it is constant, except
 * for the states of ports, which its owner may set. Any thread may read it. Files are hostile: the limits below bound their content,
 * and an error names the reason.
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
#define TOPO_MAX_NUMA 1024 /* larger numbers distinguish places without being a NUMA node */

enum topo_kind {
	TOPO_MACHINE, /* the root, node 0 */
	TOPO_CPU, /* stands for all its host bridges when the source does not separate them */
	TOPO_HOST, /* a host bridge */
	TOPO_BRIDGE,
	TOPO_FUNCTION,
};

struct topo_node {
	enum topo_kind kind;
	int parent; /* -1: the root */
	unsigned int depth;
	unsigned int n_hops; /* bridges that this node stands for: 2 where a whole switch is one node */
	int numa; /* its own, or that of the nearest ancestor that has one; else TOPO_NO_NUMA */
	uint64_t pci; /* or HOST_NO_PCI */
	uint16_t class_code; /* base class and sub-class */
	uint16_t vendor; /* 0: unknown, as all numbers here */
	uint16_t device;
	uint32_t link_mbps; /* best rate of a function's PCIe link in one direction, as far as the source knows */
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
	bool is_unmanaged; /* by the daemon; set only in its map */
	uint64_t guid; /* of the device or its card, as the source has it */
	struct host_nic seen; /* as the source says, whatever its form. Port 0: unknown */
};

struct topo {
	unsigned int n_nodes;
	unsigned int n_gpus; /* in the order of PCI addresses */
	unsigned int n_nics; /* the same, ports of one function by number */
	unsigned int n_numa; /* 0: unknown */
	unsigned int n_hosts; /* host bridges with GPUs below */
	/* Running machine only: the first file, below the root, that the map needs and that could not be read; "": all could. */
	char unread[TOPO_UNREAD_BYTES];
	int unread_error; /* negative errno */
	bool has_xgmi; /* links between GPUs are XGMI, not NVLink */
	struct topo_node *nodes; /* a parent stands before its children */
	struct topo_gpu *gpus;
	struct topo_nic *nics;
	uint8_t (*gpu_links)[TOPO_MAX_GPUS]; /* direct ones, by the indexes of two GPUs */
};

void topo_free(struct topo *topo);

/* Sources of facts about the running machine; NULL skips one. */
struct topo_host_attr {
	const char *sys; /* "/sys" */
	const char *proc; /* "/proc" */
	const char *nvml; /* "libnvidia-ml.so.1" */
	/* "libibverbs.so.1"; opens each NIC and queries it, so only short-lived programs set this */
	const char *verbs;
	const char *mlx5; /* "libmlx5.so.1"; only with verbs */
	/* TOPO_WHY_BYTES for the cause of -E2BIG or -EBADMSG, and on success for omissions, in words; "": there are none. Or NULL */
	char *why;
};

/*
 * -ENOMEM; -E2BIG a limit above is exceeded; -EBADMSG a GPU appears twice. An unreadable fact stays unknown. It omits the second
 * (by name) of two RDMA devices of one function and, when there is no room, VFs whose PF is there.
 */
int topo_read_host(const struct topo_host_attr *attr, struct topo **ret_topo);

/*
 * Reads an hwloc XML, a topology XML of NCCL, or the output of topo_dump(); the outermost element decides which. -EBADMSG: none of
 * them, or damaged; -E2BIG; -ENOMEM; -errno of reading. `why` gets the reason in words, and on success oddities of the file and
 * omissions; "": there are none. "-" is standard input. topo_parse() changes `text`.
 */
int topo_read_file(const char *path, struct topo **ret_topo, char why[TOPO_WHY_BYTES]);
int topo_parse(char *text, size_t n_bytes, struct topo **ret_topo, char why[TOPO_WHY_BYTES]);

/* GPUs, NICs and what is above them, for topo_parse(). Errors stay in `out`. */
void topo_dump(const struct topo *topo, FILE *out);

/* Its name, or its PCI address where it has none. */
const char *topo_nic_text(const struct topo *topo, unsigned int nic, char buf[TOPO_NAME_BYTES]);
/* Finds a GPU by index, PCI address or UUID; -1: not found. */
int topo_find_gpu(const struct topo *topo, const char *text);

/* ---- distances */

/* Nearest first. */
enum topo_distance {
	TOPO_SELF,
	TOPO_PIX, /* one PCI switch */
	TOPO_PXB, /* several, no host bridge */
	TOPO_PHB, /* one host bridge */
	TOPO_NODE, /* host bridges of one NUMA node */
	TOPO_SYS, /* between NUMA nodes, or unknown */
};

/* The distance of two nodes. */
enum topo_distance topo_distance(const struct topo *topo, unsigned int a, unsigned int b);
/*
 * Orders devices that may serve `from`: a lower rank is nearer. The depth of the deepest shared bridge comes first, since traffic turns
 * round there; then the words above.
 */
unsigned int topo_rank(const struct topo *topo, unsigned int from, unsigned int to);
const char *topo_word(enum topo_distance distance);
/* Links between two GPUs, direct or through a switch; 0: none. */
unsigned int topo_gpu_links(const struct topo *topo, unsigned int a, unsigned int b);
/* "NV18" or "XGMI" where two GPUs have links, else the word. */
const char *topo_gpu_word(const struct topo *topo, unsigned int a, unsigned int b, char buf[TOPO_WORD_BYTES]);

/* ---- policy: the wishes of an administrator */

#define TOPO_MAX_GIVEN 1024
#define TOPO_POLICY_WHY_BYTES 1024 /* the names of 64 NICs */
#define TOPO_POLICY_TEXT_BYTES 4096 /* of one setting */
#define TOPO_MAX_WEIGHT 1000

/* A NIC by its name or its PCI address. */
struct topo_named {
	char name[TOPO_NAME_BYTES];
	unsigned int port; /* 0: each */
	enum topo_role role; /* the purpose that excludes it, or TOPO_ROLE_NONE */
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
 * Replaces one list of the policy by the value of "nics-include", "nics-exclude" or "gpu-nic-map": entries separated by commas or
 * blanks. -ENOENT: another key; -EINVAL, with `why`: a wrong value, or one of TOPO_POLICY_TEXT_BYTES or more.
 */
int topo_policy_set(struct topo_policy *policy, const char *key, const char *value, char why[TOPO_POLICY_WHY_BYTES]);
/* Reads these keys from a file of "key = value" lines and skips others. -errno of opening and reading, -EINVAL; `why` gets the reason. */
int topo_policy_read(struct topo_policy *policy, const char *path, char why[TOPO_POLICY_WHY_BYTES]);
/*
 * Whether this machine can satisfy the policy. -EINVAL: the map names an absent GPU or NIC or an unusable NIC, or none of the included
 * NICs is there; `why` lists the valid names. -ENETDOWN: ports that are down are the only obstacle. Names to exclude may be absent.
 */
int topo_policy_check(const struct topo_policy *policy, const struct topo *topo, char why[TOPO_POLICY_WHY_BYTES]);
/* Whether the lists allow a NIC at all. policy may be NULL, here and below. */
bool topo_policy_allows(const struct topo_policy *policy, const struct topo *topo, unsigned int nic);
/* A NIC of the daemon's that the machine does not have. */
struct topo_apart {
	const char *name; /* topo_is_of_device() */
	const char *pci; /* "0000:3b:00.0", or empty */
	unsigned int port;
};
#define TOPO_DOUBTS_BYTES 256
/*
 * Counts the names in the policy that match no NIC of the machine and none of `apart`, and lists them in `text` with the names that
 * were probably meant; "" for none. They are not errors: a NIC may come later, and one file may serve many nodes.
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
	unsigned int n_nics; /* 0: none is available */
	uint16_t nics[TOPO_MAX_NICS]; /* the default first, then the others in PCI order; given ones by weight */
	uint16_t weights[TOPO_MAX_NICS]; /* of given ones */
	bool is_given; /* the administrator's choice */
	bool is_weighted; /* weights divide its contexts */
	bool lost_given; /* its given NICs are unusable now, so it has others */
};

/* Which GPU uses which NIC. */
struct topo_map {
	struct topo_gpu_map gpus[TOPO_MAX_GPUS];
	enum topo_exclusion excluded[TOPO_MAX_NICS];
	uint16_t other[TOPO_MAX_NICS]; /* the NIC because of which it is excluded */
	uint16_t n_gpus[TOPO_MAX_NICS]; /* how many GPUs have it */
	bool is_reserved[TOPO_MAX_NICS]; /* used only because the policy gives it: no other GPU gets it */
};

/*
 * Computes the map of the whole node. The result depends on the machine alone, not on names or on the caller. policy may be NULL.
 *
 * Every GPU has NICs of the nearest kind that there is; as few GPUs as possible share one; NICs that are left go to the GPU that has
 * them nearest and the fewest so far. Ties go by PCI addresses.
 *
 * NICs that the policy gives to a GPU take precedence as long as they are usable.
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
