//! The text that `?` shows.

/// It fits into the smallest screen.
pub(super) const HELP: &str = "\
q, Esc, Ctrl-C  leave
arrow keys      choose the cache whose histogram is shown, marked with >
?               back to the figures

lookups/s       lookups in a second, since the last refresh, as what is now
hits            how many found their object: now, and in all since the mount
links           entries of a chain, or pages of a tree, that lookups walked: by
                those that hit and by those that missed; 1.00 a hit is the least
longest         objects in the longest chain, or depth of the deepest page of
                trees; of caches that are not chosen, as of a while ago
memory          contents, slots and buckets

A row of the histogram is for one length of chain: how many buckets have it, and
how many would if the objects had been thrown at random (Poisson). A bar of # is
what there is; | marks what chance gives, behind : where that is more. Of trees,
a row is for one depth: how many pages are so many links away; a root is one.

wasted          pages read ahead that were evicted before anyone used them
dirty           content that is not on the device yet
attr. shares    files that were given attributes that the image had already
";
