//! Runs policies on workloads, with caches of several sizes.

use super::policy::PolicyName;
use super::size::{CacheSize, Sizes};
use super::workload::{Step, TraceOrigin, Workload};
use rayon::prelude::*;
use serde::Serialize;

/// The result of one policy on one workload with one size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The number of the trace in [`Study::traces`].
    pub trace: usize,
    /// The requested size.
    pub size: CacheSize,
    /// The size in objects.
    pub objects: u32,
    /// The policy.
    pub policy: PolicyName,
    /// The accesses that missed.
    pub misses: u32,
    /// The share of the accesses that missed.
    pub miss_ratio: f64,
}

/// A workload of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudiedTrace {
    /// The file.
    #[serde(flatten)]
    pub origin: TraceOrigin,
    /// The number of accesses.
    pub accesses: u32,
    /// The number of objects that are accessed.
    pub objects: u32,
    /// The number of removals.
    pub removals: u32,
}

/// The results of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Study {
    /// The workloads.
    pub traces: Vec<StudiedTrace>,
    /// The policies, in the requested order.
    pub policies: Vec<PolicyName>,
    /// The sizes, in the requested order.
    pub sizes: Vec<CacheSize>,
    /// The results, in the order of traces, sizes and policies. Caches with room for fewer than [`Sizes::LEAST`]
    /// objects are omitted.
    pub cells: Vec<Cell>,
}

/// Returns the number of cells of a study.
#[must_use]
pub fn cells(workloads: &[Workload], sizes: &Sizes, policies: &[PolicyName]) -> u64 {
    let sizes = workloads.iter().map(|workload| {
        sizes
            .0
            .iter()
            .filter(|size| size.objects(workload.objects).is_some())
    });
    sizes
        .map(|sizes| (sizes.count() * policies.len()) as u64)
        .sum()
}

/// Runs all policies on all workloads with all sizes, in parallel. Calls `tick` after each cell.
#[must_use]
pub fn study(
    workloads: &[Workload],
    sizes: &Sizes,
    policies: &[PolicyName],
    tick: impl Fn() + Sync,
) -> Study {
    let mut jobs = Vec::new();
    for (trace, workload) in workloads.iter().enumerate() {
        for &size in &sizes.0 {
            let Some(objects) = size.objects(workload.objects) else {
                continue;
            };
            jobs.extend(
                policies
                    .iter()
                    .map(|&policy| (trace, size, objects, policy)),
            );
        }
    }
    let cell = |(trace, size, objects, policy)| {
        let workload: &Workload = &workloads[trace];
        let misses = misses(workload, policy, objects);
        tick();
        Cell {
            trace,
            size,
            objects,
            policy,
            misses,
            miss_ratio: f64::from(misses) / f64::from(workload.accesses.max(1)),
        }
    };
    Study {
        traces: workloads.iter().map(StudiedTrace::of).collect(),
        policies: policies.to_vec(),
        sizes: sizes.0.clone(),
        cells: jobs.into_par_iter().map(cell).collect(),
    }
}

impl StudiedTrace {
    fn of(workload: &Workload) -> Self {
        Self {
            origin: workload.origin.clone(),
            accesses: workload.accesses,
            objects: workload.objects,
            removals: workload.removals(),
        }
    }
}

/// Returns the number of accesses that miss.
fn misses(workload: &Workload, policy: PolicyName, capacity: u32) -> u32 {
    let mut cache = policy.cache(capacity as usize, workload.objects as usize);
    let mut misses = 0;
    for step in &workload.steps {
        match *step {
            Step::Access(access) => misses += u32::from(!cache.access(access)),
            Step::Remove(object) => cache.remove(object),
        }
    }
    misses
}
