/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemctl run: the options of the launcher, which is libclient/runtime/run. Its output is that of the programs, so there is no
 * JSON of it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libclient/ctl/ctl.h"
#include "libclient/ctl/preload.h"
#include "libclient/runtime/run/run.h"

#define KILL_AFTER_SECONDS 5.0

static const enum color rank_colors[] = {COLOR_CYAN, COLOR_GREEN, COLOR_YELLOW, COLOR_MAGENTA, COLOR_BLUE, COLOR_RED};

static uint64_t nsec_of(double seconds)
{
	return (uint64_t)(seconds * 1e9);
}

/* A name alone stands for what is set here, which the PEs have anyway; one that is not set is a mistake. */
static int check_env(const struct args *args)
{
	for (unsigned int i = 0; i < args->n_env; i++) {
		if (args->env[i][0] == '=')
			return ctl_fail("--env %s: name a variable", args->env[i]);
		if (!strchr(args->env[i], '=') && !getenv(args->env[i]))
			return ctl_fail("--env %s: it has no value here; give one: --env %s=VALUE", args->env[i], args->env[i]);
	}
	return 0;
}

/* "%r" and "%%" are all. */
static int check_pattern(const char *pattern, uint64_t n_pes)
{
	bool has_rank = false;

	for (const char *at = pattern; at && (at = strchr(at, '%')); at += 2) {
		if (at[1] != 'r' && at[1] != '%')
			return ctl_fail("--output-files %s: only %%r (the rank) and %%%% may follow a %%", pattern);
		has_rank = has_rank || at[1] == 'r';
	}
	if (pattern && !has_rank && n_pes > 1)
		return ctl_fail("--output-files %s: %%r, the rank, must stand in it, since each PE has a file", pattern);
	return 0;
}

/* By its whole name, or by the part before the first dot. */
static bool is_this_node(const char *name, size_t bytes)
{
	static const char *const always[] = {"localhost", "127.0.0.1", "::1"};
	char own[256] = "";

	for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
		if (strlen(always[i]) == bytes && !strncmp(always[i], name, bytes))
			return true;
	gethostname(own, sizeof(own) - 1);
	return bytes && !strncmp(own, name, bytes) && (bytes == strlen(own) || bytes == strcspn(own, "."));
}

static int check_nodes(const char *nodes)
{
	for (; nodes; nodes = strchr(nodes, ',') ? strchr(nodes, ',') + 1 : NULL)
		if (!is_this_node(nodes, strcspn(nodes, ",")))
			return ctl_fail("--nodes: run starts processes on this node only; use srun or mpirun for several; see shmemctl run --help");
	return 0;
}

static int check(const struct args *args, uint64_t n_pes)
{
	int r;

	if (args_has(args, OPTION_JSON))
		return ctl_fail("--json does not go with run, whose output is that of the programs; see shmemctl run --help");
	if (!n_pes)
		return ctl_fail("run needs the number of processes: -n N; see shmemctl run --help");
	if (n_pes > RUN_MAX_PES)
		return ctl_fail("--pes takes 1 to %u, not %s; see shmemctl run --help", RUN_MAX_PES, args->values[OPTION_PES]);
	r = check_pattern(args->values[OPTION_OUTPUT_FILES], n_pes);
	if (!r)
		r = check_nodes(args->values[OPTION_NODES]);
	return r ? r : check_env(args);
}

/* Variables of the user come last, and count. */
static int fill_env(const struct args *args, struct preload *preload, const char *env[])
{
	unsigned int n = 0;

	if (args_has(args, OPTION_NVSHMEM)) {
		if (preload_nvshmem(preload))
			return -1;
		env[n++] = preload->library;
		env[n++] = preload->folder;
	}
	for (unsigned int i = 0; i < args->n_env; i++)
		env[n++] = args->env[i];
	env[n] = NULL;
	return 0;
}

static bool has_color(const struct args *args, int fd)
{
	return color_wanted(args->values[OPTION_COLOR], isatty(fd), getenv("NO_COLOR"), getenv("TERM"));
}

int ctl_run(struct ctl *ctl)
{
	const struct args *args = ctl->args;
	uint64_t n_pes = args_count(args, OPTION_PES, 0);
	const char *bind = args->values[OPTION_BIND], *env[ARGS_MAX_LISTED + 3];
	struct preload preload;
	struct run_attr attr = {
		.n_pes = (unsigned int)n_pes,
		.argv = args->program,
		.env = env,
		.folder = args->values[OPTION_CHDIR],
		.output_files = args->values[OPTION_OUTPUT_FILES],
		.has_no_prefix = args_has(args, OPTION_NO_PREFIX),
		.keep_going = args_has(args, OPTION_KEEP_GOING),
		.bind = bind && !strcmp(bind, "core") ? RUN_BIND_CORE : RUN_BIND_NONE,
		.kill_after_nsec = nsec_of(args_seconds(args, OPTION_KILL_AFTER, KILL_AFTER_SECONDS)),
		.timeout_nsec = nsec_of(args_seconds(args, OPTION_TIMEOUT, 0)),
		.n_colors = sizeof(rank_colors) / sizeof(*rank_colors),
		.color_off = color_off(true, COLOR_CYAN),
		.has_color = {has_color(args, STDOUT_FILENO), has_color(args, STDERR_FILENO)},
	};

	if (check(args, n_pes) || fill_env(args, &preload, env))
		return CTL_EXIT_USAGE;
	for (unsigned int i = 0; i < attr.n_colors; i++)
		attr.colors[i] = color_on(true, rank_colors[i]);
	return run_job(&attr);
}
