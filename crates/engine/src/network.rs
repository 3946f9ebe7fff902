//! What the network kernels share: the iperf3 protocol at both ends, the streams' loops, and the echo.

pub mod caller;
pub mod carrier;
pub mod chunks;
pub mod client;
pub mod datagrams;
pub mod document;
pub mod lane;
pub mod options;
pub mod outcome;
pub mod ping;
pub mod reach;
pub mod receiver;
pub mod responder;
pub mod results;
pub mod route;
pub mod serve;
pub mod server;
pub mod settings;
pub mod streams;
pub mod waiting;
pub mod watched;
pub mod wire;
