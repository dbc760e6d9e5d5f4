# fish completion of larder. Copies of this script are installed for larder-lab and larder-remote, because fish searches
# for a script by the name of the program.
#
# The program prints what can be inserted. Names from an image are hostile input: fish quotes what it inserts. Nothing
# is expanded or evaluated.

# Prints each candidate with a NUL after it: a text and, after a tab, its description.
function __larder_complete --argument-names program
    set -l token (commandline -ct)
    # The token can end in a quotation.
    set -l word (string unescape -- "$token"; or string unescape -- "$token'"; or string unescape -- "$token\"")
    set -l reply ($program complete words (commandline -opc) "$word" 2>/dev/null | string split0)
    set -l kept "$reply[2]"
    set -l rest (string sub -s (math (string length -- "$kept") + 1) -- "$word")
    switch "$reply[1]"
        case files
            printf '%s\0' $kept(__fish_complete_path "$rest")
        case directories
            printf '%s\0' $kept(__fish_complete_directories "$rest")
        case values paths
            for at in (seq 3 2 (count $reply))
                # A tab would end the text.
                string match -q '*'\t'*' -- "$reply[$at]"
                or printf '%s\t%s\0' "$kept$reply[$at]" $reply[(math $at + 1)]
            end
    end
end

set -l program (string replace '.fish' '' (status basename))
complete -c $program -f -a "(__larder_complete $program | string split0)"
