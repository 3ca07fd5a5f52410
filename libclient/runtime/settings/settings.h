/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of the runtime: one table of name, type, default, range and text drives reading, `shmemctl info` and the man
 * page shmd-settings(7).
 *
 * They come from the environment. SHMD_* goes before NVSHMEM_* and SHMEM_* names of the same meaning; what a program sets itself goes
 * before all. Each value remembers its source. No globals; a loaded struct is constant, so any thread may read it. Nothing here
 * prints or logs.
 */
#ifndef SHMD_RUNTIME_SETTINGS_H
#define SHMD_RUNTIME_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RUNTIME_TEXT_BYTES 256 /* a text setting, with its end */
#define RUNTIME_VALUE_BYTES 320 /* any value as text */
#define RUNTIME_SENTENCE_BYTES 480
#define RUNTIME_MAX_SETTINGS 48
#define RUNTIME_MAX_ALIASES 3

/* ---- values -------------------------------------------------------------------------------------------------------- */

enum runtime_bootstrap {
	RUNTIME_BOOTSTRAP_AUTO,
	RUNTIME_BOOTSTRAP_UID,
	RUNTIME_BOOTSTRAP_ENV, /* SHMD_RANK, SHMD_SIZE and SHMD_UID, as shmemctl run sets them */
	RUNTIME_BOOTSTRAP_PMI1,
	RUNTIME_BOOTSTRAP_PMI2,
	RUNTIME_BOOTSTRAP_PMIX,
	RUNTIME_BOOTSTRAP_MPI,
	RUNTIME_BOOTSTRAP_OPENSHMEM,
	RUNTIME_BOOTSTRAP_TORCHRUN,
	RUNTIME_BOOTSTRAP_NONE, /* a world of one PE */
	RUNTIME_BOOTSTRAP_PLUGIN, /* bootstrap_plugin has the path */
};

enum runtime_family {
	RUNTIME_FAMILY_ANY,
	RUNTIME_FAMILY_IPV4,
	RUNTIME_FAMILY_IPV6,
};

enum runtime_huge_pages {
	RUNTIME_HUGE_PAGES_AUTO,
	RUNTIME_HUGE_PAGES_OFF,
	RUNTIME_HUGE_PAGES_ON,
};

enum runtime_heap_debug { /* bits */
	RUNTIME_HEAP_LEAKS = 1 << 0,
	RUNTIME_HEAP_DOUBLE_FREE = 1 << 1,
	RUNTIME_HEAP_GUARD = 1 << 2,
	RUNTIME_HEAP_SIZES = 1 << 3,
};

enum runtime_paths { /* bits */
	RUNTIME_PATH_SELF = 1 << 0,
	RUNTIME_PATH_MAPPED = 1 << 1,
	RUNTIME_PATH_QUEUE = 1 << 2,
};

enum runtime_thread_level {
	RUNTIME_THREAD_SINGLE,
	RUNTIME_THREAD_FUNNELED,
	RUNTIME_THREAD_SERIALIZED,
	RUNTIME_THREAD_MULTIPLE,
};

enum runtime_log_level {
	RUNTIME_LOG_NONE,
	RUNTIME_LOG_ERROR,
	RUNTIME_LOG_WARN,
	RUNTIME_LOG_INFO,
	RUNTIME_LOG_DEBUG,
	RUNTIME_LOG_TRACE,
};

/* The rooms of the runtime, by whose names the log is switched. */
enum runtime_subsystem {
	RUNTIME_PART_WORLD,
	RUNTIME_PART_BOOTSTRAP,
	RUNTIME_PART_HEAP,
	RUNTIME_PART_PATH,
	RUNTIME_PART_TEAM,
	RUNTIME_PART_RMA,
	RUNTIME_PART_SETTINGS,
	RUNTIME_N_SUBSYSTEMS,
};

struct runtime_settings {
	uint64_t bootstrap; /* enum runtime_bootstrap */
	char bootstrap_plugin[RUNTIME_TEXT_BYTES]; /* "PATH" or "PATH:ARGS"; "" unless RUNTIME_BOOTSTRAP_PLUGIN */
	uint64_t bootstrap_timeout_nsec;
	uint64_t bootstrap_lost_nsec;
	char bootstrap_interface[RUNTIME_TEXT_BYTES]; /* "": any */
	uint64_t bootstrap_family; /* enum runtime_family */
	uint64_t timeout_nsec; /* of an operation; 0: none */
	uint64_t heap_bytes;
	uint64_t heap_chunk_bytes;
	uint64_t heap_reserve_bytes; /* for each PE */
	char gpu[RUNTIME_TEXT_BYTES]; /* "none", "auto", "current" or a number; "": auto if there is a size, else none */
	uint64_t gpu_heap_bytes; /* 0: one chunk, if there is a GPU heap */
	uint64_t gpu_heap_chunk_bytes;
	uint64_t gpu_heap_reserve_bytes; /* for each PE */
	bool nvshmem_newer; /* NVSHMEM programs of a version that is not known yet */
	uint64_t huge_pages; /* enum runtime_huge_pages */
	uint64_t heap_debug; /* bits of enum runtime_heap_debug */
	uint64_t paths; /* bits of enum runtime_paths */
	uint64_t nics_per_pe; /* 0: an equal share of the node's */
	uint64_t rc_peers;
	uint64_t hot_peers; /* beside DC, this number at most has an RC QP each */
	uint64_t hot_start; /* of them, so many from the start */
	uint64_t dcis; /* of a world */
	uint64_t ctx_dcis; /* of each context that a program makes; 0: it shares the world's */
	uint64_t queue_depth;
	uint64_t max_teams;
	uint64_t thread_level; /* enum runtime_thread_level */
	bool abort_on_error;
	uint8_t log_levels[RUNTIME_N_SUBSYSTEMS]; /* enum runtime_log_level */
	char log_file[RUNTIME_TEXT_BYTES]; /* "": stderr */
	bool nvtx;
	char nvtx_library[RUNTIME_TEXT_BYTES]; /* "": nvtx.h has the names */
	bool info;
	bool version;
	char socket[RUNTIME_TEXT_BYTES]; /* "": the client library's default */

	const char *sources[RUNTIME_MAX_SETTINGS]; /* by row: "default", the name of a variable, or "program"; constants */
};

/* ---- loading ------------------------------------------------------------------------------------------------------- */

/* Where variables come from: "NAME=VALUE" strings, ended by NULL. Borrowed. */
struct runtime_env {
	const char *const *list;
};

/* The environment of this process; empty in a program that runs with privileges which its caller lacks (AT_SECURE). */
struct runtime_env runtime_env_process(void);
/* NULL: not set. */
const char *runtime_env_get(const struct runtime_env *env, const char *name);

/* All values are the defaults. */
void runtime_settings_init(struct runtime_settings *ret);
/*
 * Defaults, then the environment (NULL: that of the process). -EINVAL at the first wrong value; the error text (shmd_error_text())
 * names the variable, its value and what is allowed.
 */
int runtime_settings_load(struct runtime_settings *ret, const struct runtime_env *env);
/* Set by the program: goes before the environment. -EINVAL as above; -ENOENT: there is no such setting. */
int runtime_settings_set(struct runtime_settings *settings, const char *name, const char *value);

/*
 * A sentence about a variable SHMD_*, NVSHMEM_* or SHMEM_* that has no effect. RUNTIME_LOG_WARN: it is unknown; the sentence has the one that was
 * perhaps meant. RUNTIME_LOG_INFO: NVSHMEM or another OpenSHMEM library reads it.
 */
typedef void (*runtime_unknown_fn)(void *arg, enum runtime_log_level level, const char *sentence);
/* Calls fn for each; returns how many are unknown. env NULL: that of the process. The caller decides to warn once. */
unsigned int runtime_settings_unknown(const struct runtime_env *env, runtime_unknown_fn fn, void *arg);

/* ---- showing ------------------------------------------------------------------------------------------------------- */

struct runtime_setting_info {
	const char *name; /* this and the other pointers: constant */
	const char *source;
	const char *def;
	const char *text;
	bool is_default; /* the value, from wherever it came */
	char value[RUNTIME_VALUE_BYTES];
};

/* Calls fn for each setting in the order of the table, until it returns other than 0; returns that, or 0. */
int runtime_settings_each(const struct runtime_settings *settings, int (*fn)(void *arg, const struct runtime_setting_info *info),
			  void *arg);

/* ---- the table ----------------------------------------------------------------------------------------------------- */

enum runtime_type {
	RUNTIME_TYPE_SIZE, /* bytes: "64M", "1.5G" */
	RUNTIME_TYPE_TIME, /* nsec: "30s", "500ms"; seconds without a unit */
	RUNTIME_TYPE_COUNT,
	RUNTIME_TYPE_POWER, /* a count that is a power of two */
	RUNTIME_TYPE_BOOL, /* a bool; all others but TEXT and LEVELS are a uint64_t */
	RUNTIME_TYPE_ENUM, /* one of the words; a last word "plugin:" takes the text behind it along */
	RUNTIME_TYPE_FLAGS, /* words separated by commas, bit i for word i; or "all" */
	RUNTIME_TYPE_LEVELS, /* uint8_t[RUNTIME_N_SUBSYSTEMS]: "info", "warn,heap=debug" */
	RUNTIME_TYPE_TEXT, /* at most max bytes */
};

/*
 * A name that others use. `translate` writes what the value means in the words of the row: 0; 1 if this value says nothing about the
 * setting; -EINVAL. NULL: the words are the same.
 */
struct runtime_alias {
	const char *name;
	int (*translate)(const char *value, char *text, size_t size);
	const char *note; /* for the man page: which values mean what; or NULL */
};

struct runtime_row {
	const char *name;
	enum runtime_type type;
	size_t place, tail_place; /* offsets in struct runtime_settings; the tail is the text behind "plugin:" */
	const char *def; /* as a person writes it */
	uint64_t min, max; /* FLAGS: min 0 allows "none" */
	const char *const *words; /* ENUM, FLAGS: ended by NULL */
	const char *text; /* sentences */
	struct runtime_alias aliases[RUNTIME_MAX_ALIASES + 1]; /* the first one that is set counts; ends with a NULL name */
};

extern const struct runtime_row runtime_rows[];
extern const unsigned int runtime_n_rows;
/* Variables SHMD_* that are not settings: a launcher sets them for each process, and the bootstrap reads them. */
struct runtime_launcher_variable {
	const char *name, *text;
};
extern const struct runtime_launcher_variable runtime_launcher_variables[]; /* ends with a NULL name */

extern const char *const runtime_subsystem_names[]; /* ends with NULL, as the next one does */
extern const char *const runtime_level_names[];

/* ---- one value: value.c -------------------------------------------------------------------------------------------- */

/* -EINVAL, and nothing is written. */
int runtime_value_parse(const struct runtime_row *row, struct runtime_settings *settings, const char *text);
/* As a person would write it; runtime_value_parse() reads it back. */
void runtime_value_format(const struct runtime_row *row, const struct runtime_settings *settings, char *buf, size_t size);
/* The allowed values: "a time from 1s to 24h, such as 60s". */
void runtime_value_allowed(const struct runtime_row *row, char *buf, size_t size);

/* ---- one row: settings.c ------------------------------------------------------------------------------------------- */

/* The row's value of the environment, or its default. -EINVAL and the error text; then the value is the default, and the source the variable. */
int runtime_settings_load_row(struct runtime_settings *settings, unsigned int row, const struct runtime_env *env);
void runtime_settings_info(const struct runtime_settings *settings, unsigned int row, struct runtime_setting_info *ret);

#endif
