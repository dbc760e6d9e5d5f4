//! Tests of the policies through their public interface. For each policy that Linux no longer has,
//! there are tables of reads and windows. The windows were derived by hand from the rules in the
//! documentation of the policy's module. Properties of all policies are tested with a minimal page
//! cache.

mod adaptive;
mod legacy;
mod off;
mod ondemand;
mod properties;
mod read_around;
mod toy;
