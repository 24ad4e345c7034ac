//! The streams and events of a process, and its waits for them.

use crate::model::context::ContextOwner;
use crate::model::status::*;
use crate::model::stream::{StreamEvent, is_explicit};
use crate::model::thread::Thread;
use crate::process::SimulatedProcess;
use std::time::Instant;

impl SimulatedProcess {
    /// Creates a stream in a context. Some streams allocate device memory, which the context keeps.
    pub fn create_stream(&mut self, owner: ContextOwner) -> Outcome<u64> {
        let devices = self.devices.len();
        self.contexts
            .get_mut(owner.context)?
            .add_stream(&mut self.account, devices)?;
        let handle = self.handle();
        self.streams.insert(handle, owner);
        Ok(handle)
    }

    /// Returns the context that a stream refers to; a default stream refers to the current context. An explicit stream
    /// does not require a current context (device/explicit-stream-without-a-context).
    pub fn stream_owner(
        &self,
        stream: u64,
        current: Outcome<ContextOwner>,
    ) -> Outcome<ContextOwner> {
        if !is_explicit(stream) {
            return current;
        }
        let owner = *self.streams.get(&stream).ok_or(INVALID_HANDLE)?;
        if !self.contexts.is_live(owner) {
            return Err(SIM_NOT_MODELLED);
        }
        self.unharmed().map(|()| owner)
    }

    /// Returns `true` if a stream's context is gone, even if it has been created again since.
    pub fn is_lost_stream(&self, stream: u64) -> bool {
        self.streams
            .get(&stream)
            .is_some_and(|owner| !self.contexts.is_live(*owner))
    }

    /// `cuStreamDestroy`.
    pub fn destroy_stream(&mut self, stream: u64, current: ContextOwner) -> Outcome {
        if !is_explicit(stream) {
            return Err(INVALID_HANDLE);
        }
        let owner = self.stream_owner(stream, Ok(current))?;
        self.streams.remove(&stream);
        self.contexts.get_mut(owner.context)?.remove_stream();
        Ok(())
    }

    /// Implements `cuStreamQuery` and `cuEventQuery`: succeeds if everything that was launched is done. The duration of
    /// a kernel is known only if it reads the clock.
    pub fn is_idle(&self) -> Outcome {
        self.busy.map_or(Ok(()), |busy| busy.is_idle())
    }

    /// Creates an event in a context.
    pub fn create_event(&mut self, owner: ContextOwner) -> u64 {
        let handle = self.handle();
        self.events.insert(
            handle,
            StreamEvent {
                owner,
                recorded: None,
            },
        );
        handle
    }

    /// Returns an event with a context that still exists.
    pub fn event(&self, event: u64) -> Outcome<&StreamEvent> {
        self.unharmed()?;
        let found = self.events.get(&event).ok_or(INVALID_HANDLE)?;
        if self.contexts.is_live(found.owner) {
            Ok(found)
        } else {
            Err(SIM_NOT_MODELLED)
        }
    }

    /// `cuEventDestroy`.
    pub fn destroy_event(&mut self, event: u64) -> Outcome {
        self.event(event)?;
        self.events.remove(&event);
        Ok(())
    }

    /// `cuEventRecord`: event and stream must belong to one context.
    pub fn record(&mut self, event: u64, stream: u64, current: ContextOwner) -> Outcome {
        let of_stream = self.stream_owner(stream, Ok(current))?;
        if self.event(event)?.owner != of_stream {
            return Err(INVALID_HANDLE);
        }
        if let Some(event) = self.events.get_mut(&event) {
            event.recorded = Some(Instant::now());
        }
        Ok(())
    }

    /// `cuEventElapsedTime`, in milliseconds.
    pub fn elapsed_ms(&self, start: u64, end: u64) -> Outcome<f32> {
        self.event(start)?.elapsed_ms(self.event(end)?)
    }

    /// Makes a fault on a device known, since the host is about to wait for the device.
    fn surface(&mut self, device: usize) {
        if let Some(fault) = self.fault.as_mut().filter(|fault| fault.device == device) {
            fault.seen = true;
        }
    }

    /// Makes a fault on the device of a stream known. A default stream belongs to the current context.
    pub fn surface_of_stream(&mut self, stream: u64, thread: &Thread) {
        let of_stream = self.streams.get(&stream).copied();
        if let Some(owner) = of_stream.or_else(|| self.contexts.owner(thread.current()?)) {
            self.surface(owner.device);
        }
    }

    /// Waits for the device of a context.
    pub fn wait(&mut self, owner: ContextOwner) -> Outcome {
        self.surface(owner.device);
        self.unharmed()?;
        self.synchronise(owner.device);
        Ok(())
    }

    /// `cuCtxSynchronize`.
    pub fn wait_for_current(&mut self, thread: &Thread) -> Outcome {
        self.surface_of_stream(0, thread);
        let owner = self.current(thread)?;
        self.wait(owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sample::{primary, ready};

    #[test]
    fn time_between_devices_is_refused() {
        let mut process = ready();
        let (zero, one) = (primary(&mut process, 0), primary(&mut process, 1));
        let (first, second) = (process.create_event(zero), process.create_event(zero));
        let far = process.create_event(one);
        assert_eq!(process.elapsed_ms(first, second), Err(INVALID_HANDLE));
        for (event, current) in [(first, zero), (second, zero), (far, one)] {
            process.record(event, 0, current).unwrap();
        }
        assert!(process.elapsed_ms(first, second).unwrap() >= 0.0);
        assert_eq!(process.elapsed_ms(first, far), Err(INVALID_HANDLE));
    }
}
