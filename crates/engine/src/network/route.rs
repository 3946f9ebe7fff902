//! Which interface leads to the other end, what it states of itself, and what a copy through memory takes.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::OnceLock;

use serde_json::{json, Map, Value};

use crate::contract::kernel::Stop;
use crate::survey::routes::{bits_s, leading_to};
use crate::survey::tree::Tree;

const NET: &str = "/sys/class/net";

/// Whether packets to `address` never leave this machine: a loopback address, or one of its addresses.
#[must_use]
pub fn stays_here(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || source_address(address) == Some(address)
}

/// The local address that packets to `address` are sent from; connecting a datagram socket sends nothing.
fn source_address(address: IpAddr) -> Option<IpAddr> {
    let any: SocketAddr = if address.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((address, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip().to_canonical())
}

/// Adds what is known of the way to `address`: its interface with the speed that it states, or, where nothing leaves this
/// machine, the bandwidth of a copy through memory.
pub fn describe(address: IpAddr, details: &mut Map<String, Value>) {
    if stays_here(address) {
        details.insert("interface".into(), json!("lo"));
        if let Some(bytes_s) = copy_bytes_s() {
            details.insert("copy_bytes_s".into(), json!(bytes_s));
        }
        return;
    }
    let tree = Tree::open("/".as_ref());
    let Some(name) = leading_to(&tree, &address.to_canonical().to_string()) else { return };
    details.insert("interface_mtu_bytes".into(), json!(tree.number::<u64>(&format!("{NET}/{name}/mtu"))));
    details.insert("interface_driver".into(), json!(tree.leads_to(&format!("{NET}/{name}/device/driver"))));
    // Bonds, bridges and VLANs are no devices themselves, but are built on some; a veth, a tun or a dummy is not.
    let stands_on_devices = tree.list(&format!("{NET}/{name}")).iter().any(|entry| {
        let lower = entry.strip_prefix("lower_");
        lower.is_some_and(|lower| tree.exists(&format!("{NET}/{lower}/device")))
    });
    let wire = stands_on_devices || tree.exists(&format!("{NET}/{name}/device"));
    details.insert("interface_virtual".into(), json!(!wire));
    details.insert("interface_bits_s".into(), json!(bits_s(&tree, &name)));
    details.insert("interface".into(), json!(name));
}

/// Bytes that TCP carries over loopback in a second of CPU time of both ends together: measured once a process with one
/// stream between two threads.
#[must_use]
pub fn loopback_bytes_cpu_s() -> Option<f64> {
    static LOOPBACK: OnceLock<Option<f64>> = OnceLock::new();
    *LOOPBACK.get_or_init(|| {
        crate::timing::start::disarm();
        let reading = crate::run("network_throughput", &json!({"runtime": 0.05}), &Stop::new()).ok()?;
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        let spent = |end: &str| reading.details.get(end).and_then(Value::as_f64);
        let cpu_s = spent("cpu_here_s")? + spent("cpu_there_s")?;
        (cpu_s > 0.0 && bytes > 0).then(|| bytes as f64 / cpu_s)
    })
}

/// Payload that one core copies a second, from one buffer of a few MiB to another: measured once a process, because it
/// is loopback's only limit besides the processor's work for each segment. A copy reads and writes each byte, so it is
/// half of what `memory_bandwidth` counts.
fn copy_bytes_s() -> Option<f64> {
    static COPY: OnceLock<Option<f64>> = OnceLock::new();
    *COPY.get_or_init(|| {
        let parameters = json!({"operation": "copy", "threads": 1, "working_set": 8 << 20, "runtime": 0.03});
        // The timed region is over, so no other host has to wait for this one.
        crate::timing::start::disarm();
        let reading = crate::run("memory_bandwidth", &parameters, &Stop::new()).ok()?;
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        // By the core's time: while others had it nothing was copied, and the clock went on.
        let cpu_s = reading.cpu.user_s + reading.cpu.system_s;
        let took_s = if cpu_s > 0.0 { cpu_s.min(reading.elapsed_s) } else { reading.elapsed_s };
        (took_s > 0.0 && bytes > 0).then(|| bytes as f64 / took_s / 2.0)
    })
}
