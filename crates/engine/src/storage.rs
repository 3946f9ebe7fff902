//! What the storage kernels share.
