/* SPDX-License-Identifier: Apache-2.0 */
/* A session with something of each kind, in a daemon that saves it. */
#ifndef SHMD_TESTS_SAVE_SCENE_H
#define SHMD_TESTS_SAVE_SCENE_H

#include "tests/unit/session/save-lab.h"

#define GPU "0000:3b:00.0" /* of its second NIC */

struct save_scene {
	struct save_lab k;
	struct pair a;
	uint64_t id;
	uint32_t mr, queues, qpn;
};

void save_scene_init(struct save_scene *s, uint64_t limit);
void save_scene_deinit(struct save_scene *s);
/* The daemon dies and the next one is there; it has not imported the session yet. */
void save_scene_restart(struct save_scene *s);
void save_scene_adopt(struct save_scene *s);
/* A list as an administrator gets it. */
void save_scene_list(struct pair *admin, enum msg_list_what what, struct msg *rep);

#endif
