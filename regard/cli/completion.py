"""The completion script for bash. Typer's own cannot complete `KEY=VALUE`: bash splits words at `=` as well."""

from __future__ import annotations

BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' line word before count
    line=${COMP_LINE:0:COMP_POINT}
    word=${line##*[[:space:]]}
    before=${word%%"${word##*[=:]}"}  # of this word, bash replaces only what follows the last = or :
    count=$(IFS=$' \\t\\n'; set -f; set -- $line; echo $#)
    [[ $line == *[[:space:]] ]] || count=$((count - 1))
    COMPREPLY=( $( env COMP_WORDS="$line" COMP_CWORD="$count" %(autocomplete_var)s=complete_bash $1 ) )
    COMPREPLY=( "${COMPREPLY[@]#"$before"}" )
    [[ ${COMPREPLY[0]} == *[=.] ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""


def use_own_bash_script() -> None:
    """Makes `--show-completion` and `--install-completion` use this script."""
    from typer import _completion_shared

    _completion_shared._completion_scripts["bash"] = BASH
