/* SPDX-License-Identifier: Apache-2.0 */
/* A machine on which every check of daemon/topo/check.h is good, and the ways to spoil it: one for each check. */
#ifndef SHMD_TESTS_CHECK_TREE_H
#define SHMD_TESTS_CHECK_TREE_H

#include "daemon/topo/check.h"
#include "tests/lib/machine-tree.h"

/* Two NUMA nodes, each with a switch that has a GPU and a ConnectX-7 below it. */
#define CHECK_GPU0 "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"
#define CHECK_NIC0 "pci0000:10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:14:00.0"
#define CHECK_GPU1 "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:83:00.0"
#define CHECK_NIC1 "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.0"
#define CHECK_VF "pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:01.0/0000:84:00.2"
#define CHECK_PID 17u /* of the daemon */
#define CHECK_STARTED_NSEC UINT64_C(1018000000000) /* as it says */

struct check_tree {
	struct machine_tree machine;
	struct check_daemon daemon; /* runs, with a session that rings itself */
	struct check_session session;
	struct check_unmanaged unmanaged[2]; /* of which it has none */
	void (*change)(struct topo *topo); /* after reading: what no file says */
	struct check_settings settings;	   /* nothing is wrong with them */
	const char *included;		   /* nics-include; NULL: all */
};

typedef void check_tree_fn(struct check_tree *tree);

/* The states of a check; each function changes a good tree. */
struct check_case {
	const char *check;
	check_tree_fn *good; /* another good one, or check_tree_leave */
	check_tree_fn *failing;
	check_tree_fn *unread;
	enum check_state state; /* of the failing one, */
	const char *says; /* in whose reason this stands */
	const char *of_folder; /* the verdict on every tree as a folder alone, where no file says more; or NULL */
};

extern const struct check_case check_cases[]; /* ends with a NULL name */

/* The expected verdict of a check on one more machine. */
struct check_verdict {
	const char *check;
	check_tree_fn *change;
	enum check_state state; /* the worst that it reports, */
	const char *says; /* with this: "SUBJECT: REASON" has it */
	const char *fix;  /* what the fix has; or NULL */
};

/* Each ends with a NULL name. */
extern const struct check_verdict check_verdicts[];
extern const struct check_verdict check_verdicts_daemon[];
extern const struct check_verdict check_verdicts_node[];
extern const struct check_verdict check_verdicts_unread[];

void check_tree_init(struct check_tree *tree);
void check_tree_deinit(struct check_tree *tree);
void check_tree_leave(struct check_tree *tree);
/* Makes `path` unreadable, even for root: a link to itself. */
void check_tree_lock(struct check_tree *tree, const char *path);
/* Another mode; a file without write permission gets another owner than root. */
void check_tree_mode(struct check_tree *tree, const char *path, unsigned int mode);
/* Firmware's words on the good machine. */
void check_tree_tell(struct topo *topo);
#define CHECK_CONFIG_BYTES 4096u
/* The configuration space of a bridge; and one with such a control register of ACS. */
void check_tree_config_bytes(struct check_tree *tree, const char *address, const uint8_t config[CHECK_CONFIG_BYTES]);
void check_tree_config(struct check_tree *tree, const char *address, unsigned int acs_control);
/* mlx5_3, beside NIC1, and the PCI address of its PF. */
void check_tree_vf(struct check_tree *tree, const char *pf);
/* A thread of the daemon, and the processor it ran on. */
void check_tree_thread(struct check_tree *tree, unsigned int tid, const char *name, unsigned int cpu);
/* The process with the daemon's number, and when it started, in seconds since the kernel did. */
void check_tree_process(struct check_tree *tree, const char *name, unsigned int start_sec);
/* Limits of the daemon, and of the user who looks. */
void check_tree_limit(struct check_tree *tree, const char *locked, unsigned int capabilities);
/* Reads the machine and tells all findings of a check. */
void check_tree_run(struct check_tree *tree, const struct check *check, check_tell_fn *tell, void *arg);

#endif
