/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening a bootstrap (<shmd-bootstrap.h>) by the module that fits.
 *
 * A module knows rank and size, and carries rank 0's unique id to all ranks. Everything else (collective calls, watch, abort) is one
 * tree of TCP links, the same for all modules but a plug-in. Any thread.
 */
#ifndef SHMD_RUNTIME_BOOTSTRAP_H
#define SHMD_RUNTIME_BOOTSTRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <shmd-bootstrap.h>

#define BOOTSTRAP_DEFAULT_TIMEOUT_SEC 60u

/* All zero: the module that the environment asks for, 60 s. */
struct bootstrap_attr {
	/* NULL or "auto", or the name of a module: "uid", "env", "torchrun", "pmi1", "pmi2", "pmix", "mpi", "openshmem", "none", "plugin:PATH". */
	const char *module;
	const struct shmd_uid *uid; /* for "uid", with rank and size */
	int rank;
	int size;
	const void *mpi_comm; /* for "mpi": the address of an MPI_Comm; NULL: MPI_COMM_WORLD */
	/* Interfaces whose addresses go into a unique id: "eth,ib" (prefixes), "=eth0" (a name), "^docker" (all others); NULL: all. */
	const char *interface;
	int family;	       /* AF_INET or AF_INET6; 0: both */
	uint64_t timeout_nsec; /* for opening and for each collective call; 0: 60 s */
	uint64_t lost_nsec; /* after which a node that does not answer is lost, in whole seconds; 0: 25 s */
	/* Which world of this process: worlds whose ranks meet by the same id or launcher have different numbers. */
	uint32_t number;
	char *(*env)(const char *name); /* NULL: getenv() */
	bool unbound; /* bootstrap_uid_make: no listener here; rank 0 listens at the address in the id, at one of a few ports */
};

/*
 * Collective over all ranks; blocks at most for the time limit and a second. ret->ops->close() ends it. -EINVAL: what the environment or
 * attr says makes no sense. -ETIMEDOUT: not all ranks came, the text names them. -EEXIST: another process came as this rank.
 * -EPROTO: the ranks run different versions. -ENOENT: the library or launcher of that module is not there.
 */
int bootstrap_open(const struct bootstrap_attr *attr, struct shmd_bootstrap *ret);

/*
 * Later calls, and the close, wait for so long at most, if that is less than the limit so far. 0 changes nothing, and a plug-in keeps the limit
 * that it was opened with.
 */
void bootstrap_limit(struct shmd_bootstrap *bootstrap, uint64_t timeout_nsec);

/*
 * Make an id. This process listens from now on and must open the bootstrap as rank 0; with `unbound`, any process on this machine may.
 * At most 64 ids wait in a process (-EMFILE); bootstrap_uid_drop() gives one up.
 */
int bootstrap_uid_make(const struct bootstrap_attr *attr, struct shmd_uid *ret);
void bootstrap_uid_drop(const struct shmd_uid *uid);

/* An id as one word of text, for an environment variable or a key of a launcher, and back: -EINVAL. */
#define BOOTSTRAP_UID_TEXT_BYTES 264
void bootstrap_uid_text(const struct shmd_uid *uid, char text[BOOTSTRAP_UID_TEXT_BYTES]);
int bootstrap_uid_from_text(const char *text, struct shmd_uid *ret);

#endif
