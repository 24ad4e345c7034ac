//! What contexts take beside themselves: streams, modules, the device heap.

use crate::model::behaviour::STREAM_CHARGED_FROM_DEVICES;
use crate::model::context::{Context, Owner};
use crate::model::process::Process;
use crate::model::status::*;

impl Process {
    /// Takes memory on behalf of a context, to be returned when it ends.
    pub fn charge_context(&mut self, handle: u64, bytes: u64) -> Outcome {
        let node = self.node()?;
        let context = self.contexts.get_mut(&handle).ok_or(INVALID_CONTEXT)?;
        self.account.charge(node, self.devices[context.device].gpu, bytes)?;
        context.charged_bytes += bytes;
        Ok(())
    }

    /// Takes the memory of the first stream of a context, which takes none where one GPU alone is visible.
    pub fn charge_stream(&mut self, owner: Owner) -> Outcome {
        if self.devices.len() < STREAM_CHARGED_FROM_DEVICES {
            return Ok(());
        }
        let bytes = self.gpu(owner)?.stream_bytes;
        self.charge_once(owner, bytes, |context| &mut context.has_streamed)
    }

    /// Takes the memory of the first module of a context that uses the device heap.
    pub fn charge_heap_module(&mut self, owner: Owner) -> Outcome {
        let bytes = self.gpu(owner)?.heap_module_bytes;
        self.charge_once(owner, bytes, |context| &mut context.has_heap_module)
    }

    fn charge_once(&mut self, owner: Owner, bytes: u64, done: fn(&mut Context) -> &mut bool) -> Outcome {
        let context = self.contexts.get_mut(&owner.context).ok_or(INVALID_CONTEXT)?;
        if std::mem::replace(done(context), true) {
            return Ok(());
        }
        let outcome = self.charge_context(owner.context, bytes);
        if let (Err(_), Some(context)) = (outcome, self.contexts.get_mut(&owner.context)) {
            *done(context) = false;
        }
        outcome
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
