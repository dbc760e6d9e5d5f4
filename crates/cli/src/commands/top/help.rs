//! The help of `larder top`.

/// The text that the key `?` shows. It must fit into the smallest screen.
pub(super) const HELP: &str = "\
q, Esc, Ctrl-C  quit
arrow keys      choose the cache whose histogram is shown (marked with >)
?               close this help

lookups/s       lookups per second since the last refresh
hits            lookups that found their object: since the last refresh (now),
                and since the mount (overall)
links           chain entries or tree nodes visited: at least 1.00 for each hit
longest         length of the longest chain, or depth of the deepest tree; it is
                updated less often for caches that are not chosen
memory          memory for contents, slots, buckets and references to inodes

Each row of the histogram shows how many buckets have a chain of that length,
and how many would have one if the objects were distributed at random (Poisson).
# shows the actual count, | the random count. : fills the space up to | if the
random count is larger. For trees, rows show the number of pages at each depth.

wasted          pages read ahead that were evicted before they were used
dirty           content that is not yet written to the device
attr. shares    uses of attributes that another file on the image already has
";
