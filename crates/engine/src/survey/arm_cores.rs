//! Names of arm64 cores by the implementer and part numbers of `/proc/cpuinfo`.
//!
//! Source: the `MIDR_EL1` values in each core's technical reference manual, as `arch/arm64/include/asm/cputype.h`
//! of Linux lists them.

/// The maker's name by its implementer code.
#[must_use]
pub fn implementer(code: u32) -> Option<&'static str> {
    Some(match code {
        0x41 => "Arm",
        0x42 => "Broadcom",
        0x43 => "Cavium",
        0x46 => "Fujitsu",
        0x48 => "HiSilicon",
        0x4e => "NVIDIA",
        0x50 => "Applied Micro",
        0x51 => "Qualcomm",
        0x61 => "Apple",
        0x6d => "Microsoft",
        0xc0 => "Ampere",
        _ => return None,
    })
}

/// The core's name by its implementer and part codes.
#[must_use]
pub fn core(implementer: u32, part: u32) -> Option<&'static str> {
    Some(match (implementer, part) {
        (0x41, 0xd03) => "Cortex-A53",
        (0x41, 0xd04) => "Cortex-A35",
        (0x41, 0xd05) => "Cortex-A55",
        (0x41, 0xd07) => "Cortex-A57",
        (0x41, 0xd08) => "Cortex-A72",
        (0x41, 0xd09) => "Cortex-A73",
        (0x41, 0xd0a) => "Cortex-A75",
        (0x41, 0xd0b) => "Cortex-A76",
        (0x41, 0xd0c) => "Neoverse N1",
        (0x41, 0xd0d) => "Cortex-A77",
        (0x41, 0xd0e) => "Cortex-A76AE",
        (0x41, 0xd40) => "Neoverse V1",
        (0x41, 0xd41) => "Cortex-A78",
        (0x41, 0xd42) => "Cortex-A78AE",
        (0x41, 0xd44) => "Cortex-X1",
        (0x41, 0xd46) => "Cortex-A510",
        (0x41, 0xd47) => "Cortex-A710",
        (0x41, 0xd48) => "Cortex-X2",
        (0x41, 0xd49) => "Neoverse N2",
        (0x41, 0xd4a) => "Neoverse E1",
        (0x41, 0xd4b) => "Cortex-A78C",
        (0x41, 0xd4d) => "Cortex-A715",
        (0x41, 0xd4e) => "Cortex-X3",
        (0x41, 0xd4f) => "Neoverse V2",
        (0x41, 0xd80) => "Cortex-A520",
        (0x41, 0xd81) => "Cortex-A720",
        (0x41, 0xd82) => "Cortex-X4",
        (0x41, 0xd84) => "Neoverse V3",
        (0x41, 0xd8e) => "Neoverse N3",
        (0x43, 0x0af) => "ThunderX2",
        (0x46, 0x001) => "A64FX",
        (0x48, 0xd01) => "Kunpeng 920 (TaiShan v110)",
        (0x4e, 0x003) => "Denver 2",
        (0x4e, 0x004) => "Carmel",
        (0x51, 0x001) => "Oryon",
        (0x51, 0x802) => "Kryo 385 Gold",
        (0x51, 0x803) => "Kryo 385 Silver",
        (0x61, 0x022) => "M1 Icestorm",
        (0x61, 0x023) => "M1 Firestorm",
        (0x61, 0x032) => "M2 Blizzard",
        (0x61, 0x033) => "M2 Avalanche",
        (0x6d, 0xd49) => "Cobalt 100 (Neoverse N2)",
        (0xc0, 0xac3) => "Ampere-1",
        (0xc0, 0xac4) => "Ampere-1A",
        _ => return None,
    })
}
