//! A power cut at every write: a workload on a recorded device, the states that a loss of power may
//! leave, and the contents that are allowed after recovery.
//!
//! These rules are what ext4 promises in ordered mode:
//! 1. Names, links, owners, permissions and attributes are those after some number of operations, which
//!    include all that were made durable. No operation is half done, and none is out of order.
//! 2. Each byte of a file is what it was after some operation since its last fsync, or zero where the file
//!    was shorter. Its size is between the smallest and the largest size since that fsync. Nothing else is
//!    allowed. To detect other bytes, free blocks of the base image are full of [`POISON`].
//! 3. Truncation, moves and holes of whole blocks are metadata: if a later operation is visible, they are
//!    too. After a rename that replaced another file, the renamed file has its content.
//! 4. e2fsck finds nothing to repair after Larder's recovery. If e2fsck replays the journal instead of
//!    Larder, it repairs nothing else.

mod check;
mod image_file;
mod layout;
mod run;
mod start;
mod survey;

pub use check::History;
pub use image_file::ImageFile;
pub use layout::{LAYOUTS, Layout, POISON, layout};
pub use run::{Run, open, run};
pub use start::Start;
pub use survey::{Cuts, Failure, Plan, Recording, Tally, caught, record, report, survey};

/// Defines a test for each layout that is named. The test calls `check` with the layout's name, a seed,
/// and the mix.
#[macro_export]
macro_rules! test_layouts {
    ($check:ident $mix:ident $first:literal $($number:literal $test:ident $name:literal)*) => {
        $(
            #[test]
            fn $test() {
                $check($name, $first + $number, $mix);
            }
        )*
    };
}
