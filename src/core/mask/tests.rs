// What a mask shows is held against what was measured (`tests/mask_vectors.rs`) and against the simulated driver's own
// rule (`tests/mask.rs`).

use super::*;

#[test]
fn names_and_numbers_are_those_of_cuda() {
    for status in [InitStatus::Success, InitStatus::NoDevice, InitStatus::InvalidDevice] {
        let known = crate::event::Status::named(cuda_pitfalls_calls::CallLibrary::Driver, status.code());
        assert_eq!(known.name.as_deref(), Some(status.name()));
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
}
