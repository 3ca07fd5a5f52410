/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's side of PMI-1 (simple wire protocol) for the PEs of one job on one node: bytes in, bytes out, no descriptors.
 *
 * Written from public descriptions of the protocol and from what clients do. It serves init, get_maxes, get_appnum,
 * get_universe_size, get_my_kvsname, put, get, barrier_in, finalize and abort, and refuses spawn and published names. A client
 * that sends anything else, a line that is too long, or a request out of order is broken: it gets no service any more.
 *
 * Lines, values and the number of keys have limits. Replies are as many as requests, so a caller that stops reading from a
 * client whose replies wait holds a bounded amount. One thread.
 */
#ifndef SHMD_RUN_PMI_SERVER_H
#define SHMD_RUN_PMI_SERVER_H

#include <stddef.h>

#define PMI_MAX_NAME 256 /* what get_maxes reports; with the end of the string */
#define PMI_MAX_KEY 64
#define PMI_MAX_VALUE 1024
#define PMI_LINE_BYTES 4096u
#define PMI_SPAWN_MAX_BYTES 65536u

enum pmi_state {
	PMI_NEW, /* has sent nothing that counts */
	PMI_READY, /* init, and no finalize so far */
	PMI_FINALIZED,
	PMI_BROKEN,
};

/* None may call the server. Texts are valid during the call. */
struct pmi_server_ops {
	void (*send)(void *owner, unsigned int rank, const char *text, size_t bytes);
	/* The client sent something that it must not send. `why` is printable; "sent ...". Once for each client. */
	void (*broken)(void *owner, unsigned int rank, const char *why);
	void (*abort)(void *owner, unsigned int rank, int status);
	/* `waiting` waits in a barrier that `gone` will not reach, because it has ended or finalized; it is broken now. */
	void (*stuck)(void *owner, unsigned int waiting, unsigned int gone);
};

struct pmi_server;

/* -ENOMEM. `job` names the job: letters and digits, at most 64. */
int pmi_server_new(unsigned int n_pes, const char *job, const struct pmi_server_ops *ops, void *owner, struct pmi_server **ret_server);
struct pmi_server *pmi_server_free(struct pmi_server *server);
void pmi_server_input(struct pmi_server *server, unsigned int rank, const void *data, size_t bytes);
/* The client sends nothing more. */
void pmi_server_end(struct pmi_server *server, unsigned int rank);
enum pmi_state pmi_server_state(const struct pmi_server *server, unsigned int rank);

#endif
