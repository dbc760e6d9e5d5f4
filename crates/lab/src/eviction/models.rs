//! Compares the policies with simple models: queues as vectors, searched from end to end, and the pseudo code of the
//! papers. Belady's policy is compared with all possible sequences of evictions, and the clock of the frames with
//! the page cache.

use super::access::{Access, Object};
use super::policy::PolicyName;
use super::workload::{Step, TraceOrigin, Workload, WorkloadBuilder};
use larder_cache::page::{Entry, Frames, FramesConfig, PageCache, PageKey};
use larder_testkit::Seed;
use larder_testkit::seed::Random;
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

/// A model of a cache. `access` returns whether the object was cached.
trait Model {
    fn access(&mut self, object: Object) -> bool;
    fn remove(&mut self, object: Object);
}

/// Removes the object from the queue. Returns whether it was there.
fn take(queue: &mut VecDeque<Object>, object: Object) -> bool {
    let at = queue.iter().position(|one| *one == object);
    at.is_some_and(|at| queue.remove(at).is_some())
}

/// The front is the object that was used last.
struct LruModel {
    capacity: usize,
    queue: VecDeque<Object>,
}

impl Model for LruModel {
    fn access(&mut self, object: Object) -> bool {
        let hit = take(&mut self.queue, object);
        self.queue.push_front(object);
        self.queue.truncate(self.capacity);
        hit
    }

    fn remove(&mut self, object: Object) {
        take(&mut self.queue, object);
    }
}

/// A circle of frames with a hand, which is the usual form of CLOCK. The frame of a removed page leaves the circle, as
/// in a queue.
struct ClockModel {
    capacity: usize,
    is_new_referenced: bool,
    circle: Vec<(Object, bool)>,
    hand: usize,
}

impl Model for ClockModel {
    fn access(&mut self, object: Object) -> bool {
        if let Some(page) = self.circle.iter_mut().find(|page| page.0 == object) {
            page.1 = true;
            return true;
        }
        if self.circle.len() == self.capacity {
            while self.circle[self.hand].1 {
                self.circle[self.hand].1 = false;
                self.hand = (self.hand + 1) % self.capacity;
            }
            self.circle.remove(self.hand);
        }
        // The new page is the last that the hand reaches.
        self.circle
            .insert(self.hand, (object, self.is_new_referenced));
        self.hand = (self.hand + 1) % self.circle.len();
        false
    }

    fn remove(&mut self, object: Object) {
        if let Some(at) = self.circle.iter().position(|page| page.0 == object) {
            self.circle.remove(at);
            self.hand -= usize::from(at < self.hand);
            if self.hand == self.circle.len() {
                self.hand = 0;
            }
        }
    }
}

/// The algorithm of the SIEVE paper. The last element is the tail. `hand` is an index.
struct SieveModel {
    capacity: usize,
    queue: Vec<(Object, bool)>,
    hand: Option<usize>,
}

impl Model for SieveModel {
    fn access(&mut self, object: Object) -> bool {
        if let Some(one) = self.queue.iter_mut().find(|one| one.0 == object) {
            one.1 = true;
            return true;
        }
        if self.queue.len() == self.capacity {
            let mut at = self.hand.unwrap_or(self.queue.len() - 1);
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = at.checked_sub(1).unwrap_or(self.queue.len() - 1);
            }
            self.queue.remove(at);
            self.hand = at.checked_sub(1);
        }
        self.queue.insert(0, (object, false));
        self.hand = self.hand.map(|hand| hand + 1);
        false
    }

    fn remove(&mut self, object: Object) {
        let Some(at) = self.queue.iter().position(|one| one.0 == object) else {
            return;
        };
        self.queue.remove(at);
        self.hand = match self.hand {
            Some(hand) if at <= hand => hand.checked_sub(1),
            hand => hand,
        };
    }
}

/// S3-FIFO or `Clock2Q+`. The back of a queue is its tail.
struct SmallMainModel {
    capacity: usize,
    uses_to_move: u32,
    most_uses: u32,
    has_window: bool,
    /// For each object, its uses, and the value of `entered` after its insertion.
    small: VecDeque<(Object, u32, usize)>,
    main: VecDeque<(Object, u32)>,
    ghost: VecDeque<Object>,
    entered: usize,
    was_full: bool,
}

impl SmallMainModel {
    fn small_capacity(&self) -> usize {
        (self.capacity / 10).max(1)
    }

    fn make_room(&mut self) {
        while self.small.len() + self.main.len() == self.capacity {
            self.was_full = true;
            let main_capacity = self.capacity - self.small_capacity();
            if self.main.len() > main_capacity || self.small.is_empty() {
                let (object, uses) = self.main.pop_back().unwrap();
                if uses > 0 {
                    self.main.push_front((object, uses.min(self.most_uses) - 1));
                }
                continue;
            }
            // The size of the main queue is not checked again until an object leaves the cache.
            while let Some((object, uses, _)) = self.small.pop_back() {
                if uses < self.uses_to_move {
                    self.ghost.push_front(object);
                    self.ghost.truncate(self.capacity * 9 / 10);
                    break;
                }
                self.main.push_front((object, 0));
            }
        }
    }
}

impl Model for SmallMainModel {
    fn access(&mut self, object: Object) -> bool {
        let window = self.small_capacity();
        if let Some((_, uses, entered)) = self.small.iter_mut().find(|one| one.0 == object) {
            let since = self.entered - *entered;
            *uses += u32::from(!self.has_window || since * 2 >= window);
            return true;
        }
        if let Some((_, uses)) = self.main.iter_mut().find(|one| one.0 == object) {
            *uses += 1;
            return true;
        }
        let was_ghost = take(&mut self.ghost, object);
        self.make_room();
        if was_ghost || (!self.was_full && self.small.len() >= window) {
            self.main.push_front((object, 0));
        } else {
            self.entered += 1;
            self.small.push_front((object, 0, self.entered));
        }
        false
    }

    fn remove(&mut self, object: Object) {
        self.small.retain(|one| one.0 != object);
        self.main.retain(|one| one.0 != object);
        take(&mut self.ghost, object);
    }
}

/// The pseudo code of the ARC paper (figure 4). The front of a list is its most recent end.
#[derive(Default)]
struct ArcModel {
    c: usize,
    p: f64,
    t1: VecDeque<Object>,
    t2: VecDeque<Object>,
    b1: VecDeque<Object>,
    b2: VecDeque<Object>,
}

impl ArcModel {
    #[expect(clippy::cast_precision_loss, reason = "the lists are short")]
    fn replace(&mut self, is_in_b2: bool) {
        // The paper assumes that the cache is full, but after removals it is not.
        if self.t1.len() + self.t2.len() < self.c {
            return;
        }
        let t1 = self.t1.len() as f64;
        let from_t1 = !self.t1.is_empty() && ((is_in_b2 && t1 - self.p == 0.0) || t1 > self.p);
        if from_t1 || self.t2.is_empty() {
            self.b1.push_front(self.t1.pop_back().unwrap());
        } else {
            self.b2.push_front(self.t2.pop_back().unwrap());
        }
    }
}

impl Model for ArcModel {
    #[expect(clippy::cast_precision_loss, reason = "the lists are short")]
    fn access(&mut self, x: Object) -> bool {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        // Case I.
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push_front(x);
            return true;
        }
        // Case II.
        if self.b1.contains(&x) {
            let delta = if b1 >= b2 { 1.0 } else { b2 / b1 };
            self.p = (self.p + delta).min(self.c as f64);
            self.replace(false);
            take(&mut self.b1, x);
            self.t2.push_front(x);
            return false;
        }
        // Case III.
        if self.b2.contains(&x) {
            let delta = if b2 >= b1 { 1.0 } else { b1 / b2 };
            self.p = (self.p - delta).max(0.0);
            self.replace(true);
            take(&mut self.b2, x);
            self.t2.push_front(x);
            return false;
        }
        // Case IV.
        let l1 = self.t1.len() + self.b1.len();
        let total = l1 + self.t2.len() + self.b2.len();
        if l1 == self.c {
            if self.t1.len() < self.c {
                self.b1.pop_back();
                self.replace(false);
            } else {
                self.t1.pop_back();
            }
        } else if total >= self.c {
            if total == 2 * self.c {
                self.b2.pop_back();
            }
            self.replace(false);
        }
        self.t1.push_front(x);
        false
    }

    fn remove(&mut self, x: Object) {
        for list in [&mut self.t1, &mut self.t2, &mut self.b1, &mut self.b2] {
            take(list, x);
        }
    }
}

fn small_main(capacity: usize, name: PolicyName) -> SmallMainModel {
    let is_s3 = name == PolicyName::S3Fifo;
    SmallMainModel {
        capacity,
        uses_to_move: if is_s3 { 2 } else { 1 },
        most_uses: if is_s3 { 3 } else { 1 },
        has_window: !is_s3,
        small: VecDeque::new(),
        main: VecDeque::new(),
        ghost: VecDeque::new(),
        entered: 0,
        was_full: false,
    }
}

fn model(name: PolicyName, capacity: usize) -> Option<Box<dyn Model>> {
    Some(match name {
        PolicyName::Lru => Box::new(LruModel {
            capacity,
            queue: VecDeque::new(),
        }),
        PolicyName::Clock | PolicyName::ClockFirstUse => Box::new(ClockModel {
            capacity,
            is_new_referenced: name == PolicyName::ClockFirstUse,
            circle: Vec::new(),
            hand: 0,
        }),
        PolicyName::Sieve => Box::new(SieveModel {
            capacity,
            queue: Vec::new(),
            hand: None,
        }),
        PolicyName::S3Fifo | PolicyName::Clock2QPlus => Box::new(small_main(capacity, name)),
        PolicyName::Arc => Box::new(ArcModel {
            c: capacity,
            ..ArcModel::default()
        }),
        _ => return None,
    })
}

/// Returns a workload of the keys; a negative key is a removal.
fn workload(keys: &[i32]) -> Workload {
    let mut builder = WorkloadBuilder::default();
    for key in keys {
        if *key < 0 {
            assert!(builder.remove(&(-key)));
        } else {
            assert!(builder.access(*key));
        }
    }
    builder.finish(TraceOrigin::default())
}

/// Keys of which some are much more frequent than others; one in `removals` is a removal.
fn keys(random: &mut Random, objects: u64, len: usize, removals: u64) -> Vec<i32> {
    let key = |random: &mut Random| {
        let below = 1 + random.below(objects);
        i32::try_from(1 + random.below(below)).unwrap()
    };
    (0..len)
        .map(|_| match random.below(removals) {
            0 => -key(random),
            _ => key(random),
        })
        .collect()
}

proptest! {
    #[test]
    fn policy_hits_and_misses_as_its_model(
        seed in any::<u64>(),
        capacity in 1_usize..60,
        objects in 2_u64..200,
        removals in prop_oneof![Just(u64::MAX), 10_u64..100],
    ) {
        let mut random = Random::new(Seed(seed));
        let workload = workload(&keys(&mut random, objects, 1500, removals));
        for name in PolicyName::ALL {
            let Some(mut model) = model(name, capacity) else {
                continue;
            };
            let mut policy = name.cache(capacity, workload.objects as usize);
            for (number, step) in workload.steps.iter().enumerate() {
                match *step {
                    Step::Access(access) => prop_assert_eq!(
                        policy.access(access),
                        model.access(access.object),
                        "{} at step {} with room for {}", name, number, capacity
                    ),
                    Step::Remove(object) => {
                        policy.remove(object);
                        model.remove(object);
                    }
                }
                prop_assert!(policy.cached() <= capacity, "{}", name);
            }
        }
    }

    /// Every policy, including those without a model.
    #[test]
    fn policy_keeps_its_capacity_and_hits_only_cached_objects(
        seed in any::<u64>(),
        capacity in 1_usize..60,
    ) {
        let mut random = Random::new(Seed(seed));
        let workload = workload(&keys(&mut random, 100, 1000, 20));
        for name in PolicyName::ALL {
            let mut policy = name.cache(capacity, workload.objects as usize);
            let mut since_removal = BTreeSet::new();
            for step in &workload.steps {
                match *step {
                    Step::Access(access) => {
                        let hit = policy.access(access);
                        prop_assert!(!hit || since_removal.contains(&access.object), "{}", name);
                        since_removal.insert(access.object);
                        // An object was inserted, so it is found again.
                        let found = policy.access(access);
                        prop_assert!(found, "{}", name);
                    }
                    Step::Remove(object) => {
                        policy.remove(object);
                        since_removal.remove(&object);
                    }
                }
                prop_assert!(policy.cached() <= capacity, "{}", name);
            }
        }
    }

    #[test]
    fn belady_equals_the_best_choice_of_evictions(
        seed in any::<u64>(),
        capacity in 1_usize..4,
    ) {
        let mut random = Random::new(Seed(seed));
        let workload = workload(&keys(&mut random, 6, 24, 8));
        prop_assert_eq!(
            misses(PolicyName::Belady, &workload, capacity),
            least_misses(&workload.steps, &BTreeSet::new(), capacity, &mut Vec::new())
        );
    }
}

fn misses(name: PolicyName, workload: &Workload, capacity: usize) -> u32 {
    let mut policy = name.cache(capacity, workload.objects as usize);
    let mut misses = 0;
    for step in &workload.steps {
        match *step {
            Step::Access(access) => misses += u32::from(!policy.access(access)),
            Step::Remove(object) => policy.remove(object),
        }
    }
    misses
}

/// Returns the smallest number of misses that any choice of evictions has. `known` contains results for suffixes.
fn least_misses(
    steps: &[Step],
    cached: &BTreeSet<Object>,
    capacity: usize,
    known: &mut Vec<(usize, BTreeSet<Object>, u32)>,
) -> u32 {
    let Some((first, rest)) = steps.split_first() else {
        return 0;
    };
    if let Some((.., least)) = known
        .iter()
        .find(|(len, state, _)| *len == steps.len() && state == cached)
    {
        return *least;
    }
    let mut next = cached.clone();
    let least = match *first {
        Step::Remove(object) => {
            next.remove(&object);
            least_misses(rest, &next, capacity, known)
        }
        Step::Access(Access { object, .. }) if cached.contains(&object) => {
            least_misses(rest, &next, capacity, known)
        }
        Step::Access(Access { object, .. }) => {
            next.insert(object);
            let choices: Vec<_> = if cached.len() < capacity {
                vec![next]
            } else {
                let without = |victim: &Object| {
                    let mut next = next.clone();
                    next.remove(victim);
                    next
                };
                cached.iter().map(without).collect()
            };
            let all = choices
                .iter()
                .map(|next| least_misses(rest, next, capacity, known));
            1 + all.min().unwrap_or(0)
        }
    };
    known.push((steps.len(), cached.clone(), least));
    least
}

/// Accesses a page as a read of a mount does: a lookup, then an insertion, and the use for which it was inserted.
fn access(pages: &PageCache, object: Object) -> bool {
    let key = PageKey {
        ino: 12,
        index: object.into(),
    };
    if pages.get(key).is_some() {
        return true;
    }
    let Entry::New(mut page) = pages.get_or_insert(key) else {
        panic!("page {object} is neither cached nor new");
    };
    page.set_wanted();
    page.complete();
    assert!(
        matches!(pages.get_or_insert(key), Entry::Uptodate(_)),
        "page {object} is not uptodate"
    );
    false
}

#[test]
fn clock_of_frames_hits_and_misses_as_the_page_cache() {
    let seed = Seed::from_environment(0xe71c);
    for (part, (capacity, objects)) in
        (0..).zip([(1, 3), (7, 20), (64, 100), (200, 500), (3000, 9000)])
    {
        let mut random = Random::new(seed.part(part));
        for removals in [u64::MAX, 30] {
            let workload = workload(&keys(&mut random, objects, 60_000, removals));
            let frames = Frames::new(&FramesConfig::of_pages(4096, capacity, 10)).unwrap();
            let pages = PageCache::new(frames.into());
            let mut policy = PolicyName::Larder.cache(capacity as usize, workload.objects as usize);
            let mut hits = 0;
            for (number, step) in workload.steps.iter().enumerate() {
                match *step {
                    Step::Access(step) => {
                        let hit = access(&pages, step.object);
                        assert_eq!(
                            policy.access(step),
                            hit,
                            "step {number}, {capacity} frames, removals {removals}, seed {seed}"
                        );
                        hits += u32::from(hit);
                    }
                    Step::Remove(object) => {
                        policy.remove(object);
                        let index = object.into();
                        pages.remove(PageKey { ino: 12, index });
                    }
                }
            }
            assert!(hits > 1000 && hits < workload.accesses - 1000, "{hits}");
            pages.frames().check_invariants();
        }
    }
}
