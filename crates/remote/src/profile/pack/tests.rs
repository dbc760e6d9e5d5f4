use super::*;
use std::io::Cursor;

const SIZE_BYTES: u64 = 10 * UNIT_BYTES + 7;

fn version() -> Version {
    Version {
        etag: Some("\"one\"".to_owned()),
        modified_seconds: 5,
        size_bytes: SIZE_BYTES,
    }
}

fn content(unit: u64) -> Vec<u8> {
    let len = (SIZE_BYTES - unit * UNIT_BYTES).min(UNIT_BYTES);
    (0..len)
        .map(|at| (at * 3 + unit).to_le_bytes()[0])
        .collect()
}

fn pack_of(units: &[u64]) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    write(&mut out, &version(), units, |unit| Ok(content(unit))).unwrap();
    out.into_inner()
}

/// Returns the map of a pack, and the data after it.
fn parsed(pack: &[u8]) -> Result<(Map, &[u8])> {
    let (head, rest) = pack.split_first_chunk().ok_or(Error::Unknown)?;
    let head = Head::parse(head)?;
    let cut = Error::Damaged("cut");
    let (rest, data) = rest.split_at_checked(head.rest_bytes()).ok_or(cut)?;
    Ok((head.map(rest)?, data))
}

#[test]
fn pack_has_the_units_in_order() {
    let pack = pack_of(&[4, 10, 0]);
    let (map, mut data) = parsed(&pack).unwrap();
    assert_eq!(map.check(&version()), Ok(()));
    let units: Vec<u64> = map.entries().iter().map(|entry| entry.unit).collect();
    assert_eq!(units, [4, 10, 0]);
    for entry in map.entries() {
        let unit;
        (unit, data) = data.split_at(entry.len);
        assert_eq!(unit, content(entry.unit));
        assert!(entry.matches(unit));
        assert!(!entry.matches(&content(3)));
    }
    assert!(data.is_empty());
}

#[test]
fn other_version_is_refused() {
    let pack = pack_of(&[1]);
    let (map, _) = parsed(&pack).unwrap();
    let mut other = version();
    other.etag = Some("\"two\"".to_owned());
    assert!(matches!(map.check(&other), Err(Error::OtherVersion { .. })));
    let mut unversioned = version();
    unversioned.etag = None;
    let written = write(&mut Cursor::new(Vec::new()), &unversioned, &[], |_| {
        Ok(Vec::new())
    });
    assert_eq!(written, Err(Error::NoVersion));
}

#[test]
fn head_or_map_with_any_flipped_bit_is_refused() {
    let pack = pack_of(&[4, 10]);
    let data_start = pack.len() - content(4).len() - content(10).len();
    for bit in 0..data_start * 8 {
        let mut flipped = pack.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parsed(&flipped).is_err(), "bit {bit}");
    }
    for len in 0..data_start {
        assert!(parsed(&pack[..len]).is_err(), "length {len}");
    }
}

/// Fields that a valid checksum does not make valid.
#[test]
fn impossible_fields_are_refused() {
    let parse_with = |change: fn(&mut RawHead, &mut Vec<u8>)| {
        let pack = pack_of(&[4, 10]);
        let (head, rest) = pack.split_first_chunk::<HEAD_BYTES>().unwrap();
        let head = Head::parse(head).unwrap();
        let mut rest = rest[..head.rest_bytes()].to_vec();
        let mut raw = head.0;
        change(&mut raw, &mut rest);
        raw.checksum = Head(raw).checksum_with(&rest);
        Head::parse(&zerocopy::transmute!(raw))?.map(&rest)
    };
    assert!(parse_with(|_, _| ()).is_ok());
    assert_eq!(parse_with(|raw, _| raw.format += 1), Err(Error::Unknown));
    assert_eq!(
        parse_with(|raw, _| raw.unit_bytes += 1),
        Err(Error::Unknown)
    );
    assert_eq!(
        parse_with(|raw, _| raw.units = 65_537.into()),
        Err(Error::TooLarge)
    );
    let changes: [fn(&mut RawHead, &mut Vec<u8>); 7] = [
        |raw, _| raw.etag_bytes = 1025.into(),
        |raw, _| raw.units += 1,
        |raw, _| raw.object_bytes = (1 << 63).into(),
        // Unit 10 is then not in the object.
        |raw, _| raw.object_bytes = (10 * UNIT_BYTES).into(),
        |_, rest| rest[0] = 0xff,
        |_, rest| rest[0] = b'\n',
        // Unit 4 occurs twice.
        |_, rest| rest[5 + ENTRY_BYTES] = 4,
    ];
    for change in changes {
        assert!(matches!(parse_with(change), Err(Error::Damaged(_))));
    }
}
