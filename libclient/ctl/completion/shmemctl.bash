# SPDX-License-Identifier: Apache-2.0
# bash completion of shmemctl. It asks shmemctl itself, which has the tables.
_shmemctl()
{
	local IFS=$'\n' line word cut= i
	local -a words=()
	COMPREPLY=()
	# bash takes "mlx5_0:1" for three words, and completes what is behind the last colon.
	for ((i = 1; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if ((${#words[@]})) && [[ $word == :* || ${words[${#words[@]} - 1]} == *: ]]; then
			words[${#words[@]} - 1]+=$word
		else
			words+=("$word")
		fi
	done
	word=${words[${#words[@]} - 1]}
	[[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && cut=${word%:*}:
	while read -r line; do
		if [[ $line == :files ]]; then
			compopt -o filenames 2>/dev/null
			COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]#=}"))
		else
			line=${line%%$'\t'*}
			COMPREPLY+=("${line#"$cut"}")
		fi
	done < <("${COMP_WORDS[0]}" --complete "${words[@]}" 2>/dev/null)
}
complete -F _shmemctl shmemctl
