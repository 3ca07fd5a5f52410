/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shmemd-traffic: an ordinary client that counts, for tests which restart the daemon under it.
 *
 *	shmemd-traffic [--seconds S] [--batches N] [--nics A,B] [--patience S] [--pause-msec M] [--no-requests]
 *
 * Two sessions, an RC QP of each connected to the other's, and traffic both ways, until the time or the number is over
 * or SIGTERM or SIGINT comes. Every operation has a number and is checked: done once, in order, with its bytes. Now and then a request
 * goes to the daemon (a registration and its end). SIGUSR1 has it print "at N, U unknown" after the next batch: how many
 * were done, and atomics whose outcome nobody knows. Prints "running", and at the end one line of JSON: what was done, and the
 * pauses, which are the times between two batches of more than M ms (default 20). Exit status 0: all was right; 1 and
 * words on standard error: what was not.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic.h"

#define SEC UINT64_C(1000000000)
#define MSEC UINT64_C(1000000)
#define BATCHES_PER_REQUEST 16u
#define MAX_PAUSES 4096u

static volatile sig_atomic_t stop, asked;

static struct {
	uint64_t seconds, batches, patience_sec, pause_msec; /* 0: without end */
	const char *nics[2]; /* NULL: assigned */
	bool requests;
} arg = {.patience_sec = 120, .pause_msec = 20, .requests = true};

static struct traffic_counts counts;
static double pauses[MAX_PAUSES]; /* ms */
static unsigned int n_pauses;

static void must(const struct traffic_side *side, int r, const char *what)
{
	if (r < 0)
		traffic_die(side, "%s: %s", what, strerror(-r));
}

/* ---- sessions ----------------------------------------------------------------------------------------------------- */

static void open_side(struct traffic_side *side, const char *nic)
{
	const struct shmd_client_attr client = {.timeout_nsec = arg.patience_sec * SEC};
	const struct shmd_nic_attr named = {.nic = nic};

	side->counts = &counts;
	side->patience_nsec = arg.patience_sec * SEC;
	must(side, shmd_client_open(&client, &side->client), "session");
	must(side, shmd_nic_open(side->client, &named, &side->nic), "NIC");
	must(side, shmd_mem_alloc(side->client, sizeof(*side->memory), &side->mem), "memory");
	must(side, shmd_mr_reg_mem(side->nic, side->mem, SHMD_ACCESS_ALL, &side->mr), "registration");
	side->memory = shmd_mem_addr(side->mem);
}

static void make_queues(struct traffic_side *side)
{
	const struct shmd_queues_attr attr = {.n_qps = 1, .rq_wqes = TRAFFIC_RECVS};

	must(side, shmd_queues_create(side->nic, &attr, &side->queues), "queues");
	must(side, shmd_queues_recv_cq(side->queues, 0, &side->rcq), "receive CQ");
	side->qp = shmd_queues_dev_qp(side->queues, 0);
}

static void connect_to_peer(struct traffic_side *side)
{
	/* A receiver that is short of buffers, as after a restart, is waited for. */
	const struct shmd_qp_params params = {
		.timeout = 16, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 12, .max_rd_atomic = 16};
	struct shmd_addr address;

	must(side, shmd_queues_addr(side->peer->queues, 0, &address), "address");
	must(side, shmd_queues_connect(side->queues, 0, 1, &address, &params, NULL), "connection");
}

static void make_all_queues(struct traffic_side *sides)
{
	for (unsigned int i = 0; i < 2; i++)
		make_queues(&sides[i]);
	for (unsigned int i = 0; i < 2; i++)
		connect_to_peer(&sides[i]);
	for (unsigned int i = 0; i < 2; i++)
		traffic_begin(&sides[i]);
}

/* A request whose answer matters: keys of what is registered now. */
static void request(struct traffic_side *side)
{
	struct shmd_qp_info info;
	struct shmd_mr *mr;

	must(side, shmd_mr_reg_mem(side->nic, side->mem, SHMD_ACCESS_ALL, &mr), "second registration");
	must(side, shmd_queues_query(side->queues, 0, &info), "query");
	if (info.state != SHMD_QP_RTS)
		traffic_die(side, "the QP is in state %d", info.state);
	must(side, shmd_mr_dereg(mr), "its end");
	counts.requests += 3;
}

/* ---- traffic ------------------------------------------------------------------------------------------------------ */

/* An atomic was cut in its middle: the one thing that a restart may cost. */
static void begin_anew(struct traffic_side *sides, struct traffic_side *cut)
{
	traffic_check_unknown(cut);
	counts.unknown++;
	for (unsigned int i = 0; i < 2; i++)
		must(&sides[i], shmd_queues_destroy(sides[i].queues), "end of queues");
	make_all_queues(sides);
}

static void note_pause(uint64_t since)
{
	uint64_t nsec = shmd_dev_host_now_nsec() - since;

	if (nsec > arg.pause_msec * MSEC && n_pauses < MAX_PAUSES)
		pauses[n_pauses++] = (double)nsec / (double)MSEC;
}

static void answer(void)
{
	asked = 0;
	printf("at %" PRIu64 ", %" PRIu64 " unknown\n", counts.batches, counts.unknown);
}

static bool is_over(uint64_t end)
{
	return stop || (arg.seconds && shmd_dev_host_now_nsec() >= end) || (arg.batches && counts.batches >= arg.batches);
}

static void run(struct traffic_side *sides)
{
	uint64_t end = shmd_dev_host_now_nsec() + arg.seconds * SEC, since;

	for (uint64_t i = 0; !is_over(end); i++) {
		struct traffic_side *side = &sides[i % 2];

		since = shmd_dev_host_now_nsec();
		if (!traffic_batch(side))
			begin_anew(sides, side);
		else if (asked)
			answer();
		if (arg.requests && i % BATCHES_PER_REQUEST == 0)
			request(&sides[i / BATCHES_PER_REQUEST % 2]);
		note_pause(since);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(const struct traffic_side *sides)
{
	qsort(pauses, n_pauses, sizeof(pauses[0]), compare);
	printf("{\"sessions\": [%" PRIu64 ", %" PRIu64 "], \"batches\": %" PRIu64 ", \"puts\": %" PRIu64 ", \"gets\": %" PRIu64
	       ", \"adds\": %" PRIu64 ", \"fetches\": %" PRIu64 ", \"sends\": %" PRIu64 ", \"immediates\": %" PRIu64
	       ", \"requests\": %" PRIu64 ", \"unknown\": %" PRIu64
	       ", \"pauses\": %u, \"pause_median_msec\": %.1f, \"pause_max_msec\": %.1f, \"pauses_msec\": [",
	       shmd_client_session(sides[0].client), shmd_client_session(sides[1].client), counts.batches, counts.puts,
	       counts.gets, counts.adds, counts.fetches, counts.sends, counts.immediates, counts.requests, counts.unknown,
	       n_pauses, n_pauses ? pauses[n_pauses / 2] : 0, n_pauses ? pauses[n_pauses - 1] : 0);
	for (unsigned int i = 0; i < n_pauses; i++)
		printf("%s%.1f", i ? ", " : "", pauses[i]);
	printf("]}\n");
}

/* ---- argv ----------------------------------------------------------------------------------------------------------- */

static void on_stop(int sig)
{
	stop = 1;
}

static void on_asked(int sig)
{
	asked = 1;
}

static void split_nics(char *text)
{
	char *comma = strchr(text, ',');

	arg.nics[0] = arg.nics[1] = text;
	if (!comma)
		return;
	*comma = 0;
	arg.nics[1] = comma + 1;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (*end || end == text) {
		fprintf(stderr, "shmemd-traffic: \"%s\" is no number\n", text);
		exit(2);
	}
	return value;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'}, {"batches", required_argument, NULL, 'b'},
		{"nics", required_argument, NULL, 'n'}, {"patience", required_argument, NULL, 'p'},
		{"pause-msec", required_argument, NULL, 'm'}, {"no-requests", no_argument, NULL, 'r'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (c) {
		case 's':
			arg.seconds = number(optarg);
			break;
		case 'b':
			arg.batches = number(optarg);
			break;
		case 'n':
			split_nics(optarg);
			break;
		case 'p':
			arg.patience_sec = number(optarg);
			break;
		case 'm':
			arg.pause_msec = number(optarg);
			break;
		case 'r':
			arg.requests = false;
			break;
		default:
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	static struct traffic_side sides[2] = {{.name = "A", .peer = &sides[1]}, {.name = "B", .peer = &sides[0]}};

	parse(argc, argv);
	signal(SIGTERM, on_stop);
	signal(SIGINT, on_stop);
	signal(SIGUSR1, on_asked);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned int i = 0; i < 2; i++)
		open_side(&sides[i], arg.nics[i]);
	make_all_queues(sides);
	printf("running\n");
	run(sides);
	report(sides);
	for (unsigned int i = 0; i < 2; i++)
		shmd_client_close(sides[i].client);
	return 0;
}
