//! What contexts take beside themselves: streams, modules, the device heap.

use crate::model::behaviour::{
    ASSERT_MODULE_BYTES, PLACES_IN_A_CONTEXT, PLACES_PER_CHARGE, PRINTF_MODULE_BYTES, VARIABLES_BYTES,
};
use crate::model::context::Owner;
use crate::model::process::Process;
use crate::model::ptx::Image;
use crate::model::status::*;

/// How often memory is taken for so many visible GPUs and so many streams of a context.
pub fn charges(devices: usize, streams: u32) -> u64 {
    let places = (devices as u32 + streams).saturating_sub(PLACES_IN_A_CONTEXT);
    u64::from(places.div_ceil(PLACES_PER_CHARGE))
}

impl Process {
    /// Takes memory on behalf of a context, to be returned when it ends.
    pub fn charge_context(&mut self, handle: u64, bytes: u64) -> Outcome {
        let node = self.node()?;
        let context = self.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        self.account.charge(node, self.devices[context.device].gpu, bytes)?;
        context.charged_bytes += bytes;
        Ok(())
    }

    /// Takes memory for a stream that is about to be made, where the streams before it left no room.
    pub fn charge_stream(&mut self, owner: Owner) -> Outcome {
        let bytes = self.gpu(owner)?.stream_bytes;
        let context = self.contexts.get(&owner.context).ok_or(INVALID_CONTEXT)?;
        let (most, wanted, devices) = (context.most_streams, context.streams + 1, self.devices.len());
        if wanted > most && charges(devices, wanted) > charges(devices, most) {
            self.charge_context(owner.context, bytes)?;
        }
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            (context.streams, context.most_streams) = (wanted, most.max(wanted));
        }
        Ok(())
    }

    /// Takes what the first module of a context takes that uses the device heap, prints or asserts.
    pub fn charge_device_code(&mut self, owner: Owner, image: &Image) -> Outcome {
        let bytes = match (image.uses_heap, image.uses_printf, image.uses_assert) {
            (false, false, false) => return Ok(()),
            (true, false, false) => self.gpu(owner)?.heap_module_bytes,
            (false, true, false) => PRINTF_MODULE_BYTES,
            (false, false, true) => ASSERT_MODULE_BYTES,
            _ => return Err(SIM_NOT_MODELLED),
        };
        match self.contexts.get(&owner.context).ok_or(INVALID_CONTEXT)?.device_code_bytes {
            0 => self.charge_context(owner.context, bytes)?,
            before if before == bytes => {}
            _ => return Err(SIM_NOT_MODELLED),
        }
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            context.device_code_bytes = bytes;
        }
        Ok(())
    }

    /// Takes the block that the small variables of modules share, and what the large ones of this one take.
    pub fn charge_variables(&mut self, owner: Owner, image: &Image) -> Outcome {
        self.charge_context(owner.context, image.large_variables_bytes())?;
        if !image.has_small_variables() {
            return Ok(());
        }
        if self.contexts.get(&owner.context).ok_or(INVALID_CONTEXT)?.modules_with_variables == 0 {
            self.charge_context(owner.context, VARIABLES_BYTES)?;
        }
        if let Some(context) = self.contexts.get_mut(&owner.context) {
            context.modules_with_variables += 1;
        }
        Ok(())
    }

    /// Gives it back, the shared block with the last of them.
    pub fn refund_variables(&mut self, owner: Owner, image: &Image) {
        self.refund_context(owner.context, image.large_variables_bytes());
        let Some(context) = self.contexts.get_mut(&owner.context).filter(|_| image.has_small_variables()) else {
            return;
        };
        context.modules_with_variables = context.modules_with_variables.saturating_sub(1);
        if context.modules_with_variables == 0 {
            self.refund_context(owner.context, VARIABLES_BYTES);
        }
    }

    /// Returns part of what [`Self::charge_context`] took.
    pub fn refund_context(&mut self, handle: u64, bytes: u64) {
        let (Ok(node), Some(context)) = (self.node(), self.contexts.get_mut(&handle)) else {
            return;
        };
        context.charged_bytes = context.charged_bytes.saturating_sub(bytes);
        self.account.refund(node, self.devices[context.device].gpu, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::charges;

    #[test]
    fn visible_gpus_and_streams_share_places() {
        let at = |devices| [0, 1, 2, 5, 6, 10].map(|streams| charges(devices, streams));
        assert_eq!(at(1), [0, 0, 1, 1, 2, 3]);
        assert_eq!(at(2), [0, 1, 1, 2, 2, 3]);
        assert_eq!([charges(3, 0), charges(4, 0)], [1, 1]);
    }
}
