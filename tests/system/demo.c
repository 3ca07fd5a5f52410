/* SPDX-License-Identifier: Apache-2.0 */
/* Options and processes. The work is in demo-pe.c, the table in demo-report.c. */
#include "demo.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_PATIENCE_SEC 600

struct demo_options {
	unsigned int n_pes, n_hot, patience_sec;
	bool json, is_dc, has_runtime;
};

static void usage(FILE *to)
{
	fputs("usage: shmemd-demo [--pes N] [--dc [--hot N]] [--runtime] [--patience N] [--json]\n"
	      "\n"
	      "Runs N processing elements (2 to 64, default 4), each a process with a session of its own on the\n"
	      "shmemd behind $SHMEMD_SOCKET: puts in a ring, gets from everybody, atomic counters and a ping-pong\n"
	      "of puts with signals. Every byte is verified.\n"
	      "\n"
	      "  --pes N   number of processing elements\n"
	      "  --dc      dynamic connections: one sender and one target for each element, not a QP for each pair\n"
	      "  --hot N   with --dc: the busiest pairs get RC queues of their own in mid-run, at most N (1 to 64) for\n"
	      "            each element, and give them back when they have cooled\n"
	      "  --runtime then the same PEs as worlds of the runtime: over mapped memory, and over queues\n"
	      "  --patience N\n"
	      "            seconds (4 to 600) that a wait or a request may take, for where the daemon is killed meanwhile\n"
	      "  --json    results as one JSON object\n"
	      "  --help    this text\n"
	      "\n"
	      "Exit status: 0 when every byte was right, 1 when not, 2 usage or no daemon.\n",
	      to);
}

static bool parse_number(const char *text, unsigned int least, unsigned int most, unsigned int *ret_n)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || n < least || n > most)
		return false;
	*ret_n = (unsigned int)n;
	return true;
}

static int parse_options(int argc, char **argv, struct demo_options *ret_options)
{
	static const struct option options[] = {{"pes", required_argument, NULL, 'p'},
						{"dc", no_argument, NULL, 'd'},
						{"hot", required_argument, NULL, 'o'},
						{"runtime", no_argument, NULL, 'r'},
						{"patience", required_argument, NULL, 't'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int c;

	*ret_options = (struct demo_options){.n_pes = 4};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p' && parse_number(optarg, 2, DEMO_MAX_PES, &ret_options->n_pes))
			continue;
		if (c == 'o' && parse_number(optarg, 1, DEMO_MAX_PES, &ret_options->n_hot))
			continue;
		if (c == 't' && parse_number(optarg, 4, MAX_PATIENCE_SEC, &ret_options->patience_sec))
			continue;
		if (c == 'd') {
			ret_options->is_dc = true;
			continue;
		}
		if (c == 'r') {
			ret_options->has_runtime = true;
			continue;
		}
		if (c == 'j') {
			ret_options->json = true;
			continue;
		}
		if (c == 'h') {
			usage(stdout);
			exit(0);
		}
		if (c == 'p')
			fprintf(stderr, "shmemd-demo: --pes needs a number from 2 to %d\n", DEMO_MAX_PES);
		if (c == 'o')
			fprintf(stderr, "shmemd-demo: --hot needs a number from 1 to %d\n", DEMO_MAX_PES);
		if (c == 't')
			fprintf(stderr, "shmemd-demo: --patience needs a number from 4 to %d\n", MAX_PATIENCE_SEC);
		return -EINVAL;
	}
	if (ret_options->n_hot && !ret_options->is_dc) {
		fputs("shmemd-demo: --hot is for --dc: without it every pair has RC queues\n", stderr);
		return -EINVAL;
	}
	return optind == argc ? 0 : -EINVAL;
}

static pid_t start_pe(struct demo_shared *shared, unsigned int me)
{
	pid_t pid = demo_fork();

	if (pid != 0)
		return pid;
	_exit(demo_pe_main(shared, me, NULL) ? 0 : 1);
}

int main(int argc, char **argv)
{
	struct demo_options options;
	struct demo_shared *shared;
	pid_t pids[DEMO_MAX_PES];
	unsigned int i;
	bool good = true;

	if (parse_options(argc, argv, &options) < 0) {
		usage(stderr);
		return 2;
	}
	if (!demo_daemon_answers("shmemd-demo"))
		return 2;
	shared = demo_shared_new(options.n_pes);
	if (!shared) {
		perror("shmemd-demo: shared memory");
		return 1;
	}
	shared->is_dc = options.is_dc;
	shared->n_hot = options.n_hot;
	shared->has_runtime = options.has_runtime;
	if (options.patience_sec)
		shared->wait_nsec = shared->request_nsec = options.patience_sec * 1000000000ull;
	for (i = 0; i < options.n_pes; i++)
		pids[i] = start_pe(shared, i);
	for (i = 0; i < options.n_pes; i++)
		good = demo_wait_for_pe(shared, i, pids[i]) && good;
	good = demo_report(shared, options.json) && good;
	return good ? 0 : 1;
}
