//! Formats that are neither ext file systems nor partition tables: their names, how they are recognized, and how a
//! user gets at the files in them. Larder itself reads the disks in some of them ([`open_disk`](crate::open_disk)).

use crate::shell::quoted;
use std::ops::Range;

/// A format that is recognized by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Compressed by gzip.
    Gzip,
    /// Compressed by bzip2.
    Bzip2,
    /// Compressed by xz.
    Xz,
    /// Compressed by Zstandard.
    Zstd,
    /// Compressed by lz4.
    Lz4,
    /// A ZIP archive.
    Zip,
    /// A tar archive.
    Tar,
    /// A qcow image of version 1, the predecessor of qcow2.
    Qcow,
    /// A qcow2 image.
    Qcow2,
    /// A qcow2 image whose content is encrypted.
    EncryptedQcow2,
    /// A VMDK image.
    Vmdk,
    /// A VDI image.
    Vdi,
    /// A VHD image.
    Vhd,
    /// A VHDX image.
    Vhdx,
    /// An Android sparse image.
    AndroidSparse,
    /// A LUKS container.
    Luks,
    /// A physical volume of LVM.
    Lvm,
    /// A member of a Linux software RAID.
    LinuxRaid,
    /// Swap space.
    Swap,
    /// An XFS file system.
    Xfs,
    /// A Btrfs file system.
    Btrfs,
    /// An F2FS file system.
    F2fs,
    /// A squashfs file system.
    Squashfs,
    /// An EROFS file system.
    Erofs,
    /// An ISO 9660 file system.
    Iso9660,
    /// An NTFS file system.
    Ntfs,
    /// An exFAT file system.
    ExFat,
    /// A FAT file system.
    Fat,
}

/// Bytes at an offset that are typical of a format.
struct Magic {
    format: Format,
    offset_bytes: usize,
    bytes: &'static [u8],
}

const fn magic(format: Format, offset_bytes: usize, bytes: &'static [u8]) -> Magic {
    Magic {
        format,
        offset_bytes,
        bytes,
    }
}

/// The number of bytes at the start of a device that [`Format::of`] needs: the magic numbers of Btrfs and of swap
/// space with pages of 64 KiB are the last ones.
pub(crate) const START_BYTES: usize = (64 << 10) + 4096;

/// The size of the pages of swap space: that of the machine on which it was made.
const SWAP_PAGE_BYTES: [usize; 3] = [4096, 16 << 10, 64 << 10];
const SWAP: &[u8] = b"SWAPSPACE2";

/// The hint for swap space.
const NO_FILES: &str = "it contains no files";

/// The magic numbers, in the order in which they are compared.
const MAGICS: [Magic; 28] = [
    magic(Format::Qcow, 0, b"QFI\xfb\0\0\0\x01"),
    magic(Format::Qcow2, 0, b"QFI\xfb"),
    magic(Format::Vmdk, 0, b"KDMV"),
    magic(Format::Vmdk, 0, b"# Disk DescriptorFile"),
    magic(Format::Vdi, 64, b"\x7f\x10\xda\xbe"),
    magic(Format::Vhd, 0, b"conectix"),
    magic(Format::Vhdx, 0, b"vhdxfile"),
    magic(Format::AndroidSparse, 0, b"\x3a\xff\x26\xed"),
    magic(Format::Gzip, 0, b"\x1f\x8b\x08"),
    magic(Format::Bzip2, 0, b"BZh"),
    magic(Format::Xz, 0, b"\xfd7zXZ\0"),
    magic(Format::Zstd, 0, b"\x28\xb5\x2f\xfd"),
    magic(Format::Lz4, 0, b"\x04\x22\x4d\x18"),
    magic(Format::Zip, 0, b"PK\x03\x04"),
    magic(Format::Luks, 0, b"LUKS\xba\xbe"),
    magic(Format::Lvm, 512, b"LABELONE"),
    magic(Format::Lvm, 0, b"LABELONE"),
    magic(Format::LinuxRaid, 4096, b"\xfc\x4e\x2b\xa9"),
    magic(Format::Xfs, 0, b"XFSB"),
    magic(Format::Squashfs, 0, b"hsqs"),
    magic(Format::Erofs, 1024, b"\xe2\xe1\xf5\xe0"),
    magic(Format::F2fs, 1024, b"\x10\x20\xf5\xf2"),
    magic(Format::Btrfs, (64 << 10) + 64, b"_BHRfS_M"),
    magic(Format::Ntfs, 3, b"NTFS    "),
    magic(Format::ExFat, 3, b"EXFAT   "),
    magic(Format::Fat, 54, b"FAT1"),
    magic(Format::Fat, 82, b"FAT32   "),
    magic(Format::Tar, 257, b"ustar"),
];

/// An ISO 9660 file system often begins with a partition table, for booting from a disk. It is therefore recognized
/// only after partition tables.
const ISO_9660: Magic = magic(Format::Iso9660, (32 << 10) + 1, b"CD001");

/// The bytes of the encryption method in the header of a qcow2 image: a big-endian number, 0 if it is not encrypted.
const QCOW2_ENCRYPTION: std::ops::Range<usize> = 32..36;

impl Magic {
    fn is_in(&self, start: &[u8]) -> bool {
        let range = self.offset_bytes..self.offset_bytes + self.bytes.len();
        start.get(range) == Some(self.bytes)
    }
}

impl Format {
    /// Returns whether this is the format of a file that contains other content: an archive, a compressed file, or a
    /// disk image. The others are formats of what a disk contains.
    pub(crate) fn is_container(self) -> bool {
        matches!(
            self,
            Self::Gzip
                | Self::Bzip2
                | Self::Xz
                | Self::Zstd
                | Self::Lz4
                | Self::Zip
                | Self::Tar
                | Self::Qcow
                | Self::Qcow2
                | Self::EncryptedQcow2
                | Self::Vmdk
                | Self::Vdi
                | Self::Vhd
                | Self::Vhdx
                | Self::AndroidSparse
        )
    }

    /// Returns the format of a device that begins with `start`, if the format is known. `start` should have
    /// [`START_BYTES`], unless the device is shorter.
    pub(crate) fn of(start: &[u8]) -> Option<Self> {
        if let Some(magic) = MAGICS.iter().find(|magic| magic.is_in(start)) {
            let is_encrypted = |start: &[u8]| {
                let method = start.get(QCOW2_ENCRYPTION);
                method.is_some_and(|method| method.iter().any(|&byte| byte != 0))
            };
            return Some(match magic.format {
                Self::Qcow2 if is_encrypted(start) => Self::EncryptedQcow2,
                format => format,
            });
        }
        let is_swap = SWAP_PAGE_BYTES
            .iter()
            .any(|page| start.get(page - SWAP.len()..*page) == Some(SWAP));
        is_swap.then_some(Self::Swap)
    }

    /// Returns whether a device that begins with `start` can have this format.
    pub(crate) fn is_in(self, start: &[u8]) -> bool {
        MAGICS
            .iter()
            .any(|magic| magic.format == self && magic.is_in(start))
    }

    /// Returns [`Format::Iso9660`] if a device that begins with `start` has this format.
    pub(crate) fn iso_9660(start: &[u8]) -> Option<Self> {
        ISO_9660.is_in(start).then_some(ISO_9660.format)
    }

    /// Returns a short name in lower case, for programs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Zip => "zip",
            Self::Tar => "tar",
            Self::Qcow => "qcow",
            Self::Qcow2 => "qcow2",
            Self::EncryptedQcow2 => "qcow2-encrypted",
            Self::Vmdk => "vmdk",
            Self::Vdi => "vdi",
            Self::Vhd => "vhd",
            Self::Vhdx => "vhdx",
            Self::AndroidSparse => "android-sparse",
            Self::Luks => "luks",
            Self::Lvm => "lvm",
            Self::LinuxRaid => "linux-raid",
            Self::Swap => "swap",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::F2fs => "f2fs",
            Self::Squashfs => "squashfs",
            Self::Erofs => "erofs",
            Self::Iso9660 => "iso9660",
            Self::Ntfs => "ntfs",
            Self::ExFat => "exfat",
            Self::Fat => "fat",
        }
    }

    /// Returns a description that follows "is", such as "an XFS file system".
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Gzip => "compressed with gzip",
            Self::Bzip2 => "compressed with bzip2",
            Self::Xz => "compressed with xz",
            Self::Zstd => "compressed with zstd",
            Self::Lz4 => "compressed with lz4",
            Self::Zip => "a ZIP archive",
            Self::Tar => "a tar archive",
            Self::Qcow => "a qcow image",
            Self::Qcow2 => "a qcow2 image",
            Self::EncryptedQcow2 => "an encrypted qcow2 image",
            Self::Vmdk => "a VMDK image",
            Self::Vdi => "a VDI image",
            Self::Vhd => "a VHD image",
            Self::Vhdx => "a VHDX image",
            Self::AndroidSparse => "an Android sparse image",
            Self::Luks => "a LUKS container",
            Self::Lvm => "a physical volume of LVM",
            Self::LinuxRaid => "a member of a Linux software RAID",
            Self::Swap => "swap space",
            Self::Xfs => "an XFS file system",
            Self::Btrfs => "a Btrfs file system",
            Self::F2fs => "an F2FS file system",
            Self::Squashfs => "a squashfs file system",
            Self::Erofs => "an EROFS file system",
            Self::Iso9660 => "an ISO 9660 file system",
            Self::Ntfs => "an NTFS file system",
            Self::ExFat => "an exFAT file system",
            Self::Fat => "a FAT file system",
        }
    }

    /// Returns what a user can do to get at an ext image inside `file`, or at the files of a file system that Larder
    /// does not read. `file` is the name of the file, which is quoted for a shell.
    #[must_use]
    pub fn hint(self, file: &str) -> String {
        // The output must not be the file itself.
        let raw = quoted(&format!("{file}.raw"));
        let file = quoted(file);
        let convert = |from: &str| {
            format!("convert it to a raw image: qemu-img convert -f {from} -O raw {file} {raw}")
        };
        let decompress = |command: &str| format!("decompress it first: {command} < {file} > {raw}");
        match self {
            Self::Gzip => decompress("gzip -dc"),
            Self::Bzip2 => decompress("bzip2 -dc"),
            Self::Xz => decompress("xz -dc"),
            Self::Zstd => decompress("zstd -dc"),
            Self::Lz4 => decompress("lz4 -dc"),
            Self::Zip => format!("extract the image from it first: unzip {file}"),
            Self::Tar => format!("extract the image from it first: tar -xf {file}"),
            Self::Qcow => convert("qcow"),
            Self::Qcow2 => convert("qcow2"),
            Self::EncryptedQcow2 => format!(
                "decrypt it with the key: qemu-img convert --object secret,id=key,file=KEYFILE --image-opts \
                 driver=qcow2,encrypt.key-secret=key,file.filename={file} -O raw {raw}"
            ),
            Self::Vmdk => convert("vmdk"),
            Self::Vdi => convert("vdi"),
            Self::Vhd => convert("vpc"),
            Self::Vhdx => convert("vhdx"),
            Self::AndroidSparse => {
                format!("convert it to a raw image: simg2img {file} {raw}")
            }
            Self::Luks | Self::Lvm | Self::LinuxRaid => {
                self.hint_for_volumes(&file, &format!("losetup -f {file}"))
            }
            Self::Swap => NO_FILES.to_owned(),
            Self::Squashfs => by_fuse("squashfs", "squashfuse", &file),
            Self::Erofs => by_fuse("EROFS", "erofsfuse", &file),
            Self::Iso9660 => by_fuse("ISO 9660", "fuseiso", &file),
            Self::Xfs | Self::Btrfs | Self::F2fs | Self::Ntfs | Self::ExFat | Self::Fat => {
                by_kernel("loop", &file, "/dev/sda")
            }
        }
    }

    /// Returns what a user can do to get at the files in partition `number` of the disk in `file`, if it has this format. The
    /// partition has the bytes `range` of the disk. `file` is the name of the file, which is quoted for a shell.
    #[must_use]
    pub fn hint_for_partition(self, file: &str, number: u32, range: &Range<u64>) -> String {
        let file = quoted(file);
        let (offset_bytes, size_bytes) = (range.start, range.end - range.start);
        let attach = |more: &str| {
            format!("losetup -f{more} -o {offset_bytes} --sizelimit {size_bytes} {file}")
        };
        match self {
            Self::Luks | Self::Lvm | Self::LinuxRaid => {
                self.hint_for_volumes(&format!("$({})", attach(" --show")), &attach(""))
            }
            Self::Swap => NO_FILES.to_owned(),
            Self::Xfs
            | Self::Btrfs
            | Self::F2fs
            | Self::Squashfs
            | Self::Erofs
            | Self::Iso9660
            | Self::Ntfs
            | Self::ExFat
            | Self::Fat => {
                let options = format!("loop,offset={offset_bytes},sizelimit={size_bytes}");
                by_kernel(&options, &file, &format!("/dev/sda{number}"))
            }
            _ => format!(
                "as root, attach it with {}, which prints a device; then use this device",
                attach(" --show")
            ),
        }
    }

    /// Returns what a user can do with a container of volumes. `container` is its file or device, and `attach` is a command
    /// that attaches it to a loop device.
    fn hint_for_volumes(self, container: &str, attach: &str) -> String {
        match self {
            Self::Luks => format!(
                "as root, open it with its key: cryptsetup open {container} NAME; then use /dev/mapper/NAME"
            ),
            Self::Lvm => format!(
                "as root, activate its logical volumes: {attach}; vgchange -ay; then use /dev/GROUP/VOLUME"
            ),
            _ => format!(
                "as root, assemble the array from all members: {attach}; mdadm --assemble --scan; then use \
                 /dev/md/NAME"
            ),
        }
    }
}

/// Returns the hint to mount `file` with these `options` of mount(8), or by guestmount, for which the file system is on
/// `device`.
fn by_kernel(options: &str, file: &str, device: &str) -> String {
    format!(
        "larder reads ext2, ext3 and ext4; mount it as root: mount -o {options} {file} MOUNTPOINT; or without root: \
         guestmount -a {file} -m {device} MOUNTPOINT"
    )
}

/// Returns the hint to mount `file`, which has the file system `name`, by `program`.
fn by_fuse(name: &str, program: &str, file: &str) -> String {
    format!("larder reads ext2, ext3 and ext4; for {name}, use: {program} {file} MOUNTPOINT")
}
