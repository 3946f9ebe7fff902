//! What a block device contains, by the marks that filesystems, partition tables and volume managers leave on it.

use std::io;

use crate::sys::memory::mark;

/// This much of a device's beginning and of its end is read: no maker of a mark writes one first beyond it.
const EDGE: u64 = 2 << 20;

/// The place of a mark.
#[derive(Debug, Clone, Copy)]
enum At {
    /// This many bytes from the beginning.
    Start(u64),
    /// This many bytes before the end.
    End(u64),
}

use At::{End, Start};

/// Marks that are plain bytes at a plain place, as each format's own documentation (or header file) has them.
const MARKS: &[(&str, At, &[u8])] = &[
    // Whole-disk formats first: their names say most.
    ("a GPT partition table", Start(512), b"EFI PART"),
    ("a GPT partition table", Start(4096), b"EFI PART"),
    ("a GPT partition table (its copy at the end)", End(512), b"EFI PART"),
    ("a GPT partition table (its copy at the end)", End(4096), b"EFI PART"),
    ("an APM partition table", Start(512), b"PM\0\0"),
    ("a BSD disklabel", Start(512), b"\x57\x45\x56\x82"),
    ("a Sun disklabel", Start(508), b"\xda\xbe"),
    ("a LUKS header", Start(0), b"LUKS\xba\xbe"),
    ("a second LUKS header", Start(0x4000), b"SKUL\xba\xbe"),
    ("a second LUKS header", Start(0x8000), b"SKUL\xba\xbe"),
    ("a second LUKS header", Start(0x10000), b"SKUL\xba\xbe"),
    ("a second LUKS header", Start(0x20000), b"SKUL\xba\xbe"),
    ("a second LUKS header", Start(0x40000), b"SKUL\xba\xbe"),
    ("a second LUKS header", Start(0x80000), b"SKUL\xba\xbe"),
    ("an LVM physical volume", Start(0x18), b"LVM2 001"),
    ("an LVM physical volume", Start(0x218), b"LVM2 001"),
    ("an LVM physical volume", Start(0x418), b"LVM2 001"),
    ("an LVM physical volume", Start(0x618), b"LVM2 001"),
    ("an LVM1 physical volume", Start(0), b"HM\x01\0"),
    ("a member of a Linux RAID (1.1)", Start(0), b"\xfc\x4e\x2b\xa9"),
    ("a member of a Linux RAID (1.2)", Start(4096), b"\xfc\x4e\x2b\xa9"),
    ("a member of a firmware RAID (DDF)", End(512), b"\xde\x11\xde\x11"),
    ("a member of a firmware RAID (Intel)", End(1024), b"Intel Raid ISM Cfg Sig. "),
    ("a bcache or bcachefs superblock", Start(0x1018), b"\xc6\x85\x73\xf6"),
    ("a VDO volume", Start(0), b"dmvdo001"),
    ("a Stratis pool", Start(0x204), b"!Stra0tis"),
    ("a dm-integrity superblock", Start(0), b"integrt\0"),
    ("a dm-verity superblock", Start(0), b"verity\0\0"),
    ("a Ceph BlueStore device", Start(0), b"bluestore block device"),
    ("an Oracle ASM disk", Start(32), b"ORCLDISK"),
    ("a VMFS volume", Start(0x10_0000), b"\x0d\xd0\x01\xc0"),
    ("a BitLocker volume", Start(3), b"-FVE-FS-"),
    // Filesystems
    ("an ext2, ext3 or ext4 filesystem", Start(0x438), b"\x53\xef"),
    ("an XFS filesystem", Start(0), b"XFSB"),
    ("an XFS log", Start(0), b"\xfe\xed\xba\xbe"),
    ("a btrfs filesystem", Start(0x10040), b"_BHRfS_M"),
    ("an NTFS filesystem", Start(3), b"NTFS    "),
    ("an exFAT filesystem", Start(3), b"EXFAT   "),
    ("a FAT filesystem", Start(0x52), b"FAT32   "),
    ("a FAT filesystem", Start(0x36), b"FAT16   "),
    ("a FAT filesystem", Start(0x36), b"FAT12   "),
    ("a FAT filesystem", Start(0x36), b"FAT     "),
    ("an F2FS filesystem", Start(0x400), b"\x10\x20\xf5\xf2"),
    ("a ReiserFS filesystem", Start(0x10034), b"ReIsEr"),
    ("a ReiserFS filesystem", Start(0x2034), b"ReIsEr"),
    ("a Reiser4 filesystem", Start(0x10000), b"ReIsEr4"),
    ("a JFS filesystem", Start(0x8000), b"JFS1"),
    ("a GFS2 filesystem", Start(0x10000), b"\x01\x16\x19\x70"),
    ("an OCFS2 filesystem", Start(0x400), b"OCFSV2"),
    ("an OCFS2 filesystem", Start(0x800), b"OCFSV2"),
    ("an OCFS2 filesystem", Start(0x1000), b"OCFSV2"),
    ("a NILFS2 filesystem", Start(0x406), b"\x34\x34"),
    ("a SquashFS image", Start(0), b"hsqs"),
    ("an EROFS image", Start(0x400), b"\xe2\xe1\xf5\xe0"),
    ("a cramfs image", Start(0), b"\x45\x3d\xcd\x28"),
    ("an ISO 9660 filesystem", Start(0x8001), b"CD001"),
    ("a UDF filesystem", Start(0x8001), b"BEA01"),
    ("an APFS container", Start(32), b"NXSB"),
    ("an HFS+ filesystem", Start(0x400), b"H+\0\x04"),
    ("an HFS+ filesystem", Start(0x400), b"HX\0\x05"),
    ("an HFS filesystem", Start(0x400), b"BD"),
    ("a UFS filesystem", Start(0x255c), b"\x54\x19\x01\0"),
    ("a UFS2 filesystem", Start(0x1055c), b"\x19\x01\x54\x19"),
    ("a Minix filesystem", Start(0x410), b"\x7f\x13"),
    ("a Minix filesystem", Start(0x410), b"\x8f\x13"),
    ("a Minix filesystem", Start(0x418), b"\x5a\x4d"),
];

/// Swap's mark is at the end of the first page, regardless of the page size of the machine that wrote it.
const SWAP: &[&[u8]] = &[b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"LINHIB0001"];
const PAGES: &[u64] = &[4096, 8192, 16384, 32768, 65536];
/// Linux RAID, version 0.90 and 1.0.
const RAID: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
/// A ZFS uberblock, as either kind of machine writes it.
const ZFS: [[u8; 8]; 2] = [[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]];

/// The beginning and the end of a device.
struct Edges {
    size: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Edges {
    fn at(&self, place: u64, length: u64) -> Option<&[u8]> {
        let end = place.checked_add(length)?;
        let tail_from = self.size - self.tail.len() as u64;
        if end <= self.head.len() as u64 {
            return self.head.get(place as usize..end as usize);
        }
        let from = place.checked_sub(tail_from)?;
        self.tail.get(from as usize..(from + length) as usize)
    }

    /// Whether the mark is there, in a sector that this tool did not write itself: its random bytes hold any two that
    /// are looked for once in some thousand devices.
    fn has(&self, place: u64, wanted: &[u8]) -> bool {
        let sector = place & !511;
        let marked = self.at(sector, 8) == Some(&mark(sector).to_le_bytes());
        !marked && self.at(place, wanted.len() as u64) == Some(wanted)
    }

    fn has_at(&self, place: At, mark: &[u8]) -> bool {
        match place {
            Start(place) => self.has(place, mark),
            End(before) => self.size.checked_sub(before).is_some_and(|place| self.has(place, mark)),
        }
    }
}

/// The first thing found on a device of `size` bytes, in words; none if it bears no mark that is known.
///
/// `read` fills a buffer from a place on the device.
///
/// # Errors
/// When an edge of the device cannot be read: what is on it is then unknown.
pub fn find(size: u64, mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>) -> io::Result<Option<&'static str>> {
    let edge = EDGE.min(size);
    let mut edges = Edges { size, head: vec![0; edge as usize], tail: vec![0; edge as usize] };
    read(&mut edges.head, 0)?;
    read(&mut edges.tail, size - edge)?;
    Ok(named(&edges))
}

fn named(edges: &Edges) -> Option<&'static str> {
    if let Some((name, ..)) = MARKS.iter().find(|(_, place, mark)| edges.has_at(*place, mark)) {
        return Some(name);
    }
    if PAGES.iter().any(|page| SWAP.iter().any(|mark| edges.has(page - 10, mark))) {
        return Some("swap space");
    }
    let size = edges.size;
    // md(4): 0.90 is in the last whole 64 KiB but one boundary, 1.0 at least 8 KiB before the end, on 4 KiB.
    let old = (size & !0xffff).checked_sub(0x1_0000);
    let ended = size.checked_sub(0x2000).map(|place| place & !0xfff);
    if [old, ended].into_iter().flatten().any(|place| edges.has(place, &RAID)) {
        return Some("a member of a Linux RAID");
    }
    let labels = size & !0x3_ffff;
    let starts = [Some(0), Some(0x4_0000), labels.checked_sub(0x8_0000), labels.checked_sub(0x4_0000)];
    let uberblocks = (0x2_0000_u64..0x4_0000).step_by(1024);
    if starts
        .into_iter()
        .flatten()
        .any(|label| uberblocks.clone().any(|offset| ZFS.iter().any(|mark| edges.has(label + offset, mark))))
    {
        return Some("a member of a ZFS pool");
    }
    boot_sector(edges)
}

/// An MBR's table, or any other boot sector.
fn boot_sector(edges: &Edges) -> Option<&'static str> {
    if !edges.has(510, &[0x55, 0xaa]) {
        return None;
    }
    let used = (0..4).any(|entry| edges.at(446 + 16 * entry + 4, 1).is_some_and(|kind| kind[0] != 0));
    Some(if used { "an MBR partition table" } else { "a boot sector" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Region;

    const SIZE: u64 = 8 << 20;

    fn found(disk: &[u8]) -> Option<&'static str> {
        find(disk.len() as u64, |buffer, at| {
            buffer.copy_from_slice(&disk[at as usize..at as usize + buffer.len()]);
            Ok(())
        })
        .unwrap()
    }

    fn with(place: u64, mark: &[u8]) -> Vec<u8> {
        let mut disk = vec![0; SIZE as usize];
        disk[place as usize..place as usize + mark.len()].copy_from_slice(mark);
        disk
    }

    #[test]
    fn each_mark_is_found_where_its_format_has_it() {
        for (name, place, mark) in MARKS {
            let place = match place {
                Start(place) => *place,
                End(before) => SIZE - before,
            };
            assert!(found(&with(place, mark)).is_some(), "{name} at {place:#x}");
        }
        for page in PAGES {
            assert_eq!(found(&with(page - 10, b"SWAPSPACE2")), Some("swap space"), "{page}");
        }
        for place in [SIZE - 0x1_0000, SIZE - 0x2000] {
            assert_eq!(found(&with(place, &RAID)), Some("a member of a Linux RAID"), "{place:#x}");
        }
        for label in [0, 0x4_0000, SIZE - 0x8_0000, SIZE - 0x4_0000] {
            for mark in ZFS {
                assert_eq!(found(&with(label + 0x2_0400, &mark)), Some("a member of a ZFS pool"), "{label:#x}");
            }
        }
    }

    #[test]
    fn a_blank_device_and_our_own_bytes_bear_no_mark() {
        assert_eq!(found(&vec![0; SIZE as usize]), None);
        for seed in 1..20 {
            let region = Region::new(2 << 20).unwrap();
            region.fill_random(seed);
            region.stamp(0, 2 << 20, 0, seed);
            let mut disk = region.copy(0, 2 << 20);
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
            disk[0x438..0x43a].copy_from_slice(&[0x53, 0xef]);
            assert_eq!(found(&disk), None, "seed {seed}");
        }
    }

    #[test]
    fn boot_sectors_are_told_from_partition_tables() {
        assert_eq!(found(&with(510, &[0x55, 0xaa])), Some("a boot sector"));
        let mut disk = with(510, &[0x55, 0xaa]);
        disk[446 + 4] = 0x83;
        assert_eq!(found(&disk), Some("an MBR partition table"));
    }

    #[test]
    fn small_devices_are_read_within_their_bounds_and_unreadable_ones_are_unknown() {
        for size in [0, 512, 4096, 70_000] {
            assert_eq!(found(&vec![0; size]), None);
        }
        assert!(find(SIZE, |_, _| Err(io::Error::from_raw_os_error(libc::EIO))).is_err());
    }
}
