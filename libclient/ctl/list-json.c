/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists as JSON. Keys are part of the interface: none is renamed or removed while schema_version stays, new
 * ones may be added. Numbers that may exceed 2^53 and mean an address are hexadecimal strings.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "libclient/ctl/ctl.h"

void ctl_json_counters(struct json *json, const char *key, const struct shmd_counters *counters)
{
	json_begin_object(json, key);
	json_uint(json, "wqes", counters->wqes);
	json_begin_object(json, "wqes_by_kind");
	for (unsigned int i = 0; i < 8; i++)
		json_uint(json, ctl_wqe_kinds[i], counters->wqes_by_kind[i]);
	json_end_object(json);
	json_uint(json, "bytes_sent", counters->bytes_sent);
	json_uint(json, "bytes_read", counters->bytes_read);
	json_uint(json, "recv_wqes", counters->recv_wqes);
	json_uint(json, "error_cqes", counters->error_cqes);
	json_uint(json, "rnr_naks", counters->rnr_naks);
	json_uint(json, "retries", counters->retries);
	json_end_object(json);
}

int ctl_json_list(struct shmd_client *client, struct json *json, const char *key, ctl_json_items *items)
{
	int r;

	json_begin_array(json, key);
	r = items(client, json);
	json_end_array(json);
	return r;
}

static int session_item(void *arg, const struct shmd_session_item *item)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_uint(json, "session", item->session);
	json_uint(json, "uid", item->uid);
	json_uint(json, "gid", item->gid);
	json_uint(json, "pid", item->pid);
	json_string(json, "command", item->command);
	json_string(json, "cgroup", item->cgroup);
	json_string(json, "library", item->library);
	json_string(json, "nics", item->nics);
	json_string(json, "doorbell", item->doorbell);
	json_string(json, "doorbell_reason", item->doorbell_reason);
	json_uint(json, "n_qps", item->n_qps);
	json_uint(json, "n_dcis", item->n_dcis);
	json_uint(json, "n_dcts", item->n_dcts);
	json_uint(json, "n_dc_peers", item->n_dc_peers);
	json_uint(json, "n_rc_peers", item->n_rc_peers);
	json_uint(json, "n_cqs", item->n_cqs);
	json_uint(json, "n_mrs", item->n_mrs);
	json_uint(json, "n_fds", item->n_fds);
	json_uint(json, "registered_bytes", item->registered_bytes);
	json_uint(json, "age_nsec", item->age_nsec);
	json_bool(json, "kept", item->kept);
	json_string(json, "unkept_reason", item->unkept_reason);
	json_string(json, "gpu_nics", item->gpu_nics);
	ctl_json_counters(json, "counters", &item->counters);
	json_end_object(json);
	return 0;
}

int ctl_json_sessions(struct shmd_client *client, struct json *json)
{
	return shmd_admin_sessions(client, session_item, json);
}

static int qp_item(void *arg, const struct shmd_qp_item *item)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_uint(json, "session", item->session);
	json_string(json, "nic", item->nic);
	json_uint(json, "qpn", item->qpn);
	json_string(json, "type", ctl_qp_type(item->type));
	json_string(json, "state", ctl_qp_state(item->state));
	json_uint(json, "dest_qpn", item->dest_qpn);
	json_uint(json, "sq_wqebbs", item->sq_wqebbs);
	json_uint(json, "sq_pi", item->sq_pi);
	json_uint(json, "sq_ci", item->sq_ci);
	json_uint(json, "first_error", item->first_error);
	json_uint(json, "wqes", item->wqes);
	json_uint(json, "bytes", item->bytes);
	json_end_object(json);
	return 0;
}

int ctl_json_qps(struct shmd_client *client, struct json *json)
{
	return shmd_admin_qps(client, qp_item, json);
}

/* The word of each bit. */
static const char *const access_words[4] = {"local_write", "remote_write", "remote_read", "remote_atomic"};
static const char *const atomic_words[4] = {"8", "masked-4", "masked-8", "result-big-endian"};

static void json_bits(struct json *json, const char *key, uint32_t bits, const char *const words[4])
{
	json_begin_array(json, key);
	for (unsigned int i = 0; i < 4; i++)
		if (bits & 1u << i)
			json_string(json, NULL, words[i]);
	json_end_array(json);
}

static int mr_item(void *arg, const struct shmd_mr_item *item)
{
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_uint(json, "session", item->session);
	json_string(json, "nic", item->nic);
	json_uint(json, "mr", item->mr);
	json_string(json, "kind", ctl_mem_kind(item->kind));
	json_bits(json, "access", item->access, access_words);
	json_hex(json, "iova", item->iova);
	json_uint(json, "length_bytes", item->length_bytes);
	json_string(json, "reason", item->reason);
	json_end_object(json);
	return 0;
}

int ctl_json_mrs(struct shmd_client *client, struct json *json)
{
	return shmd_admin_mrs(client, mr_item, json);
}

static void json_nic_port(struct json *json, const struct shmd_nic_info *info)
{
	char text[INET6_ADDRSTRLEN] = "";

	json_uint(json, "port", info->port);
	json_string(json, "link", info->link == 2 ? "infiniband" : "ethernet");
	json_string(json, "state", ctl_nic_state(info->state));
	inet_ntop(AF_INET6, info->gid, text, sizeof(text));
	json_string(json, "gid", text);
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", info->mac[0], info->mac[1], info->mac[2],
		 info->mac[3], info->mac[4], info->mac[5]);
	json_string(json, "mac", text);
	json_uint(json, "lid", info->lid);
	json_uint(json, "mtu_bytes", info->mtu_bytes);
	json_uint(json, "rate_mbps", info->rate_mbps);
}

static void json_warm(struct json *json, const struct shmd_nic_warm *warm)
{
	json_begin_object(json, "warm");
	json_uint(json, "n_wanted", warm->n_wanted);
	json_uint(json, "n_ready", warm->n_ready);
	json_uint(json, "n_made", warm->n_made);
	json_uint(json, "n_handed_out", warm->n_handed_out);
	json_uint(json, "n_batches_handed_out", warm->n_batches_handed_out);
	json_uint(json, "missed_empty", warm->missed_empty);
	json_uint(json, "missed_shape", warm->missed_shape);
	json_uint(json, "missed_memory", warm->missed_memory);
	json_uint(json, "n_failed", warm->n_failed);
	json_end_object(json);
}

static int nic_item(void *arg, const struct shmd_nic_item *item)
{
	const struct shmd_nic_info *info = &item->info;
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_string(json, "name", info->name);
	json_string(json, "backend", info->backend);
	json_string(json, "pci", info->pci);
	json_nic_port(json, info);
	json_begin_array(json, "mem_kinds");
	for (unsigned int i = 0; i < 4 && info->mem_kinds[i]; i++)
		json_string(json, NULL, ctl_mem_kind(info->mem_kinds[i]));
	json_end_array(json);
	json_bits(json, "atomics", info->atomics, atomic_words);
	json_bits(json, "atomics_dc", info->atomics_dc, atomic_words);
	json_uint(json, "max_log2_sq_wqebbs", info->max_log2_sq_wqebbs);
	json_uint(json, "max_log2_cq_entries", info->max_log2_cq_entries);
	json_uint(json, "max_qps", info->max_qps);
	json_uint(json, "n_sessions", info->n_sessions);
	json_uint(json, "n_qps", info->n_qps);
	ctl_json_counters(json, "counters", &item->counters);
	json_warm(json, &item->warm);
	json_end_object(json);
	return 0;
}

int ctl_json_nics(struct shmd_client *client, struct json *json)
{
	return shmd_admin_nics(client, nic_item, json);
}

static int undriven_item(void *arg, const struct shmd_undriven_nic *nic)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct json *json = arg;

	json_begin_object(json, NULL);
	json_string(json, "name", nic->name);
	json_string(json, "driver", nic->driver);
	json_string(json, "pci", nic->pci);
	json_string(json, "netdev", nic->netdev);
	json_uint(json, "port", nic->port);
	json_string(json, "link", ctl_link(nic->link));
	json_string(json, "state", ctl_nic_state(nic->state));
	json_string(json, "phys_state", ctl_phys_state(nic->phys_state));
	json_uint(json, "lid", nic->lid);
	json_uint(json, "mtu_bytes", nic->mtu_bytes);
	json_uint(json, "rate_mbps", nic->rate_mbps);
	json_begin_array(json, "gids");
	for (unsigned int i = 0; i < nic->n_gids; i++) {
		inet_ntop(AF_INET6, nic->gids[i].gid, text, sizeof(text));
		json_begin_object(json, NULL);
		json_uint(json, "index", nic->gids[i].index);
		json_string(json, "gid", text);
		json_string(json, "type", ctl_gid_type(nic->gids[i].type));
		json_end_object(json);
	}
	json_end_array(json);
	json_string(json, "reason", nic->reason);
	json_end_object(json);
	return 0;
}

int ctl_json_undriven(struct shmd_client *client, struct json *json)
{
	return shmd_admin_undriven(client, undriven_item, json);
}
