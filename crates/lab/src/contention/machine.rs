//! The simulated machine: its processors, and the locks, cache lines and entries that they contend for.
//!
//! # Invariants
//! 1. A processor runs at most one worker. A worker is running, ready, parked or done.
//! 2. A lock has at most one owner. If it has no owner, no worker waits in its queue.
//! 3. An entry is held exclusively by one worker, held shared by any number of workers, or not held.
//! 4. The running transaction has at most its limit of blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use super::journal::{Journal, JournalSize};
use larder_cache::mbcache::Touch;
use serde::Serialize;

/// A step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work without accesses to shared memory, in nanoseconds. It delays other workers only if the worker
    /// holds a lock or entry.
    Work(u64),
    /// An access to a lock, a cache line or an entry.
    Touch(Touch),
    /// The addition of a block to the running transaction of the journal.
    Dirty(u64),
}

/// Cost of each step, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(clippy::struct_field_names, reason = "the names are keys of the JSON")]
pub struct Prices {
    /// Access to a lock or line that this processor used last.
    pub own_ns: u64,
    /// Access to a lock or line that another processor used last.
    pub transfer_ns: u64,
    /// Cost that is added to `transfer_ns` for each worker that waits for the lock or line.
    pub waiter_ns: u64,
    /// Cost of waking a worker, paid by the worker that wakes it.
    pub wake_ns: u64,
    /// Delay until an idle processor runs a worker that was woken, and until a processor runs its next worker
    /// after a worker parked.
    pub switch_ns: u64,
}

/// The processors, and the cost of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub processors: usize,
    /// Cost of each step.
    pub prices: Prices,
    pub journal: JournalSize,
}

/// Results of a simulated run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Time from the start to the end of the last worker, in nanoseconds. If at least two commits began, this
    /// time is extrapolated from the time between the beginnings of the first and the last commit.
    pub elapsed_ns: u64,
    /// Number of operations of all workers.
    pub operations: u64,
    /// Number of times that a lock moved from one processor to another.
    pub lock_handovers: u64,
    /// Number of times that a line without a lock moved from one processor to another.
    pub line_handovers: u64,
    /// Number of times that a worker waited in the queue of a lock.
    pub lock_waits: u64,
    /// Number of times that a worker parked.
    pub parks: u64,
    /// Number of commits that began.
    pub commits: u64,
}

impl Machine {
    /// Simulates the operations of each worker to the end. Worker `n` runs on processor `n` modulo the
    /// number of processors.
    ///
    /// # Panics
    /// Panics if the workers deadlock.
    pub fn simulate(&self, workers: &[Vec<Vec<Step>>]) -> Outcome {
        let mut simulation = Simulation::new(*self, workers);
        for processor in 0..self.processors {
            simulation.next_worker(processor, 0);
        }
        while let Some(Reverse((now, _, worker))) = simulation.events.pop() {
            simulation.step(worker, now);
        }
        let done = simulation.workers.iter().filter(|worker| worker.is_done());
        assert_eq!(done.count(), workers.len(), "a worker waits forever");
        simulation.outcome()
    }
}

/// State of a simulated run: workers, processors, locks, lines and entries.
struct Simulation<'o> {
    machine: Machine,
    workers: Vec<Worker<'o>>,
    processors: Vec<Processor>,
    locks: HashMap<u64, Lock>,
    lines: HashMap<u64, Line>,
    entries: HashMap<u64, Entry>,
    /// Workers that wait for the release of an entry, each with its entry.
    parked: Vec<(usize, u64)>,
    journal: Journal,
    /// The times at which the first and the last commit began, each with the number of operations until then.
    commits_began: Option<((u64, u64), (u64, u64))>,
    /// The workers that will continue. Each event consists of the time at which its worker continues, of a
    /// number that orders events of the same time, and of the worker.
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    scheduled: u64,
    outcome: Outcome,
}

/// The state of a worker.
struct Worker<'o> {
    processor: usize,
    operations: &'o [Vec<Step>],
    operation: usize,
    step: usize,
    /// Time that the worker spends to wake other workers after it releases its lock, in nanoseconds.
    wake_cost_ns: u64,
}

impl Worker<'_> {
    fn is_done(&self) -> bool {
        self.operation == self.operations.len()
    }

    /// Returns the lock that the operation acquired last and still holds, with the index of the step that
    /// acquired it. Returns `None` if the operation holds no lock.
    fn lock_held(&self) -> Option<(usize, u64)> {
        let steps = &self.operations[self.operation][..self.step];
        let mut released = Vec::new();
        for (at, step) in steps.iter().enumerate().rev() {
            match step {
                Step::Touch(Touch::Unlock(place)) => released.push(*place),
                Step::Touch(Touch::Lock(place)) => {
                    match released.iter().position(|of| of == place) {
                        Some(matching) => drop(released.swap_remove(matching)),
                        None => return Some((at, *place)),
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[derive(Default)]
struct Processor {
    is_busy: bool,
    ready: VecDeque<usize>,
}

#[derive(Default)]
struct Lock {
    owner: Option<usize>,
    queue: VecDeque<usize>,
    last: Option<usize>,
}

#[derive(Default)]
struct Line {
    last: Option<usize>,
    /// The end times of the writes that are in progress, or are waiting for an earlier write.
    ends_ns: VecDeque<u64>,
}

#[derive(Default)]
struct Entry {
    exclusive: Option<usize>,
    shared: u32,
}

impl<'o> Simulation<'o> {
    fn new(machine: Machine, workers: &'o [Vec<Vec<Step>>]) -> Self {
        let mut processors: Vec<Processor> = Vec::new();
        processors.resize_with(machine.processors, Processor::default);
        for worker in 0..workers.len() {
            processors[worker % machine.processors]
                .ready
                .push_back(worker);
        }
        let workers = workers
            .iter()
            .enumerate()
            .map(|(number, operations)| Worker {
                processor: number % machine.processors,
                operations,
                operation: 0,
                step: 0,
                wake_cost_ns: 0,
            });
        Self {
            machine,
            workers: workers.collect(),
            processors,
            locks: HashMap::new(),
            lines: HashMap::new(),
            entries: HashMap::new(),
            parked: Vec::new(),
            journal: Journal::new(machine.journal),
            commits_began: None,
            events: BinaryHeap::new(),
            scheduled: 0,
            outcome: Outcome::default(),
        }
    }

    /// Returns the results. If at least two commits began, commits limit the speed. Then the elapsed time is
    /// extrapolated to all operations from the time between the first and the last commit. Operations outside
    /// this interval are not representative: the first transaction did not wait for an earlier commit, and the
    /// commit of the last transaction has not begun.
    fn outcome(&self) -> Outcome {
        let mut outcome = self.outcome;
        if let Some(((first_ns, before), (last_ns, until))) = self.commits_began
            && until > before
        {
            let elapsed_ns = u128::from(last_ns - first_ns) * u128::from(outcome.operations)
                / u128::from(until - before);
            outcome.elapsed_ns = u64::try_from(elapsed_ns).unwrap_or(u64::MAX);
        }
        outcome
    }

    fn schedule(&mut self, worker: usize, at_ns: u64) {
        self.scheduled += 1;
        self.events.push(Reverse((at_ns, self.scheduled, worker)));
    }

    /// Runs the next ready worker on the processor, which must be idle.
    fn next_worker(&mut self, processor: usize, at_ns: u64) {
        let next = self.processors[processor].ready.pop_front();
        self.processors[processor].is_busy = next.is_some();
        if let Some(worker) = next {
            self.schedule(worker, at_ns);
        }
    }

    /// Executes the worker's next step, which begins at the time `now`.
    fn step(&mut self, number: usize, now: u64) {
        let worker = &self.workers[number];
        let step = worker
            .operations
            .get(worker.operation)
            .map(|steps| steps.get(worker.step));
        let processor = worker.processor;
        match step {
            // The worker has no operations.
            None => self.next_worker(processor, now),
            Some(None) => self.end_operation(number, now),
            Some(Some(&Step::Work(ns))) => self.continue_at(number, now + ns),
            Some(Some(&Step::Touch(touch))) => self.touch(number, touch, now),
            Some(Some(&Step::Dirty(block))) => self.dirty(number, block, now),
        }
    }

    /// Schedules the worker to continue after its step, which ends at `at_ns`.
    fn continue_at(&mut self, number: usize, at_ns: u64) {
        self.workers[number].step += 1;
        self.schedule(number, at_ns);
    }

    fn end_operation(&mut self, number: usize, now: u64) {
        let worker = &mut self.workers[number];
        worker.operation += 1;
        worker.step = 0;
        self.outcome.operations += 1;
        self.outcome.elapsed_ns = self.outcome.elapsed_ns.max(now);
        let processor = worker.processor;
        if !worker.is_done() {
            self.processors[processor].ready.push_back(number);
        }
        self.next_worker(processor, now);
    }

    fn touch(&mut self, number: usize, touch: Touch, now: u64) {
        let own_ns = self.machine.prices.own_ns;
        match touch {
            Touch::Lock(place) => self.lock(number, place, now),
            Touch::Unlock(place) => {
                self.unlock(place, now);
                let wake_cost_ns = std::mem::take(&mut self.workers[number].wake_cost_ns);
                self.continue_at(number, now + own_ns + wake_cost_ns);
            }
            Touch::Write(place) => self.write(number, place, now),
            Touch::HoldExclusive(place) => {
                let entry = self.entries.entry(place).or_default();
                if entry.exclusive.is_some() || entry.shared > 0 {
                    return self.park(number, place, now);
                }
                entry.exclusive = Some(number);
                self.continue_at(number, now + own_ns);
            }
            Touch::HoldShared(place) => {
                let entry = self.entries.entry(place).or_default();
                if entry.exclusive.is_some() {
                    return self.park(number, place, now);
                }
                entry.shared += 1;
                self.continue_at(number, now + own_ns);
            }
            Touch::Release(place) => {
                self.release(number, place, now);
                self.continue_at(number, now + own_ns);
            }
        }
    }

    fn lock(&mut self, number: usize, place: u64, now: u64) {
        let lock = self.locks.entry(place).or_default();
        if lock.owner.is_some() {
            lock.queue.push_back(number);
            self.outcome.lock_waits += 1;
        } else {
            self.grant(number, place, now);
        }
    }

    /// Grants the lock, which must be free, to the worker.
    fn grant(&mut self, number: usize, place: u64, now: u64) {
        let processor = self.workers[number].processor;
        let lock = self.locks.entry(place).or_default();
        lock.owner = Some(number);
        let before = lock.last.replace(processor);
        let is_handover = before.is_some_and(|before| before != processor);
        self.outcome.lock_handovers += u64::from(is_handover);
        let cost_ns = self.machine.prices.of(is_handover, lock.queue.len());
        self.continue_at(number, now + cost_ns);
    }

    /// Releases the lock and grants it to the first worker in its queue.
    fn unlock(&mut self, place: u64, now: u64) {
        let lock = self.locks.entry(place).or_default();
        lock.owner = None;
        if let Some(next) = lock.queue.pop_front() {
            self.grant(next, place, now);
        }
    }

    /// Simulates a write to the line. Writes are serialized.
    fn write(&mut self, number: usize, place: u64, now: u64) {
        let processor = self.workers[number].processor;
        let line = self.lines.entry(place).or_default();
        let before = line.last.replace(processor);
        let is_handover = before.is_some_and(|before| before != processor);
        while line.ends_ns.front().is_some_and(|end_ns| *end_ns <= now) {
            line.ends_ns.pop_front();
        }
        let cost_ns = self.machine.prices.of(is_handover, line.ends_ns.len());
        let end_ns = line.ends_ns.back().copied().unwrap_or(now) + cost_ns;
        line.ends_ns.push_back(end_ns);
        self.outcome.line_handovers += u64::from(is_handover);
        self.continue_at(number, end_ns);
    }

    /// Parks the worker, because another worker holds the entry. The worker releases its lock, and its
    /// processor runs the next worker. After a wake-up, the parked worker acquires the same lock again and
    /// checks the entry.
    fn park(&mut self, number: usize, entry: u64, now: u64) {
        if let Some((at, place)) = self.workers[number].lock_held() {
            self.workers[number].step = at;
            self.unlock(place, now);
        }
        self.outcome.parks += 1;
        self.parked.push((number, entry));
        let processor = self.workers[number].processor;
        self.next_worker(processor, now + self.machine.prices.switch_ns);
    }

    /// Adds the block to the running transaction. If this transaction is full, and an earlier transaction is still
    /// being committed, the worker and its processor wait for the end of that commit, and try again.
    fn dirty(&mut self, number: usize, block: u64, now: u64) {
        let before = self.journal.commits();
        match self.journal.add(block, now) {
            Ok(()) => self.continue_at(number, now + self.machine.prices.own_ns),
            Err(ready_ns) => self.schedule(number, ready_ns),
        }
        if self.journal.commits() > before {
            self.outcome.commits = self.journal.commits();
            let at = (now, self.outcome.operations);
            let (first, _) = self.commits_began.unwrap_or((at, at));
            self.commits_began = Some((first, at));
        }
    }

    /// Releases the entry. If a parked worker waits for this entry, wakes all parked workers.
    fn release(&mut self, number: usize, place: u64, now: u64) {
        let entry = self.entries.entry(place).or_default();
        if entry.exclusive == Some(number) {
            entry.exclusive = None;
        } else {
            entry.shared = entry
                .shared
                .checked_sub(1)
                .expect("a released entry was held");
        }
        if !self
            .parked
            .iter()
            .any(|(_, waited_for)| *waited_for == place)
        {
            return;
        }
        let mut woken_ns = 0;
        for (woken, _) in std::mem::take(&mut self.parked) {
            woken_ns += self.machine.prices.wake_ns;
            let processor = self.workers[woken].processor;
            self.processors[processor].ready.push_back(woken);
            if !self.processors[processor].is_busy {
                self.next_worker(processor, now + woken_ns + self.machine.prices.switch_ns);
            }
        }
        self.workers[number].wake_cost_ns += woken_ns;
    }
}

impl Prices {
    fn of(&self, is_handover: bool, waiters: usize) -> u64 {
        if is_handover {
            self.transfer_ns + self.waiter_ns * waiters as u64
        } else {
            self.own_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Touch::{HoldExclusive, HoldShared, Release, Unlock, Write};
    use super::*;

    const PRICES: Prices = Prices {
        own_ns: 1,
        transfer_ns: 100,
        waiter_ns: 0,
        wake_ns: 10,
        switch_ns: 1000,
    };

    fn machine(processors: usize) -> Machine {
        Machine {
            processors,
            prices: PRICES,
            journal: JournalSize {
                limit_blocks: 3,
                block_ns: 1000,
            },
        }
    }

    fn critical(work_ns: u64) -> Vec<Step> {
        vec![
            Step::Touch(Touch::Lock(7)),
            Step::Work(work_ns),
            Step::Touch(Unlock(7)),
        ]
    }

    #[test]
    fn one_worker_pays_no_transfer_costs() {
        let outcome = machine(2).simulate(&[vec![critical(50), critical(50)]]);
        assert_eq!(
            outcome,
            Outcome {
                elapsed_ns: 2 * 52,
                operations: 2,
                ..Outcome::default()
            }
        );
    }

    #[test]
    fn lock_of_two_processors_is_handed_over_each_time() {
        let outcome = machine(2).simulate(&[vec![critical(50); 2], vec![critical(50); 2]]);
        // The first worker holds the lock from 0 to 51. Then the lock changes its owner three times: each time, the
        // transfer takes 100 and the work 50. The last owner releases the lock.
        assert_eq!(
            outcome,
            Outcome {
                elapsed_ns: 51 + 3 * 150 + 1,
                operations: 4,
                lock_handovers: 3,
                lock_waits: 3,
                ..Outcome::default()
            }
        );
    }

    #[test]
    fn two_workers_on_one_processor_cause_no_handovers() {
        let outcome = machine(1).simulate(&[vec![critical(50)], vec![critical(50)]]);
        assert_eq!(outcome.elapsed_ns, 2 * 52);
        assert_eq!((outcome.lock_handovers, outcome.lock_waits), (0, 0));
    }

    #[test]
    fn writes_of_two_processors_to_one_line_are_serialized() {
        let write = vec![Step::Touch(Write(3))];
        let outcome = machine(2).simulate(&[vec![write.clone()], vec![write]]);
        assert_eq!((outcome.elapsed_ns, outcome.line_handovers), (101, 1));
    }

    #[test]
    fn writes_to_separate_lines_do_not_wait() {
        let write = |place| vec![vec![Step::Touch(Write(place)); 5]];
        let outcome = machine(2).simulate(&[write(3), write(4)]);
        assert_eq!((outcome.elapsed_ns, outcome.line_handovers), (5, 0));
    }

    /// Returns steps that hold the entry under the lock, work on it outside the lock, and release it
    /// under the lock.
    fn hold(hold: Touch) -> Vec<Step> {
        let mut steps = vec![Step::Touch(Touch::Lock(7)), Step::Touch(hold)];
        steps.extend([Step::Touch(Unlock(7)), Step::Work(500)]);
        steps.extend([Touch::Lock(7), Release(9), Unlock(7)].map(Step::Touch));
        steps
    }

    #[test]
    fn exclusive_entry_parks_other_workers_until_its_release() {
        let outcome =
            machine(2).simulate(&[vec![hold(HoldExclusive(9))], vec![hold(HoldShared(9))]]);
        // The first worker locks until 1, holds until 2, unlocks until 3 and works until 503. The second waits for the
        // lock until 2, owns it from 102, cannot hold the entry, releases the lock and parks. The first worker acquires
        // the lock from 503 to 603, releases the entry, releases the lock at 604, and pays for waking the second. The
        // second continues at 603 + 10 + 1000, owns the lock at 1713, holds the entry, unlocks at 1715, works until
        // 2215, locks, releases the entry and unlocks.
        assert_eq!(
            outcome,
            Outcome {
                elapsed_ns: 2218,
                operations: 2,
                lock_handovers: 3,
                lock_waits: 1,
                parks: 1,
                ..Outcome::default()
            }
        );
    }

    #[test]
    fn shared_holds_of_one_entry_do_not_park() {
        let outcome = machine(2).simulate(&[vec![hold(HoldShared(9))], vec![hold(HoldShared(9))]]);
        assert_eq!(outcome.parks, 0);
    }

    #[test]
    fn release_also_wakes_workers_that_wait_for_another_entry() {
        let other = |entry| {
            vec![vec![
                Step::Touch(HoldExclusive(entry)),
                Step::Work(if entry == 9 { 10 } else { 10_000 }),
                Step::Touch(Release(entry)),
            ]]
        };
        let outcome = machine(4).simulate(&[other(8), other(9), other(8), other(9)]);
        // The third worker parks a second time, because the release that woke it was of another entry.
        assert_eq!(outcome.parks, 3);
        assert_eq!(outcome.operations, 4);
    }

    #[test]
    fn worker_without_operations_delays_no_other() {
        let outcome = machine(1).simulate(&[vec![], vec![critical(50)]]);
        assert_eq!((outcome.elapsed_ns, outcome.operations), (52, 1));
    }

    #[test]
    fn handover_costs_more_for_each_waiting_worker() {
        let mut machine = machine(4);
        machine.prices.waiter_ns = 7;
        let workers = vec![vec![critical(50)]; 4];
        // The lock is handed over three times, while two, one and no workers wait.
        let outcome = machine.simulate(&workers);
        assert_eq!(outcome.elapsed_ns, 51 + 3 * 150 + 7 * (2 + 1) + 1);
        let write = vec![Step::Touch(Write(3))];
        let outcome = machine.simulate(&vec![vec![write]; 4]);
        // The second, third and fourth write wait for one, two and three others.
        assert_eq!(outcome.elapsed_ns, 1 + 3 * 100 + 7 * (1 + 2 + 3));
    }

    #[test]
    fn commits_determine_the_time_if_transactions_become_full() {
        let sets: Vec<Vec<Step>> = (0..30).map(|block| vec![Step::Dirty(block)]).collect();
        let outcome = machine(1).simulate(std::slice::from_ref(&sets));
        assert_eq!((outcome.operations, outcome.commits), (30, 9));
        // A commit of three blocks takes 3000 ns.
        assert_eq!(outcome.elapsed_ns, 30 * 1000);
        let few: Vec<Vec<Step>> = (0..30).map(|set| vec![Step::Dirty(set % 3)]).collect();
        let outcome = machine(1).simulate(&[few]);
        assert_eq!((outcome.elapsed_ns, outcome.commits), (30, 0));
    }
}
