/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU demo: options, and PEs as threads of this process or as processes. The work is in gpu-demo-pe.c. */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu-demo-pe.h"
#include "gpu-demo.h"

struct options {
	unsigned int n_pes, n_gpus;
	bool json, host_memory;
};

static void usage(FILE *to)
{
	fputs("usage: shmemd-gpu-demo [--pes N] [--gpus N] [--host-memory] [--json]\n"
	      "\n"
	      "Runs N processing elements (2 to 8, default 2), each a session of its own on the shmemd behind\n"
	      "$SHMEMD_SOCKET whose queues CUDA kernels drive: puts in a ring, gets from everybody, atomic counters\n"
	      "and a ping-pong of puts with signals. Every byte is verified.\n"
	      "\n"
	      "  --pes N   number of processing elements\n"
	      "  --gpus N  1 (default): all in one process on GPU 0; more: each in a process, in turn on GPUs 0 to N-1\n"
	      "  --host-memory\n"
	      "            payload in host memory; without it in GPU memory, where the NIC reaches that\n"
	      "  --json    results as one JSON object\n"
	      "  --help    this text\n"
	      "\n"
	      "Exit status: 0 when every byte was right, 1 when not, 2 usage or no daemon.\n",
	      to);
}

static bool parse_number(const char *text, unsigned int min, unsigned int *ret_n)
{
	char *end;
	unsigned long n;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || *end || end == text || n < min || n > GPU_DEMO_MAX_PES) {
		fprintf(stderr, "shmemd-gpu-demo: %s is not a number from %u to %d\n", text, min, GPU_DEMO_MAX_PES);
		return false;
	}
	*ret_n = (unsigned int)n;
	return true;
}

static int parse_options(int argc, char **argv, struct options *ret_options)
{
	static const struct option options[] = {{"pes", required_argument, NULL, 'p'},
						{"gpus", required_argument, NULL, 'g'},
						{"host-memory", no_argument, NULL, 'm'},
						{"json", no_argument, NULL, 'j'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int c;

	*ret_options = (struct options){.n_pes = 2, .n_gpus = 1};
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'p' && parse_number(optarg, 2, &ret_options->n_pes))
			continue;
		if (c == 'g' && parse_number(optarg, 1, &ret_options->n_gpus))
			continue;
		if (c == 'm') {
			ret_options->host_memory = true;
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
		return -EINVAL;
	}
	return optind == argc ? 0 : -EINVAL;
}

/* ---- one process, one GPU ------------------------------------------------------------------------------------ */

struct pe_thread {
	pthread_t thread;
	struct demo_shared *shared;
	unsigned int me;
	bool host_memory, good;
};

static void *pe_thread(void *arg)
{
	struct pe_thread *pe = arg;

	pe->good = gpu_demo_pe_main(pe->shared, pe->me, 0, pe->host_memory);
	return NULL;
}

static bool run_threads(struct demo_shared *shared, bool host_memory)
{
	struct pe_thread pes[GPU_DEMO_MAX_PES];
	unsigned int i, n;
	bool good = true;

	for (n = 0; n < shared->n_pes; n++) {
		pes[n] = (struct pe_thread){.shared = shared, .me = n, .host_memory = host_memory};
		if (pthread_create(&pes[n].thread, NULL, pe_thread, &pes[n])) {
			__atomic_store_n(&shared->failed, 1, __ATOMIC_RELEASE);
			good = false;
			break;
		}
	}
	for (i = 0; i < n; i++) {
		pthread_join(pes[i].thread, NULL);
		good = pes[i].good && good;
	}
	return good;
}

/* ---- processes, GPUs in turn --------------------------------------------------------------------------------- */

static pid_t start_pe(struct demo_shared *shared, unsigned int me, int gpu, bool host_memory)
{
	pid_t pid = demo_fork();

	if (pid != 0)
		return pid;
	_exit(gpu_demo_pe_main(shared, me, gpu, host_memory) ? 0 : 1);
}

static bool run_processes(struct demo_shared *shared, unsigned int n_gpus, bool host_memory)
{
	pid_t pids[GPU_DEMO_MAX_PES];
	bool good = true;
	unsigned int i;

	for (i = 0; i < shared->n_pes; i++)
		pids[i] = start_pe(shared, i, (int)(i % n_gpus), host_memory);
	for (i = 0; i < shared->n_pes; i++)
		good = demo_wait_for_pe(shared, i, pids[i]) && good;
	return good;
}

int main(int argc, char **argv)
{
	struct demo_shared *shared;
	struct options options;
	bool good;

	if (parse_options(argc, argv, &options) < 0) {
		usage(stderr);
		return 2;
	}
	if (!demo_daemon_answers("shmemd-gpu-demo"))
		return 2;
	shared = demo_shared_new(options.n_pes);
	if (!shared) {
		perror("shmemd-gpu-demo: shared memory");
		return 1;
	}
	good = options.n_gpus == 1 ? run_threads(shared, options.host_memory) : run_processes(shared, options.n_gpus, options.host_memory);
	good = demo_report(shared, options.json) && good;
	return good ? 0 : 1;
}
