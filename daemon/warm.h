/* SPDX-License-Identifier: Apache-2.0 */
/* Has NICs make contexts in advance, by one worker at a time. */
#ifndef SHMEMD_WARM_H
#define SHMEMD_WARM_H

#include "daemon/loop.h"
#include "daemon/nic/nic.h"
#include "daemon/session/registry.h"

struct warm;

/* Until warm_set() nothing is made. Negative errno. */
int warm_new(struct loop *loop, struct registry *registry, struct warm **ret_warm);
/* Of every NIC that does such a thing, from now on. NULL: there are none. */
void warm_set(struct warm *warm, const struct nic_warm_attr *attr);
/* Something may have changed: what is to be done begins. NULL likewise. */
void warm_look(struct warm *warm);
/* The registry has more NICs, from this index on: of those too. NULL likewise. */
void warm_take_nics(struct warm *warm, unsigned int from);
/* Nothing is made any more; what is ready is destroyed while works are finished. NULL likewise. */
void warm_stop(struct warm *warm);
/* No work is under way. NULL allowed. */
struct warm *warm_free(struct warm *warm);

#endif
