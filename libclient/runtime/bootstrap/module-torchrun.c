/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables of torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
 *
 * Each rank derives a unique id from them: rank 0 listens at MASTER_ADDR, at the first free of the 8 ports after MASTER_PORT. A node that knows
 * its own name as a loopback address takes the addresses of its interfaces instead, if other nodes take part (LOCAL_WORLD_SIZE). The secret
 * is a hash of these variables, of torchrun's run id and restart count, and of SHMD_SECRET. Without SHMD_SECRET a stranger who knows the
 * command line can guess it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <shmemclient.h>

#include "libclient/runtime/bootstrap/address.h"
#include "libclient/runtime/bootstrap/keyed-hash.h"
#include "libclient/runtime/bootstrap/module.h"
#include "libclient/runtime/bootstrap/wire.h"

#define N_PORTS 8

static bool is_set(const struct bootstrap_attr *attr, const char *name)
{
	const char *text = attr->env(name);

	return text && *text;
}

static bool wants_torchrun(const struct bootstrap_attr *attr)
{
	return is_set(attr, "RANK") && is_set(attr, "WORLD_SIZE") && is_set(attr, "MASTER_ADDR") && is_set(attr, "MASTER_PORT");
}

static void derive_secret(const struct bootstrap_attr *attr, uint8_t secret[UID_SECRET_BYTES])
{
	static const char *const names[] = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCHELASTIC_RUN_ID",
					    "TORCHELASTIC_RESTART_COUNT", "SHMD_SECRET"};

	memset(secret, 0, UID_SECRET_BYTES);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *text = attr->env(names[i]);

		if (!text)
			text = "";
		keyed_hash(secret, text, strlen(text), secret);
	}
}

/* Numbers and this name mean one machine on purpose. */
static bool names_loopback(const char *host)
{
	union address number;

	return !strcmp(host, "localhost") || inet_pton(AF_INET, host, &number) == 1 || inet_pton(AF_INET6, host, &number) == 1;
}

/* Returns how many addresses there are then. */
static int use_own_addresses(const struct bootstrap_attr *attr, struct uid_parts *parts)
{
	int n = local_addresses(attr->interface, attr->family, parts->addresses, UID_MOST_ADDRESSES);

	for (int i = 0; i < n; i++)
		parts->addresses[i] = address_with_port(&parts->addresses[i], parts->port);
	return n;
}

static int derive_uid(const struct bootstrap_attr *attr, bool has_other_nodes, struct shmd_uid *ret)
{
	struct uid_parts parts = {.n_ports = N_PORTS};
	const char *host = attr->env("MASTER_ADDR");
	int port, n = module_need_number(attr, "torchrun", "MASTER_PORT", 1, UINT16_MAX, &port);

	if (n)
		return n;
	if (!host || !*host)
		return shmd_error_set(-EINVAL, "the bootstrap module torchrun needs the environment variable MASTER_ADDR");
	parts.port = (uint16_t)(port + N_PORTS <= UINT16_MAX ? port + 1 : port - N_PORTS);
	n = resolve_host(host, parts.port, attr->family, parts.addresses, UID_MOST_ADDRESSES);
	/* Many machines call themselves 127.0.1.1, where ranks of other nodes do not come to. */
	if (n > 0 && has_other_nodes && address_is_loopback(&parts.addresses[0]) && !names_loopback(host))
		n = use_own_addresses(attr, &parts);
	if (n < 0)
		return n;
	parts.n_addresses = (unsigned int)n;
	derive_secret(attr, parts.secret);
	uid_pack(&parts, ret);
	return 0;
}

static int open_torchrun(const struct bootstrap_attr *attr, const char *args, uint64_t deadline, struct shmd_bootstrap *ret)
{
	struct links_attr links = {.name = "torchrun", .node_rank = -1, .node_size = -1, .deadline = deadline};
	struct shmd_uid uid;
	int err = module_need_number(attr, "torchrun", "WORLD_SIZE", 1, WIRE_MOST_RANKS, &links.size);

	if (!err)
		err = module_need_number(attr, "torchrun", "RANK", 0, links.size - 1, &links.rank);
	if (!err && module_number(attr, "LOCAL_WORLD_SIZE", 1, links.size, &links.node_size) == -EINVAL)
		return -EINVAL;
	if (!err && module_number(attr, "LOCAL_RANK", 0, links.size - 1, &links.node_rank) == -EINVAL)
		return -EINVAL;
	if (!err && links.size > 1) {
		err = derive_uid(attr, links.node_size < links.size, &uid);
		links.uid = &uid;
	}
	return err ? err : links_open(attr, &links, ret);
}

const struct module module_torchrun = {"torchrun", wants_torchrun, open_torchrun};
