//! The mechanics of a disk: the location of each byte, and the time at which it passes under a head.
//!
//! Model: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer, 1994: zones of tracks
//! of equal length, a seek curve that begins as a square root and ends as a line, and platters that rotate
//! constantly. Tracks are numbered by address, cylinder by cylinder. The start of each track is offset from
//! the start of the previous track by the rotation during a track switch (skew), so that a sequential reader
//! does not lose a revolution.
//!
//! All times are integers in nanoseconds. An angle is expressed as the time that the platters take to rotate
//! by it. Therefore the times at which consecutive bytes pass the head have no rounding errors relative to
//! one another.
//!
//! Differences from the model: there are no spare sectors, no retries and no recalibration. A seek takes
//! exactly the time of the curve.

use super::arithmetic::{NANOS_PER_SECOND, nanos, scale};
use super::parameters::DiskModel;

/// The smallest unit that a disk reads and writes.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The location of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub track: u64,
    /// The first byte of the track.
    pub start_bytes: u64,
    pub track_bytes: u64,
    /// The offset from the start of the track.
    pub within_bytes: u64,
}

impl Place {
    /// Returns the first byte after the track of this place.
    pub fn track_end_bytes(self) -> u64 {
        self.start_bytes + self.track_bytes
    }
}

/// The track of a byte and its angle on the track, from which the time to reach the byte is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub track: u64,
    /// The angle of the platters at which the byte passes under the head.
    angle_ns: u64,
}

/// The track of the heads, and the time from which they can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub track: u64,
    pub ready_at_ns: u64,
}

/// The times at which the head reaches a run of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Approach {
    /// The time at which the head is on the track of the first byte.
    pub arrive_at_ns: u64,
    /// The time at which the first byte passes under the head.
    pub begin_at_ns: u64,
}

#[derive(Debug)]
struct Zone {
    first_track: u64,
    start_bytes: u64,
    track_bytes: u64,
}

/// The geometry of a disk, and the times of its movements.
#[derive(Debug)]
pub(super) struct Mechanics {
    zones: Vec<Zone>,
    heads: u64,
    revolution_ns: u64,
    track_switch_ns: u64,
    /// A lower bound for a seek between any two tracks.
    shortest_seek_ns: u64,
    write_settle_ns: u64,
    seek: SeekCurve,
    /// The angle of the platters at time 0.
    phase_ns: u64,
}

impl Mechanics {
    /// Computes the geometry of a disk of `size_bytes`. `phase` is any number; it determines the angle of the
    /// platters at time 0.
    pub fn new(model: &DiskModel, size_bytes: u64, phase: u64) -> Self {
        let revolution_ns = nanos(model.revolution.value);
        let track_switch_ns = nanos(model.track_switch.value);
        let track_bytes = |bytes_per_second: u64| {
            scale(
                bytes_per_second,
                revolution_ns + track_switch_ns,
                NANOS_PER_SECOND,
            )
        };
        let outer_bytes = track_bytes(model.outer_bytes_per_second.value);
        let inner_bytes = track_bytes(model.inner_bytes_per_second.value);
        let count = model.zones.value;
        let last = (count - 1).max(1);
        let lengths: Vec<u64> = (0..count)
            .map(|zone| outer_bytes - (outer_bytes - inner_bytes) * zone / last)
            .map(|bytes| bytes - bytes % SECTOR_BYTES)
            .collect();
        let tracks_per_zone = size_bytes.div_ceil(lengths.iter().sum());
        let mut start_bytes = 0;
        let zones = (0..count)
            .zip(lengths)
            .map(|(zone, track_bytes)| {
                let this = Zone {
                    first_track: zone * tracks_per_zone,
                    start_bytes,
                    track_bytes,
                };
                start_bytes += tracks_per_zone * track_bytes;
                this
            })
            .collect();
        let heads = model.heads.value;
        let seek = SeekCurve::new(model, (tracks_per_zone * count).div_ceil(heads));
        Self {
            zones,
            heads,
            revolution_ns,
            track_switch_ns,
            write_settle_ns: nanos(model.write_settle.value),
            shortest_seek_ns: track_switch_ns.min(seek.settle_ns),
            seek,
            phase_ns: phase % revolution_ns,
        }
    }

    /// Returns the location of a byte.
    pub fn place(&self, byte: u64) -> Place {
        let index = self.zones.partition_point(|zone| zone.start_bytes <= byte) - 1;
        let zone = &self.zones[index];
        let tracks = (byte - zone.start_bytes) / zone.track_bytes;
        let start_bytes = zone.start_bytes + tracks * zone.track_bytes;
        Place {
            track: zone.first_track + tracks,
            start_bytes,
            track_bytes: zone.track_bytes,
            within_bytes: byte - start_bytes,
        }
    }

    /// Returns the first byte of the outermost zone in which a sequential reader reaches at most this rate,
    /// or the first byte of the innermost zone if all zones are faster.
    pub fn offset_with_rate(&self, bytes_per_second: u64) -> u64 {
        let track_ns = self.revolution_ns + self.track_switch_ns;
        self.zones
            .iter()
            .find(|zone| scale(zone.track_bytes, NANOS_PER_SECOND, track_ns) <= bytes_per_second)
            .or(self.zones.last())
            .map_or(0, |zone| zone.start_bytes)
    }

    /// Returns the first byte of a track.
    pub fn track_start_bytes(&self, track: u64) -> u64 {
        let index = self.zones.partition_point(|zone| zone.first_track <= track) - 1;
        let zone = &self.zones[index];
        zone.start_bytes + (track - zone.first_track) * zone.track_bytes
    }

    /// Returns the time of the rotation from the start of the track to `place`.
    fn turn_ns(&self, place: Place) -> u64 {
        place.within_bytes * self.revolution_ns / place.track_bytes
    }

    /// Returns the track and the angle of `place`.
    pub fn spot(&self, place: Place) -> Spot {
        Spot {
            track: place.track,
            angle_ns: (self.track_angle_ns(place.track) + self.turn_ns(place)) % self.revolution_ns,
        }
    }

    /// Returns the angle of the platters at which the start of a track passes.
    fn track_angle_ns(&self, track: u64) -> u64 {
        track * self.track_switch_ns % self.revolution_ns
    }

    /// Returns the angle of the platters at a time.
    fn angle_ns(&self, at_ns: u64) -> u64 {
        (at_ns % self.revolution_ns + self.phase_ns) % self.revolution_ns
    }

    /// Returns the time of the rotation from one angle to another, which is less than a revolution.
    fn turning_ns(&self, from_angle_ns: u64, to_angle_ns: u64) -> u64 {
        if to_angle_ns >= from_angle_ns {
            to_angle_ns - from_angle_ns
        } else {
            to_angle_ns + self.revolution_ns - from_angle_ns
        }
    }

    /// Returns the offset in `place`'s track of the first sector that begins to pass at or after `at_ns`.
    /// Returns the length of the track if no further sector begins before the end of the track.
    pub fn passing_bytes(&self, place: Place, at_ns: u64) -> u64 {
        let turned_ns = self.turning_ns(self.track_angle_ns(place.track), self.angle_ns(at_ns));
        (turned_ns * place.track_bytes)
            .div_ceil(self.revolution_ns)
            .next_multiple_of(SECTOR_BYTES)
            .min(place.track_bytes)
    }

    /// Returns the seek time from one track to another.
    fn seek_ns(&self, from: u64, to: u64) -> u64 {
        let cylinders = (from / self.heads).abs_diff(to / self.heads);
        if from == to {
            0
        } else if cylinders <= 1 {
            self.track_switch_ns
        } else {
            self.seek.time_ns(cylinders)
        }
    }

    /// Returns the times at which the head reaches `spot` if it leaves its track at `depart_at_ns`.
    pub fn approach(&self, head: Head, depart_at_ns: u64, spot: Spot, is_write: bool) -> Approach {
        let arrive_at_ns = if head.track == spot.track {
            depart_at_ns.max(head.ready_at_ns)
        } else {
            let settle_ns = if is_write { self.write_settle_ns } else { 0 };
            depart_at_ns + self.seek_ns(head.track, spot.track) + settle_ns
        };
        let wait_ns = self.turning_ns(self.angle_ns(arrive_at_ns), spot.angle_ns);
        Approach {
            arrive_at_ns,
            begin_at_ns: arrive_at_ns + wait_ns,
        }
    }

    /// Returns the time and the key of the spot that passes under the head soonest, if the head leaves its
    /// track at `depart_at_ns`. Of spots that pass at the same time, returns the one with the smallest key.
    pub fn soonest<Key: Ord>(
        &self,
        head: Head,
        depart_at_ns: u64,
        is_write: bool,
        spots: impl Iterator<Item = (Spot, Key)>,
    ) -> Option<(u64, Key)> {
        let with_angle = |at_ns| (at_ns, self.angle_ns(at_ns));
        let here = with_angle(depart_at_ns);
        let elsewhere = with_angle(depart_at_ns + self.shortest_seek_ns);
        let mut soonest: Option<(u64, Key)> = None;
        for (spot, key) in spots {
            // Skip a spot that would pass later than the best one even after the shortest seek, without
            // computing its seek. If many commands wait, most spots are skipped.
            let is_here = spot.track == head.track;
            let (earliest_ns, angle_ns) = if is_here { here } else { elsewhere };
            let passes_at_ns = earliest_ns + self.turning_ns(angle_ns, spot.angle_ns);
            if soonest.as_ref().is_some_and(|best| best.0 < passes_at_ns) {
                continue;
            }
            let approach = self.approach(head, depart_at_ns, spot, is_write);
            let candidate = (approach.begin_at_ns, key);
            if soonest.as_ref().is_none_or(|best| candidate < *best) {
                soonest = Some(candidate);
            }
        }
        soonest
    }

    /// Computes how far the head reads from `start_bytes`, which passes at `at_ns`, until it reaches
    /// `end_bytes` or time `until_ns`. Returns the first byte that was not read, and the time at which that
    /// byte passes.
    pub fn stream(
        &self,
        mut start_bytes: u64,
        mut at_ns: u64,
        end_bytes: u64,
        until_ns: u64,
    ) -> (u64, u64) {
        while start_bytes < end_bytes && at_ns < until_ns {
            let place = self.place(start_bytes);
            let track_start_at_ns = at_ns.wrapping_sub(self.turn_ns(place));
            let track_end_at_ns = track_start_at_ns.wrapping_add(self.revolution_ns);
            if end_bytes >= place.track_end_bytes() && track_end_at_ns <= until_ns {
                start_bytes = place.track_end_bytes();
                at_ns = track_end_at_ns + self.track_switch_ns;
                continue;
            }
            let within_bytes = if until_ns < track_end_at_ns {
                self.passing_bytes(place, until_ns)
            } else {
                place.track_bytes
            };
            let stop = Place {
                within_bytes: within_bytes.min(end_bytes - place.start_bytes),
                ..place
            };
            start_bytes = stop.start_bytes + stop.within_bytes;
            at_ns = track_start_at_ns.wrapping_add(self.turn_ns(stop));
            if start_bytes == place.track_end_bytes() {
                at_ns += self.track_switch_ns;
            }
            break;
        }
        (start_bytes, at_ns)
    }

    /// Returns the time of one revolution.
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }
}

/// The seek time as a function of the distance: a constant settle time, plus a curve. The curve is a square
/// root up to a certain distance (the knee). Beyond the knee, it is a line with the slope of the square root
/// at the knee.
///
/// Cost: 4 bytes for each cylinder; the disk of 2007 has about 110,000. The times are computed in advance,
/// since a drive compares the times of many seeks before it executes one.
#[derive(Debug)]
struct SeekCurve {
    settle_ns: u64,
    /// The seek time for each distance in cylinders.
    times_ns: Vec<u32>,
}

/// The number 1 as a fixed-point fraction of the stroke.
const ONE: u64 = 1 << 32;
/// The number 1 as the square root of such a fixed-point fraction.
const ROOT_ONE: u64 = 1 << 16;

impl SeekCurve {
    fn new(model: &DiskModel, cylinders: u64) -> Self {
        let cylinders = cylinders.max(1);
        let settle_ns = nanos(model.seek_settle.value);
        let full_ns = nanos(model.seek_full_stroke.value);
        let knee = ONE / 1000 * model.seek_root_permille.value;
        let knee_root = knee.isqrt();
        // Let s be the square root of the knee. A seek over all cylinders takes
        // `settle_ns + root_ns * (s + (1 - s * s) / (2 * s))`. This equation gives `root_ns`.
        let root_ns = scale(
            full_ns - settle_ns,
            2 * knee_root * ROOT_ONE,
            ONE + knee_root * knee_root,
        );
        let knee_ns = settle_ns + scale(root_ns, knee_root, ROOT_ONE);
        let time_ns = |distance| {
            let share = scale(distance, ONE, cylinders);
            if share <= knee {
                settle_ns + scale(root_ns, share.isqrt(), ROOT_ONE)
            } else {
                knee_ns + scale(full_ns - knee_ns, share - knee, ONE - knee)
            }
        };
        Self {
            settle_ns,
            times_ns: (0..=cylinders)
                .map(|distance| u32::try_from(time_ns(distance)).unwrap_or(u32::MAX))
                .collect(),
        }
    }

    fn time_ns(&self, cylinders: u64) -> u64 {
        let farthest = self.times_ns.len() - 1;
        let distance = usize::try_from(cylinders).map_or(farthest, |it| it.min(farthest));
        self.times_ns[distance].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{DeviceModel, ServiceModel};

    fn sata_2007() -> (&'static DeviceModel, &'static DiskModel) {
        let model = DeviceModel::named("sata-2007").expect("the model is in the table");
        match &model.service {
            ServiceModel::Disk(disk) => (model, disk),
            ServiceModel::Parallel(_) => panic!("sata-2007 is a disk"),
        }
    }

    #[test]
    fn average_of_the_seek_curve_equals_the_data_sheet() {
        let (model, disk) = sata_2007();
        let mechanics = Mechanics::new(disk, model.size_bytes.value, 0);
        let cylinders = mechanics.seek.times_ns.len() as u64 - 1;
        let step = 16;
        let (mut time, mut weights) = (0, 0);
        for distance in (1..cylinders).step_by(step) {
            let weight = u128::from(cylinders - distance);
            time += weight * u128::from(mechanics.seek.time_ns(distance));
            weights += weight;
        }
        let average_us = time / weights / 1000;
        assert!((8_450..8_550).contains(&average_us), "{average_us} µs");
    }

    #[test]
    fn seek_curve_is_monotonic_and_its_ends_equal_the_data_sheet() {
        let (model, disk) = sata_2007();
        let mechanics = Mechanics::new(disk, model.size_bytes.value, 0);
        let curve = &mechanics.seek;
        let full_ns = nanos(disk.seek_full_stroke.value);
        let cylinders = curve.times_ns.len() as u64 - 1;
        assert_eq!(curve.time_ns(cylinders), full_ns);
        let mut last_ns = 0;
        for distance in (1..=cylinders).step_by(64) {
            let time_ns = curve.time_ns(distance);
            assert!(last_ns <= time_ns, "{distance} cylinders");
            last_ns = time_ns;
        }
    }

    #[test]
    fn places_on_the_disk_are_in_the_order_of_addresses() {
        let (model, disk) = sata_2007();
        let mechanics = Mechanics::new(disk, model.size_bytes.value, 0);
        let mut byte = 0;
        let mut expected = 0;
        while byte < model.size_bytes.value {
            let place = mechanics.place(byte);
            assert_eq!(place.track, expected);
            assert_eq!(place.within_bytes, 0);
            assert_eq!(mechanics.place(place.track_end_bytes() - 1).track, expected);
            byte = place.track_end_bytes();
            expected += 1;
        }
    }

    #[test]
    fn stream_in_two_parts_ends_at_the_same_time() {
        let (model, disk) = sata_2007();
        let mechanics = Mechanics::new(disk, model.size_bytes.value, 12_345);
        let start = 1_000_000_000 / SECTOR_BYTES * SECTOR_BYTES;
        let end = start + 4_000 * SECTOR_BYTES;
        let head = Head {
            track: mechanics.place(start).track,
            ready_at_ns: 0,
        };
        let begin_ns = mechanics
            .approach(head, 0, mechanics.spot(mechanics.place(start)), false)
            .begin_at_ns;
        let whole = mechanics.stream(start, begin_ns, end, u64::MAX);
        assert_eq!(whole.0, end);
        for cut in (start..end).step_by(7 * 512) {
            let (next, at_ns) = mechanics.stream(start, begin_ns, cut, u64::MAX);
            assert_eq!(next, cut);
            assert_eq!(mechanics.stream(next, at_ns, end, u64::MAX), whole);
            // A head that is already at the next byte does not wait.
            let place = mechanics.place(next);
            let head = Head {
                track: place.track,
                ready_at_ns: at_ns,
            };
            let approach = mechanics.approach(head, at_ns, mechanics.spot(place), false);
            assert_eq!(approach.begin_at_ns, at_ns, "at {cut}");
        }
    }
}
