//! The errno of each error, as a program sees it through a mount.

use larder::{Error, Ino};
use larder_ext4::{Error as Ext4, Place};
use rustix::io::Errno;

const INO: Ino = Ino(12);

fn device_error() -> larder_block::Error {
    larder_block::Error::OutOfRange {
        offset_bytes: 0,
        len_bytes: 1,
        size_bytes: 0,
    }
}

#[test]
fn failures_have_the_documented_errnos() {
    let unreadable = Ext4::Unreadable {
        place: Place::Inode(INO),
        source: device_error(),
    };
    let table: [(Error, Errno); 16] = [
        (Place::Superblock.corrupt("damaged").into(), Errno::UCLEAN),
        (Ext4::Device(device_error()).into(), Errno::IO),
        (unreadable.into(), Errno::IO),
        (Ext4::Encrypted(INO).into(), Errno::NOKEY),
        (Ext4::Casefolded(INO).into(), Errno::OPNOTSUPP),
        (
            Ext4::UnsupportedFeature(String::new()).into(),
            Errno::OPNOTSUPP,
        ),
        (Ext4::ExternalJournal.into(), Errno::OPNOTSUPP),
        (Ext4::StaleInode(INO).into(), Errno::STALE),
        (Ext4::NotExt.into(), Errno::INVAL),
        (Ext4::NotDirectory(INO).into(), Errno::NOTDIR),
        (Error::NotFound(String::new()), Errno::NOENT),
        (Error::TooManyLinks(String::new()), Errno::LOOP),
        (Error::IsDirectory(INO), Errno::ISDIR),
        (Error::NoMoreData(INO), Errno::NXIO),
        (Error::OtherFormat("a qcow2 image"), Errno::INVAL),
        (Error::NotCopied(Errno::NOTDIR, "a reason"), Errno::NOTDIR),
    ];
    for (error, errno) in table {
        assert_eq!(error.errno(), errno, "{error:?}");
    }
}
