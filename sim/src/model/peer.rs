//! Peer access: one context's leave to address another's memory.

use crate::model::context::Owner;
use crate::model::process::Process;
use crate::model::status::*;

impl Process {
    /// Whether one device reaches another's memory; a device is no peer of itself.
    pub fn can_access_peer(&self, device: usize, peer: usize) -> Outcome<bool> {
        let gpus = &self.node()?.machine.gpus;
        let (one, other) = (&gpus[self.devices[device].gpu], &gpus[self.devices[peer].gpu]);
        Ok(device != peer && one.peer_group != 0 && one.peer_group == other.peer_group)
    }

    /// `cuCtxEnablePeerAccess`. Once more is an error, and so is a context of the same GPU (device/peer-access-twice).
    pub fn enable_peer(&mut self, owner: Owner, peer: u64) -> Outcome {
        let other = self.owner(peer).ok_or(SIM_NOT_MODELLED)?;
        if !self.can_access_peer(owner.device, other.device)? {
            return Err(PEER_ACCESS_UNSUPPORTED);
        }
        let context = self.contexts.get_mut(&owner.context).ok_or(INVALID_CONTEXT)?;
        if context.peers.insert(peer) { Ok(()) } else { Err(PEER_ACCESS_ALREADY_ENABLED) }
    }

    /// `cuCtxDisablePeerAccess`. What it says where there was none is not known.
    pub fn disable_peer(&mut self, owner: Owner, peer: u64) -> Outcome {
        let context = self.contexts.get_mut(&owner.context).ok_or(INVALID_CONTEXT)?;
        if context.peers.remove(&peer) { Ok(()) } else { Err(SIM_NOT_MODELLED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::process::sample::ready;

    #[test]
    fn access_is_given_once_and_never_to_oneself() {
        let mut process = ready();
        let [zero, one] = [0, 1].map(|device| {
            let handle = process.retain_primary(device).unwrap();
            process.owner(handle).unwrap()
        });
        assert_eq!(process.enable_peer(zero, zero.context), Err(PEER_ACCESS_UNSUPPORTED));
        assert_eq!(process.enable_peer(zero, one.context), Ok(()));
        assert_eq!(process.enable_peer(zero, one.context), Err(PEER_ACCESS_ALREADY_ENABLED));
        assert_eq!(process.disable_peer(zero, one.context), Ok(()));
        assert_eq!(process.disable_peer(zero, one.context), Err(SIM_NOT_MODELLED));
    }
}
