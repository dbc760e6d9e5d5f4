//! The policies from outside: for each of those that Linux no longer has, tables of reads to
//! windows, worked out by hand from the rules in the module's documentation; and properties of
//! all of them, over a page cache reduced to what a policy sees of it.

mod legacy;
mod off;
mod ondemand;
mod properties;
mod read_around;
mod toy;
