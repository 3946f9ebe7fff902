//! CPU time that the calling thread has spent.

use crate::reading::CpuTime;

/// What the calling thread has spent so far; the resolution is the kernel's (1 µs).
#[must_use]
pub fn of_this_thread() -> CpuTime {
    crate::sys::time::thread_cpu_time()
}

impl CpuTime {
    /// What was spent since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user_s: self.user_s - earlier.user_s, system_s: self.system_s - earlier.system_s }
    }
}

impl std::ops::AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
    }
}
