//! Leave to use AMX tiles, which Linux grants a process only when it asks.

/// Asks for the tile registers; whether they may be used now. Asking again changes nothing.
#[must_use]
pub fn allow() -> bool {
    // Linux, Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM with the number of the tile data.
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers and only widens what the process may do.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}
