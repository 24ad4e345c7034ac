//! The only place where clocks are read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds. Parent, worker and sampler read the same clock, so their timestamps can be
/// compared.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The longest single wait of a process before it calls [`running_ns`] again.
pub const SLICE_NS: u64 = 50_000_000;
/// A longer gap between two calls means that the process was stopped.
const STOPPED_NS: u64 = 2 * SLICE_NS;

/// When [`running_ns`] was called last, and for how long this process is known to have been stopped.
static LAST_NS: AtomicU64 = AtomicU64::new(0);
static STOPPED_FOR_NS: AtomicU64 = AtomicU64::new(0);

/// [`now_ns`] without the time in which this process was stopped (SIGSTOP, a frozen control group, a paused
/// machine). Deadlines use it: while this process is stopped, it cannot see whether another one makes progress. A
/// stop is a long gap between two calls, so waits are made in slices of [`SLICE_NS`].
pub fn running_ns() -> u64 {
    running_at(now_ns(), &LAST_NS, &STOPPED_FOR_NS)
}

/// [`running_ns`] at the time `now`, with the state of the caller: the last call, and the sum of all stops.
fn running_at(now: u64, last: &AtomicU64, stopped_for: &AtomicU64) -> u64 {
    let last = last.swap(now, Ordering::Relaxed);
    let gap = if last == 0 {
        0
    } else {
        now.saturating_sub(last)
    };
    let stopped = if gap > STOPPED_NS { gap - SLICE_NS } else { 0 };
    now - (stopped_for.fetch_add(stopped, Ordering::Relaxed) + stopped).min(now)
}

/// The wall clock, RFC 3339 in UTC with seconds.
pub fn utc_now() -> String {
    written(in_calendar(SystemTime::now()))
}

/// The wall clock `ago` before now, as [`utc_now`] writes it.
///
/// # Errors
/// The calendar does not reach back that far.
pub fn utc_before(ago: Duration) -> Result<String, jiff::Error> {
    let ago = jiff::SignedDuration::try_from(ago)?;
    in_calendar(SystemTime::now()).checked_sub(ago).map(written)
}

/// The wall clock `later` than now, as [`utc_now`] writes it.
///
/// # Errors
/// The calendar does not reach that far.
pub fn utc_after(later: Duration) -> Result<String, jiff::Error> {
    let later = jiff::SignedDuration::try_from(later)?;
    in_calendar(SystemTime::now())
        .checked_add(later)
        .map(written)
}

/// The time in the calendar, which has the years up to 9999: the clock of a machine without a battery may be beyond them.
fn in_calendar(time: SystemTime) -> jiff::Timestamp {
    let nearest = if time < SystemTime::UNIX_EPOCH {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    };
    jiff::Timestamp::try_from(time).unwrap_or(nearest)
}

fn written(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The seconds of a time that [`utc_now`] wrote; `None` for any other text.
pub fn parse_utc(text: &str) -> Option<i64> {
    jiff::civil::DateTime::strptime("%Y-%m-%dT%H:%M:%SZ", text)
        .ok()
        .map(in_seconds)
}

/// The seconds of a time that [`utc_compact`] wrote; `None` for any other text.
pub fn compact_seconds(text: &str) -> Option<i64> {
    jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text)
        .ok()
        .map(in_seconds)
}

/// The time `later` than one that [`utc_now`] wrote: a clock that was set meanwhile does not count.
pub fn utc_since(text: &str, later: Duration) -> Option<String> {
    let seconds = parse_utc(text)?.checked_add(i64::try_from(later.as_secs()).ok()?)?;
    jiff::Timestamp::from_second(seconds).ok().map(written)
}

fn in_seconds(time: jiff::civil::DateTime) -> i64 {
    time.duration_since(jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0))
        .as_secs()
}

/// The wall clock as it is written in the names of run folders.
pub fn utc_compact() -> String {
    in_calendar(SystemTime::now())
        .strftime("%Y%m%dT%H%M%SZ")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_beyond_the_calendar_is_at_its_end() {
        let years = Duration::from_secs(9_000 * 365 * 86_400);
        let late = in_calendar(SystemTime::UNIX_EPOCH + years);
        assert!(written(late).starts_with("9999-12-30T"), "{late}");
        assert!(
            late.checked_add(jiff::SignedDuration::from_hours(1))
                .is_err()
        );
        assert_eq!(
            in_calendar(SystemTime::UNIX_EPOCH - 2 * years),
            jiff::Timestamp::MIN
        );
    }

    #[test]
    fn a_stop_does_not_count_and_a_wait_does() {
        let (last, stopped) = (AtomicU64::new(0), AtomicU64::new(0));
        let at = |slices: u64| running_at(slices * SLICE_NS, &last, &stopped) / SLICE_NS;
        // A stop of six slices counts as one.
        assert_eq!([at(10), at(16)], [10, 11]);
        assert_eq!([at(17), at(18), at(20), at(21)], [12, 13, 15, 16]);
    }
}
