//! The only module that reads clocks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, Utc};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds. Parent, worker and sampler read the same clock, so their timestamps can be
/// compared.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the wall-clock time in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Returns the milliseconds since the boot, with the time that the machine was suspended.
pub fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The longest single wait of a process before it calls [`running_ns`] again.
pub const SLICE_NS: u64 = 50_000_000;
/// A longer gap between two calls means that the process was stopped.
const STOPPED_NS: u64 = 2 * SLICE_NS;

/// The time of the last call of [`running_ns`], and the time that this process is known to have been stopped.
static LAST_NS: AtomicU64 = AtomicU64::new(0);
static STOPPED_FOR_NS: AtomicU64 = AtomicU64::new(0);

/// Returns [`now_ns`] minus the time that this process was stopped (SIGSTOP, a frozen control group, a paused machine).
/// Deadlines use it: while this process is stopped, it cannot see whether another process makes progress. A stop is a
/// long gap between two calls, so waits are made in slices of [`SLICE_NS`].
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

/// The format of [`utc_now`], RFC 3339 in UTC with seconds.
const UTC_FORMAT: &str = "%Y-%m-%dT%H:%M:%SZ";
/// The format of [`utc_compact`].
const COMPACT_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// Returns the wall-clock time, RFC 3339 in UTC with seconds.
pub fn utc_now() -> String {
    format_utc(calendar_time(SystemTime::now()))
}

/// Returns the wall-clock time `ago` before now, in the format of [`utc_now`]. `None` if it is before the year 0.
pub fn utc_before(ago: Duration) -> Option<String> {
    let ago = TimeDelta::from_std(ago).ok()?;
    let time = calendar_time(SystemTime::now()).checked_sub_signed(ago)?;
    is_in_calendar(time).then(|| format_utc(time))
}

/// Returns the wall-clock time `later` than now, in the format of [`utc_now`]. `None` if it is after the year 9999.
pub fn utc_after(later: Duration) -> Option<String> {
    let later = TimeDelta::from_std(later).ok()?;
    let time = calendar_time(SystemTime::now()).checked_add_signed(later)?;
    is_in_calendar(time).then(|| format_utc(time))
}

/// Returns `true` if RFC 3339 can represent the time: it has the years 0 to 9999.
fn is_in_calendar(time: DateTime<Utc>) -> bool {
    (0..=9999).contains(&time.year())
}

/// Returns the time, or the last second that RFC 3339 can write: the clock of a machine without a battery may be beyond
/// it.
fn calendar_time(time: SystemTime) -> DateTime<Utc> {
    const LAST_SECOND: i64 = 253_402_300_799;
    let since_epoch = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(LAST_SECOND);
    DateTime::from_timestamp_secs(seconds.min(LAST_SECOND)).expect("chrono has the years to 9999")
}

fn format_utc(time: DateTime<Utc>) -> String {
    time.format(UTC_FORMAT).to_string()
}

/// Returns the seconds of a time in the format of [`utc_now`]; `None` for any other text.
pub fn parse_utc(text: &str) -> Option<i64> {
    parse_seconds(text, UTC_FORMAT)
}

/// Returns the seconds of a time in the format of [`utc_compact`]; `None` for any other text.
pub fn compact_seconds(text: &str) -> Option<i64> {
    parse_seconds(text, COMPACT_FORMAT)
}

fn parse_seconds(text: &str, format: &str) -> Option<i64> {
    let time = NaiveDateTime::parse_from_str(text, format).ok()?;
    Some(time.and_utc().timestamp())
}

/// Returns the time `later` than one in the format of [`utc_now`]; a clock change in between does not matter.
pub fn utc_since(text: &str, later: Duration) -> Option<String> {
    let seconds = parse_utc(text)?.checked_add(i64::try_from(later.as_secs()).ok()?)?;
    let time = DateTime::from_timestamp_secs(seconds)?;
    is_in_calendar(time).then(|| format_utc(time))
}

/// Returns the wall-clock time in the format of run directories.
pub fn utc_compact() -> String {
    let time = calendar_time(SystemTime::now());
    time.format(COMPACT_FORMAT).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_beyond_the_calendar_is_at_its_end() {
        let years = Duration::from_secs(9_000 * 365 * 86_400);
        let late = calendar_time(SystemTime::UNIX_EPOCH + years);
        assert_eq!(format_utc(late), "9999-12-31T23:59:59Z");
        let early = calendar_time(SystemTime::UNIX_EPOCH - years);
        assert_eq!(format_utc(early), "1970-01-01T00:00:00Z");
        assert_eq!([utc_after(years), utc_before(years)], [None, None]);
        assert_eq!(
            utc_since("9999-12-31T23:00:00Z", Duration::from_secs(3600)),
            None
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
