/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operational events, each with an id that never changes: MESSAGE_ID of its lines in the journal.
 *
 * systemd/shmemd.catalog explains every one of them to an administrator (journalctl -x); check-catalog compares the
 * two. An id is never used again for something else. New ones: `journalctl --new-id128`.
 */
#ifndef SHMEMD_SESSION_CATALOG_H
#define SHMEMD_SESSION_CATALOG_H

/* clang-format off */
#define CATALOG_LIST(X) \
	X(READY,            "84aa6a9c0a2e4d5fa0d5a54978407062") \
	X(STOPPING,         "bf5cf15dcc914ee1bab71fdbf311f002") \
	X(START_FAILED,     "a83e10f9a94445f39ac34783707b074c") \
	X(RELOAD_DONE,      "581632ee2c2f4736bde4469d30e8255e") \
	X(RELOAD_REFUSED,   "528e56da5ae74172b0d63665670dcd0d") \
	X(SETTINGS_HELD,    "ec5c40c0a0574c58b86e58a6adcdc8f9") \
	X(NAMES_ABSENT,     "5d0b506dcfe8464c9b8f92c5ecd5e7e5") \
	X(LOOP_LATE,        "8510a633255445788d1cd6a9d75a0a38") \
	X(ACCEPT_PAUSED,    "2a206f6295324cdbb733580a32b7700d") \
	X(LINES_DROPPED,    "9baacf1da5d14aaf82bfb8a2d0189673") \
	X(SESSION_REFUSED,  "bb968cbf23a6452da96a349b9c47319b") \
	X(SESSION_KILLED,   "ca0b0a60fa99477397aa30e001404b45") \
	X(SESSION_FAILED,   "bb096037015d4da48c937e26cbcd97b2") \
	X(VERSION_MISMATCH, "daa3c6853b6249c397add618bb1925c2") \
	X(CLIENT_VIOLATION, "c8f1d8f8050147d8998b866b272f0966") \
	X(CLIENT_DEAF,      "bc23205f597e4088a8a60f02e2b71863") \
	X(SESSION_UNKEPT,   "275392cf1f0346d0a4289976095ef386") \
	X(ADOPTED,          "aa85129dd85e4fbab473d964ab93bb76") \
	X(STATE_STRANGE,    "fb0e26f6368047898482a7d01198c181") \
	X(NIC_LOST,         "d21dfdc4650d4bd4a2211d853263a306") \
	X(NIC_BACK,         "c2dd2a31a2924972a4c2265e3a45680c") \
	X(NIC_CAME,         "44e471dcae194f9fac770f08e1a587a8") \
	X(PORT_DOWN,        "f417accfc4de40d38320f69f02b553c7") \
	X(PORT_UP,          "71967a9cdb3641b18cc0940f75d02619") \
	X(DRAIN_BEGUN,      "cc26ecbff9c9492aa39a78ba586b4279") \
	X(DRAIN_ENDED,      "7e7c8d2ed83b48e591ae06559201e334") \
/* clang-format on */

enum catalog_event {
	CATALOG_NONE,
#define X(name, id) CATALOG_##name,
	CATALOG_LIST(X)
#undef X
};

#endif
