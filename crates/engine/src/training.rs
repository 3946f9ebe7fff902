//! What the training kernels share: the data set on disk, its formats, and the queue of batches.

pub mod access;
pub mod batches;
pub mod check;
pub mod csv;
pub mod dataset;
pub mod hdf5;
pub mod image;
pub mod kv_files;
pub mod kv_tiers;
pub mod kv_users;
pub mod ledger;
pub mod noise;
pub mod npz;
pub mod objects;
pub mod parquet;
pub mod random;
pub mod sink;
pub mod source;
pub mod steps;
pub mod target;
pub mod tfrecord;
pub mod thrift;
pub mod vectors;
