//! The log of a server: when requests were received and answered, and how many waited for one another.

use super::message::Request;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A request and what the server has sent for it so far.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// When the head of the request was received.
    pub received: Instant,
    /// When the server began to send the body of the reply, or its head if it has no body, if that has happened.
    pub answered: Option<Instant>,
    /// When the last byte of the reply was sent, or the connection ended, if that has happened.
    pub ended: Option<Instant>,
    /// The status of the reply, or 0 if there is none yet.
    pub status: u16,
    /// The bytes of the body that were sent, or whose sending has begun.
    pub sent_bytes: u64,
}

/// Returns the wave of each exchange, from 1 on, or `None` if the server has not begun to answer it.
///
/// A request can depend on a reply if the server began to send the body of the reply before it received the
/// request. The wave of a request is one more than the latest wave of the replies on which it can depend, and 1 if
/// there are none. So the requests of a wave were all sent before the first reply to one of them could be read, and
/// each wave takes at least one round trip. The number of waves is an upper bound of the number of round trips for
/// which a client waited. The client waited for fewer if requests of a wave did not in fact depend on earlier
/// replies.
#[must_use]
pub fn waves(exchanges: &[Exchange]) -> Vec<Option<u32>> {
    // In the order of receipt, the requests of all replies on which a request can depend precede it and have a wave.
    let mut order: Vec<usize> = (0..exchanges.len()).collect();
    order.sort_by_key(|&index| exchanges[index].received);
    let mut waves = vec![None; exchanges.len()];
    // The moment at which each wave began to be answered.
    let mut begun: Vec<Instant> = Vec::new();
    for index in order {
        let exchange = &exchanges[index];
        let Some(answered) = exchange.answered else {
            continue;
        };
        // The moments increase: a reply of a wave is sent after its request was received, and this request was
        // received after the previous wave began to be answered.
        let wave = begun.partition_point(|&moment| moment < exchange.received);
        match begun.get_mut(wave) {
            Some(moment) => *moment = (*moment).min(answered),
            None => begun.push(answered),
        }
        waves[index] = u32::try_from(wave + 1).ok();
    }
    waves
}

/// Returns the number of waves of `exchanges`.
#[must_use]
pub fn wave_count(exchanges: &[Exchange]) -> u32 {
    waves(exchanges).into_iter().flatten().max().unwrap_or(0)
}

/// The exchanges of a server.
#[derive(Debug, Default)]
pub(super) struct Log(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    /// The number of exchanges that were taken.
    taken: usize,
    exchanges: Vec<Exchange>,
}

impl Log {
    /// Adds a request. Returns its number, for [`Log::update`].
    pub(super) fn add(&self, request: Request, received: Instant) -> usize {
        self.with(|entries| {
            entries.exchanges.push(Exchange {
                request,
                received,
                answered: None,
                ended: None,
                status: 0,
                sent_bytes: 0,
            });
            entries.taken + entries.exchanges.len() - 1
        })
    }

    /// Changes an exchange, unless it was taken.
    pub(super) fn update(&self, number: usize, change: impl FnOnce(&mut Exchange)) {
        self.with(|entries| {
            let index = number.checked_sub(entries.taken);
            if let Some(exchange) = index.and_then(|index| entries.exchanges.get_mut(index)) {
                change(exchange);
            }
        });
    }

    /// Removes and returns all exchanges, in the order in which the requests were received.
    pub(super) fn take(&self) -> Vec<Exchange> {
        self.with(|entries| {
            entries.taken += entries.exchanges.len();
            std::mem::take(&mut entries.exchanges)
        })
    }

    fn with<R>(&self, work: impl FnOnce(&mut Entries) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// An exchange whose request is received, whose reply begins and whose reply ends at these milliseconds.
    fn exchange(start: Instant, times: (u64, u64, u64)) -> Exchange {
        let at = |millis| start + Duration::from_millis(millis);
        Exchange {
            request: Request::default(),
            received: at(times.0),
            answered: Some(at(times.1)),
            ended: Some(at(times.2)),
            status: 206,
            sent_bytes: 1,
        }
    }

    fn numbers(times: &[(u64, u64, u64)]) -> Vec<u32> {
        let start = Instant::now();
        let exchanges: Vec<Exchange> = times.iter().map(|&times| exchange(start, times)).collect();
        waves(&exchanges).into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn requests_before_the_first_reply_are_one_wave() {
        assert_eq!(numbers(&[]), [0; 0]);
        assert_eq!(
            numbers(&[(0, 20, 21), (19, 39, 40), (20, 40, 41)]),
            [1, 1, 1]
        );
    }

    #[test]
    fn request_after_the_start_of_a_reply_is_in_the_next_wave() {
        // The reply to the first request takes until 50, but a client can read its first bytes at 20.
        assert_eq!(numbers(&[(0, 20, 50), (21, 41, 60)]), [1, 2]);
        assert_eq!(
            numbers(&[(0, 20, 21), (21, 41, 42), (42, 62, 63), (43, 63, 64)]),
            [1, 2, 3, 3]
        );
    }

    #[test]
    fn wave_counts_the_longest_chain_only() {
        // Two clients: one sends three requests in turn, the other one request that takes as long.
        let times = [(0, 20, 21), (1, 90, 91), (22, 42, 43), (44, 64, 65)];
        assert_eq!(numbers(&times), [1, 1, 2, 3]);
        // A request that was received between two replies of a wave can depend on the first of them.
        assert_eq!(
            numbers(&[(0, 20, 21), (0, 30, 31), (25, 45, 46), (32, 52, 53)]),
            [1, 1, 2, 2]
        );
        // The order of the list does not matter.
        assert_eq!(numbers(&[(21, 41, 42), (0, 20, 21)]), [2, 1]);
    }

    #[test]
    fn request_without_reply_has_no_wave() {
        let start = Instant::now();
        let mut last = exchange(start, (21, 41, 42));
        (last.answered, last.ended) = (None, None);
        let exchanges = [exchange(start, (0, 20, 21)), last];
        assert_eq!(waves(&exchanges), [Some(1), None]);
        assert_eq!(wave_count(&exchanges), 1);
        assert_eq!(wave_count(&[]), 0);
    }

    #[test]
    fn exchange_is_updated_until_it_is_taken() {
        let log = Log::default();
        let first = log.add(Request::default(), Instant::now());
        log.update(first, |exchange| exchange.sent_bytes = 7);
        assert_eq!(log.take()[0].sent_bytes, 7);
        let second = log.add(Request::default(), Instant::now());
        log.update(first, |_| panic!("it was taken"));
        log.update(second, |exchange| exchange.sent_bytes = 8);
        assert_eq!(log.take()[0].sent_bytes, 8);
    }
}
