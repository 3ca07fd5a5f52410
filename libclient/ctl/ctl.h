/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of shmemctl: one run of it, and one function for each command.
 *
 * A command writes its answer to ctl->out and returns 0, a negative errno (with the sentence in shmd_error_text()),
 * or an exit status above 0 after it has printed its own sentence. shmemctl.c alone decides about exit statuses,
 * repeating and output to stdout. The table in commands.c has them all.
 */
#ifndef SHMEMD_CTL_H
#define SHMEMD_CTL_H

#include <stdbool.h>
#include <stdio.h>

#include <shmemclient-admin.h>

#include "libclient/ctl/args.h"
#include "libclient/ctl/color.h"
#include "libclient/ctl/json.h"
#include "libclient/ctl/table.h"

#define CTL_SCHEMA_VERSION 1

enum ctl_exit {
	CTL_EXIT_OK = 0,
	CTL_EXIT_FAILED = 1,
	CTL_EXIT_USAGE = 2, /* also: no daemon */
};

struct stats_look;

struct ctl {
	struct shmd_client *client;
	const struct args *args;
	FILE *out;
	bool is_json;
	bool has_color; /* of out */
	unsigned int max_width; /* of tables; 0: any */
	struct stats_look *last; /* of the previous round, with --watch */
};

/* ---- the commands, a file each */

int ctl_status(struct ctl *ctl);
int ctl_list(struct ctl *ctl);
int ctl_stats(struct ctl *ctl);
int ctl_monitor(struct ctl *ctl);
int ctl_dump_queue(struct ctl *ctl);
int ctl_kill(struct ctl *ctl);
int ctl_drain(struct ctl *ctl);
int ctl_port(struct ctl *ctl);
int ctl_topology(struct ctl *ctl);
int ctl_config(struct ctl *ctl);
int ctl_metrics(struct ctl *ctl);
int ctl_doctor(struct ctl *ctl);
int ctl_info(struct ctl *ctl);
int ctl_run(struct ctl *ctl);

void stats_look_free(struct stats_look *look);

/* ---- answer.c */

/* Prints a sentence on stderr and returns CTL_EXIT_FAILED. */
int ctl_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* One JSON document: begins with schema_version. */
void ctl_json_begin(struct ctl *ctl, struct json *json);
void ctl_json_end(struct json *json);
/* A line about sessions that the daemon hides from this user; one about settings that name missing devices; or nothing. */
void ctl_print_hidden(struct ctl *ctl, const struct shmd_daemon_status *status);
void ctl_print_warning(struct ctl *ctl, const struct shmd_daemon_status *status);
/* 0; -ENOENT for a session that the daemon does not list, and prints nothing; or the library's error. */
int ctl_find_session(struct ctl *ctl, uint64_t session, struct shmd_session_item *ret_item);

/* ---- list-json.c, list-table.c, list-pes.c, list-paths.c */

/* Adds the daemon's items of one kind to an open array. */
typedef int ctl_json_items(struct shmd_client *client, struct json *json);
ctl_json_items ctl_json_sessions, ctl_json_qps, ctl_json_mrs, ctl_json_pes, ctl_json_paths, ctl_json_nics, ctl_json_undriven;
/* PEs of the user who asks, and their paths. */
ctl_json_items ctl_json_own_pes, ctl_json_own_paths;
/* One of these lists under `key` in an open JSON object: alone, and in `status`. */
int ctl_json_list(struct shmd_client *client, struct json *json, const char *key, ctl_json_items *items);
void ctl_json_counters(struct json *json, const char *key, const struct shmd_counters *counters);

int ctl_table_sessions(struct ctl *ctl);
int ctl_table_qps(struct ctl *ctl);
int ctl_table_mrs(struct ctl *ctl);
int ctl_table_pes(struct ctl *ctl);
int ctl_table_paths(struct ctl *ctl);
int ctl_table_own_pes(struct ctl *ctl, struct shmd_client *client);
int ctl_table_own_paths(struct ctl *ctl, struct shmd_client *client);
int ctl_table_nics(struct ctl *ctl);
/* Contexts in advance, behind an empty line; nothing if no NIC makes any. */
int ctl_table_warm(struct ctl *ctl);

/* ---- words.c */

/* In the order of shmd_counters.wqes_by_kind; also the keys in JSON, with '_' for '-'. */
extern const char *const ctl_wqe_kinds[8];

const char *ctl_nic_state(uint32_t state);
const char *ctl_phys_state(uint32_t state);
const char *ctl_link(uint32_t link);
const char *ctl_gid_type(uint32_t type);
const char *ctl_qp_type(uint32_t type);
const char *ctl_qp_state(uint32_t state);
const char *ctl_mem_kind(uint32_t kind);
const char *ctl_event_kind(unsigned int kind);
/* Advice to an administrator on a syndrome; never NULL. */
const char *ctl_syndrome_advice(uint32_t syndrome);
enum color ctl_nic_state_color(uint32_t state);
enum color ctl_qp_state_color(uint32_t state);

#endif
