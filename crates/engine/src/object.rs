//! An object store over HTTP: requests that are signed, sent and received without an allocation, and what they leave.

pub mod address;
pub mod client;
pub mod connection;
pub mod control;
pub mod credentials;
pub mod end;
pub mod exchange;
pub mod failure;
pub mod keys;
pub mod layout;
pub mod listing;
pub mod marks;
pub mod null_answers;
pub mod null_server;
pub mod options;
pub mod payload;
pub mod plan;
pub mod request;
pub mod response;
pub mod signing;
pub mod stored;
pub mod tally;
pub mod tls;
pub mod transport;
pub mod worker;
