//! The survey on recorded trees of unlike machines, and on trees that are garbled.

use std::path::PathBuf;

use hwdyno_engine::parts::{of_tree, Tree};
use hwdyno_engine::survey;
use serde_json::{json, Value};

const MACHINES: &[(&str, &str)] = &[
    ("nvme-server", "/srv/data/file"),
    ("sata-laptop", "/home/anna"),
    ("usb-stick", "/media/stick"),
    ("virtual-machine", "/home"),
    ("arm64-edge", "/data"),
    ("container", "/tmp"),
    ("cluster-node", "/home/u1001"),
];

fn record(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/trees/{name}.tree"))
}

fn machine(name: &str, path: &str) -> Value {
    survey(&record(name), Some(path.as_ref()))
}

fn layers(machine: &Value) -> Vec<(String, String)> {
    let chain = machine["storage"]["chain"].as_array().cloned().unwrap_or_default();
    chain
        .iter()
        .map(|layer| (layer["name"].as_str().unwrap_or("").into(), layer["kind"].as_str().unwrap_or("").into()))
        .collect()
}

fn names(machine: &Value) -> Vec<&str> {
    machine["storage"]["disks"].as_array().into_iter().flatten().filter_map(|disk| disk["name"].as_str()).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, kind)| ((*name).to_string(), (*kind).to_string())).collect()
}

#[test]
fn a_server_with_lvm_over_raid_over_nvme() {
    let machine = machine("nvme-server", "/srv/data/file");
    let cpu = &machine["cpu"];
    assert_eq!((&cpu["sockets"], &cpu["cores"], &cpu["threads"]), (&json!(2), &json!(32), &json!(64)));
    assert_eq!(
        cpu["caches"][3],
        json!({"level": 3, "type": "unified", "size_bytes": 33_554_432, "shared_threads": 8, "instances": 8})
    );
    assert_eq!(cpu["clock_hz"], json!({"measured": null, "base": 3_000_000_000_u64, "max": 3_729_492_000_u64}));
    assert_eq!(cpu["numa_nodes"][1]["cpus"].as_array().map(Vec::len), Some(32));
    assert_eq!(
        layers(&machine),
        pairs(&[("vg0-data", "lvm"), ("md127", "raid"), ("nvme0n1p1", "partition"), ("nvme1n1p1", "partition")])
    );
    let chain = &machine["storage"]["chain"];
    assert_eq!((&chain[1]["level"], &chain[1]["on"]), (&json!("raid0"), &json!(["nvme0n1p1", "nvme1n1p1"])));
    assert_eq!(names(&machine), ["nvme0n1", "nvme1n1"]);
    let disks = &machine["storage"]["disks"];
    assert_eq!(disks[0]["model"], "SAMSUNG MZQL21T9HCJR-00A07");
    assert_eq!((&disks[0]["kind"], &disks[0]["rotational"]), (&json!("nvme"), &json!(false)));
    assert_eq!((&disks[0]["link"]["generation"], &disks[0]["link"]["lanes"]), (&json!(4), &json!(4)));
    assert_eq!(disks[0]["link"]["bits_s"], 64_000_000_000_u64);
    assert_eq!(disks[0]["queue"]["nr_hw_queues"], 64);
    assert_eq!(disks[0]["queue"]["max_sectors_bytes"], 262_144);
    // the second is reached through its subsystem, and runs on half its lanes
    let link = &disks[1]["link"];
    assert_eq!((&link["lanes"], &link["lanes_max"], &link["slot_lanes_max"]), (&json!(2), &json!(4), &json!(2)));
    assert_eq!(machine["gpus"][1]["model"], "NVIDIA A100 80GB PCIe");
    assert_eq!(machine["nics"][0]["bits_s"], 25_000_000_000_u64);
    assert_eq!(
        (&machine["conditions"]["turbo"], &machine["conditions"]["temperature_c"]),
        (&json!(true), &json!(46.875))
    );
    assert_eq!(machine["hypervisor"], Value::Null);
    assert!(machine["unknown"]["hypervisor"].is_null(), "bare metal is known to have none");
}

#[test]
fn a_laptop_with_an_encrypted_sata_drive_and_a_spinning_one() {
    let home = machine("sata-laptop", "/home/anna");
    assert_eq!(layers(&home), pairs(&[("home", "crypt"), ("sda3", "partition")]));
    let disk = &home["storage"]["disks"][0];
    assert_eq!(disk["model"], "Samsung SSD 870 EVO 1TB", "SCSI's own field is cut; page 83h has all of it");
    assert_eq!(disk["serial"], "S6PUNX0T100001");
    assert_eq!((&disk["kind"], &disk["rotational"], &disk["driver"]), (&json!("sata"), &json!(false), &json!("ahci")));
    assert_eq!((&disk["link"]["type"], &disk["link"]["bits_s"]), (&json!("sata"), &json!(6_000_000_000_u64)));
    assert_eq!((&disk["queue"]["scheduler"], &disk["queue"]["nr_requests"]), (&json!("mq-deadline"), &json!(64)));
    assert_eq!((&home["conditions"]["turbo"], &home["conditions"]["governor"]), (&json!(false), &json!("powersave")));
    assert_eq!(home["conditions"]["temperature_c"], 61.0, "the board's own sensor is not the processor's");

    let archive = machine("sata-laptop", "/mnt/my archive/x");
    assert_eq!(archive["storage"]["mount_point"], "/mnt/my archive");
    let disk = &archive["storage"]["disks"][0];
    assert_eq!((&disk["model"], &disk["rotational"]), (&json!("ST9250610NS"), &json!(true)));
    assert_eq!((&disk["link"]["generation"], &disk["link"]["generation_max"]), (&json!(2), &json!(3)));

    let bound = machine("sata-laptop", "/home/anna/films");
    assert_eq!(layers(&bound), pairs(&[("/home/anna/films", "bind"), ("sdb1", "partition")]));
    let btrfs = machine("sata-laptop", "/mnt/nested");
    assert_eq!(names(&btrfs), ["sda"], "btrfs has no device number of its own, and is found by its source");
    assert!(btrfs["storage"]["options"].as_array().is_some_and(|options| options.contains(&json!("compress=zstd:3"))));
}

#[test]
fn flash_drives_run_as_fast_as_the_slowest_hub_above_them() {
    let fast = machine("usb-stick", "/media/stick/f");
    let disk = &fast["storage"]["disks"][0];
    assert_eq!((&disk["kind"], &disk["model"]), (&json!("usb"), &json!("VANSUNY USB FLASH DRIVE")));
    assert_eq!(disk["link"]["bits_s"], 5_000_000_000_u64);
    assert_eq!(disk["rotational"], Value::Null);
    assert!(fast["unknown"]["storage.disks.0.rotational"].is_string());
    assert_eq!(fast["storage"]["filesystem"], "vfat");
    let slow = machine("usb-stick", "/media/old");
    assert_eq!(slow["storage"]["disks"][0]["link"]["bits_s"], 480_000_000);
    assert_eq!(layers(&slow), [], "a drive without partitions");
    let enclosure = machine("usb-stick", "/media/box");
    assert_eq!(enclosure["storage"]["disks"][0]["link"]["bits_s"], 10_000_000_000_u64);
    assert_eq!(
        (&enclosure["storage"]["disks"][0]["driver"], &enclosure["storage"]["disks"][0]["rotational"]),
        (&json!("uas"), &json!(false))
    );
    assert_eq!(enclosure["conditions"]["governor"], "performance, schedutil");
}

#[test]
fn a_virtual_machine_says_what_it_cannot_know() {
    let machine = machine("virtual-machine", "/home");
    let disk = &machine["storage"]["disks"][0];
    assert_eq!(
        (&disk["name"], &disk["kind"], &disk["driver"]),
        (&json!("vda"), &json!("virtio"), &json!("virtio_blk"))
    );
    assert_eq!((&disk["link"]["type"], &disk["link"]["bits_s"]), (&json!("none"), &Value::Null));
    for at in ["rotational", "model", "link.bits_s"] {
        assert!(machine["unknown"][format!("storage.disks.0.{at}")].is_string(), "{at}");
    }
    assert!(machine["unknown"]["hypervisor"].is_string(), "there is one, and it is not named");
    assert_eq!(machine["container"]["kind"], Value::Null, "the mark of an image is not a container");
    assert!(machine["cpu"]["isa"]
        .as_array()
        .is_some_and(|isa| isa.contains(&json!("avx512f")) && isa.contains(&json!("sse3"))));
    assert_eq!(machine["cpu"]["clock_hz"]["max"], Value::Null);
    assert_eq!(machine["conditions"]["tcp_congestion_control"], "bbr");
}

#[test]
fn an_edge_board_with_nvme_and_emmc() {
    let data = machine("arm64-edge", "/data");
    assert_eq!(data["board"], "NVIDIA Jetson AGX Orin Developer Kit");
    assert_eq!((&data["cpu"]["model"], &data["cpu"]["vendor"]), (&json!("Cortex-A78AE"), &json!("Arm")));
    assert_eq!((&data["cpu"]["sockets"], &data["cpu"]["cores"]), (&json!(1), &json!(12)));
    assert_eq!(data["os"]["architecture"], "aarch64");
    assert!(data["cpu"]["isa"].as_array().is_some_and(|isa| isa.contains(&json!("asimddp"))));
    let link = &data["storage"]["disks"][0]["link"];
    assert_eq!((&link["generation"], &link["slot_generation_max"], &link["lanes"]), (&json!(3), &json!(4), &json!(4)));
    assert_eq!(data["conditions"]["temperature_c"], 47.531);
    assert_eq!((&data["gpus"][0]["vendor"], &data["gpus"][0]["model"]), (&json!("NVIDIA"), &json!("nvidia,ga10b")));
    let system = machine("arm64-edge", "/");
    let disk = &system["storage"]["disks"][0];
    assert_eq!((&disk["kind"], &disk["link"]["bits_s"]), (&json!("mmc"), &json!(3_200_000_000_u64)));
    assert_eq!(disk["link"]["mode"], "mmc HS400 enhanced strobe");
}

#[test]
fn a_container_knows_its_limits_and_the_disk_below_its_overlay() {
    let root = machine("container", "/tmp");
    assert_eq!(
        root["container"],
        json!({"kind": "docker", "cpu_limit": 2.5, "cpuset": [0, 1, 2, 3], "memory_limit_bytes": 4_294_967_296_u64,
               "memory_left_bytes": null})
    );
    assert_eq!(layers(&root), pairs(&[("/", "overlay"), ("nvme0n1p2", "partition")]));
    assert_eq!(names(&root), ["nvme0n1"]);
    assert_eq!(root["cpu"]["threads"], 12, "the machine's, whatever this container may use of it");
    let shared = machine("container", "/data/set");
    assert_eq!(layers(&shared), pairs(&[("/data", "bind"), ("nvme0n1p2", "partition")]));
}

#[test]
fn a_cluster_node_with_servers_sas_and_images() {
    let home = machine("cluster-node", "/home/u1001");
    let disk = &home["storage"]["disks"][0];
    assert_eq!((&disk["kind"], &disk["link"]["nic"]), (&json!("nfs"), &json!("ens2f0")));
    assert_eq!(disk["link"]["bits_s"], 100_000_000_000_u64);
    assert_eq!(home["container"]["cpuset"], json!([20, 21, 22, 23, 24, 25, 26, 27]));
    assert_eq!(home["container"]["memory_limit_bytes"], 68_719_476_736_u64);
    assert_eq!(home["container"]["cpu_limit"], Value::Null, "a quota of -1 is none");
    let image = machine("cluster-node", "/opt/image/bin");
    assert_eq!(layers(&image), pairs(&[("loop0", "loop"), ("sda3", "partition")]));
    assert_eq!(
        (&image["storage"]["disks"][0]["kind"], &image["storage"]["disks"][0]["link"]["bits_s"]),
        (&json!("sas"), &json!(12_000_000_000_u64))
    );
    let local = machine("cluster-node", "/local");
    assert_eq!(local["storage"]["disks"][0]["kind"], "sata", "a SAS controller carries SATA disks too");
    for (path, word) in [("/tank", "ZFS"), ("/dev/shm", "memory")] {
        let machine = machine("cluster-node", path);
        assert_eq!(names(&machine), [""; 0]);
        assert!(machine["unknown"]["storage.disks"].as_str().is_some_and(|why| why.contains(word)), "{path}");
    }
    let scratch = machine("cluster-node", "/scratch");
    assert_eq!(
        scratch["storage"]["disks"][0]["link"]["bits_s"],
        Value::Null,
        "InfiniBand does not take the kernel's routes"
    );
}

#[test]
fn a_raw_device_is_followed_without_a_filesystem() {
    let machine = machine("nvme-server", "/dev/md127");
    assert_eq!(names(&machine), ["nvme0n1", "nvme1n1"]);
    assert_eq!(machine["storage"]["filesystem"], Value::Null);
    assert!(machine["unknown"]["storage.filesystem"].as_str().is_some_and(|why| why.contains("raw device")));
}

/// Every `null` is either explained, or one of those that mean that there is none.
#[test]
fn whatever_is_null_has_a_reason() {
    const NONE_IS_AN_ANSWER: &[&str] = &[
        "hypervisor",
        "kind",
        "cpu_limit",
        "memory_limit_bytes",
        "memory_left_bytes",
        "temperature_c",
        "link",
        "driver",
        "upstream",
        "vendor_id",
        "device_id",
        "nic",
    ];
    fn walk(value: &Value, at: &str, unknown: &Value, missing: &mut Vec<String>) {
        let below = |key: &str| if at.is_empty() { key.to_string() } else { format!("{at}.{key}") };
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter().filter(|(key, _)| *key != "unknown") {
                    walk(value, &below(key), unknown, missing);
                }
            }
            Value::Array(list) => {
                for (n, value) in list.iter().enumerate() {
                    walk(value, &below(&n.to_string()), unknown, missing);
                }
            }
            Value::Null => {
                let none_is_an_answer = NONE_IS_AN_ANSWER.contains(&at.rsplit('.').next().unwrap_or(""));
                if !none_is_an_answer && !at.contains(".link.") && unknown[at].is_null() {
                    missing.push(at.to_string());
                }
            }
            _ => {}
        }
    }
    for (name, path) in MACHINES {
        let machine = machine(name, path);
        let mut missing = Vec::new();
        walk(&machine, "", &machine["unknown"], &mut missing);
        assert!(missing.is_empty(), "{name}: no reason for {missing:?}");
    }
}

#[test]
fn an_empty_tree_gives_a_machine_of_unknowns() {
    let machine = of_tree(Tree::of_record(""), Some("/x"));
    assert_eq!(machine["storage"]["disks"], json!([]));
    assert!(machine["unknown"].as_object().is_some_and(|unknown| unknown.len() > 20));
}

/// Cuts, swaps and overwrites the content of the trees: every input gives a machine.
#[test]
fn no_content_makes_the_survey_fail() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below.max(1) as u64) as usize
    };
    let garbage = [
        "",
        "-1",
        "99999999999999999999",
        "\u{0}",
        "[",
        "] [",
        "0-",
        "{n",
        "é€",
        "NaN",
        "1 2 3",
        "/",
        "../..",
        ":",
        " - ",
        "0x",
    ];
    for (name, path) in MACHINES {
        let text = std::fs::read_to_string(record(name)).expect("a recorded tree");
        let lines: Vec<&str> = text.lines().collect();
        for _ in 0..40 {
            let mut lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            for _ in 0..=random(lines.len() / 4) {
                let at = random(lines.len());
                let word = garbage[random(garbage.len())];
                let line = &lines[at];
                let cut = (0..=random(line.len() + 1)).rev().find(|cut| line.is_char_boundary(*cut)).unwrap_or(0);
                lines[at] = match random(5) {
                    0 => line[..cut].to_string(),
                    1 => format!("{}{word}", &line[..cut]),
                    2 => line.split_once(": ").map_or(word.into(), |(file, _)| format!("{file}: {word}")),
                    3 => line.split_once(" -> ").map_or(word.into(), |(link, _)| format!("{link} -> {word}")),
                    _ => lines[random(lines.len())].clone(),
                };
            }
            let machine = of_tree(Tree::of_record(&lines.join("\n")), Some(path));
            assert!(machine["storage"]["disks"].is_array(), "{name}");
        }
    }
}

#[test]
fn layers_that_go_in_a_circle_end() {
    let tree = Tree::of_record(
        "/proc/self/mountinfo: 1 0 253:0 / / rw - ext4 /dev/dm-0 rw\n/sys/dev/block/253:0 -> ../../devices/virtual/block/dm-0\n\
         /sys/devices/virtual/block/dm-0/dm/name: a\n/sys/devices/virtual/block/dm-0/slaves/dm-1 -> ../../dm-1\n\
         /sys/devices/virtual/block/dm-1/dm/name: b\n/sys/devices/virtual/block/dm-1/slaves/dm-0 -> ../../dm-0\n",
    );
    let machine = of_tree(tree, Some("/"));
    assert_eq!(layers(&machine), pairs(&[("a", "device-mapper"), ("b", "device-mapper")]));
    let tree = Tree::of_record(
        "/proc/self/mountinfo: 1 0 7:0 / / rw - ext4 /dev/loop0 rw\n/sys/dev/block/7:0 -> ../../devices/virtual/block/loop0\n\
         /sys/devices/virtual/block/loop0/loop/backing_file: /image\n",
    );
    assert_eq!(names(&of_tree(tree, Some("/"))), [""; 0], "an image that holds itself");
}

#[test]
fn this_machine_is_described() {
    let machine = survey(std::path::Path::new("/"), Some("/nowhere/to/be/found".as_ref()));
    assert!(machine["cpu"]["threads"].as_u64().is_some_and(|threads| threads > 0));
    assert!(machine["memory"]["total_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    assert_eq!(machine["storage"]["path"], "/");
    assert!(machine["unknown"]["storage.path"].as_str().is_some_and(|why| why.contains("does not exist")));
    assert!(machine["storage"]["size_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
}

#[test]
fn lists_of_more_processors_than_any_kernel_has_are_refused_in_one_line() {
    let machine = of_tree(
        Tree::of_record(
            "/sys/devices/system/cpu/online: 0-99999\n/sys/devices/system/cpu/cpu{0-9999}/topology/core_cpus_list: {n}-99999\n\
             /proc/cpuinfo:\n\tprocessor\t: 0\n\tphysical id\t: 0\n\tcore id\t: 0\n\
             /sys/devices/system/node/node{0-9}/cpulist: 0-70000\n/proc/self/status: Cpus_allowed_list: 0-99999999999\n",
        ),
        Some("/"),
    );
    assert_eq!(machine["cpu"]["threads"], Value::Null);
    assert_eq!(machine["cpu"]["numa_nodes"][9]["cpus"], json!([]));
    assert_eq!(machine["container"]["cpuset"], Value::Null);
    let listing = [
        ("cpu.threads", "/sys/devices/system/cpu/online"),
        ("cpu.numa_nodes", "/sys/devices/system/node/node9/cpulist"),
        ("container.cpuset", "/proc/self/status"),
    ];
    for (at, file) in listing {
        let expected = format!("{file} lists more than 65536 processors, more than any kernel has");
        assert_eq!(machine["unknown"][at], expected);
    }
    let core = of_tree(
        Tree::of_record(
            "/sys/devices/system/cpu/online: 0\n/sys/devices/system/cpu/cpu0/topology/core_cpus_list: 0-99999\n",
        ),
        Some("/"),
    );
    assert_eq!((&core["cpu"]["threads"], &core["cpu"]["cores"]), (&json!(1), &Value::Null));
    assert!(
        core["unknown"]["cpu.cores"].as_str().is_some_and(|why| why.contains("more than 65536 processors")),
        "{core}"
    );
    // each list can be, but no kernel has this many together
    let nodes = of_tree(Tree::of_record("/sys/devices/system/node/node{0-9}/cpulist: 0-65535\n"), Some("/"));
    assert_eq!(nodes["cpu"]["numa_nodes"][0]["cpus"].as_array().map(Vec::len), Some(65_536));
    assert_eq!(nodes["cpu"]["numa_nodes"][1]["cpus"], json!([]));
    assert_eq!(nodes["unknown"]["cpu.numa_nodes"], "/sys/devices/system/node lists more than 65536 processors");
}

#[test]
fn more_devices_than_any_machine_has_are_counted_and_not_described() {
    let cards = ["", "1", "2"].map(|n| format!("/sys/class/drm/card{n}{{0-4095}}/device/vendor: 0x10de\n")).concat();
    let nics = ["a", "b"].map(|n| format!("/sys/class/net/e{n}{{0-4095}}/mtu: 1500\n")).concat();
    let machine = of_tree(Tree::of_record(&format!("{cards}{nics}")), Some("/"));
    assert_eq!(machine["gpus"].as_array().map(Vec::len), Some(1024));
    assert_eq!(machine["nics"].as_array().map(Vec::len), Some(4096));
    let found = machine["unknown"]["nics"].as_str().unwrap_or_default();
    assert_eq!(found, "the system lists 8192; the first 4096 are described");
}

/// Each of them would take minutes or hours if what was read once were searched again for each of its parts.
#[test]
fn a_survey_of_long_texts_takes_as_long_as_they_are() {
    let many = |of: &dyn Fn(usize) -> String, n: usize| (0..n).map(of).collect::<String>();
    let words = many(&|n| format!(" avx{n}"), 300_000);
    let flags = of_tree(Tree::of_record(&format!("/proc/cpuinfo:\n\tprocessor\t: 0\n\tflags\t:{words}\n")), Some("/"));
    assert_eq!(flags["cpu"]["isa"].as_array().map(Vec::len), Some(300_000));

    let cores = many(&|n| format!("\tprocessor\t: {n}\n\tCPU implementer\t: 0x41\n\tCPU part\t: {n}\n\t\n"), 60_000);
    let kinds = of_tree(Tree::of_record(&format!("/proc/cpuinfo:\n{cores}")), Some("/"));
    assert_eq!(kinds["cpu"]["model"].as_str().map(|text| text.split(" + ").count()), Some(60_000));

    let options = many(&|n| format!(",o{n}"), 300_000);
    let mount = format!("/proc/self/mountinfo: 1 0 0:5 / / rw{options} - ext4 /dev/none rw\n");
    let mounted = of_tree(Tree::of_record(&mount), Some("/"));
    assert_eq!(mounted["storage"]["options"].as_array().map(Vec::len), Some(300_001));

    let folders = many(&|_| "/a".to_string(), 1_000_000);
    let groups = format!(
        "/proc/self/mountinfo: 30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n/proc/self/cgroup: 0::{folders}\n\
         /sys/fs/cgroup{folders}/memory.max: 1\n/sys/fs/cgroup/a/a/memory.max: 4096\n"
    );
    let contained = of_tree(Tree::of_record(&groups), Some("/"));
    assert_eq!(contained["container"]["memory_limit_bytes"], 4096);

    let sources = many(&|n| format!(":/dev/mapper/x{n}"), 60_000);
    let mapped = many(&|n| format!("/sys/class/block/dm-{n}{{0-4095}}/dm/name: y{{n}}\n"), 10);
    let source = format!("/proc/self/mountinfo: 1 0 0:5 / / rw - ext4 /dev/a{sources} rw\n{mapped}");
    let found = of_tree(Tree::of_record(&source), Some("/"));
    assert_eq!(found["storage"]["disks"], json!([]));
}
