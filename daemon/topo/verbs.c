/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs does not say of NICs: MTUs of ports by libibverbs, and by libmlx5 what GPUs need of a ConnectX, and how fast its
 * ports of InfiniBand could be.
 *
 * Both libraries are loaded when they are asked for, so who links this needs neither. Declarations are our own: what is used here is exported,
 * and fixed by versions of symbols since 2020. Each device is opened, asked and closed; nothing stays but the code. A question that is not answered
 * leaves its field unknown: "no" is only what the kernel or the firmware said. NICs that sysfs did not show are left out. Firmware
 * takes its time: not for the control thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "daemon/topo/speed.h"
#include "daemon/topo/topo-private.h"

/* libmlx5 tells libibverbs of itself when it is loaded, and takes nothing back: neither may leave before the process does. */
#define KEEP (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

#define PORT_ATTR_BYTES 256 /* more than any version writes */
#define MTU_256 1
#define MTU_4096 5
#define ACCESS_LOCAL_WRITE 1
#define PAGE_BYTES 4096u
#define CONTEXT_DEVX 1u

/* PRM: QUERY_HCA_CAP. Bits are counted from the top of the first byte of the answer. */
#define QUERY_HCA_CAP 0x100u
#define QUERY_IN_BYTES 16
#define QUERY_OUT_BYTES 4112
#define CURRENT(type) ((type) << 1 | 1u)
#define TYPE_GENERAL 0u
#define TYPE_ATOMIC 3u
#define CAP_BIT (16 * 8) /* where the capabilities begin */
#define CAP_ATOMIC (CAP_BIT + 0x21e)
#define CAP_BF (CAP_BIT + 0x260)
#define ATOMIC_OPERATIONS (CAP_BIT + 0x90) /* 16 bits */
#define ATOMIC_SIZE_QP (CAP_BIT + 0xb0)
#define MASKED_CS_FA 0xcu /* compare and swap, fetch and add */
#define SIZES_4_8 0xcu

/* PRM: QUERY_HCA_VPORT_CONTEXT, whose context has both capability masks of the port. */
#define QUERY_VPORT 0x762u
#define VPORT_OUT_BYTES 528
#define VPORT_CAP_MASK (CAP_BIT + 0x200) /* 32 bits */
#define VPORT_CAP_MASK2 (CAP_BIT + 0x240)

struct ibv_device;
struct ibv_context;
struct ibv_pd;
struct ibv_mr;

struct context_attr { /* mlx5dv_context_attr */
	uint32_t flags;
	uint64_t comp_mask;
};

struct verbs {
	void *library;
	struct ibv_device **(*list)(int *);
	void (*free_list)(struct ibv_device **);
	const char *(*name)(struct ibv_device *);
	struct ibv_context *(*open)(struct ibv_device *);
	int (*close)(struct ibv_context *);
	int (*query_port)(struct ibv_context *, uint8_t, void *);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *);
	int (*dealloc_pd)(struct ibv_pd *);
	struct ibv_mr *(*reg_dmabuf)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int); /* NULL before rdma-core 34 */
	int (*dereg)(struct ibv_mr *);
	void *mlx5_library; /* NULL: nothing is known of ConnectX NICs */
	bool (*is_mlx5)(struct ibv_device *);
	struct ibv_context *(*open_mlx5)(struct ibv_device *, struct context_attr *);
	int (*command)(struct ibv_context *, const void *, size_t, void *, size_t);
};

static bool find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found;
}

static bool find_verbs(struct verbs *verbs)
{
	void *library = verbs->library;

	find(library, "ibv_reg_dmabuf_mr", &verbs->reg_dmabuf);
	return find(library, "ibv_get_device_list", &verbs->list) && find(library, "ibv_free_device_list", &verbs->free_list) &&
	       find(library, "ibv_get_device_name", &verbs->name) && find(library, "ibv_open_device", &verbs->open) &&
	       find(library, "ibv_close_device", &verbs->close) && find(library, "ibv_query_port", &verbs->query_port) &&
	       find(library, "ibv_alloc_pd", &verbs->alloc_pd) && find(library, "ibv_dealloc_pd", &verbs->dealloc_pd) &&
	       find(library, "ibv_dereg_mr", &verbs->dereg);
}

static bool find_mlx5(struct verbs *verbs)
{
	return find(verbs->mlx5_library, "mlx5dv_is_supported", &verbs->is_mlx5) &&
	       find(verbs->mlx5_library, "mlx5dv_open_device", &verbs->open_mlx5) &&
	       find(verbs->mlx5_library, "mlx5dv_devx_general_cmd", &verbs->command);
}

static void close_libraries(struct verbs *verbs)
{
	if (verbs->mlx5_library)
		dlclose(verbs->mlx5_library);
	if (verbs->library)
		dlclose(verbs->library);
}

static bool open_libraries(struct verbs *verbs, const char *name, const char *mlx5)
{
	verbs->library = dlopen(name, KEEP);
	if (!verbs->library || !find_verbs(verbs))
		return false;
	verbs->mlx5_library = mlx5 ? dlopen(mlx5, KEEP) : NULL;
	if (verbs->mlx5_library && !find_mlx5(verbs)) {
		dlclose(verbs->mlx5_library);
		verbs->mlx5_library = NULL;
	}
	return true;
}

/* ---- capabilities -------------------------------------------------------------------------------------------------- */

static bool bit(const uint8_t *out, unsigned int at)
{
	return out[at / 8] >> (7 - at % 8) & 1;
}

static unsigned int half_word(const uint8_t *out, unsigned int at)
{
	return (unsigned int)out[at / 8] << 8 | out[at / 8 + 1];
}

static uint32_t word(const uint8_t *out, unsigned int at)
{
	return (uint32_t)half_word(out, at) << 16 | half_word(out, at + 16);
}

static bool query(const struct verbs *verbs, struct ibv_context *context, unsigned int type, uint8_t out[QUERY_OUT_BYTES])
{
	const uint8_t in[QUERY_IN_BYTES] = {QUERY_HCA_CAP >> 8, QUERY_HCA_CAP & 0xff, [7] = (uint8_t)CURRENT(type)};

	memset(out, 0, QUERY_OUT_BYTES);
	return verbs->command(context, in, sizeof(in), out, QUERY_OUT_BYTES) == 0 && out[0] == 0;
}

static enum topo_known known(bool is_so)
{
	return is_so ? TOPO_YES : TOPO_NO;
}

static void ask_firmware(const struct verbs *verbs, struct ibv_context *context, struct topo_nic *like)
{
	uint8_t out[QUERY_OUT_BYTES];

	if (!query(verbs, context, TYPE_GENERAL, out))
		return;
	like->has_blueflame = known(bit(out, CAP_BF));
	if (!bit(out, CAP_ATOMIC))
		like->has_masked_atomics = TOPO_NO;
	else if (query(verbs, context, TYPE_ATOMIC, out))
		like->has_masked_atomics = known((half_word(out, ATOMIC_OPERATIONS) & MASKED_CS_FA) == MASKED_CS_FA &&
						 (half_word(out, ATOMIC_SIZE_QP) & SIZES_4_8) == SIZES_4_8);
}

static bool has_many_ports(const struct topo *topo, const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < topo->n_nics; i++)
		n += strcmp(topo->nics[i].name, name) == 0;
	return n > 1;
}

/* The number of a port is of devices with several alone. */
static void ask_class(const struct verbs *verbs, struct ibv_context *context,
		      const struct topo *topo, struct topo_nic *nic)
{
	uint8_t in[QUERY_IN_BYTES] = {QUERY_VPORT >> 8, QUERY_VPORT & 0xff};
	uint8_t out[VPORT_OUT_BYTES] = {0};

	if (has_many_ports(topo, nic->name))
		in[9] = (uint8_t)(nic->port & 0xf);
	if (verbs->command(context, in, sizeof(in), out, sizeof(out)) != 0 || out[0])
		return;
	nic->max_rate_mbps = topo_ib_max_mbps(word(out, VPORT_CAP_MASK), word(out, VPORT_CAP_MASK2),
					      nic->rate_mbps, nic->n_lanes);
}

/* No memory has this descriptor: a kernel that has dmabufs says so, others do not get as far. */
static enum topo_known ask_dmabuf(const struct verbs *verbs, struct ibv_context *context)
{
	struct ibv_pd *pd = verbs->reg_dmabuf ? verbs->alloc_pd(context) : NULL;
	struct ibv_mr *mr;
	int err;

	if (!pd)
		return TOPO_NOT_KNOWN;
	errno = 0;
	mr = verbs->reg_dmabuf(pd, 0, PAGE_BYTES, 0, -1, ACCESS_LOCAL_WRITE);
	err = errno;
	if (mr)
		verbs->dereg(mr);
	verbs->dealloc_pd(pd);
	if (mr || err == EBADF)
		return TOPO_YES;
	return err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == ENOSYS ? TOPO_NO : TOPO_NOT_KNOWN;
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

/* With firmware commands where it has them. NULL: nobody may, or nothing answers. */
static struct ibv_context *open_device(const struct verbs *verbs, struct ibv_device *device, struct topo_nic *like)
{
	struct context_attr attr = {.flags = CONTEXT_DEVX};
	struct ibv_context *context;

	if (!verbs->mlx5_library)
		return verbs->open(device);
	if (!verbs->is_mlx5(device)) {
		like->has_devx = like->has_blueflame = TOPO_NO;
		return verbs->open(device);
	}
	errno = 0;
	context = verbs->open_mlx5(device, &attr);
	if (context) {
		like->has_devx = TOPO_YES;
		ask_firmware(verbs, context, like);
		return context;
	}
	if (errno == EOPNOTSUPP)
		like->has_devx = TOPO_NO;
	return verbs->open(device);
}

static uint32_t mtu_bytes(uint32_t code)
{
	return code >= MTU_256 && code <= MTU_4096 ? 128u << code : 0;
}

/* The first words are the state of the port, its greatest MTU and the present one. */
static void ask_port(const struct verbs *verbs, struct ibv_context *context, struct topo_nic *nic)
{
	uint32_t attr[PORT_ATTR_BYTES / sizeof(uint32_t)] = {0};

	if (verbs->query_port(context, (uint8_t)nic->port, attr) != 0)
		return;
	nic->max_mtu_bytes = mtu_bytes(attr[1]);
	nic->active_mtu_bytes = mtu_bytes(attr[2]);
}

static void ask_device(const struct verbs *verbs, struct topo *topo, struct ibv_device *device, const char *name)
{
	struct topo_nic like = {.has_devx = TOPO_NOT_KNOWN};
	struct ibv_context *context = open_device(verbs, device, &like);

	if (context)
		like.has_dmabuf = ask_dmabuf(verbs, context);
	for (unsigned int i = 0; i < topo->n_nics; i++) {
		struct topo_nic *nic = &topo->nics[i];

		if (strcmp(nic->name, name))
			continue;
		nic->has_devx = like.has_devx;
		nic->has_blueflame = like.has_blueflame;
		nic->has_masked_atomics = like.has_masked_atomics;
		nic->has_dmabuf = like.has_dmabuf;
		if (context)
			ask_port(verbs, context, nic);
		if (like.has_devx == TOPO_YES && nic->fabric == TOPO_FABRIC_INFINIBAND)
			ask_class(verbs, context, topo, nic);
	}
	if (context)
		verbs->close(context);
}

static bool is_wanted(const struct topo *topo, const char *name)
{
	for (unsigned int i = 0; i < topo->n_nics; i++)
		if (name && strcmp(topo->nics[i].name, name) == 0)
			return true;
	return false;
}

static void ask_all(const struct verbs *verbs, struct topo *topo)
{
	struct ibv_device **devices;
	int n = 0;

	devices = verbs->list(&n);
	for (int i = 0; devices && i < n; i++) {
		const char *name = verbs->name(devices[i]);

		if (is_wanted(topo, name))
			ask_device(verbs, topo, devices[i], name);
	}
	if (devices)
		verbs->free_list(devices);
}

void topo_read_verbs(struct topo_builder *builder, const char *verbs_name, const char *mlx5_name)
{
	struct verbs verbs = {0};

	if (open_libraries(&verbs, verbs_name, mlx5_name))
		ask_all(&verbs, builder->topo);
	close_libraries(&verbs);
}
