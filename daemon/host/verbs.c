/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about NICs that sysfs lacks. libibverbs reports MTUs of ports; libmlx5 reports the features of a ConnectX that GPUs need,
 * and the best rate of its InfiniBand ports.
 *
 * Loads both libraries for the question, so that no program here links them. The declarations are our own, of exported
 * functions whose versions have been fixed since 2020. Each device is opened, asked and closed at once: with some drivers
 * `rdma link delete` waits until nobody has the device open. A question without an answer leaves its field unknown: "no" is
 * only what the kernel or the firmware said. Firmware takes its time: not for the control thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "daemon/host/host.h"
#include "daemon/host/speed.h"

/* libmlx5 registers itself with libibverbs and never unregisters: both stay loaded until the process ends. */
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

static enum host_known known(bool is_so)
{
	return is_so ? HOST_YES : HOST_NO;
}

static void ask_firmware(const struct verbs *verbs, struct ibv_context *context, struct host_nic *like)
{
	uint8_t out[QUERY_OUT_BYTES];

	if (!query(verbs, context, TYPE_GENERAL, out))
		return;
	like->has_blueflame = known(bit(out, CAP_BF));
	if (!bit(out, CAP_ATOMIC))
		like->has_masked_atomics = HOST_NO;
	else if (query(verbs, context, TYPE_ATOMIC, out))
		like->has_masked_atomics = known((half_word(out, ATOMIC_OPERATIONS) & MASKED_CS_FA) == MASKED_CS_FA &&
						 (half_word(out, ATOMIC_SIZE_QP) & SIZES_4_8) == SIZES_4_8);
}

/* The NICs that were asked for. */
struct asked {
	struct host_nic *const *nics;
	unsigned int n;
};

static unsigned int count_ports(const struct asked *asked, const char *name)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < asked->n; i++)
		n += strcmp(asked->nics[i]->name, name) == 0;
	return n;
}

/* Only devices with several ports take the number of one. */
static void ask_class(const struct verbs *verbs, struct ibv_context *context, bool is_one_of_several, struct host_nic *nic)
{
	uint8_t in[QUERY_IN_BYTES] = {QUERY_VPORT >> 8, QUERY_VPORT & 0xff};
	uint8_t out[VPORT_OUT_BYTES] = {0};

	if (is_one_of_several)
		in[9] = (uint8_t)(nic->port & 0xf);
	if (verbs->command(context, in, sizeof(in), out, sizeof(out)) != 0 || out[0])
		return;
	nic->max_rate_mbps = host_ib_max_mbps(word(out, VPORT_CAP_MASK), word(out, VPORT_CAP_MASK2),
					      nic->rate_mbps, nic->n_lanes);
}

/* No memory has this descriptor: a kernel that has dmabufs says so, others do not get as far. */
static enum host_known ask_dmabuf(const struct verbs *verbs, struct ibv_context *context)
{
	struct ibv_pd *pd = verbs->reg_dmabuf ? verbs->alloc_pd(context) : NULL;
	struct ibv_mr *mr;
	int err;

	if (!pd)
		return HOST_NOT_KNOWN;
	errno = 0;
	mr = verbs->reg_dmabuf(pd, 0, PAGE_BYTES, 0, -1, ACCESS_LOCAL_WRITE);
	err = errno;
	if (mr)
		verbs->dereg(mr);
	verbs->dealloc_pd(pd);
	if (mr || err == EBADF)
		return HOST_YES;
	return err == EOPNOTSUPP || err == EPROTONOSUPPORT || err == ENOSYS ? HOST_NO : HOST_NOT_KNOWN;
}

/* ---- devices ------------------------------------------------------------------------------------------------------- */

/* With firmware commands where it has them. NULL: nobody may, or nothing answers. */
static struct ibv_context *open_device(const struct verbs *verbs, struct ibv_device *device, struct host_nic *like)
{
	struct context_attr attr = {.flags = CONTEXT_DEVX};
	struct ibv_context *context;

	if (!verbs->mlx5_library)
		return verbs->open(device);
	if (!verbs->is_mlx5(device)) {
		like->has_devx = like->has_blueflame = HOST_NO;
		return verbs->open(device);
	}
	errno = 0;
	context = verbs->open_mlx5(device, &attr);
	if (context) {
		like->has_devx = HOST_YES;
		ask_firmware(verbs, context, like);
		return context;
	}
	if (errno == EOPNOTSUPP)
		like->has_devx = HOST_NO;
	return verbs->open(device);
}

static uint32_t mtu_bytes(uint32_t code)
{
	return code >= MTU_256 && code <= MTU_4096 ? 128u << code : 0;
}

/* The first words are the state of the port, its greatest MTU and the present one. */
static void ask_port(const struct verbs *verbs, struct ibv_context *context, struct host_nic *nic)
{
	uint32_t attr[PORT_ATTR_BYTES / sizeof(uint32_t)] = {0};

	if (verbs->query_port(context, (uint8_t)nic->port, attr) != 0)
		return;
	nic->max_mtu_bytes = mtu_bytes(attr[1]);
	nic->active_mtu_bytes = mtu_bytes(attr[2]);
}

static void ask_device(const struct verbs *verbs, const struct asked *asked, struct ibv_device *device, const char *name)
{
	struct host_nic like = {.has_devx = HOST_NOT_KNOWN};
	struct ibv_context *context = open_device(verbs, device, &like);
	bool is_one_of_several = count_ports(asked, name) > 1;

	if (context)
		like.has_dmabuf = ask_dmabuf(verbs, context);
	for (unsigned int i = 0; i < asked->n; i++) {
		struct host_nic *nic = asked->nics[i];

		if (strcmp(nic->name, name))
			continue;
		nic->has_devx = like.has_devx;
		nic->has_blueflame = like.has_blueflame;
		nic->has_masked_atomics = like.has_masked_atomics;
		nic->has_dmabuf = like.has_dmabuf;
		if (context)
			ask_port(verbs, context, nic);
		if (like.has_devx == HOST_YES && nic->fabric == HOST_FABRIC_INFINIBAND)
			ask_class(verbs, context, is_one_of_several, nic);
	}
	if (context)
		verbs->close(context);
}

void host_ask_verbs(const char *verbs_name, const char *mlx5_name, struct host_nic *const *nics, unsigned int n)
{
	const struct asked asked = {nics, n};
	struct ibv_device **devices;
	struct verbs verbs = {0};
	int n_devices = 0;

	devices = open_libraries(&verbs, verbs_name, mlx5_name) ? verbs.list(&n_devices) : NULL;
	for (int i = 0; devices && i < n_devices; i++) {
		const char *name = verbs.name(devices[i]);

		if (name && count_ports(&asked, name))
			ask_device(&verbs, &asked, devices[i], name);
	}
	if (devices)
		verbs.free_list(devices);
	close_libraries(&verbs);
}

/* "bnxt_re0:2" is a port of bnxt_re0. */
static bool is_of_device(const char *name, const char *device)
{
	size_t n = device ? strlen(device) : 0;

	return n && strncmp(name, device, n) == 0 && (name[n] == 0 || name[n] == ':');
}

uint32_t host_ask_mtu(const char *verbs_name, const char *name, unsigned int port)
{
	struct host_nic nic = {.port = port};
	struct ibv_context *context = NULL;
	struct ibv_device **devices;
	struct verbs verbs = {0};
	int n = 0;

	devices = open_libraries(&verbs, verbs_name, NULL) ? verbs.list(&n) : NULL;
	for (int i = 0; devices && i < n && !context; i++)
		if (is_of_device(name, verbs.name(devices[i])))
			context = verbs.open(devices[i]);
	if (context) {
		ask_port(&verbs, context, &nic);
		verbs.close(context);
	}
	if (devices)
		verbs.free_list(devices);
	close_libraries(&verbs);
	return nic.active_mtu_bytes;
}
