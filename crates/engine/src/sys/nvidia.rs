//! NVIDIA's driver (`libcuda.so.1`) and its management library (`libnvidia-ml.so.1`), found while the engine runs:
//! what they state of each GPU. Names and numbers are those of `cuda.h` and `nvml.h`.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use serde_json::{json, Map, Value};

use super::library::{functions, Library};

/// The driver's interface.
pub const CUDA: &str = "libcuda.so.1";
/// The management library.
pub const NVML: &str = "libnvidia-ml.so.1";

functions! {
    struct Cuda {
        fn cuInit(c_uint) -> c_int;
        fn cuDriverGetVersion(*mut c_int) -> c_int;
        fn cuDeviceGetCount(*mut c_int) -> c_int;
        fn cuDeviceGet(*mut c_int, c_int) -> c_int;
        fn cuDeviceGetName(*mut c_char, c_int, c_int) -> c_int;
        fn cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        fn cuDeviceTotalMem_v2(*mut usize, c_int) -> c_int;
        fn cuDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> c_int;
    }
}

functions! {
    struct Nvml {
        fn nvmlInit_v2() -> c_int;
        fn nvmlShutdown() -> c_int;
        fn nvmlSystemGetDriverVersion(*mut c_char, c_uint) -> c_int;
        fn nvmlDeviceGetHandleByPciBusId_v2(*const c_char, *mut *mut c_void) -> c_int;
        fn nvmlDeviceGetClockInfo(*mut c_void, c_uint, *mut c_uint) -> c_int;
        fn nvmlDeviceGetMaxClockInfo(*mut c_void, c_uint, *mut c_uint) -> c_int;
        fn nvmlDeviceGetCurrPcieLinkGeneration(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetCurrPcieLinkWidth(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetMaxPcieLinkGeneration(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetMaxPcieLinkWidth(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetPowerUsage(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetEnforcedPowerLimit(*mut c_void, *mut c_uint) -> c_int;
        fn nvmlDeviceGetTemperature(*mut c_void, c_uint, *mut c_uint) -> c_int;
        fn nvmlDeviceGetCurrentClocksThrottleReasons(*mut c_void, *mut u64) -> c_int;
        fn nvmlDeviceGetEccMode(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;
        fn nvmlDeviceGetMigMode(*mut c_void, *mut c_uint, *mut c_uint) -> c_int;
    }
}

/// `CU_DEVICE_ATTRIBUTE_…`: the key of the survey, the attribute, and what a unit of it is.
const ATTRIBUTES: [(&str, c_int, u64); 7] = [
    ("multiprocessors", 16, 1),
    ("clock_max_hz", 13, 1000),
    ("memory_clock_max_hz", 36, 1000),
    ("memory_bus_bits", 37, 1),
    ("l2_bytes", 38, 1),
    ("copy_engines", 40, 1),
    ("threads_per_multiprocessor", 39, 1),
];
const COMPUTE_CAPABILITY: [c_int; 2] = [75, 76];
const CLOCK_SM: c_uint = 1;
const CLOCK_MEMORY: c_uint = 2;
/// `nvmlClocksThrottleReason…`, without those that slow nothing down that runs: idle, clocks of a display.
const REASONS: [(u64, &str); 7] = [
    (0x2, "application clocks are set"),
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "clocks are tied to another GPU's"),
    (0x20, "heat (software)"),
    (0x40, "heat (hardware)"),
    (0x80, "power brake"),
];

/// What CUDA's driver states of each GPU, and NVML where it answers; and NVML's refusal, if it has one.
///
/// # Errors
/// Why there is no driver, or what it answered.
pub fn gpus() -> Result<(Vec<Value>, Option<String>), String> {
    let cuda = Library::open(CUDA).and_then(Cuda::of)?;
    // SAFETY: the driver's first call.
    checked(unsafe { (cuda.cuInit)(0) })?;
    let (mut count, mut version) = (0, 0);
    // SAFETY: one number each.
    checked(unsafe { (cuda.cuDeviceGetCount)(&raw mut count) })?;
    // SAFETY: as above.
    checked(unsafe { (cuda.cuDriverGetVersion)(&raw mut version) })?;
    let nvml = Library::open(NVML).and_then(Nvml::of).and_then(Management::start);
    let found = (0..count.clamp(0, 64)).map(|at| cuda.gpu(at, version, nvml.as_ref().ok()));
    Ok((found.collect::<Result<_, _>>()?, nvml.as_ref().err().cloned()))
}

impl Cuda {
    fn gpu(&self, at: c_int, version: c_int, nvml: Option<&Management>) -> Result<Value, String> {
        let mut device = 0;
        // SAFETY: one number.
        checked(unsafe { (self.cuDeviceGet)(&raw mut device, at) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: one number.
            let status = unsafe { (self.cuDeviceGetAttribute)(&raw mut value, which, device) };
            (status == 0 && value > 0).then_some(value as u64)
        };
        let mut memory = 0_usize;
        // SAFETY: one number.
        let has_memory = unsafe { (self.cuDeviceTotalMem_v2)(&raw mut memory, device) } == 0;
        // SAFETY: `text` gives room of 96 letters.
        let name = text(|into, size| unsafe { (self.cuDeviceGetName)(into, size, device) });
        // SAFETY: as above.
        let bus = text(|into, size| unsafe { (self.cuDeviceGetPCIBusId)(into, size, device) });
        let mut gpu = Map::new();
        gpu.insert("name".into(), json!(name));
        gpu.insert("bus".into(), json!(bus));
        gpu.insert("cuda_version".into(), json!(format!("{}.{}", version / 1000, version % 1000 / 10)));
        let [major, minor] = COMPUTE_CAPABILITY.map(|which| {
            let mut value = 0;
            // SAFETY: one number; the minor one may be 0.
            let status = unsafe { (self.cuDeviceGetAttribute)(&raw mut value, which, device) };
            (status == 0).then_some(value)
        });
        let capability = major.zip(minor).map(|(major, minor)| format!("{major}.{minor}"));
        gpu.insert("compute_capability".into(), json!(capability));
        for (key, which, unit) in ATTRIBUTES {
            gpu.insert(key.into(), json!(attribute(which).map(|value| value * unit)));
        }
        gpu.insert("memory_bytes".into(), json!(has_memory.then_some(memory)));
        if let (Some(nvml), Some(bus)) = (nvml, bus) {
            gpu.append(&mut nvml.gpu(&bus));
        }
        Ok(Value::Object(gpu))
    }
}

/// NVML, started.
struct Management(Nvml);

impl Management {
    fn start(nvml: Nvml) -> Result<Self, String> {
        // SAFETY: the library's first call.
        match unsafe { (nvml.nvmlInit_v2)() } {
            0 => Ok(Self(nvml)),
            9 => Err("the NVIDIA kernel driver is not loaded".into()),
            18 => Err("its version is not the kernel driver's; reboot after the update".into()),
            status => Err(format!("NVML error {status}")),
        }
    }

    fn gpu(&self, bus: &str) -> Map<String, Value> {
        let nvml = &self.0;
        let mut gpu = Map::new();
        let mut device = null_mut();
        let Ok(bus) = std::ffi::CString::new(bus) else { return gpu };
        // SAFETY: the text ends with a zero, and there is room for one handle.
        if unsafe { (nvml.nvmlDeviceGetHandleByPciBusId_v2)(bus.as_ptr(), &raw mut device) } != 0 {
            return gpu;
        }
        let number = |read: &dyn Fn(*mut c_uint) -> c_int| {
            let mut value = 0;
            (read(&raw mut value) == 0).then_some(u64::from(value))
        };
        let both = |read: unsafe extern "C" fn(*mut c_void, *mut c_uint, *mut c_uint) -> c_int| {
            let (mut now, mut then) = (0, 0);
            // SAFETY: two numbers.
            (unsafe { read(device, &raw mut now, &raw mut then) } == 0).then_some(now != 0)
        };
        let hz = |mhz: Option<u64>| mhz.map(|mhz| mhz * 1_000_000);
        let mut reasons = 0_u64;
        // SAFETY: one number of eight bytes.
        let knows = unsafe { (nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(device, &raw mut reasons) } == 0;
        let slowed: Vec<_> = REASONS.iter().filter(|(bit, _)| knows && reasons & bit != 0).map(|one| one.1).collect();
        // SAFETY: each call has one number to fill, and the device's handle.
        let found = unsafe {
            [
                ("clock_hz", hz(number(&|into| (nvml.nvmlDeviceGetClockInfo)(device, CLOCK_SM, into)))),
                ("memory_clock_hz", hz(number(&|into| (nvml.nvmlDeviceGetClockInfo)(device, CLOCK_MEMORY, into)))),
                ("boost_max_hz", hz(number(&|into| (nvml.nvmlDeviceGetMaxClockInfo)(device, CLOCK_SM, into)))),
                ("link_generation", number(&|into| (nvml.nvmlDeviceGetCurrPcieLinkGeneration)(device, into))),
                ("link_lanes", number(&|into| (nvml.nvmlDeviceGetCurrPcieLinkWidth)(device, into))),
                ("link_generation_max", number(&|into| (nvml.nvmlDeviceGetMaxPcieLinkGeneration)(device, into))),
                ("link_lanes_max", number(&|into| (nvml.nvmlDeviceGetMaxPcieLinkWidth)(device, into))),
                ("power_mw", number(&|into| (nvml.nvmlDeviceGetPowerUsage)(device, into))),
                ("power_limit_mw", number(&|into| (nvml.nvmlDeviceGetEnforcedPowerLimit)(device, into))),
                ("temperature_c", number(&|into| (nvml.nvmlDeviceGetTemperature)(device, 0, into))),
            ]
        };
        for (key, value) in found {
            gpu.insert(key.into(), json!(value));
        }
        gpu.insert("slowed_by".into(), json!(slowed));
        gpu.insert("ecc".into(), json!(both(nvml.nvmlDeviceGetEccMode)));
        gpu.insert("mig".into(), json!(both(nvml.nvmlDeviceGetMigMode)));
        // SAFETY: `text` gives room of 96 letters.
        let driver = text(|into, size| unsafe { (nvml.nvmlSystemGetDriverVersion)(into, size as c_uint) });
        gpu.insert("driver".into(), json!(driver));
        gpu
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        // SAFETY: the library's last call.
        unsafe { (self.0.nvmlShutdown)() };
    }
}

fn text(read: impl Fn(*mut c_char, c_int) -> c_int) -> Option<String> {
    let mut room = [0_u8; 96];
    if read(room.as_mut_ptr().cast(), 96) != 0 {
        return None;
    }
    let end = room.iter().position(|&byte| byte == 0)?;
    Some(String::from_utf8_lossy(&room[..end]).into_owned())
}

fn checked(status: c_int) -> Result<(), String> {
    let says = match status {
        0 => return Ok(()),
        2 => "a GPU is out of memory",
        34 => "it is only a stub to link with; install the NVIDIA driver",
        35 | 803 => "the driver is older than this library wants, or was updated; update it, or reboot",
        46 => "a GPU is busy or unavailable (exclusive mode, MIG, or another program)",
        100 => "the driver has no GPU for this process (see CUDA_VISIBLE_DEVICES and nvidia-smi)",
        101 => "a GPU has no such number",
        214 => "a GPU reports an ECC error that cannot be corrected; see nvidia-smi -q -d ECC",
        304 => "the driver has no access to the device files (/dev/nvidia*); see the container's devices",
        719 | 999 => "a GPU was lost or hangs; see dmesg",
        802 => "the GPUs' fabric is not ready; see the fabric manager",
        _ => return Err(format!("CUDA error {status}")),
    };
    Err(format!("{says} (CUDA error {status})"))
}
