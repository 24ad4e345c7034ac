//! Streams and events: they do no work, but they belong to a context, and that is what goes wrong with them.

use crate::model::context::Owner;
use crate::model::launch::Busy;
use crate::model::process::Process;
use crate::model::status::*;
use std::time::Instant;

/// The null stream and the two named default streams mean the current context, whichever that is.
const LAST_DEFAULT_STREAM: u64 = 2;

/// A stream.
pub struct Stream {
    pub owner: Owner,
}

/// An event and when it was last recorded.
pub struct Event {
    pub owner: Owner,
    pub recorded: Option<Instant>,
}

impl Process {
    /// A new stream in a context. Some take device memory, which stays with the context.
    pub fn create_stream(&mut self, owner: Owner) -> Outcome<u64> {
        self.charge_stream(owner)?;
        let handle = self.handle();
        self.streams.insert(handle, Stream { owner });
        Ok(handle)
    }

    /// A new event in a context.
    pub fn create_event(&mut self, owner: Owner) -> u64 {
        let handle = self.handle();
        self.events.insert(handle, Event { owner, recorded: None });
        handle
    }

    /// The context a stream stands for; a default stream stands for the current one. An explicit one needs none that is current
    /// (device/explicit-stream-without-a-context).
    pub fn stream_owner(&self, stream: u64, current: Outcome<Owner>) -> Outcome<Owner> {
        if stream <= LAST_DEFAULT_STREAM {
            return current;
        }
        let owner = self.streams.get(&stream).ok_or(INVALID_HANDLE)?.owner;
        if !self.is_live(owner) {
            return Err(SIM_NOT_MODELLED);
        }
        self.unharmed().map(|()| owner)
    }

    /// Whether a stream is one that was made.
    pub fn is_explicit(stream: u64) -> bool {
        stream > LAST_DEFAULT_STREAM
    }

    /// Whether all is done that was launched (process/env-launch-blocking). Only of a kernel that looks at the clock is it known how
    /// long it runs; the host's own waits return at once all the same.
    pub fn is_idle(&self) -> Outcome {
        match self.busy {
            None => Ok(()),
            Some(Busy::Until(end)) if Instant::now() < end => Err(NOT_READY),
            Some(Busy::Until(_)) => Ok(()),
            Some(Busy::Unknown) => Err(SIM_NOT_MODELLED),
        }
    }

    /// Whether a stream's context has gone, even if it has been made again since.
    pub fn is_lost_stream(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| !self.is_live(stream.owner))
    }

    /// An event whose context is still there.
    pub fn event(&self, event: u64) -> Outcome<&Event> {
        self.unharmed()?;
        let found = self.events.get(&event).ok_or(INVALID_HANDLE)?;
        if self.is_live(found.owner) { Ok(found) } else { Err(SIM_NOT_MODELLED) }
    }

    /// `cuStreamDestroy`.
    pub fn destroy_stream(&mut self, stream: u64, current: Owner) -> Outcome {
        if stream <= LAST_DEFAULT_STREAM {
            return Err(INVALID_HANDLE);
        }
        let owner = self.stream_owner(stream, Ok(current))?;
        self.streams.remove(&stream);
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            context.streams = context.streams.saturating_sub(1);
        }
        Ok(())
    }

    /// `cuEventDestroy`.
    pub fn destroy_event(&mut self, event: u64) -> Outcome {
        self.event(event)?;
        self.events.remove(&event);
        Ok(())
    }

    /// `cuEventRecord`: event and stream must be of one context.
    pub fn record(&mut self, event: u64, stream: u64, current: Owner) -> Outcome {
        let of_stream = self.stream_owner(stream, Ok(current))?;
        if self.event(event)?.owner != of_stream {
            return Err(INVALID_HANDLE);
        }
        if let Some(event) = self.events.get_mut(&event) {
            event.recorded = Some(Instant::now());
        }
        Ok(())
    }

    /// `cuEventElapsedTime`: both recorded, both on one device.
    pub fn elapsed_ms(&self, start: u64, end: u64) -> Outcome<f32> {
        let (start, end) = (self.event(start)?, self.event(end)?);
        let (Some(from), Some(to)) = (start.recorded, end.recorded) else {
            return Err(INVALID_HANDLE);
        };
        if start.owner.device != end.owner.device {
            return Err(INVALID_HANDLE);
        }
        let ms = |duration: std::time::Duration| duration.as_secs_f32() * 1000.0;
        Ok(if to >= from { ms(to - from) } else { -ms(from - to) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    fn owner(process: &mut Process, device: usize) -> Owner {
        let handle = process.retain_primary(device).unwrap();
        process.owner(handle).unwrap()
    }

    #[test]
    fn an_event_is_recorded_on_its_own_device_only() {
        let mut process = ready();
        let (zero, one) = (owner(&mut process, 0), owner(&mut process, 1));
        let event = process.create_event(zero);
        let (near, far) = (process.create_stream(zero).unwrap(), process.create_stream(one).unwrap());
        assert_eq!(process.record(event, near, one), Ok(()));
        assert_eq!(process.record(event, far, zero), Err(INVALID_HANDLE));
        assert_eq!(process.record(event, 0, zero), Ok(()));
        assert_eq!(process.record(event, 0, one), Err(INVALID_HANDLE));
    }

    #[test]
    fn time_between_devices_is_refused() {
        let mut process = ready();
        let (zero, one) = (owner(&mut process, 0), owner(&mut process, 1));
        let (first, second) = (process.create_event(zero), process.create_event(zero));
        let far = process.create_event(one);
        assert_eq!(process.elapsed_ms(first, second), Err(INVALID_HANDLE));
        for (event, current) in [(first, zero), (second, zero), (far, one)] {
            process.record(event, 0, current).unwrap();
        }
        assert!(process.elapsed_ms(first, second).unwrap() >= 0.0);
        assert_eq!(process.elapsed_ms(first, far), Err(INVALID_HANDLE));
    }

    #[test]
    fn a_stream_does_not_outlive_its_context() {
        let mut process = ready();
        let zero = owner(&mut process, 0);
        let stream = process.create_stream(zero).unwrap();
        process.reset_primary(0);
        let again = owner(&mut process, 0);
        assert!(process.is_lost_stream(stream));
        assert_eq!(process.stream_owner(stream, Ok(again)), Err(SIM_NOT_MODELLED));
    }

    #[test]
    fn four_streams_share_what_the_first_takes() {
        let mut process = ready();
        let zero = owner(&mut process, 0);
        let table = process.node().unwrap().table;
        let before = table.used_bytes(0);
        let streams: Vec<u64> = (0..4).map(|_| process.create_stream(zero).unwrap()).collect();
        assert_eq!(table.used_bytes(0) - before, 2 << 20);
        process.create_stream(zero).unwrap();
        assert_eq!(table.used_bytes(0) - before, 4 << 20);
        streams.iter().for_each(|stream| process.destroy_stream(*stream, zero).unwrap());
        process.create_stream(zero).unwrap();
        assert_eq!(table.used_bytes(0) - before, 4 << 20);
    }
}
