# SPDX-License-Identifier: Apache-2.0
# bash completion of shmemctl. It asks shmemctl itself, which has the tables; see libclient/ctl/complete.c.
_shmemctl()
{
	local IFS=$'\n' line
	COMPREPLY=()
	while read -r line; do
		if [[ $line == :files ]]; then
			compopt -o filenames 2>/dev/null
			COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
		else
			COMPREPLY+=("${line%%$'\t'*}")
		fi
	done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _shmemctl shmemctl
