/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of shmemctl share: the options, and one function for each command.
 *
 * A command writes its answer to stdout once and returns 0 or a negative errno; shmd_error_text() has the
 * sentence then. shmemctl.c alone decides about exit statuses and repeating.
 */
#ifndef SHMEMD_CTL_H
#define SHMEMD_CTL_H

#include <stdbool.h>

#include <shmemclient.h>

#include "libclient/ctl/json.h"
#include "libclient/ctl/table.h"

#define CTL_SCHEMA_VERSION 1

enum ctl_exit {
	CTL_EXIT_OK = 0,
	CTL_EXIT_FAILED = 1,
	CTL_EXIT_USAGE = 2, /* also: no daemon */
};

/* The four lists, usable alone and in `status`. Each adds its array under `key` to an open JSON object. */
int ctl_json_sessions(struct shmd_client *client, struct json *json, const char *key);
int ctl_json_qps(struct shmd_client *client, struct json *json, const char *key);
int ctl_json_mrs(struct shmd_client *client, struct json *json, const char *key);
int ctl_json_nics(struct shmd_client *client, struct json *json, const char *key);
void ctl_json_counters(struct json *json, const char *key, const struct shmd_counters *counters);

int ctl_table_sessions(struct shmd_client *client);
int ctl_table_qps(struct shmd_client *client);
int ctl_table_mrs(struct shmd_client *client);
int ctl_table_nics(struct shmd_client *client);

int ctl_status(struct shmd_client *client, bool as_json);
/* what: one that ctl_list_knows(). */
int ctl_list(struct shmd_client *client, const char *what, bool as_json);
bool ctl_list_knows(const char *what);

/* In the order of shmd_counters.wqes_by_kind; also the keys in JSON, with '_' for '-'. */
extern const char *const ctl_wqe_kinds[8];

const char *ctl_nic_state(uint32_t state);
const char *ctl_qp_state(uint32_t state);
const char *ctl_mem_kind(uint32_t kind);

#endif
