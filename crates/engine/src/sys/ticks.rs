//! The processor's own counter of time, where it runs at a constant rate on all cores.

/// The counter now: `rdtsc` on x86-64, `cntvct_el0` on aarch64, 0 elsewhere.
#[inline]
#[must_use]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: rdtsc exists on every x86-64 and touches no memory; where the system forbids it to
        // user space, `constant` was false and no one calls this.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: cntvct_el0 is readable from user space on Linux and reading it has no effect.
        unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Whether the counter runs at one rate, in every power state, and the system itself keeps time by
/// something that vouches for it across cores.
#[must_use]
pub fn constant() -> bool {
    if cfg!(target_arch = "aarch64") {
        return true; // the generic timer is constant and common to all cores by architecture
    }
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| {
        flags.lines().find(|line| line.starts_with("flags")).is_some_and(|line| line.split(' ').any(|f| f == flag))
    };
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let vouched = source.is_ok_and(|name| ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&name.trim()));
    has("constant_tsc") && has("nonstop_tsc") && vouched
}
