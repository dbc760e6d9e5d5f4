//! Cache of remote objects on the local disk: one sparse file for each version of an object.
//!
//! Model: the kernel's `cachefiles`, but in one file for each object, without a daemon, and with a checksum
//! for each unit. A directory ([`CacheDir`]) contains the files. An open object ([`CachedObject`]) reads and
//! writes units of [`UNIT_BYTES`].
//!
//! # A cache file
//!
//! ```text
//!   0        512      4096                       data                        end of file
//!   | header | record | map: one entry of 16     | units of 64 KiB; the last |
//!   |        |        | bytes for each unit      | is as long as the rest    |
//! ```
//!
//! - The name is the SHA-256 of the [`Identity`] and the size of the object, in hexadecimal. It contains no
//!   URL and no secret.
//! - The header repeats this digest and the size. It also contains a label for users, and a checksum of itself.
//! - The record has the version of the object, and a digest of what all versions have in common. It also has the
//!   time at which a server last said that this version is current, the SHA-256 of the content if it is known or a
//!   mark if it is being checked, and a checksum. Therefore the last version of an object is found without a request. A record is written under
//!   lock 1 (see below). If it is damaged, only its own content is lost.
//! - The map starts at byte 4096. An entry is 0 if the unit is absent, and otherwise the checksum of the
//!   unit: XXH3 with 128 bits. The seed of the checksum is made of the digest and the number of the unit, so
//!   that a unit is valid only in its own place.
//! - The data start at the next multiple of 4096. Numbers are little-endian.
//!
//! # Invariants
//!
//! 1. A read returns bytes only if their checksum is the one in the map. Whatever a crash, a failing disk or
//!    another program leaves in a file, a unit is either correct or absent.
//! 2. A unit is written before its map entry. No write is flushed. A crash can lose any write or a part of
//!    it; the unit and its entry then do not match.
//! 3. All writers of a unit write the same bytes, because a file belongs to one version. Therefore units
//!    need no lock. Only the bytes of a pack can be different, if the pack is forged. Therefore
//!    a check of the content first marks the record. Units of a pack are written under lock 1, and only if there is
//!    no mark. A mark whose check was interrupted is removed: this is known if no other object of the file is open.
//! 4. Only whole files are removed, and only files with the name of a cache file, or with such a name followed by
//!    `.version`. In the files with `.version`, earlier versions of Larder stored the last version of an object.
//! 5. The contents of a file never cause a panic or an allocation of more than [`UNIT_BYTES`].
//!
//! The checksum protects against accidents. It does not protect against a program that writes a unit with a
//! matching checksum. Therefore the directory must belong to the user, and no other user may write to it.
//!
//! # Locking
//!
//! Locks are flock(2) locks. They only prevent the loss of cached data; invariant 1 does not depend on them.
//!
//! 1. The file `lock` in the directory: locked exclusively while a cache file is opened, created, listed or
//!    removed, and while a record or a unit of a pack is written. It is not locked while other units are read or
//!    written.
//! 2. A cache file: the lock is shared while a [`CachedObject`] is open. A file is removed under an exclusive
//!    lock, which is requested without waiting, while lock 1 is held. In the same way, an object finds out whether
//!    it is the only user of the file. A damaged file is replaced under lock 1 alone.
//!
//! Waiting for lock 1 has a limit, after which the operation fails. A write of a unit waits for lock 1 only if the unit
//! is from a pack. If lock 1 is held elsewhere when a file must be evicted for another unit, the file is kept. The unit is
//! still stored if there is room below 15/16 of the limit (see below). Otherwise, neither this unit nor the next 255 units
//! of the object are stored, except for units of packs.
//!
//! File systems without locks are supported. On these, a file can be removed while it is in use. Its users
//! keep the open file.
//!
//! # Size
//!
//! The limit applies to the allocated blocks of all files, not to their sizes. Before it writes, an object
//! obtains an allowance. Its maximum is 1/256 of the limit, but at least 68 KiB (a unit and a page of the map)
//! and at most 16 MiB. If the files plus this maximum exceed 15/16 of the limit, files that are not in use are
//! evicted, least recently used first. A file is used when it is opened, written or closed. If only files in
//! use remain, storing of units stops until other objects are closed or files are removed. Therefore, if the
//! limit is too small, the cache keeps what was read first, which is also what the next mount reads first.
//!
//! Each stored unit takes 68 KiB from the allowance of its object. The last 1/16 of the limit is reserved for
//! the allowances of other objects, including those of other processes. A file that was unlinked while in use
//! no longer counts. Only the rest of its present allowance can still be stored in it.
//!
//! # Cost
//!
//! Opening an object reads 4096 bytes, whatever the size of the object is. To find the last version, 4096 bytes of
//! each file in the directory are read. A hit costs two calls of pread(2) and one checksum. The map of a complete
//! object of 100 GiB takes 26 MB. No memory is needed for units.

mod cache_dir;
mod directory;
mod error;
mod header;
mod identity;
mod object;
mod record;
mod units;

pub use cache_dir::{CacheDir, default_path};
pub use directory::{ObjectInfo, Removed};
pub use error::{Error, Result};
pub use identity::Identity;
pub use object::CachedObject;
pub use units::UNIT_BYTES;
