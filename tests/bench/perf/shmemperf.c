/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares kernels on this library with the same kernels on NVSHMEM, and with bare ones. It starts pairs of PEs in turn through shmemctl run, collects
 * what PE 0 of each prints, and shows medians. The programs of the PEs, shmemperf-ours, shmemperf-queues and shmemperf-nvshmem, lie beside it; without
 * the last the table has no such column. shmemd runs, with a soft NIC. One thread.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/cleanup.h"
#include "tests/bench/perf/run.h"
#include "tests/bench/perf/table.h"

#define EXIT_SKIPPED 77
#define RUNS 5u

struct options {
	unsigned int runs, timeout_sec;
	const char *json, *svg, *mode, *shmemctl, *nvshmem_lib;
};

struct perf {
	struct options options;
	char ours[PATH_MAX], nvshmem[PATH_MAX], queues[PATH_MAX], scratch[PATH_MAX], id[PATH_MAX];
	struct perf_table table;
	bool has_nvshmem, has_mps;
};

static void usage(FILE *out)
{
	fputs("usage: shmemperf [OPTION...]\n\n"
	      "Times device functions between two PEs, and calls of the host: this library, NVSHMEM and bare kernels in turn. shmemd must run.\n"
	      "PEs have two GPUs where there are two. On one GPU they run side by side under an MPS server that it starts.\n\n"
	      "  --runs N           of each side, 1 to 41 (default: 5)\n"
	      "  --mode MODE        auto (the default), gpus (two GPUs) or mps (one)\n"
	      "  --json FILE        all figures\n"
	      "  --svg FILE         a plot of the ratios\n"
	      "  --shmemctl FILE    what starts the PEs (default: shmemctl)\n"
	      "  --nvshmem-lib DIR  where NVSHMEM's host library lies, if the loader does not find it\n"
	      "  --timeout SECONDS  of each run (default: 120)\n"
	      "  --help             this text\n\n"
	      "Exit status: 0 all rows were measured and, on two GPUs, no goal was missed; 1 not so; 2 usage; 77 no GPU, no MPS, or built without nvcc;\n"
	      "128 + the number of a signal that ended it.\n",
	      out);
}

/* ---- options --------------------------------------------------------------------------------------------------------------------- */

static unsigned int number(const char *text, unsigned int most)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || n < 1 || n > most) {
		fprintf(stderr, "shmemperf: %s is no number from 1 to %u; shmemperf --help lists all options\n", text, most);
		exit(2);
	}
	return (unsigned int)n;
}

static void take_option(struct options *options, int option, const char *value)
{
	switch (option) {
	case 'r':
		options->runs = number(value, PERF_MAX_RUNS);
		return;
	case 't':
		options->timeout_sec = number(value, 3600);
		return;
	case 'm':
		options->mode = value;
		return;
	case 'j':
		options->json = value;
		return;
	case 's':
		options->svg = value;
		return;
	case 'c':
		options->shmemctl = value;
		return;
	case 'l':
		options->nvshmem_lib = value;
		return;
	case 'h':
		usage(stdout);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

static struct options read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"runs", required_argument, NULL, 'r'}, {"timeout", required_argument, NULL, 't'},
		{"mode", required_argument, NULL, 'm'}, {"json", required_argument, NULL, 'j'},
		{"svg", required_argument, NULL, 's'}, {"shmemctl", required_argument, NULL, 'c'},
		{"nvshmem-lib", required_argument, NULL, 'l'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0},
	};
	struct options options = {.runs = RUNS, .timeout_sec = 120, .mode = "auto", .shmemctl = "shmemctl"};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) >= 0)
		take_option(&options, option, optarg);
	if (optind < argc || (strcmp(options.mode, "auto") && strcmp(options.mode, "gpus") && strcmp(options.mode, "mps"))) {
		usage(stderr);
		exit(2);
	}
	return options;
}

/* ---- runs ------------------------------------------------------------------------------------------------------------------------ */

static int run_pair(struct perf *perf, const char *program, const char *what, char **ret_text)
{
	const char *const argv[] = {perf->options.shmemctl, "run", "-n", "2", "--no-prefix", program, what, NULL};

	return perf_run(argv, perf->options.timeout_sec, NULL, ret_text);
}

static int run_nvshmem(struct perf *perf, char **ret_text)
{
	_cleanup_free_ char *before = getenv("LD_LIBRARY_PATH") ? strdup(getenv("LD_LIBRARY_PATH")) : NULL, *path = NULL;
	int r;

	unlink(perf->id);
	if (perf->options.nvshmem_lib) {
		if (asprintf(&path, "%s%s%s", perf->options.nvshmem_lib, before ? ":" : "", before ? before : "") < 0)
			return -ENOMEM;
		setenv("LD_LIBRARY_PATH", path, 1);
	}
	r = run_pair(perf, perf->nvshmem, "rows", ret_text);
	if (before)
		setenv("LD_LIBRARY_PATH", before, 1);
	else
		unsetenv("LD_LIBRARY_PATH");
	return r;
}

/* Rows printed before a failure count; the other runs go on, unless a signal has come. */
static bool run_side(struct perf *perf, enum perf_side side, const char *program)
{
	_cleanup_free_ char *text = NULL;
	int r, read;

	if (side == PERF_NVSHMEM)
		r = run_nvshmem(perf, &text);
	else
		r = run_pair(perf, program, side == PERF_FLOOR ? "floor" : "rows", &text);
	if (r == -EINTR)
		return false;
	if (r)
		fprintf(stderr, "shmemperf: a run of %s failed: %s%d\n", perf_side_name(side), r < 0 ? "errno " : "exit status ", r < 0 ? -r : r);
	read = text ? perf_table_read(&perf->table, side, text) : 0;
	if (read < 0)
		fprintf(stderr, "shmemperf: a run of %s printed what is no row:\n%s\n", perf_side_name(side), text);
	return !r && read >= 0;
}

static bool run_all(struct perf *perf)
{
	bool good = true;
	unsigned int i;

	for (i = 0; i < perf->options.runs; i++) {
		good &= run_side(perf, PERF_OURS, perf->ours);
		if (perf->has_nvshmem)
			good &= run_side(perf, PERF_NVSHMEM, perf->nvshmem);
		good &= run_side(perf, PERF_FLOOR, perf->ours);
		good &= run_side(perf, PERF_OURS, perf->queues);
		good &= run_side(perf, PERF_FLOOR, perf->queues);
	}
	return good;
}

/* ---- begin and end ---------------------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
	(void)status;
	(void)kind;
	(void)walk;
	return remove(path);
}

static void clean_up(struct perf *perf)
{
	if (perf->has_mps)
		perf_mps_stop();
	nftw(perf->scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void find_programs(struct perf *perf)
{
	char own[PATH_MAX / 2];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash)
		*slash = '\0';
	snprintf(perf->ours, sizeof(perf->ours), "%s/shmemperf-ours", own);
	snprintf(perf->queues, sizeof(perf->queues), "%s/shmemperf-queues", own);
	snprintf(perf->nvshmem, sizeof(perf->nvshmem), "%s/shmemperf-nvshmem", own);
	perf->has_nvshmem = !access(perf->nvshmem, X_OK);
}

/* Negative: none. */
static int count_gpus(struct perf *perf)
{
	const char *const argv[] = {perf->ours, "gpus", NULL};
	_cleanup_free_ char *text = NULL;
	int n = 0, r = perf_run(argv, perf->options.timeout_sec, NULL, &text);

	if (r || sscanf(text, "# gpus %d", &n) != 1)
		return -ENODEV;
	return n;
}

/* NVSHMEM by P2P only, without multicast and network. Whoever starts shmemperf may say otherwise. */
static void set_nvshmem(const struct perf *perf)
{
	setenv("SHMEMPERF_ID", perf->id, 1);
	setenv("NVSHMEM_DISABLE_NVLS", "1", 0);
	setenv("NVSHMEM_REMOTE_TRANSPORT", "none", 0);
	setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
}

/* The first GPU of those that are given, for both PEs. */
static void show_one_gpu(void)
{
	const char *given = getenv("CUDA_VISIBLE_DEVICES");
	char first[128];

	snprintf(first, sizeof(first), "%.*s", given ? (int)strcspn(given, ",") : 1, given ? given : "0");
	setenv("CUDA_VISIBLE_DEVICES", first, 1);
}

static int choose_mode(struct perf *perf)
{
	int n_gpus = count_gpus(perf), r;
	bool one = !strcmp(perf->options.mode, "mps") || (n_gpus < 2 && strcmp(perf->options.mode, "gpus"));

	if (n_gpus < (one ? 1 : 2)) {
		fprintf(stderr, "shmemperf: skipped: %d GPUs\n", n_gpus < 0 ? 0 : n_gpus);
		return EXIT_SKIPPED;
	}
	perf->table.is_judged = !one;
	snprintf(perf->table.mode, sizeof(perf->table.mode), "%s", one ? "both PEs on one GPU, MPS, half of the GPU each" : "two GPUs");
	if (!one)
		return 0;
	show_one_gpu();
	r = perf_mps_start(perf->scratch);
	perf->has_mps = r != -ENOENT;
	if (r < 0)
		fprintf(stderr, "shmemperf: %s: one GPU, and MPS: %s\n", r == -ENOENT ? "skipped" : "failed", strerror(-r));
	return r < 0 ? (r == -ENOENT ? EXIT_SKIPPED : 1) : 0;
}

static bool write_file(const char *path, void (*print)(FILE *, const struct perf_table *), const struct perf_table *table)
{
	FILE *file;

	if (!path)
		return true;
	file = fopen(path, "w");
	if (file)
		print(file, table);
	if (!file || ferror(file) | fclose(file)) {
		fprintf(stderr, "shmemperf: %s: %s\n", path, strerror(errno));
		return false;
	}
	return true;
}

static int report(const struct perf *perf, bool good)
{
	unsigned int row;

	perf_print_table(stdout, &perf->table);
	good &= write_file(perf->options.json, perf_print_json, &perf->table);
	good &= write_file(perf->options.svg, perf_print_svg, &perf->table);
	for (row = 0; row < perf_n_rows; row++)
		good &= perf->table.figures[row][PERF_OURS].n && (!perf->table.is_judged || perf_is_met(&perf->table, row));
	return good ? 0 : 1;
}

int main(int argc, char **argv)
{
	static struct perf perf;
	const char *temporary = getenv("TMPDIR");
	int status, signo;

	perf.options = read_options(argc, argv);
	find_programs(&perf);
	if (access(perf.ours, X_OK)) {
		fprintf(stderr, "shmemperf: skipped: built without nvcc: no %s\n", perf.ours);
		return EXIT_SKIPPED;
	}
	perf_hold_signals();
	snprintf(perf.scratch, sizeof(perf.scratch), "%.1000s/shmemperf.XXXXXX", temporary ? temporary : "/tmp");
	if (!mkdtemp(perf.scratch)) {
		fprintf(stderr, "shmemperf: %s: %s\n", perf.scratch, strerror(errno));
		return 1;
	}
	snprintf(perf.id, sizeof(perf.id), "%.1100s/id", perf.scratch);
	set_nvshmem(&perf);
	status = choose_mode(&perf);
	if (!status)
		status = report(&perf, run_all(&perf));
	signo = perf_take_signal();
	clean_up(&perf);
	return signo ? 128 + signo : status;
}
