# bash completion of larder, larder-lab and larder-remote.
#
# The program prints what can be inserted, already quoted. Nothing is expanded or evaluated here.

_larder() {
    local -a reply=()
    # The command can be an alias for larder.
    local program=${1##*/}
    [[ $program == larder-* ]] || program=larder
    mapfile -d '' reply < <("$program" complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    COMPREPLY=("${reply[@]:1}")
    case ${reply[0]-} in
        files) compopt -o default ;;
        directories) compopt -o dirnames ;;
    esac
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[/=,]?(\') ]]; then
        compopt -o nospace
    fi
}

complete -F _larder larder larder-lab larder-remote
