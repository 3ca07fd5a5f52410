/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings. A row is all that a new setting needs, besides its field and its use. */
#include <shmd/abi/world.h>
#include <shmemclient-hot.h>

#include "libclient/runtime/settings/alias.h"
#include "libclient/runtime/settings/settings.h"

#include "proto/base/nsec.h"

#define FIELD(field) .place = offsetof(struct runtime_settings, field)
#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)
#define DAY (24 * UINT64_C(3600) * NSEC_PER_SEC)

const char *const runtime_subsystem_names[] = {"world", "bootstrap", "heap", "path", "team", "rma", "settings", NULL};
const char *const runtime_level_names[] = {"none", "error", "warn", "info", "debug", "trace", NULL};

static const char *const bootstrap_words[] = {"auto", "uid", "env", "pmi1", "pmi2", "pmix", "mpi", "openshmem", "torchrun", "none",
					       "plugin:", NULL};
static const char *const family_words[] = {"any", "ipv4", "ipv6", NULL};
static const char *const huge_words[] = {"auto", "off", "on", NULL};
static const char *const debug_words[] = {"leaks", "double-free", "guard", "sizes", NULL};
static const char *const path_words[] = {"self", "mapped", "queue", NULL};
static const char *const thread_words[] = {"single", "funneled", "serialized", "multiple", NULL};

const struct runtime_launcher_variable runtime_launcher_variables[] = {
	{"SHMD_RANK", "The rank of this process, from 0."},
	{"SHMD_SIZE", "The number of processes of the job."},
	{"SHMD_UID", "The unique id by which the processes of the job find each other."},
	{"SHMD_UID_FILE", "The path of a file that has it, instead of SHMD_UID."},
	{"SHMD_SECRET", "A secret of the job beside those that torchrun's variables give, for links among its processes."},
	{"SHMD_NODE_RANK", "The rank of this process among those of the job on this node."},
	{"SHMD_NODE_SIZE", "The number of processes of the job on this node."},
	{"SHMD_JOB", "The name of the job, for the log."},
	{NULL, NULL},
};

const struct runtime_row runtime_rows[] = {
	{"SHMD_BOOTSTRAP", RUNTIME_TYPE_ENUM, FIELD(bootstrap), .tail_place = offsetof(struct runtime_settings, bootstrap_plugin),
	 .def = "auto", .words = bootstrap_words,
	 .text = "How the processes of a job find each other. auto takes what the launcher offers. plugin:PATH or plugin:PATH:ARGS loads a "
		 "shared object with the interface of shmd-bootstrap.h.",
	 .aliases = {{"NVSHMEM_BOOTSTRAP", alias_bootstrap, "UID is uid, MPI is mpi, SHMEM is openshmem; PMI leaves it to the next one"},
		     {"NVSHMEM_BOOTSTRAP_PMI", alias_bootstrap_pmi, "PMI is pmi1, PMI-2 is pmi2, PMIX is pmix"}}},
	{"SHMD_BOOTSTRAP_TIMEOUT", RUNTIME_TYPE_TIME, FIELD(bootstrap_timeout_nsec), .def = "1min", .min = NSEC_PER_MSEC, .max = DAY,
	 .text = "Time limit for finding each other, and for each later exchange among all processes. After it, the error names the ranks "
		 "that are missing. shmd_world_close() waits no longer than SHMD_TIMEOUT, either."},
	{"SHMD_BOOTSTRAP_LOST", RUNTIME_TYPE_TIME, FIELD(bootstrap_lost_nsec), .def = "25s", .min = NSEC_PER_SEC, .max = DAY,
	 .text = "A node that answers nothing for so long is lost, and its processes have ended for the others. The kernel counts in seconds. "
		 "Processes whose connection leads to the lost node notice within this time and 10 s in all; those of its processes that were connected "
		 "with lost ones alone are looked for after that, for as long again."},
	{"SHMD_BOOTSTRAP_INTERFACE", RUNTIME_TYPE_TEXT, FIELD(bootstrap_interface), .def = "", .max = RUNTIME_TEXT_BYTES - 1,
	 .text = "Network interfaces that the bootstrap may use: beginnings of names, separated by commas. A leading = asks for whole names, "
		 "a leading ^ excludes. Empty allows all.",
	 .aliases = {{"NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", NULL, NULL}}},
	{"SHMD_BOOTSTRAP_FAMILY", RUNTIME_TYPE_ENUM, FIELD(bootstrap_family), .def = "any", .words = family_words,
	 .text = "Family of the addresses that the bootstrap uses.",
	 .aliases = {{"NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", alias_family, "AF_INET is ipv4, AF_INET6 is ipv6"}}},
	{"SHMD_TIMEOUT", RUNTIME_TYPE_TIME, FIELD(timeout_nsec), .def = "30s", .min = 0, .max = DAY,
	 .text = "Time limit of each operation that waits. After it, the operation returns a status. 0 is no limit."},
	{"SHMD_HEAP_SIZE", RUNTIME_TYPE_SIZE, FIELD(heap_bytes), .def = "64M", .min = 0, .max = 16 * TIB,
	 .text = "Size of the symmetric heap of each PE at its start. The heap grows when it is full.",
	 .aliases = {{"NVSHMEM_SYMMETRIC_SIZE", NULL, NULL}, {"SHMEM_SYMMETRIC_SIZE", alias_symmetric_size, "letters behind K, M, G or T say nothing"}}},
	{"SHMD_HEAP_CHUNK", RUNTIME_TYPE_SIZE, FIELD(heap_chunk_bytes), .def = "16M", .min = 64 * KIB, .max = TIB,
	 .text = "The least by which the heap grows.",
	 .aliases = {{"NVSHMEM_CUMEM_GRANULARITY", NULL, NULL}}},
	{"SHMD_HEAP_RESERVE", RUNTIME_TYPE_SIZE, FIELD(heap_reserve_bytes), .def = "64G", .min = MIB, .max = 16 * TIB,
	 .text = "Address range that a process reserves for the heap of each PE; the heap cannot become larger. It takes no memory.",
	 .aliases = {{"NVSHMEM_MAX_MEMORY_PER_GPU", NULL, NULL}}},
	{"SHMD_GPU", RUNTIME_TYPE_TEXT, FIELD(gpu), .def = "", .max = 15,
	 .text = "The GPU whose memory a PE's GPU heap has: none, auto, current or a number as CUDA counts. current is the context of the thread that starts "
		 "the world. auto is that one if there is one, else the GPU whose number is that of the PE on its node, modulo the GPUs. Empty is auto "
		 "if SHMD_GPU_HEAP_SIZE is not 0, else none. All PEs of a world have a GPU heap or none."},
	{"SHMD_GPU_HEAP_SIZE", RUNTIME_TYPE_SIZE, FIELD(gpu_heap_bytes), .def = "0", .min = 0, .max = 16 * TIB,
	 .text = "Size of the GPU heap of each PE at its start. 0 is one chunk where SHMD_GPU names a GPU, else no GPU heap. It grows when it is full."},
	{"SHMD_GPU_HEAP_CHUNK", RUNTIME_TYPE_SIZE, FIELD(gpu_heap_chunk_bytes), .def = "64M", .min = 64 * KIB, .max = TIB,
	 .text = "The least by which the GPU heap grows."},
	{"SHMD_GPU_HEAP_RESERVE", RUNTIME_TYPE_SIZE, FIELD(gpu_heap_reserve_bytes), .def = "256G", .min = 16 * MIB, .max = 16 * TIB,
	 .text = "Address range that a process reserves for the GPU heap of each PE; it cannot become larger. It takes no memory."},
	{"SHMD_NVSHMEM_NEWER", RUNTIME_TYPE_BOOL, FIELD(nvshmem_newer), .def = "off",
	 .text = "Programs for NVSHMEM whose device library has a newer minor version than the library knows may try to run. off refuses them, since such "
		 "a device library may look for its memory elsewhere."},
	{"SHMD_HUGE_PAGES", RUNTIME_TYPE_ENUM, FIELD(huge_pages), .def = "auto", .words = huge_words,
	 .text = "Huge pages under the heap. auto asks the kernel for transparent ones; a kernel whose shmem_enabled (transparent_hugepage) is never or deny "
		 "gives ordinary pages, and all works. on takes pages of 2 MiB that the administrator has reserved (vm.nr_hugepages, "
		 "vm.nr_overcommit_hugepages); the start of a world and a growth of its heap fail, with the reason, where too few are free, and where a "
		 "NIC does not register such memory, as soft NICs do not. With on, a world of soft NICs therefore takes mapped memory alone."},
	{"SHMD_HEAP_DEBUG", RUNTIME_TYPE_FLAGS, FIELD(heap_debug), .def = "none", .words = debug_words,
	 .text = "Checks of the heap. leaks logs memory that was not freed when its world closes. guard finds writes past the ends of an "
		 "allocation when it is freed, and when its world closes. double-free and sizes name checks that are always made.",
	 .aliases = {{"NVSHMEM_ENABLE_ERROR_CHECKS", alias_error_checks, "true is sizes"}}},
	{"SHMD_PATHS", RUNTIME_TYPE_FLAGS, FIELD(paths), .def = "self,mapped,queue", .min = 1, .words = path_words,
	 .text = "Paths to PEs that a world may take. self is the PE itself, mapped is memory of this node, queue is a NIC.",
	 .aliases = {{"NVSHMEM_DISABLE_P2P", alias_disable_p2p, "true is self,queue"},
		     {"NVSHMEM_REMOTE_TRANSPORT", alias_remote_transport, "none is self,mapped; other values have no effect"}}},
	{"SHMD_NICS_PER_PE", RUNTIME_TYPE_COUNT, FIELD(nics_per_pe), .def = "1", .min = 0, .max = SHMD_DEV_RAILS,
	 .text = "NICs that each PE opens if a world has queues, as far as the daemon has them. The default context uses the first one, and "
		 "contexts that a program makes are spread over all. 0: the NICs of the node with an active port, divided by its PEs."},
	{"SHMD_RC_PEERS", RUNTIME_TYPE_COUNT, FIELD(rc_peers), .def = "16", .min = 0, .max = 65536,
	 .text = "Up to this number of peers on the path queue, each has an RC QP. With more, all go by DC. 0 is always DC."},
	{"SHMD_HOT_PEERS", RUNTIME_TYPE_COUNT, FIELD(hot_peers), .def = "8", .min = 0, .max = SHMD_HOT_MAX_PEERS,
	 .text = "Where peers go by DC, up to this number of hot ones can have an RC QP each: those that shmd_world_hot_peers(3) names, or "
		 "the busiest."},
	{"SHMD_HOT_START", RUNTIME_TYPE_COUNT, FIELD(hot_start), .def = "0", .min = 0, .max = SHMD_HOT_MAX_PEERS,
	 .text = "Where peers go by DC, so many are hot from the start: the nearest by number."},
	{"SHMD_DCIS", RUNTIME_TYPE_COUNT, FIELD(dcis), .def = "4", .min = 1, .max = 256,
	 .text = "DC senders of each world."},
	{"SHMD_CTX_DCIS", RUNTIME_TYPE_COUNT, FIELD(ctx_dcis), .def = "1", .min = 0, .max = 64,
	 .text = "DC senders of each context that a program makes. 0: contexts share the queues of their world. Kernels have as many of their own for "
		 "each context, at least one."},
	{"SHMD_QUEUE_DEPTH", RUNTIME_TYPE_POWER, FIELD(queue_depth), .def = "256", .min = 16, .max = 32768,
	 .text = "Entries (WQEBBs of 64 bytes) of each send queue, a power of two.",
	 .aliases = {{"NVSHMEM_QP_DEPTH", alias_depth, "rounded up to a power of two"}}},
	{"SHMD_MAX_TEAMS", RUNTIME_TYPE_COUNT, FIELD(max_teams), .def = "1024", .min = 5, .max = 1024,
	 .text = "The most teams of a world that live at once, with those that a world always has.",
	 .aliases = {{"NVSHMEM_MAX_TEAMS", NULL, NULL}}},
	{"SHMD_THREAD_LEVEL", RUNTIME_TYPE_ENUM, FIELD(thread_level), .def = "multiple", .words = thread_words,
	 .text = "Thread level of a program that asks for none."},
	{"SHMD_ABORT_ON_ERROR", RUNTIME_TYPE_BOOL, FIELD(abort_on_error), .def = "off",
	 .text = "The whole job ends when a PE has ended, and when a function of shmd.h fails on a PE because a time limit of the world has passed, "
		 "because a request failed at the NIC, or because the NIC is down or shmemd has ended and the call needs them. The sentence on stderr "
		 "names the PE, its node and the cause. The time limit of a context that the program gave it does not end the job, and "
		 "device functions (shmd_dev_*) return their status."},
	{"SHMD_LOG", RUNTIME_TYPE_LEVELS, FIELD(log_levels), .def = "warn",
	 .text = "The log: none, error, warn, info, debug or trace. subsystem=level sets one part, as in warn,heap=debug.",
	 .aliases = {{"SHMD_DEBUG", alias_shmem_debug, "any value but no, false and 0 is debug"},
		     {"NVSHMEM_DEBUG", alias_nvshmem_debug, "VERSION is error, WARN warn, INFO and ABORT info, TRACE trace"},
		     {"SHMEM_DEBUG", alias_shmem_debug, "any value but no, false and 0 is debug"}}},
	{"SHMD_LOG_FILE", RUNTIME_TYPE_TEXT, FIELD(log_file), .def = "", .max = RUNTIME_TEXT_BYTES - 1,
	 .text = "File to which the log is appended, instead of stderr. %h is the name of the host, %p the process id, %r the rank, %j the job, "
		 "%% a percent sign.",
	 .aliases = {{"NVSHMEM_DEBUG_FILE", NULL, NULL}}},
	{"SHMD_NVTX", RUNTIME_TYPE_BOOL, FIELD(nvtx), .def = "off",
	 .text = "Ranges for NVIDIA's profilers around collective calls of the runtime, where the NVTX library is found.",
	 .aliases = {{"NVSHMEM_NVTX", alias_nvtx, "any group of ranges is on"}}},
	{"SHMD_NVTX_LIBRARY", RUNTIME_TYPE_TEXT, FIELD(nvtx_library), .def = "", .max = RUNTIME_TEXT_BYTES - 1,
	 .text = "Path of the NVTX library. Empty is libnvToolsExt.so.1 or libnvtx3interop.so.1. A profiler that runs the program goes before "
		 "it."},
	{"SHMD_INFO", RUNTIME_TYPE_BOOL, FIELD(info), .def = "off",
	 .text = "PE 0 prints all settings to stderr when the first world opens.",
	 .aliases = {{"NVSHMEM_INFO", alias_bool, NULL}, {"SHMEM_INFO", alias_bool, NULL}}},
	{"SHMD_VERSION", RUNTIME_TYPE_BOOL, FIELD(version), .def = "off",
	 .text = "PE 0 prints the version of the library to stderr when the first world opens.",
	 .aliases = {{"NVSHMEM_VERSION", alias_bool, NULL}, {"SHMEM_VERSION", alias_bool, NULL}}},
	{"SHMEMD_SOCKET", RUNTIME_TYPE_TEXT, FIELD(socket), .def = "", .max = RUNTIME_TEXT_BYTES - 1,
	 .text = "Path of the daemon's socket. Empty is /run/shmemd/shmemd.sock."},
};

const unsigned int runtime_n_rows = sizeof(runtime_rows) / sizeof(runtime_rows[0]);

_Static_assert(sizeof(runtime_rows) / sizeof(runtime_rows[0]) <= RUNTIME_MAX_SETTINGS, "runtime_settings.sources is too short");
_Static_assert(sizeof(runtime_subsystem_names) / sizeof(runtime_subsystem_names[0]) == RUNTIME_N_SUBSYSTEMS + 1, "a name for each");
