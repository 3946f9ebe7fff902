//! Which interface leads to an address, and at what speed.

use std::net::IpAddr;

use super::tree::Tree;

/// The directory of interfaces.
pub const NET: &str = "/sys/class/net";

/// The speed that an interface states, in bit/s.
#[must_use]
pub fn bits_s(tree: &Tree, name: &str) -> Option<u64> {
    let megabits: i64 = tree.number(&format!("{NET}/{name}/speed"))?;
    // -1 or 4294967295 mean that the driver does not know
    (megabits > 0 && megabits < i64::from(u32::MAX)).then(|| megabits as u64 * 1_000_000)
}

/// The interface that packets to `address` leave by, by the routing tables of `/proc/net`.
#[must_use]
pub fn leading_to(tree: &Tree, address: &str) -> Option<String> {
    match address.trim_matches(['[', ']']).parse().ok()? {
        address if IpAddr::is_loopback(&address) => Some("lo".into()),
        IpAddr::V4(address) => {
            let wanted = u32::from(address);
            let routes = tree.text("/proc/net/route")?;
            let matching = routes.lines().skip(1).filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                // the kernel writes addresses as words in memory order
                let word = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
                let (destination, mask) = (word(fields.get(1)?)?, word(fields.get(7)?)?);
                let metric: u32 = fields.get(6)?.parse().ok()?;
                (wanted & mask == destination).then(|| (mask.count_ones(), u32::MAX - metric, fields[0].to_string()))
            });
            matching.max().map(|(_, _, name)| name)
        }
        IpAddr::V6(address) => {
            let wanted = u128::from(address);
            let routes = tree.text("/proc/net/ipv6_route")?;
            let matching = routes.lines().filter_map(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                let destination = u128::from_str_radix(fields.first()?, 16).ok()?;
                let length = u32::from_str_radix(fields.get(1)?, 16).ok().filter(|length| *length <= 128)?;
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                let name = fields.get(9).filter(|name| **name != "lo")?;
                (wanted & mask == destination).then(|| (length, (*name).to_string()))
            });
            matching.max().map(|(_, name)| name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_route_leads_to_an_address() {
        let tree = Tree::of_record(
            "/proc/net/route:\n\tIface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
             \teth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\n\twlan0\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\n\
             \teth1\t0000140A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\n\
             /proc/net/ipv6_route:\n\tfd000000000000000000000000000000 08 0 00 0 00000100 1 0 1 eth2\n",
        );
        assert_eq!(leading_to(&tree, "10.20.3.4").as_deref(), Some("eth1"));
        assert_eq!(leading_to(&tree, "10.21.3.4").as_deref(), Some("eth0"));
        assert_eq!(leading_to(&tree, "127.0.0.1").as_deref(), Some("lo"));
        assert_eq!(leading_to(&tree, "[fd00::7]").as_deref(), Some("eth2"));
        assert_eq!(leading_to(&tree, "fe00::7"), None);
        assert_eq!(leading_to(&tree, "filer"), None);
    }
}
