/* SPDX-License-Identifier: Apache-2.0 */
/* The states of NICs and of what is between them and GPUs; check-cases.c has the others, and says which is which. */
#ifndef SHMD_TESTS_CHECK_STATES_H
#define SHMD_TESTS_CHECK_STATES_H

#include "tests/unit/topo/check-tree.h"

check_tree_fn nics_gone, nics_locked, nic_far, numa_locked;
check_tree_fn iommu_off, iommu_translates, iommu_locked;
check_tree_fn acs_direct, acs_redirects, acs_locked;
check_tree_fn link_of_vf, link_slow, link_locked;
check_tree_fn port_of_bridge_down, port_down, port_locked;
check_tree_fn rate_slow, rate_locked;
check_tree_fn mtu_mixed, mtu_locked;
check_tree_fn gid_on_infiniband, gid_old, gid_locked;
check_tree_fn devx_lacks, devx_untold, atomics_lack, atomics_untold;
check_tree_fn firmware_other_model, firmware_old, firmware_locked;
check_tree_fn guid_twice, guid_locked;
check_tree_fn nic_of_bridge_unmanaged, nic_new;
check_tree_fn thread_elsewhere, thread_far, threads_locked;
check_tree_fn no_daemon, session_on_cpu, daemon_locked;

#endif
