/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ioctl: fetch, decode, run, answer. The log has each refusal with the command's name and the reason.
 * Runs on the thread of the ufile.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>

#include "proto/base/cleanup.h"
#include "tests/mlx5sim/sim/fw.h"

static int spec_of(const struct call *call, uint16_t id)
{
	for (size_t i = 0; i < call->method->n_attrs; i++) {
		if (call->method->attrs[i].id == id)
			return (int)i;
	}
	return -1;
}

static const struct ib_uverbs_attr *attr_of(const struct call *call, uint16_t id)
{
	int at = spec_of(call, id);

	return at >= 0 && call->decoded.place[at] >= 0 ? &call->attrs[call->decoded.place[at]]
						       : NULL;
}

bool call_has(const struct call *call, uint16_t id)
{
	return attr_of(call, id) != NULL;
}

size_t call_room(const struct call *call, uint16_t id)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);

	return attr ? attr->len : 0;
}

const void *call_in(const struct call *call, uint16_t id, size_t *ret_bytes)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);

	*ret_bytes = attr ? attr->len : 0;
	if (!attr)
		return NULL;
	return attr->len <= sizeof(attr->data) ? (const void *)&attr->data
					       : call->in[spec_of(call, id)];
}

size_t call_out_room(const struct call *call, uint16_t id)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);

	return attr ? attr->len : 0;
}

uint64_t call_u64(const struct call *call, uint16_t id)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);
	uint64_t value = 0;

	if (!attr)
		return 0;
	if (!attr->len)
		return attr->data;
	memcpy(&value, &attr->data, attr->len < sizeof(value) ? attr->len : sizeof(value));
	return value;
}

int call_refuse(struct call *call, int error, const char *reason, ...)
{
	char text[160];
	va_list args;

	va_start(args, reason);
	vsnprintf(text, sizeof(text), reason, args);
	va_end(args);
	call->refused = true;
	sim_log(call->ufile->sim, "mlx5_%d refused %s: %s: %s", call->nic->index, call->what, text,
		strerror(-error));
	return error;
}

int call_in_struct(struct call *call, uint16_t id, void *ret, size_t bytes)
{
	size_t have;
	const void *data = call_in(call, id, &have);

	if (have > bytes && !decode_tail_is_zero(data, have, bytes))
		return call_refuse(call, -EOPNOTSUPP, "unknown input after %zu bytes", bytes);
	memset(ret, 0, bytes);
	if (data)
		memcpy(ret, data, have < bytes ? have : bytes);
	return 0;
}

int call_out(struct call *call, uint16_t id, const void *data, size_t bytes)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);
	uint8_t zeros[256] = {0};
	int r;

	if (!attr)
		return 0;
	r = upcall_poke(call->reply, attr->data, data, attr->len < bytes ? attr->len : bytes);
	for (size_t at = bytes; r == 0 && at < attr->len; at += sizeof(zeros)) {
		size_t part = attr->len - at < sizeof(zeros) ? attr->len - at : sizeof(zeros);

		r = upcall_poke(call->reply, attr->data + at, zeros, part);
	}
	return r;
}

int call_set_handle(struct call *call, uint16_t id, int64_t value)
{
	const struct ib_uverbs_attr *attr = attr_of(call, id);
	uint64_t at;

	if (!attr)
		return 0;
	at = call->attrs_addr + (uint64_t)(attr - call->attrs) * sizeof(*attr);
	return upcall_poke(call->reply, at + offsetof(struct ib_uverbs_attr, data), &value,
			   sizeof(value));
}

/* Inputs that are behind pointers. */
static int fetch_inputs(struct call *call)
{
	for (size_t i = 0; i < call->method->n_attrs; i++) {
		const struct attr_spec *spec = &call->method->attrs[i];
		const struct ib_uverbs_attr *attr;
		int r;

		if (spec->kind != ATTR_IN || call->decoded.place[i] < 0)
			continue;
		attr = &call->attrs[call->decoded.place[i]];
		if (attr->len <= sizeof(attr->data))
			continue;
		call->in[i] = malloc(attr->len);
		if (!call->in[i])
			return -ENOMEM;
		r = upcall_peek(call->reply, attr->data, call->in[i], attr->len);
		if (r < 0)
			return r;
		if (spec->max_bytes && attr->len > spec->max_bytes &&
		    !decode_tail_is_zero(call->in[i], attr->len, spec->max_bytes))
			return call_refuse(call, -EOPNOTSUPP,
					   "unknown input bits in attribute 0x%x", spec->id);
	}
	return 0;
}

static int fetch_attrs(struct call *call, const struct ib_uverbs_ioctl_hdr *hdr)
{
	const char *reason = "";
	int r;

	r = upcall_peek(call->reply, call->attrs_addr, call->attrs,
			hdr->num_attrs * sizeof(call->attrs[0]));
	if (r < 0)
		return r;
	r = decode_attrs(call->method, call->attrs, hdr->num_attrs, &call->decoded, &reason);
	if (r < 0)
		return call_refuse(call, r, "%s", reason);
	if (call->decoded.n_ignored)
		sim_log(call->ufile->sim, "mlx5_%d %s: %u optional attributes ignored",
			call->nic->index, call->what, call->decoded.n_ignored);
	return 0;
}

/* Does a kernel ask the firmware for this? DEVX waits for itself. */
static bool is_command(const struct call *call)
{
	uint64_t write;

	switch (call->method->object) {
	case UVERBS_OBJECT_DEVICE:
		if (call->method->method != UVERBS_METHOD_INVOKE_WRITE)
			return call->method->method == UVERBS_METHOD_GET_CONTEXT;
		write = call_u64(call, UVERBS_ATTR_WRITE_CMD);
		return call_has(call, UVERBS_ATTR_CORE_OUT) &&
		       write != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL &&
		       write != IB_USER_VERBS_CMD_CREATE_AH && write != IB_USER_VERBS_CMD_QUERY_DEVICE;
	case UVERBS_OBJECT_PD:
		return call->method->method == UVERBS_METHOD_PD_DESTROY;
	case UVERBS_OBJECT_MR:
		return call->method->method != UVERBS_METHOD_QUERY_MR;
	case UVERBS_OBJECT_CQ:
	case UVERBS_OBJECT_QP:
	case UVERBS_OBJECT_SRQ:
	case MLX5_IB_OBJECT_UAR:
	case MLX5_IB_OBJECT_DEVX_UMEM:
		return true;
	}
	return false;
}

static int serve(struct call *call, uint64_t addr)
{
	struct ib_uverbs_ioctl_hdr hdr;
	const char *reason = "";
	int r;

	r = upcall_peek(call->reply, addr, &hdr, sizeof(hdr));
	if (r < 0)
		return r;
	r = decode_header(&hdr, &reason);
	if (r < 0)
		return call_refuse(call, r, "%s", reason);
	call->method = decode_method(methods, n_methods, hdr.object_id, hdr.method_id);
	if (!call->method)
		return call_refuse(call, -EPROTONOSUPPORT, "unknown method 0x%x of object 0x%x",
				   hdr.method_id, hdr.object_id);
	call->what = call->method->name;
	call->attrs_addr = addr + sizeof(hdr);
	r = fetch_attrs(call, &hdr);
	if (r == 0)
		r = fetch_inputs(call);
	if (r < 0)
		return r;
	if (is_command(call))
		fw_wait(call->ufile);
	return call->method->run(call);
}

/* The name of a process, and its parent; 0: there is none. */
static pid_t look_at_process(pid_t pid, char name[64])
{
	char path[64];
	int parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*d (%63[^)]) %*c %d", name, &parent) != 2)
		parent = 0;
	fclose(file);
	return parent;
}

/* A mapper works for the daemon that started the process which forked it. */
static pid_t whom_it_works_for(pid_t caller)
{
	char name[64] = "";
	pid_t zygote = look_at_process(caller, name), daemon;

	if (zygote <= 0 || strncmp(name, "mapper ", 7) != 0)
		return caller;
	daemon = look_at_process(zygote, name);
	return daemon > 1 ? daemon : caller;
}

/* It was carried out, as a kernel ends the call of a process that is killed meanwhile. */
static void kill_caller(struct ufile *ufile, int reply)
{
	struct ucred cred;
	socklen_t bytes = sizeof(cred);

	ufile->kills = false;
	if (getsockopt(reply, SOL_SOCKET, SO_PEERCRED, &cred, &bytes) == 0 && cred.pid > 0) {
		sim_log(ufile->sim, "mlx5_%d: the caller is killed", ufile->nic->index);
		kill(ufile->kills_sender ? cred.pid : whom_it_works_for(cred.pid), SIGKILL);
	}
}

void call_serve_ioctl(struct ufile *ufile, const struct sim_request *request, int reply)
{
	struct call *call = calloc(1, sizeof(*call));
	int r = -ENOMEM;

	if (call) {
		call->ufile = ufile;
		call->nic = ufile->nic;
		call->reply = reply;
		call->what = "ioctl";
		if (request->args[0] == RDMA_VERBS_IOCTL)
			r = serve(call, request->args[1]);
		else
			r = call_refuse(call, -ENOTTY, "request 0x%llx",
					(unsigned long long)request->args[0]);
		/* Answers to questions: -ENOSPC (device_invoke_write) if it has no line yet, -ENODATA for a GID that is not there. */
		if (r < 0 && r != -ENOSPC && r != -ENODATA && !call->refused)
			call_refuse(call, r, "no reason given");
		for (size_t i = 0; i < DECODE_ATTRS_MAX; i++)
			free(call->in[i]);
		free(call);
	}
	if (ufile->kills)
		kill_caller(ufile, reply);
	upcall_done(reply, r, -1);
}
