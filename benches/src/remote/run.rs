//! A run: in each round, each side of each group is measured once. The other programs are measured in the first round
//! only. A failure of one side does not end the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, bail};
use larder_testkit::requirement::{Requirement, is_root};
use tempfile::TempDir;

use crate::named::named;
use crate::outcome::Outcome;
use crate::peer::Programs;
use crate::remote::image::Image;
use crate::remote::measure::Side;
use crate::remote::mount;
use crate::remote::network::Network;
use crate::remote::plan::Plan;
use crate::remote::recorded::Start;
use crate::remote::results::Sample;
use crate::remote::s3::Blocks;
use crate::remote::setup::{Samples, Setup};
use crate::remote::starts::Profile;
use crate::remote::{latency, memory, nodes, peers, prediction, readers, starts};
use crate::scratch;

named! {
    /// Measures that are selected together.
    Group {
        /// Waves of a mount, of the first byte, and of a path.
        Latency: "latency",
        /// find(1).
        Find: "find",
        /// One reader of the big file.
        Sequential: "sequential",
        /// Eight readers of the big file.
        Interleaved: "interleaved",
        /// Random reads of the big file.
        Random: "random",
        /// Cold starts of programs.
        Start: "start",
        /// Memory with many open files.
        Memory: "memory",
        /// Many nodes that start at once.
        Nodes: "nodes",
        /// The devices `object-30ms` and `object-tail` of the lab, and the links that they model.
        Prediction: "prediction",
    }
}

/// The parameters of a run.
#[derive(Debug)]
pub struct Run<'r> {
    /// The sizes.
    pub plan: &'r Plan,
    /// What is measured.
    pub groups: &'r [Group],
    /// The programs.
    pub programs: &'r Programs,
    /// The directory for the image, mount points, caches and logs.
    pub work: &'r Path,
    /// Ends the run early when it is set, with everything unmounted.
    pub interrupted: &'r AtomicBool,
    /// Called with the name of each measurement.
    pub progress: fn(&str),
}

/// Returns the reason why this machine cannot run the benches with `larder`, if there is one.
#[must_use]
pub fn missing(larder: Option<&Path>) -> Option<String> {
    let needed = [Requirement::Tool("mke2fs"), Requirement::Fuse];
    let missing = needed.into_iter().find_map(Requirement::missing);
    let root = || (!is_root()).then(|| "needs root".to_owned());
    missing.or_else(root).or_else(|| mount::missing(larder))
}

/// The profiles of the starts.
struct Profiles {
    folder: TempDir,
    all: Vec<(Start, Profile)>,
}

impl Run<'_> {
    /// Runs everything.
    ///
    /// # Errors
    /// If this machine cannot run the benches, or if the image cannot be made.
    pub fn measure(&self) -> Result<Outcome<Sample>> {
        if let Some(reason) = missing(self.programs.larder.as_deref()) {
            bail!("images at URLs cannot be measured here: {reason}");
        }
        let larder: PathBuf = self.programs.larder.clone().context("larder is missing")?;
        let folder = scratch::folder(self.work, "larder-remote-")?;
        (self.progress)("making the image");
        let mut setup = Setup {
            plan: self.plan.clone(),
            larder,
            harness: self.programs.harness.clone(),
            image: Image::make(folder.path(), self.plan)?,
            blocks: None,
            folder: folder.path().to_owned(),
        };
        let mut outcome = Outcome::default();
        let peers = self.peers(&mut setup, &mut outcome);
        let profiles = self.profiles(&setup, &mut outcome)?;
        for round in 0..self.plan.rounds {
            for &group in self.groups {
                let mut sides = sides(group);
                if round == 0 {
                    sides.extend(peers_of(group, &peers));
                }
                for (network, side) in sides {
                    if self.interrupted.load(Relaxed) {
                        outcome.failures.push("interrupted".to_owned());
                        return Ok(outcome);
                    }
                    let what = format!("{} of {} ({})", group.name(), side.name(), network.name());
                    (self.progress)(&format!(
                        "round {} of {}: {what}",
                        round + 1,
                        self.plan.rounds
                    ));
                    match measure(&setup, group, (network, side), &profiles.all) {
                        Ok(samples) => outcome.samples.extend(samples),
                        Err(error) if Side::PEERS.contains(&side) => {
                            outcome.skipped.push(format!("{what}: {error:#}"));
                        }
                        Err(error) => outcome.failures.push(format!("{what}: {error:#}")),
                    }
                }
            }
        }
        drop(profiles.folder);
        Ok(outcome)
    }

    /// Returns the other programs that can be measured, and records why the rest cannot.
    fn peers(&self, setup: &mut Setup, outcome: &mut Outcome<Sample>) -> Vec<Side> {
        let mut peers = Vec::new();
        let needs = |&group| !peers_of(group, &Side::PEERS).is_empty();
        if !self.plan.has_peers || !self.groups.iter().any(needs) {
            return peers;
        }
        for side in Side::PEERS {
            let mut missing = peers::missing(side);
            if missing.is_none() && side == Side::S3backer {
                (self.progress)("copying the image for s3backer");
                match Blocks::copy(&setup.image.path, &setup.folder) {
                    Ok(blocks) => setup.blocks = Some(blocks),
                    Err(error) => missing = Some(format!("{error:#}")),
                }
            }
            match missing {
                Some(reason) => outcome.skipped.push(format!("{}: {reason}", side.name())),
                None => peers.push(side),
            }
        }
        peers
    }

    /// Records the profiles, if they are needed.
    fn profiles(&self, setup: &Setup, outcome: &mut Outcome<Sample>) -> Result<Profiles> {
        let mut profiles = Profiles {
            folder: setup.new_folder()?,
            all: Vec::new(),
        };
        let needing = [Group::Start, Group::Nodes];
        let is_needed = self.groups.iter().any(|group| needing.contains(group));
        for start in Start::ALL.into_iter().filter(|_| is_needed) {
            (self.progress)(&format!("recording the profile of {}", start.name()));
            match Profile::record(setup, start, profiles.folder.path()) {
                Ok(profile) => profiles.all.push((start, profile)),
                Err(error) => outcome
                    .failures
                    .push(format!("profile of {}: {error:#}", start.name())),
            }
        }
        Ok(profiles)
    }
}

/// Returns the links and sides of a group, in the order in which they are measured.
fn sides(group: Group) -> Vec<(Network, Side)> {
    use Network::{A, B, Local, Object, ObjectTail};
    use Side::{Larder, LarderAdaptive, LarderDisk, LarderOff, LarderPack, LarderProfile, Plain};
    let (networks, sides): (&[Network], &[Side]) = match group {
        Group::Latency => (&[B], &[Larder, LarderProfile, LarderDisk]),
        Group::Sequential => (&[Local, B, A], &[Plain, Larder, LarderDisk, LarderAdaptive]),
        Group::Interleaved | Group::Random => (&[B, A], &[Larder, LarderAdaptive]),
        Group::Find => (&[B, A], &[Larder]),
        Group::Start => (&[B], &[Larder, LarderOff, LarderProfile, LarderPack]),
        Group::Memory => (&[B], &[Larder]),
        Group::Nodes => (&[B], &[LarderProfile, LarderPack]),
        Group::Prediction => (&[Object, ObjectTail], &[Plain, Larder]),
    };
    let of = |&network| sides.iter().map(move |&side| (network, side));
    networks.iter().flat_map(of).collect()
}

/// Returns those links and sides of a group that are other programs.
fn peers_of(group: Group, peers: &[Side]) -> Vec<(Network, Side)> {
    use Network::{A, B};
    let networks: &[Network] = match group {
        Group::Find | Group::Random | Group::Start => &[B],
        Group::Sequential => &[B, A],
        Group::Latency | Group::Interleaved | Group::Memory | Group::Nodes | Group::Prediction => {
            &[]
        }
    };
    let of = |&network| peers.iter().map(move |&side| (network, side));
    networks.iter().flat_map(of).collect()
}

fn measure(
    setup: &Setup,
    group: Group,
    (network, side): (Network, Side),
    profiles: &[(Start, Profile)],
) -> Result<Vec<Sample>> {
    let one = |samples: Samples| samples.all;
    Ok(match (group, side) {
        (Group::Latency, _) => {
            let mut samples = one(latency::first_byte(setup, network, side)?);
            if side == Side::Larder {
                samples.extend(one(latency::path(setup, network)?));
            }
            samples
        }
        (Group::Find, _) => one(readers::find(setup, network, side)?),
        (Group::Sequential, Side::Plain) => one(readers::plain(setup, network)?),
        (Group::Sequential, _) => one(readers::sequential(setup, network, side)?),
        (Group::Interleaved, _) => one(readers::interleaved(setup, network, side)?),
        (Group::Random, _) => one(readers::random(setup, network, side)?),
        (Group::Start, _) => {
            let mut samples = Vec::new();
            for (start, profile) in profiles {
                samples.extend(one(starts::measure(
                    setup,
                    (network, side),
                    *start,
                    profile,
                )?));
            }
            samples
        }
        (Group::Memory, _) => one(memory::measure(setup, network)?),
        (Group::Prediction, Side::Plain) => one(prediction::plain(setup, network)?),
        (Group::Prediction, _) => one(prediction::mounted(setup, network)?),
        (Group::Nodes, _) => {
            let mut profiles = profiles.iter();
            let python = profiles.find(|(start, _)| *start == Start::Python);
            let (_, profile) = python.context("the profile was not recorded")?;
            one(match side {
                Side::LarderPack => nodes::simulated(setup, Network::Local, profile)?,
                _ => nodes::zone(setup, network, profile)?,
            })
        }
    })
}
