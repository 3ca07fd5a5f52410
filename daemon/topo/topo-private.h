/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the readers fill a struct topo. Each adds nodes from the root down, NICs as it meets them, and ends with topo_finish().
 * Adding answers with an index, or with -E2BIG or -ENOMEM.
 */
#ifndef SHMEMD_TOPO_PRIVATE_H
#define SHMEMD_TOPO_PRIVATE_H

#include "daemon/host/sysfs.h"
#include "daemon/topo/topo.h"
#include "daemon/topo/xml.h"
#include "proto/base/cleanup.h"

#define TOPO_MAX_LINKS (TOPO_MAX_GPUS * 32)

/* Links of a GPU as a file names them, before all GPUs are known. */
struct topo_link_seen {
	uint64_t from;
	uint64_t to; /* HOST_NO_PCI: a switch */
	unsigned int count;
};

struct topo_builder {
	struct topo *topo;
	unsigned int n_links;
	struct topo_link_seen links[TOPO_MAX_LINKS];
	char *why; /* TOPO_WHY_BYTES */
	bool is_live; /* a NIC that is not seen as an RDMA device has no driver; of files that is not known */
};

DEFINE_CLEANUP(struct topo *, topo_free);

int topo_builder_init(struct topo_builder *builder, char *why); /* -ENOMEM; with the root in it */
void topo_builder_deinit(struct topo_builder *builder);

int topo_add_node(struct topo_builder *builder, const struct topo_node *like); /* parent, kind, numa, pci and class are used */
int topo_add_function(struct topo_builder *builder, const struct topo_node *like); /* and a GPU, if it is one */
struct topo_gpu *topo_gpu_at(struct topo_builder *builder, unsigned int node); /* NULL: there is none */
int topo_add_gpu(struct topo_builder *builder, unsigned int node); /* a function that is one whatever its class; 0, also where it is there */
/* On port 1, until the caller knows better. Pointers to NICs of before are invalid then. */
int topo_add_nic(struct topo_builder *builder, unsigned int node);
int topo_nic_at(const struct topo *topo, unsigned int node, unsigned int port); /* -1: there is none */
int topo_add_links(struct topo_builder *builder, uint64_t from, uint64_t to, unsigned int count);
/* Functions that are NICs by their class and were not added become some; all is put in order. Takes builder->topo. */
int topo_finish(struct topo_builder *builder, struct topo **ret_topo);

/* Adds to what a reader that goes on has left out, in words. */
void topo_note(struct topo_builder *builder, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Says why in words; returns -EBADMSG. */
int topo_refuse(struct topo_builder *builder, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool topo_is_gpu(uint16_t class_code, uint16_t vendor, uint16_t device);
bool topo_may_be_gpu(uint16_t class_code); /* vendor and device decide */
bool topo_is_infiniband(uint16_t class_code);

/* The content of a file, with room for a zero behind it. */
struct topo_text {
	char *bytes; /* owned */
	size_t n_bytes;
};

void topo_text_deinit(struct topo_text *text);
/* Reads to the end. -ETIMEDOUT if a nonblocking pipe is silent for that long; -EFBIG. `why` may have the reason. */
int topo_read_text(int fd, int patience_msec, struct topo_text *ret_text, char why[TOPO_WHY_BYTES]);

int topo_read_hwloc(struct topo_builder *builder, struct xml *xml);
int topo_read_nccl(struct topo_builder *builder, struct xml *xml);
int topo_read_own(struct topo_builder *builder, struct xml *xml);

/* TOPO_USED, or why the policy keeps a NIC from all GPUs. policy may be NULL, here and below. */
enum topo_exclusion topo_policy_judge(const struct topo_policy *policy, const struct topo *topo, unsigned int nic);
/* Whether the policy includes this one by name: what is only a guess about it does not count then. */
bool topo_policy_includes(const struct topo_policy *policy, const struct topo *topo, unsigned int nic);
/* Sets aside what no GPU gets, with its reason, in a map that is empty. */
void topo_exclude(const struct topo *topo, const struct topo_policy *policy, struct topo_map *map);
bool topo_named_fits(const struct topo_named *named, const struct topo *topo, unsigned int nic);
bool topo_named_fits_apart(const struct topo_named *named, const struct topo_apart *nic);

#endif
