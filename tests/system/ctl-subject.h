/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session with everything that shmemctl can show: queues with executed, pending and unrung work, receives, CQEs, and a QP in
 * error. Tests in C use it directly, others run the program ctl-subject.
 */
#ifndef SHMEMD_TESTS_CTL_SUBJECT_H
#define SHMEMD_TESTS_CTL_SUBJECT_H

#include "tests/system/client-lab.h"

#define SUBJECT_SECRET "\x5e\xc2\xe7\x00\x5e\xc2\xe7\x01" /* inline in a WQE of `busy` */

struct subject {
	struct lab_side busy; /* QP 0 sends to QP 1, ordinary CQs */
	struct lab_side failed; /* QP 0 in state ERR, collapsed CQ */
};

void subject_open(struct subject *subject, const char *socket);
void subject_close(struct subject *subject);
uint32_t subject_qpn(const struct lab_side *side, unsigned int i);

#endif
