/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: one table of key, type, default, range, unit and text drives the file shmemd.conf, the command line, --help
 * and the man pages. Later sources win: defaults, file, environment (SHMEMD_SOCKET), command line. SIGHUP reads all of
 * them again.
 */
#ifndef SHMEMD_SETTINGS_H
#define SHMEMD_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SETTINGS_PATH_BYTES 256
#define SETTINGS_WORD_BYTES 64
#define SETTINGS_LIST_BYTES 4096 /* TOPO_POLICY_TEXT_BYTES */
/* Behind settings.removed. */
#define SETTINGS_REMOVED_TEXT \
	" has no effect; remove it. shmemd does not look for hot spots any more: Prometheus does, with prometheus-rules.yml of " \
	"shmemd's examples"
#define SETTINGS_VALUE_BYTES SETTINGS_LIST_BYTES /* any value as text */

enum settings_doorbell {
	SETTINGS_DOORBELL_AUTO = 0,
	SETTINGS_DOORBELL_CPU = 1,
};

enum settings_executors {
	SETTINGS_EXECUTORS_THREAD,
	SETTINGS_EXECUTORS_PROCESS,
};

enum settings_backend {
	SETTINGS_BACKEND_AUTO,
	SETTINGS_BACKEND_SOFT,
	SETTINGS_BACKEND_MLX5,
};

enum settings_atomics {
	SETTINGS_ATOMICS_AUTO = 0,
	SETTINGS_ATOMICS_OFF = 1,
};

struct settings {
	char socket[SETTINGS_PATH_BYTES];
	char socket_group[SETTINGS_WORD_BYTES]; /* "": see the text in the table */
	uint64_t socket_mode;

	uint64_t backend; /* enum settings_backend */
	uint64_t doorbell; /* enum settings_doorbell */
	uint64_t soft_nics;
	uint64_t soft_executors; /* enum settings_executors */
	uint64_t gpu_poll_usec;
	uint64_t spin_usec;
	uint64_t worker_threads;
	uint64_t warm_contexts; /* in the context pool of each NIC that has one */
	uint64_t warm_queues;
	uint64_t warm_depth;
	uint64_t mtu_log2; /* of QPs, at most; 0: what the port has */
	uint64_t atomics; /* enum settings_atomics */
	uint64_t qp_timeout; /* of QPs whose client says nothing: this and the next four, as struct nic_qp_params has them */
	uint64_t qp_retries;
	uint64_t qp_rnr_retries;
	uint64_t qp_rnr_timer;
	uint64_t qp_reads;

	uint64_t max_connections; /* per uid, and per cgroup: this and the next eight */
	uint64_t max_sessions;
	uint64_t max_qps;
	uint64_t max_cqs;
	uint64_t max_mrs;
	uint64_t max_registered_bytes;
	uint64_t max_fds;
	uint64_t max_published;
	uint64_t max_mappings; /* 0: their share of what the kernel gives */

	uint64_t max_kept_fds; /* of all */

	uint64_t handshake_timeout_msec;
	uint64_t quiesce_timeout_msec;
	uint64_t restart_grace_msec;

	uint64_t log_level; /* LOG_* of syslog.h */
	uint64_t log_target; /* enum log_target */

	char nics_include[SETTINGS_LIST_BYTES]; /* these three: daemon/topo/topo.h, struct topo_policy */
	char nics_exclude[SETTINGS_LIST_BYTES];
	char gpu_nic_map[SETTINGS_LIST_BYTES];

	/* Not settings. */
	char removed[SETTINGS_PATH_BYTES + 64]; /* where a former setting was found, and its name; "": none was */
	bool has_file; /* some of them may come from one */
};

/* The sources of settings, kept for reading them again. */
struct settings_source {
	char **argv; /* ends with NULL */
	const char *default_path; /* the file, when --config names no other */
	const char *instead; /* a file to read in place of either; or NULL */
	const char *trouble; /* why the daemon started with other settings; NULL: it did not */
};

/* Why a setting was refused: where, what, and what would be accepted. */
struct settings_error {
	char text[1280];
};

enum settings_action {
	SETTINGS_RUN,
	SETTINGS_CHECK, /* --check-config */
	SETTINGS_HELP,
	SETTINGS_VERSION,
	SETTINGS_MAN_CONF, /* --print-man shmemd.conf */
	SETTINGS_MAN_DAEMON, /* --print-man shmemd */
};

void settings_init(struct settings *settings); /* the defaults */

/* -EINVAL and *ret_error. `where` begins the error text, "shmemd.conf:12". */
int settings_set(struct settings *settings, const char *key, const char *value, const char *where,
		 struct settings_error *ret_error);
/* The text of a file, `name` as it is called in errors. -EINVAL at the first wrong line. */
int settings_parse(struct settings *settings, const char *text, const char *name,
		   struct settings_error *ret_error);
/* -ENOENT when there is none; otherwise as settings_parse. */
int settings_read_file(struct settings *settings, const char *path,
		       struct settings_error *ret_error);
/*
 * Everything in its order: defaults, file (--config PATH, or the default one if it exists), environment, command line.
 * -EINVAL, or the errno of a named file that cannot be read, with *ret_error; *ret_action is then what was asked for, or as it was.
 */
int settings_load(struct settings *settings, const struct settings_source *source,
		  enum settings_action *ret_action, struct settings_error *ret_error);

/* Keys, comma separated, "" for none; shortened where there are too many. */
struct settings_changes {
	char taken[512];
	char waiting[512]; /* differ, and need a restart */
};

/* The settings of a running daemon become those of *next, as far as they may change. */
void settings_reload(struct settings *settings, const struct settings *next, struct settings_changes *ret_changes);

/* One value as the file would say it. */
void settings_format(const struct settings *settings, unsigned int index, char *buf, size_t size);

void settings_print_help(FILE *to);
void settings_print_all(const struct settings *settings, FILE *to); /* "key = value" lines */
void settings_print_man(enum settings_action page, FILE *to); /* roff */

/* ---- the table ----------------------------------------------------------------------------------------------- */

enum settings_type {
	SETTINGS_TEXT, /* up to `max` bytes */
	SETTINGS_NUMBER, /* min..max, with K, M, G, T where the unit is bytes */
	SETTINGS_MODE, /* octal, min..max */
	SETTINGS_CHOICE, /* one of the words */
	SETTINGS_POLICY, /* a text of up to `max` bytes that topo_policy_set() takes for the key */
};

struct settings_row {
	const char *key;
	enum settings_type type;
	size_t offset; /* in struct settings */
	const char *def; /* as the file would say it */
	uint64_t min, max;
	const char *unit; /* or NULL */
	const char *const *words; /* CHOICE: ended by NULL; the value is word_values[i] or i */
	const uint64_t *word_values; /* or NULL */
	const char *text; /* a sentence or more, ended by a full stop */
	bool reload; /* changes in a running daemon; the others wait for its next start */
};

extern const struct settings_row settings_rows[];
extern const unsigned int settings_n_rows;

#endif
