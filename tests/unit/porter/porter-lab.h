/* SPDX-License-Identifier: Apache-2.0 */
/* Porters in processes of their own and the client of one, without a daemon. */
#ifndef SHMD_TESTS_PORTER_LAB_H
#define SHMD_TESTS_PORTER_LAB_H

#include <stdbool.h>
#include <sys/types.h>

#include "daemon/porter/foreign-account.h"
#include "daemon/porter/porter.h"
#include "proto/base/nsec.h"

#define UID 4242u
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)
#define LINGER_SEC 10

struct scene {
	struct porters *porters;
	struct foreign_account *account;
	int channel; /* borrowed: to the only porter; -1: none runs */
	struct porter *porter;
	unsigned int n_failed;
};

struct client {
	struct porter_slot *slot;
	int sock, peer; /* the slot's, the client's */
	bool heard;
	int r;
	unsigned int n_fds;
	int fd; /* that came; owned */
	const char *refused;
	char text[16];
};

void scene_init(struct scene *s);
void scene_init_with(struct scene *s, int zygote); /* taken: the channel to a process that starts porters */
void scene_init_linger(struct scene *s, int zygote, uint64_t linger_nsec); /* the same, for porters that outlive their daemon */
void hear(struct scene *s);
void wait_until_closed(struct scene *s);
void scene_deinit(struct scene *s);
void on_packet(void *arg, int r, const void *buf, size_t bytes, struct fdlist *fds);
void client_init(struct client *client, struct scene *s);
void client_deinit(struct client *client);
void receive(struct client *client, struct scene *s);
/* A pipe whose writing end is given away: what is left of it holds it open. */
int send_pipe(struct client *client);
bool is_open_elsewhere(int pipe);
void expect_closed_elsewhere(int pipe, struct scene *s);
/* Finds the porter of this test, since others run beside it. */
pid_t find_porter(void);
void on_alarm(void *arg, uint64_t nsec);

#endif
