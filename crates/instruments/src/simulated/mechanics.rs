//! The mechanics of a disk: where each byte lies, and when it passes under a head.
//!
//! Model: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer, 1994:
//! zones of tracks of equal length, a seek curve that begins as a root and ends as a line, and
//! platters that turn all the time. Tracks are numbered along the addresses, cylinder by cylinder.
//! Each begins so much later than the one before it as switching takes (the skew), so that a
//! sequential reader never waits.
//!
//! All times are whole nanoseconds and all angles are measured in them, so that bytes that follow
//! each other also do so under the head, to the nanosecond.
//!
//! Differs: no spare sectors, no retries, no recalibration; the head is on its track exactly when
//! the curve says.

use super::arithmetic::{NANOS_PER_SECOND, nanos, scale};
use super::parameters::DiskModel;

/// What a disk reads and writes at least.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A byte's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub track: u64,
    /// Of the track.
    pub start_bytes: u64,
    pub track_bytes: u64,
    /// From the start of the track.
    pub within_bytes: u64,
}

impl Place {
    /// The first byte behind this one's track.
    pub fn track_end_bytes(self) -> u64 {
        self.start_bytes + self.track_bytes
    }
}

/// What the arm has to know of a byte to get there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub track: u64,
    /// The angle of the platters when the byte passes.
    angle_ns: u64,
}

/// Where the heads are, or will be once they have come to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub track: u64,
    pub ready_at_ns: u64,
}

/// How one run of bytes is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Approach {
    /// When the head is on the track of the first byte.
    pub arrive_at_ns: u64,
    /// When the first byte passes under it.
    pub begin_at_ns: u64,
}

#[derive(Debug)]
struct Zone {
    first_track: u64,
    start_bytes: u64,
    track_bytes: u64,
}

/// Tracks, and the times between them.
#[derive(Debug)]
pub(super) struct Mechanics {
    zones: Vec<Zone>,
    heads: u64,
    revolution_ns: u64,
    track_switch_ns: u64,
    /// No way from one track to another is shorter.
    shortest_seek_ns: u64,
    write_settle_ns: u64,
    seek: SeekCurve,
    /// The angle of the platters at time 0.
    phase_ns: u64,
}

impl Mechanics {
    /// `phase` is any number: it says how the platters stand at time 0.
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

    /// Where a byte lies.
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

    /// The start of the outermost zone that gives a sequential reader at most so much; of the
    /// innermost if none does.
    pub fn offset_with_rate(&self, bytes_per_second: u64) -> u64 {
        let track_ns = self.revolution_ns + self.track_switch_ns;
        self.zones
            .iter()
            .find(|zone| scale(zone.track_bytes, NANOS_PER_SECOND, track_ns) <= bytes_per_second)
            .or(self.zones.last())
            .map_or(0, |zone| zone.start_bytes)
    }

    /// The first byte of a track.
    pub fn track_start_bytes(&self, track: u64) -> u64 {
        let index = self.zones.partition_point(|zone| zone.first_track <= track) - 1;
        let zone = &self.zones[index];
        zone.start_bytes + (track - zone.first_track) * zone.track_bytes
    }

    /// From the start of a track to a byte of it.
    fn turn_ns(&self, place: Place) -> u64 {
        place.within_bytes * self.revolution_ns / place.track_bytes
    }

    /// What the arm has to know of a place.
    pub fn spot(&self, place: Place) -> Spot {
        Spot {
            track: place.track,
            angle_ns: (self.track_angle_ns(place.track) + self.turn_ns(place)) % self.revolution_ns,
        }
    }

    /// The angle of the platters when the start of a track passes.
    fn track_angle_ns(&self, track: u64) -> u64 {
        track * self.track_switch_ns % self.revolution_ns
    }

    /// The angle of the platters.
    fn angle_ns(&self, at_ns: u64) -> u64 {
        (at_ns % self.revolution_ns + self.phase_ns) % self.revolution_ns
    }

    /// How long the platters turn from one angle to another: less than a revolution.
    fn turning_ns(&self, from_angle_ns: u64, to_angle_ns: u64) -> u64 {
        if to_angle_ns >= from_angle_ns {
            to_angle_ns - from_angle_ns
        } else {
            to_angle_ns + self.revolution_ns - from_angle_ns
        }
    }

    /// The first whole sector of `place`'s track that begins to pass at `at_ns` or later, counted
    /// from the start of the track; the track's length if none does before it ends.
    pub fn passing_bytes(&self, place: Place, at_ns: u64) -> u64 {
        let turned_ns = self.turning_ns(self.track_angle_ns(place.track), self.angle_ns(at_ns));
        (turned_ns * place.track_bytes)
            .div_ceil(self.revolution_ns)
            .next_multiple_of(SECTOR_BYTES)
            .min(place.track_bytes)
    }

    /// How long the arm takes from one track to another.
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

    /// The way from `head`, setting out at `depart_at_ns`, to `spot`.
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

    /// Of the spots, the one that passes under the head soonest after it has set out for it at
    /// `depart_at_ns`, and when; of those that pass at the same time, the one with the least key.
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
            // What passes too late even after the shortest way needs no seek worked out: most
            // spots where many wait.
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

    /// Lets bytes pass from `start_bytes` on, which passes at `at_ns`, until `end_bytes` or until
    /// `until_ns`. Answers the next byte, and when it passes.
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

    /// One revolution.
    pub fn revolution_ns(&self) -> u64 {
        self.revolution_ns
    }
}

/// Seek time by distance: settling, a root up to a knee, then a line that goes on as steeply.
///
/// Cost: 4 bytes a cylinder, some 80,000 of them. The root is worked out once for each, since a
/// drive compares many seeks for each that it does.
#[derive(Debug)]
struct SeekCurve {
    settle_ns: u64,
    /// By cylinders.
    times_ns: Vec<u32>,
}

/// Fixed-point fractions of the stroke, and their roots.
const ONE: u64 = 1 << 32;
const ROOT_ONE: u64 = 1 << 16;

impl SeekCurve {
    fn new(model: &DiskModel, cylinders: u64) -> Self {
        let cylinders = cylinders.max(1);
        let settle_ns = nanos(model.seek_settle.value);
        let full_ns = nanos(model.seek_full_stroke.value);
        let knee = ONE / 1000 * model.seek_root_permille.value;
        let knee_root = knee.isqrt();
        // With s the root of the knee: root_ns * (s + (1 - s * s) / (2 * s)) is the whole way.
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
    fn seek_curve_over_all_pairs_averages_as_the_data_sheet_says() {
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
        assert!((8_450..8_550).contains(&average_us), "{average_us} us");
    }

    #[test]
    fn seek_curve_at_its_ends_is_what_the_data_sheet_says_and_never_falls() {
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
    fn place_over_the_whole_disk_follows_the_addresses() {
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
    fn stream_cut_anywhere_ends_when_the_whole_one_does() {
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
            // The head that is there already waits for nothing.
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
