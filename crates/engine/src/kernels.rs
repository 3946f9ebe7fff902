//! The table of kernels: one line each.

use crate::contract::kernel::Entry;

mod compute_clock;
mod compute_flops;
mod gpu_bandwidth;
mod gpu_flops;
mod gpu_latency;
mod gpu_launch;
mod gpu_load;
mod gpu_matrix;
mod gpu_roofline;
mod gpu_transfer;
mod idle;
mod inference_kv_cache;
pub mod inference_vector_index;
mod inference_vector_search;
mod memory_bandwidth;
mod memory_core_to_core;
mod memory_latency;
mod memory_loaded_latency;
mod network_latency;
mod network_ping;
mod network_server;
mod network_throughput;
mod object_fetch;
mod object_layout;
mod object_listing;
mod object_removal;
mod object_requests;
mod object_server;
mod object_upload;
mod storage_blocks;
mod storage_check;
mod storage_group;
mod storage_layout;
mod storage_metadata;
mod storage_patterns;
mod training_checkpoint;
mod training_generate;
mod training_loader;

/// Every kernel that the engine has, one a line.
#[rustfmt::skip]
pub static TABLE: &[&dyn Entry] = &[
    &compute_clock::ComputeClock,
    &compute_flops::ComputeFlops,
    &gpu_bandwidth::GpuBandwidth,
    &gpu_flops::GpuFlops,
    &gpu_latency::GpuLatency,
    &gpu_launch::GpuLaunch,
    &gpu_load::GpuLoad,
    &gpu_matrix::GpuMatrix,
    &gpu_roofline::GpuRoofline,
    &gpu_transfer::GpuTransfer,
    &idle::Idle,
    &inference_kv_cache::KvCache,
    &inference_vector_index::VectorIndex,
    &inference_vector_search::VectorSearch,
    &memory_bandwidth::MemoryBandwidth,
    &memory_core_to_core::MemoryCoreToCore,
    &memory_latency::MemoryLatency,
    &memory_loaded_latency::MemoryLoadedLatency,
    &network_latency::NetworkLatency,
    &network_ping::NetworkPing,
    &network_server::NetworkServer,
    &network_throughput::NetworkThroughput,
    &object_fetch::ObjectFetch,
    &object_layout::ObjectLayout,
    &object_listing::ObjectListing,
    &object_removal::ObjectRemoval,
    &object_requests::ObjectRequests,
    &object_server::ObjectServer,
    &object_upload::ObjectUpload,
    &storage_blocks::StorageBlocks,
    &storage_check::StorageCheck,
    &storage_group::StorageGroup,
    &storage_layout::StorageLayout,
    &storage_metadata::StorageMetadata,
    &storage_patterns::StoragePatterns,
    &training_checkpoint::Checkpoint,
    &training_generate::Generate,
    &training_loader::Loader,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{json, Map, Value};

    use super::*;
    use crate::contract::kernel::{KernelInfo, Writes};
    use crate::contract::parameter::{Kind, Parameter, Role};

    #[test]
    fn every_declaration_is_whole() {
        for kernel in TABLE {
            let KernelInfo { declaration: info, parameters, .. } = kernel.info();
            assert!(!info.measures.is_empty() && !info.operation.is_empty(), "{}", info.name);
            let names: BTreeSet<_> = parameters.iter().map(|parameter| parameter.name).collect();
            assert_eq!(names.len(), parameters.len(), "{}: a name stands twice", info.name);
            assert!(info.consent.iter().all(|name| names.contains(name)), "{}", info.name);
            assert!(info.consent.is_empty() || info.writes == Writes::Device, "{}", info.name);
            for parameter in &parameters {
                let place = format!("{} {}", info.name, parameter.name);
                assert!(!parameter.means.is_empty(), "{place}");
                assert!(!parameter.workers || parameter.role == Role::Concurrency, "{place}");
                assert!(parameter.split.is_empty() || names.contains(parameter.split), "{place}");
                if let Kind::Choice { choices } = &parameter.kind {
                    assert!(parameter.traits.keys().all(|word| choices.contains(word)), "{place}");
                } else {
                    assert!(parameter.traits.is_empty(), "{place}");
                }
                if parameter.role != Role::Label {
                    let number = matches!(parameter.kind, Kind::Integer { .. } | Kind::Number { .. });
                    assert!(number, "{place}: a load is a number");
                }
                if parameter.role == Role::Size {
                    assert_eq!(parameter.unit, "B", "{place}");
                }
            }
        }
    }

    #[test]
    fn every_value_that_a_declaration_allows_can_be_read() {
        for kernel in TABLE {
            let parameters = kernel.info().parameters;
            let required = |parameter: &Parameter| match parameter.kind {
                Kind::Text => json!("x"),
                _ => json!(1),
            };
            let missing = parameters.iter().filter(|parameter| parameter.default.is_null());
            let least: Map<_, _> = missing.map(|parameter| (parameter.name.to_string(), required(parameter))).collect();
            for parameter in &parameters {
                let values = match &parameter.kind {
                    Kind::Integer { min, max } => vec![json!(min), json!(max)],
                    Kind::Number { min, max } => vec![json!(min), json!(max)],
                    Kind::Choice { choices } => choices.iter().map(|word| json!(word)).collect(),
                    Kind::Text => vec![json!(""), json!("x")],
                    Kind::Flag => vec![json!(true), json!(false)],
                    Kind::Integers => vec![json!([]), json!([0, 1])],
                };
                for value in values {
                    let mut given = least.clone();
                    given.insert(parameter.name.into(), value.clone());
                    let checked = kernel.check(&Value::Object(given));
                    assert!(checked.is_ok(), "{} {} = {value}: {checked:?}", kernel.name(), parameter.name);
                }
            }
        }
    }
}
